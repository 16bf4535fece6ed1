#!/usr/bin/env bash
# run.sh OUTDIR: classifies the sample rows with the shipped model; writes OUTDIR/gestures.html and OUTDIR/gestures.svg.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
output=${1:?usage: run.sh OUTDIR}
root=$here/../..
"$root/build/release/examples/gestures/example_gestures" classify "$here/samples/rows.csv" \
  --model "$root/models/gestures" --html "$output/gestures.html" --svg "$output/gestures.svg"
