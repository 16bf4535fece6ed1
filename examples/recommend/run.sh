#!/usr/bin/env bash
# run.sh OUTDIR: the next items of sample histories by the shipped model; writes OUTDIR/recommend.html and
# OUTDIR/recommend.svg, what the recommendations after the first history came from.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
output=${1:?usage: run.sh OUTDIR}
root=$here/../..
headway=$root/build/release/headway
samples=$here/samples/histories.txt
history=$(head -n 1 "$samples")
echo "After $history"
"$headway" recommend --model "$root/models/video-games" --history "$history" \
  --html "$output/recommend.html" --svg "$output/recommend.svg"
echo "The first three after each of $(wc -l < "$samples") histories"
"$headway" recommend --model "$root/models/video-games" --count 3 < "$samples"
