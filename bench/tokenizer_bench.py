#!/usr/bin/env python3
"""Tokens per second of Headway's tokenizers beside PyPI's tokenizers, on one thread and on the same texts.

tokenizer_bench.py LIBRARY: where tokenizer_interface is. Tokenizers of each kind are trained first, or read from
directories named with --model. HEADWAY_DATA may name a folder with texts. For each kind: one text at a time with
offsets, in a batch with offsets, ids alone, decoding; the ratio is above 1 where Headway is faster.
"""

import argparse
import ctypes
import os
import pathlib
import random
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "conformance"))


def best(rounds, call):
    """The shortest of several times."""
    return min(call() for _ in range(rounds))


def timed(call):
    """Seconds of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class Headway:
    """The library behind its C interface."""

    def __init__(self, library, directory):
        self.library = library
        library.tokenizer_load.restype = ctypes.c_void_p
        library.tokenizer_encode.restype = library.tokenizer_decode.restype = ctypes.c_double
        start = time.perf_counter()
        self.handle = ctypes.c_void_p(library.tokenizer_load(str(directory).encode()))
        self.load_seconds = time.perf_counter() - start
        assert self.handle.value, f"{directory} cannot be read"

    def encode(self, texts, offsets):
        """(seconds, tokens)"""
        parts = [text.encode() for text in texts]
        ends, total = (ctypes.c_int64 * len(parts))(), 0
        for n, part in enumerate(parts):
            total += len(part)
            ends[n] = total
        tokens = ctypes.c_int64()
        seconds = self.library.tokenizer_encode(
            self.handle, b"".join(parts), ends, ctypes.c_int64(len(parts)), int(offsets), ctypes.byref(tokens)
        )
        return seconds, tokens.value

    def decode(self, ids):
        """Seconds."""
        return self.library.tokenizer_decode(
            self.handle, (ctypes.c_int64 * len(ids))(*ids), ctypes.c_int64(len(ids)), 1
        )


def measure(name, tokenizer, ours, texts, rounds):
    """One row."""
    tokens = ours.encode(texts, True)[1]
    with_offsets = best(rounds, lambda: ours.encode(texts, True)[0])
    ids_alone = best(rounds, lambda: ours.encode(texts, False)[0])
    single = best(rounds, lambda: timed(lambda: [tokenizer.encode(text) for text in texts]))
    batch = best(rounds, lambda: timed(lambda: tokenizer.encode_batch(texts)))
    fast = best(rounds, lambda: timed(lambda: tokenizer.encode_batch_fast(texts)))
    ids = [i for encoding in tokenizer.encode_batch(texts) for i in encoding.ids]
    decoding = best(rounds, lambda: timed(lambda: tokenizer.decode(ids))) / best(rounds, lambda: ours.decode(ids))
    rates = f"{tokens / with_offsets / 1e6:6.2f} M/s with offsets, {tokens / ids_alone / 1e6:6.2f} M/s ids"
    ratios = f"one by one {single / with_offsets:5.2f}, batch {batch / with_offsets:5.2f}, ids {fast / ids_alone:5.2f}"
    print(f"{name:12} {tokens:8} tokens, {rates}; ratio to tokenizers: {ratios}, decode {decoding:5.2f};", end=" ")
    print(f"load {ours.load_seconds * 1e3:.0f} ms", flush=True)


def main():
    """All kinds, or the named directories."""
    from tokenizers import Tokenizer

    from tokenizer_kinds import KINDS
    from tokenizer_texts import real

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--kind", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--texts", type=int, default=1200)
    options = parser.parse_args()
    library = ctypes.CDLL(str(options.library.resolve()))
    texts = real(options.texts)
    for directory in options.model:
        measure(
            directory.name,
            Tokenizer.from_file(str(directory / "tokenizer.json")),
            Headway(library, directory),
            texts,
            options.rounds,
        )
    if options.model:
        return
    with tempfile.TemporaryDirectory() as work:
        for kind in dict.fromkeys(KINDS):
            if (options.kind and kind.__name__ not in options.kind) or kind.__name__ == "mixed":
                continue
            directory = pathlib.Path(work) / kind.__name__
            directory.mkdir()
            tokenizer = kind(random.Random(1), texts)
            tokenizer.save(str(directory / "tokenizer.json"))
            measure(kind.__name__, tokenizer, Headway(library, directory), texts, options.rounds)


if __name__ == "__main__":
    main()
