#!/usr/bin/env bash
# Installs the Python package into build/python-venv, with the library of build/release where that is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
export CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)}

venv=build/python-venv
python=$venv/bin/python
packages=("numpy>=2" "pytest>=8" "hypothesis>=6" "ml_dtypes>=0.4" "nanobind>=2.10,<3" "scikit-build-core>=0.10")
stamp=$venv/packages.txt
if [[ ! -x $python ]] || [[ $(cat "$stamp" 2> /dev/null) != "${packages[*]}" ]]; then
  echo "making $venv"
  mkdir -p build
  python3 -m venv "$venv"
  "$python" -m pip install --quiet --disable-pip-version-check "${packages[@]}"
  echo "${packages[*]}" > "$stamp"
fi
"$python" -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall .
