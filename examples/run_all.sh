#!/usr/bin/env bash
# run_all.sh OUTDIR: every example with its shipped model; OUTDIR/NAME.html is its page, OUTDIR/NAME.svg its picture.
set -uo pipefail
output=$(realpath -m "${1:?usage: examples/run_all.sh OUTDIR}")
cd "$(dirname "$0")/.."
mkdir -p "$output"
failed=()
for script in examples/*/run.sh; do
  folder=${script%/run.sh}
  [[ -e $folder/CMakeLists.txt ]] || continue  # the fine-tuning runs train, and have no shipped model
  name=${folder##*/}
  printf '\n── %s ──\n' "$name"
  start=$SECONDS
  if "$script" "$output"; then
    printf '(%d s)\n' $((SECONDS - start))
  else
    failed+=("$name")
  fi
done
if ((${#failed[@]})); then
  printf '\nfailed: %s\n' "${failed[*]}" >&2
  exit 1
fi
printf '\nPages to open in a browser, and pictures:\n'
find "$output" -maxdepth 1 \( -name '*.html' -o -name '*.svg' \) | sort
