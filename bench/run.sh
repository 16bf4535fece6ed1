#!/usr/bin/env bash
# Builds the benchmarks and runs them. Without options: all tables, then docs/benchmark*.json, docs/benchmark.svg and the
# tables of the READMEs. With options: they go to attention_bench, or after the word "layers" to layer_bench.py, after
# "matmul" to matmul_bench, and no file is changed (--help lists them).
# HEADWAY_TORCH_PYTHON may name a Python interpreter that has PyTorch; otherwise a virtual environment is made for it.
set -euo pipefail
cd "$(dirname "$0")/.."

torch_version=2.13.0
python=${HEADWAY_TORCH_PYTHON:-}
if [[ -z $python ]]; then
  python=$PWD/build/bench-venv/bin/python
  if ! "$python" -c "import importlib.metadata as m; assert m.version('torch').split('+')[0] == '$torch_version'" \
      2> /dev/null; then
    echo "installing PyTorch $torch_version into build/bench-venv"
    mkdir -p build
    python3 -m venv build/bench-venv
    "$python" -m pip install --quiet "torch==$torch_version"
  fi
fi

log=build/bench/configure.log
mkdir -p build/bench
cmake -S bench -B build/bench -G Ninja -DHEADWAY_TORCH_PYTHON="$python" > "$log" 2>&1 || { cat "$log" >&2; exit 1; }
cmake --build build/bench -j "${JOBS:-$(nproc)}" --target attention_bench layer_steps matmul_bench
layer_bench=("$python" -B bench/layer_bench.py --library build/bench/liblayer_steps.so)

if [[ ${1:-} == layers ]]; then
  exec "${layer_bench[@]}" "${@:2}"
elif [[ ${1:-} == matmul ]]; then
  exec build/bench/matmul_bench "${@:2}"
elif [[ $# -gt 0 ]]; then
  exec build/bench/attention_bench "$@"
fi
status=0
build/bench/attention_bench --json docs/benchmark.json || status=$?
if [[ $status -gt 1 ]]; then exit "$status"; fi  # 1: a row failed, which the files then show
"${layer_bench[@]}" --json docs/benchmark_layers.json || status=$?
if [[ $status -gt 1 ]]; then exit "$status"; fi
build/bench/matmul_bench --threads 1 --seconds-per-row 0.3 --json docs/benchmark_matmul.json || status=$?
if [[ $status -gt 1 ]]; then exit "$status"; fi
python3 bench/chart.py docs/benchmark.json docs/benchmark.svg
python3 bench/readme.py docs/benchmark.json docs/benchmark_layers.json docs/benchmark_matmul.json README.md README.zh-CN.md docs/performance.md
exit "$status"
