#!/usr/bin/env bash
# run.sh OUTDIR: searches the sample emoji and asks about them with the shipped model; writes OUTDIR/clip.html and
# OUTDIR/clip.svg.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
output=${1:?usage: run.sh OUTDIR}
root=$here/../..
program=$root/build/release/examples/clip/example_clip
model=$root/models/emoji-clip
for text in "woman cook: medium skin tone" "woman in manual wheelchair: medium-dark skin tone"; do
  echo "search \"$text\""
  "$program" search "$text" "$here/samples" --model "$model" --top 2
done
for question in "is there a hat?" "is there a woman?" "is there a heart?"; do
  for picture in woman-guard kiss wolf; do
    printf '%-12s' "$picture"
    "$program" ask "$here/samples/$picture.png" "$question" --model "$model"
  done
done
"$program" ask "$here/samples/woman-guard.png" "is there a hat?" --model "$model" \
  --html "$output/clip.html" --svg "$output/clip.svg" > /dev/null
