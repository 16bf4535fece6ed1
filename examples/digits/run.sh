#!/usr/bin/env bash
# run.sh OUTDIR: labels the sample digits with the shipped model; writes OUTDIR/digits.html and OUTDIR/digits.svg.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
output=${1:?usage: run.sh OUTDIR}
root=$here/../..
"$root/build/release/headway" classify-picture --model "$root/models/digits" --top 2 "$here"/samples/*.png
"$root/build/release/examples/digits/example_digits" attend "$here/samples/three.png" "$root/models/digits" \
  --html "$output/digits.html" --svg "$output/digits.svg" --layer 2
