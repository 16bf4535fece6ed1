#!/usr/bin/env bash
# Fails, with the names, where `make format` would change a tracked C++ source. Compares the texts, because clang-format
# 14's --dry-run also counts the closing comments of `namespace headway::inline v0`, which it replaces by themselves.
set -euo pipefail
cd "$(dirname "$0")/.."

export CLANG_FORMAT=${CLANG_FORMAT:-clang-format}
git ls-files '*.h' '*.cpp' | xargs -r -n 32 -P "$(nproc)" bash -c '
  status=0
  for file in "$@"; do
    if [[ -f $file ]] && ! "$CLANG_FORMAT" "$file" | cmp -s - "$file"; then
      echo "$file: not as clang-format lays it out; make format does it" >&2
      status=1
    fi
  done
  exit $status' check_format
