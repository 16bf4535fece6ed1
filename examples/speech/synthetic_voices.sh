#!/usr/bin/env bash
# synthetic_voices.sh DIR: digits by 60 voices of espeak-ng, laid out as the recordings, for `train --also DIR`.
# Left out, so that they can test: the variants f2, m3 and klatt2, and Scottish English.
set -euo pipefail
out=${1:?"usage: synthetic_voices.sh DIR"}
mkdir -p "$out"
printf 'speaker\tsplit\n' > "$out/split.tsv"
digits=(zero one two three four five six seven eight nine)
accents=(en-us en-gb en-029 en-gb-x-rp en-gb-x-gbcwmd)
variants=("" f1 f3 f4 f5 m1 m2 m4 m5 m7 m8 klatt3)
number=0
for accent in "${accents[@]}"; do
  for variant in "${variants[@]}"; do
    voice=$accent${variant:++$variant}
    speaker=s$number
    mkdir -p "$out/$speaker"
    printf '%s\ttrain\n' "$speaker" >> "$out/split.tsv"
    for take in 0 1 2; do
      speed=$((130 + (number * 7 + take * 30) % 80)) pitch=$((30 + (number * 11 + take * 17) % 45))
      for digit in "${!digits[@]}"; do
        espeak-ng -v "$voice" -s $speed -p $pitch -w "$out/$speaker/${digit}_${speaker}_$take.wav" "${digits[$digit]}"
      done
    done
    number=$((number + 1))
  done
done
