#!/usr/bin/env python3
"""Sentences per second of translation on a GPU: Headway beside transformers, in float32 with the same weights.

Time runs from lists of token ids to lists of token ids. Rounds of the sides alternate, and the figure of each is the
median of its rounds. The first --check sentences are translated by Headway on the CPU too, and tokens are compared.

  bench/run.sh cuda-translate --model models/en-de --to deu --sentences english.txt
"""

import argparse
import json
import os
import pathlib
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import translate_bench


class TransformersOnGpu(translate_bench.Transformers):
    """MarianMTModel.generate() on the GPU."""

    def __init__(self, arguments, directory):
        super().__init__(arguments, directory)
        self.model = self.model.to("cuda")
        generate = self.model.generate

        def on_gpu(**inputs):
            for name in ("input_ids", "attention_mask"):
                inputs[name] = inputs[name].to("cuda")
            return generate(**inputs)

        self.model.generate = on_gpu


def share_of_same(first, second):
    """How many of two lists of translations are the same, token by token."""
    return sum(a == b for a, b in zip(first, second)) / len(first)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path, help="the built translate_tokens")
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--sentences", type=pathlib.Path, required=True, help="source sentences, or .json lists of ids")
    parser.add_argument("--to", default="", help="the target language's code, for a model that has several")
    parser.add_argument("--count", type=int, default=1000, help="sentences")
    parser.add_argument("--check", type=int, default=200, help="sentences to translate on the CPU too")
    parser.add_argument("--max-length", type=int, default=128, help="tokens of a translation")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sides", default="headway,transformers")
    parser.add_argument("--settings", default="1x64,4x64", help="beam x batch")
    parser.add_argument("--transformers-share", type=float, default=1.0, help="of the sentences, for beams")
    arguments = parser.parse_args()
    arguments.processor_time = False
    if arguments.sentences.suffix == ".json":
        sources = json.loads(arguments.sentences.read_text())[: arguments.count]
    else:
        sources = translate_bench.read_sources(arguments.model, arguments.sentences, arguments.to, arguments.count)

    sides = [translate_bench.Headway(arguments, arguments.model, "cuda")]
    if "transformers" in arguments.sides.split(","):
        sides.append(TransformersOnGpu(arguments, arguments.model))
    on_cpu = translate_bench.Headway(arguments, arguments.model) if arguments.check > 0 else None
    print(f"{len(sources)} sentences, float32, sentences per second", flush=True)
    for beam, batch in (tuple(map(int, one.split("x"))) for one in arguments.settings.split(",")):
        rates, agree = translate_bench.measure(sides, sources, beam, batch, arguments)
        cells = [f"Headway {rates['Headway']:.1f}"]
        if len(sides) > 1:
            ratio = rates["Headway"] / rates["transformers"]
            cells.append(
                f"transformers {rates['transformers']:.1f} ({ratio:.2f} x, same tokens {agree['transformers']:.1%})"
            )
        if on_cpu:
            some = sources[: arguments.check]
            same = share_of_same(sides[0].run(some, beam, batch)[2], on_cpu.run(some, beam, batch)[2])
            cells.append(f"same tokens as on the CPU {same:.1%} of {len(some)}")
        print(f"beam {beam}, batch {batch:3}: " + ", ".join(cells), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
