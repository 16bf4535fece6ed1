#!/usr/bin/env bash
# Captions the samples with the shipped model: run.sh OUTDIR writes captions.html and captions.svg there.
set -euo pipefail
out=$(realpath -m "${1:?"run.sh OUTDIR"}")
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
headway=${HEADWAY:-$root/build/release/headway}
mkdir -p "$out"

model=$root/models/emoji-captions
cd "$here/samples"
"$headway" caption --model "$model" --beams 4 ./*.png
"$headway" caption --model "$model" --beams 4 --html "$out/captions.html" --svg "$out/captions.svg" woman-cook.png > /dev/null
