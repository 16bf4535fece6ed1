#!/usr/bin/env bash
# run.sh OUTDIR: classifies the sample clips with the shipped model; writes OUTDIR/video.html and OUTDIR/video.svg.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
output=${1:?usage: run.sh OUTDIR}
root=$here/../..
program=$root/build/release/examples/video/example_video
for strip in "$here"/samples/*.png; do
  printf '%s: ' "${strip##*/}"
  "$program" classify "$strip" --model "$root/models/video-digits"
done
"$program" classify "$here/samples/turns.png" --model "$root/models/video-digits" \
  --html "$output/video.html" --svg "$output/video.svg" > /dev/null
