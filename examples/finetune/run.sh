#!/usr/bin/env bash
# Trains one of the example models: run.sh NAME DATA OUTPUT [options of `headway finetune`].
#   NAME    banking77, clinc, sentiment, restaurant8k, xquad (from all-MiniLM-L6-v2), shakespeare, titles (from nothing)
#   DATA    what prepare_data.py wrote
#   OUTPUT  the model directory; sentiment and xquad add a number for each fold
# MINILM names the directory of all-MiniLM-L6-v2, HEADWAY the program (default: the one that was built here).
# On a GPU add: --device cuda, for shakespeare and titles also --precision bfloat16.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
name=${1:?} data=${2:?} output=${3:?}
shift 3
headway=${HEADWAY:-$here/../../build/release/headway}
minilm=${MINILM:-all-MiniLM-L6-v2}

tune() { "$headway" finetune "$@"; }

case $name in
  banking77)
    tune --task classify --model "$minilm" --data "$data/banking77/train.csv" --test "$data/banking77/test.csv" \
      --epochs 6 --batch 32 --learning-rate 2e-4 --max-length 96 --checkpoint-every 1000 --output "$output" \
      --data-source "Banking77 (Casanueva et al. 2020), CC BY 4.0" "$@"
    ;;
  clinc)
    tune --task classify --model "$minilm" --data "$data/clinc-oos/data_full.json" --parts train,oos_train \
      --validation-parts val,oos_val --test-parts test,oos_test --out-of-scope oos --out-of-scope-cost 0.2 \
      --epochs 6 --batch 32 --learning-rate 2e-4 --max-length 64 --keep-best false --checkpoint-every 1000 \
      --output "$output" --data-source "CLINC150 (Larson et al. 2019), CC BY 3.0" "$@"
    ;;
  sentiment)
    for fold in 0 1 2 3 4; do
      tune --task classify --model "$minilm" --data "$data/uci-sentiment/sentiment.tsv" --folds 5 --fold $fold \
        --epochs 4 --batch 32 --learning-rate 1e-4 --max-length 128 --output "$output-$fold" \
        --data-source "Sentiment Labelled Sentences (Kotzias et al. 2015), CC BY 4.0" "$@"
    done
    ;;
  restaurant8k)
    tune --task tag --model "$minilm" --data "$data/restaurant8k/train_0.json" --test "$data/restaurant8k/test.json" \
      --epochs 6 --batch 32 --learning-rate 3e-4 --max-length 96 --checkpoint-every 1000 --output "$output" \
      --data-source "restaurant8k (Coope et al. 2020), CC BY 4.0" "$@"
    ;;
  xquad)
    for fold in 0 1 2 3 4; do
      tune --task answer --model "$minilm" --data "$data/xquad/xquad.en.json" --folds 5 --fold $fold --epochs 6 \
        --batch 16 --learning-rate 2e-4 --max-length 320 --stride 96 --output "$output-$fold" \
        --data-source "XQuAD (Artetxe et al. 2019), English, CC BY-SA 4.0" "$@"
    done
    ;;
  shakespeare)
    tune --task language-model --from-config "$here/shakespeare_model.json" --new-tokenizer characters \
      --data "$data/tiny-shakespeare/input.txt" --validation-share 0.1 --steps 5000 --batch 64 --learning-rate 1e-3 \
      --final-rate 1e-4 --schedule cosine --warmup-steps 100 --beta2 0.99 --weight-decay 0.1 --seed 1337 \
      --validate-every 250 --output "$output" --data-source "tiny Shakespeare, public domain" "$@"
    ;;
  titles)
    tune --task text-to-text --from-config "$here/titles_model.json" --new-tokenizer unigram --vocab-size 6000 \
      --data "$data/acl-abstracts/exercises.tsv" --validation "$data/acl-abstracts/validation.tsv" \
      --test "$data/acl-abstracts/test.tsv" --max-length 384 --max-target-length 48 --epochs 18 --batch-tokens 24000 \
      --learning-rate 1e-3 --schedule cosine --warmup-steps 1000 --final-rate 1e-5 --label-smoothing 0.1 \
      --beta2 0.98 --weight-decay 0.01 --validate-every 4000 --validate-texts 1000 --generate-texts 300 \
      --weights float16 --output "$output" --data-source "ACL Anthology, papers of 2016 to 2024, CC BY 4.0" "$@"
    ;;
  *)
    echo "run.sh: there is no example $name" >&2
    exit 2
    ;;
esac
