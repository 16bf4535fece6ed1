#!/usr/bin/env bash
# Transcribes the samples with the shipped model: run.sh OUTDIR writes speech.html and speech.svg there.
set -euo pipefail
out=$(realpath -m "${1:?"usage: run.sh OUTDIR"}")
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
headway=${HEADWAY:-$root/build/release/headway}
mkdir -p "$out"

cd "$here/samples"
"$headway" transcribe --model "$root/models/spoken-digits" three-digits.wav six-digits.wav noisy-stereo.flac
"$headway" transcribe --model "$root/models/spoken-digits" --words three-digits.wav
"$headway" transcribe --model "$root/models/spoken-digits" --html "$out/speech.html" --svg "$out/speech.svg" \
  three-digits.wav > /dev/null
