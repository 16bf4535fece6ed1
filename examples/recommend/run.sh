#!/usr/bin/env bash
# run.sh OUTDIR: the next items of sample histories by the shipped model; writes OUTDIR/recommend.html and
# OUTDIR/recommend.svg: what the recommendations after the first history came from.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
output=${1:?usage: run.sh OUTDIR}
root=$here/../..
headway=$root/build/release/headway
model=$root/models/video-games
samples=$here/samples/histories.txt
history=$(head -n 1 "$samples")
echo "After $history"
"$headway" recommend --model "$model" --history "$history" --html "$output/recommend.html"
"$headway" recommend --model "$model" --history "$history" --count 3 --svg "$output/recommend.svg" > /dev/null
echo "The first three after each of $(wc -l < "$samples") histories"
"$headway" recommend --model "$model" --count 3 < "$samples"
