#!/bin/sh
# Usage: pkg_config.sh <compiler> <installed lib directory> <work directory> <package> <source> [--static]
# Builds and runs a consumer with nothing but what pkg-config says about the package.
set -eu
compiler=$1
libdir=$2
work=$3
package=$4
source=$5
static=${6-}

mkdir -p "$work"
export PKG_CONFIG_PATH="$libdir/pkgconfig"
# shellcheck disable=SC2046,SC2086  # one word per flag
"$compiler" -std=c++20 -Wall -Wextra -Werror "$(dirname "$0")/$source" -o "$work/${source%.cpp}$static" \
  $(pkg-config $static --cflags --libs "$package")
LD_LIBRARY_PATH="$libdir" "$work/${source%.cpp}$static"
