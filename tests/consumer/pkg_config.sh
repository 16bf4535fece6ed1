#!/bin/sh
# Usage: pkg_config.sh <compiler> <installed lib directory> <work directory>
# Builds and runs the consumer with nothing but what pkg-config says.
set -eu
compiler=$1
libdir=$2
work=$3

mkdir -p "$work"
export PKG_CONFIG_PATH="$libdir/pkgconfig"
# shellcheck disable=SC2046  # one word per flag
"$compiler" -std=c++20 -Wall -Wextra -Werror "$(dirname "$0")/consumer.cpp" -o "$work/consumer" \
  $(pkg-config --cflags --libs headway)
LD_LIBRARY_PATH="$libdir" "$work/consumer"
