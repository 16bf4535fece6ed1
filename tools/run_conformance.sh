#!/usr/bin/env bash
# Compares Headway with others. PyTorch, both ways: what torch computes from its own weights for several fresh seeds and
# sizes goes through Headway, and modules that Headway made go through torch. ONNX: the node tests of the onnx wheel go
# through the Python package. HEADWAY_TORCH_PYTHON may name a Python
# interpreter that has PyTorch, NumPy and safetensors; otherwise a virtual environment is made for them.
# HEADWAY_CONFORMANCE_SEED is the first seed (default: 1; "random" draws one), HEADWAY_CONFORMANCE_ROUNDS their number
# (default: 3), HEADWAY_CONFORMANCE_BUILD a build directory that is there already (default: build/release, configured here).
set -euo pipefail
cd "$(dirname "$0")/.."

torch_version=2.13.0
python=${HEADWAY_TORCH_PYTHON:-}
if [[ -z $python ]]; then
  python=$PWD/build/conformance-venv/bin/python
  if ! "$python" -c "import importlib.metadata as m, numpy, safetensors
assert m.version('torch').split('+')[0] == '$torch_version'" 2> /dev/null; then
    echo "installing PyTorch $torch_version into build/conformance-venv"
    mkdir -p build
    python3 -m venv build/conformance-venv
    "$python" -m pip install --quiet "torch==$torch_version" numpy safetensors
  fi
fi
"$python" -c "import torch, numpy, safetensors" || { echo "conformance: $python lacks a package" >&2; exit 1; }

build=${HEADWAY_CONFORMANCE_BUILD:-build/release}
if [[ -z ${HEADWAY_CONFORMANCE_BUILD:-} ]]; then cmake --preset release > /dev/null; fi
cmake --build "$build" -j "${JOBS:-$(nproc)}" --target nn_torch_test export_state_dicts

work=build/conformance
rm -rf "$work"
mkdir -p "$work"
first=${HEADWAY_CONFORMANCE_SEED:-1}
if [[ $first == random ]]; then first=$(od -An -N3 -tu4 /dev/urandom | tr -d ' '); fi
rounds=${HEADWAY_CONFORMANCE_ROUNDS:-3}
status=0 passed=0 failed=0 exported=()
for ((seed = first; seed < first + rounds; ++seed)); do
  "$python" tests/torch/make_fixtures.py "$work/$seed/torch" --seed "$seed" --drawn-sizes
  log=$work/$seed/test.log
  HEADWAY_FIXTURES=$PWD/$work/$seed/torch "$build/tests/nn_torch_test" --gtest_color=no > "$log" 2>&1 || {
    status=1
    grep -v '^\[ RUN  \|^\[       OK ' "$log" || true
  }
  passed=$((passed + $(grep -c '^\[       OK ' "$log" || true)))
  failed=$((failed + $(grep -c '^\[  FAILED  \] .* ms)$' "$log" || true)))
  "$build/tests/export_state_dicts" "$work/$seed/torch" "$work/$seed/headway" "$seed" || status=1
  exported+=("$work/$seed/headway")
done
if [[ $passed -eq 0 ]]; then
  echo "conformance: no test passed" >&2
  exit 1
fi
back=$work/check.log
"$python" tests/torch/check_state_dicts.py "${exported[@]}" > "$back" 2>&1 || status=1
head -n -1 "$back"
echo "conformance: torch -> Headway: $passed tests passed, $failed failed; $(tail -n 1 "$back"); seeds from $first"

tools/install_python_package.sh
build/python-venv/bin/python -m pip install --quiet --disable-pip-version-check onnx==1.22.0
build/python-venv/bin/python tests/conformance/onnx_attention.py || status=1
build/python-venv/bin/python tests/conformance/onnx_ops.py || status=1
exit "$status"
