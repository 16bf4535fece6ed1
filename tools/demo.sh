#!/usr/bin/env bash
# What `make demo` shows: a sentence translated, what its "it" looks at, and a page with every head.
set -euo pipefail
cd "$(dirname "$0")/.."
build/release/headway attend --model models/en-de --to de --part encoder --word it --html attention.html \
  "The animal didn't cross the street because it was too tired."
echo "Open it in a browser: every head of every layer."
