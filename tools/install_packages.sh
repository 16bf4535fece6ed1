#!/bin/sh
# Installs the Debian packages named as arguments that are not there yet; does nothing, quickly, when all are.
set -eu

if ! command -v apt-get > /dev/null || ! command -v dpkg-query > /dev/null; then
  echo "No apt on this machine. Where they are missing, install what Debian calls: $*"
  exit 0
fi

missing=""
for package in "$@"; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2> /dev/null || true)
  [ "$status" = "install ok installed" ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo > /dev/null; then
    echo "Neither root nor sudo. Where they are missing, ask for:$missing"
    exit 0
  fi
  as_root="sudo"
fi
echo "Installing:$missing"
$as_root apt-get update -q
# shellcheck disable=SC2086  # one word per package
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
