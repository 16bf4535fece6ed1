#!/usr/bin/env bash
# Runs clang-tidy over what compile_commands.json of build/release has of the libraries and the program. Kernels are left
# out: they are macros for the most part, and take minutes each.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${HEADWAY_TIDY_BUILD:-build/release}
mapfile -t sources < <(python3 - "$build/compile_commands.json" << 'END'
import json
import re
import sys

LEFT_OUT = re.compile(r"/(tests|bench|examples|kernels|cuda)/|/headway_kernels_")
with open(sys.argv[1], encoding="utf-8") as file:
    print("\n".join(sorted({entry["file"] for entry in json.load(file) if not LEFT_OUT.search(entry["file"])})))
END
)
echo "clang-tidy: ${#sources[@]} sources"
# What it says about headers of others is a number alone.
printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "${JOBS:-$(nproc)}" clang-tidy -p "$build" --quiet \
  --warnings-as-errors='*' 2> >(grep -v 'warnings generated\.$' >&2)
