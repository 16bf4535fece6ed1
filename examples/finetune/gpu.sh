#!/usr/bin/env bash
# The runs that want a GPU, in one command and without a network: gpu.sh PROGRAMS ARCHIVES OUTPUT [NAME...].
#   PROGRAMS  directory with headway, libheadway.so.0, libheadway_text.so.0, libheadway_cuda.so.0 and the libraries that
#             they need and the machine lacks
#   ARCHIVES  the .zip files that prepare_data.py reads
#   OUTPUT    models go to OUTPUT/NAME, logs to OUTPUT/NAME.log
#   NAME      default: shakespeare and titles. Those from all-MiniLM-L6-v2 need MINILM.
# Where python3 has torch and transformers, the same runs follow in PyTorch: OUTPUT/NAME-torch.log. TORCH=0 leaves them
# out, TORCH=speed measures their steps alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
programs=$(cd "${1:?}" && pwd) archives=${2:?} output=${3:?}
shift 3
names=("$@")
if [[ ${#names[@]} -eq 0 ]]; then names=(shakespeare titles); fi
mkdir -p "$output"
data=$output/data
if [[ ! -d $data ]]; then python3 "$here/prepare_data.py" "$archives" "$data"; fi
export LD_LIBRARY_PATH=$programs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} HEADWAY=$programs/headway

for name in "${names[@]}"; do
  precision=float32
  if [[ $name == shakespeare || $name == titles ]]; then precision=bfloat16; fi
  echo "== $name"
  "$here/run.sh" "$name" "$data" "$output/$name" --device cuda --precision $precision 2>&1 | tee "$output/$name.log" |
    tail -n 8
  if [[ $name == titles ]]; then
    echo "the first sentence of each abstract instead:"
    "$HEADWAY" evaluate --metric rouge --stemmer --hypotheses "$data/acl-abstracts/test-leads.txt" \
      --reference "$data/acl-abstracts/test-titles.txt"
  fi
done

if [[ ${TORCH:-1} == 0 ]] || ! python3 -c "import torch, transformers" 2> /dev/null; then exit 0; fi
for name in "${names[@]}"; do
  for config in "$output/$name"*/training_config.json; do
    echo "== $config in PyTorch"
    flags=(--device cuda --compile)
    if [[ ${TORCH:-1} == speed ]]; then flags+=(--speed --steps 300); fi
    HF_HUB_OFFLINE=1 python3 "$here/../../bench/finetune_torch.py" "$config" "${flags[@]}" 2>&1 |
      tee -a "$output/$name-torch.log" | tail -n 4
  done
done
