#!/usr/bin/env bash
# run.sh OUTDIR: continues a line by the shipped model; writes OUTDIR/language_model.html and OUTDIR/language_model.svg,
# what each character looks at.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
output=${1:?usage: run.sh OUTDIR}
root=$here/../..
headway=$root/build/release/headway
model=$root/models/shakespeare
printf 'ROMEO:'
"$headway" generate --model "$model" --max-new-tokens 160 "ROMEO:"
"$headway" attend --model "$model" --quiet --layer 1 --html "$output/language_model.html" \
  --svg "$output/language_model.svg" "But soft, what light"
