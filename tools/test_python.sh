#!/usr/bin/env bash
# Installs the Python package into build/python-venv and runs tests/python; arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/install_python_package.sh
build/python-venv/bin/python -m pytest -q -p no:cacheprovider tests/python "$@"
