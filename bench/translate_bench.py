#!/usr/bin/env python3
"""Sentences per second of translation: Headway, CTranslate2 and transformers with the same weights and threads. With
--dtype int8 the first two have weights of 8 bits.

Without --model, a model of random weights and sentences of random ids are used; </s> then has a bias that keeps it from
coming, so that all sides give translations of one length. With --model and --sentences, real ones.
Rounds of all sides alternate, and the figure of each is the median of its rounds.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np

EOS, VOCABULARY = 0, 8000
PAD = VOCABULARY - 1
SETTINGS = [(beam, batch) for beam in (1, 4) for batch in (32, 1)]


def write_model(directory):
    """A random model of the shipped one's size, with a tokenizer of as many tokens."""
    import sentencepiece
    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY, d_model=256, encoder_layers=4, decoder_layers=4, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=1024, decoder_ffn_dim=1024, activation_function="relu",
        scale_embedding=True, max_position_embeddings=512, eos_token_id=EOS, pad_token_id=PAD,
        decoder_start_token_id=PAD, forced_eos_token_id=None, init_std=0.06,
    )
    model = transformers.MarianMTModel(config)
    model.final_logits_bias[0, EOS] = -1e4
    model.generation_config = transformers.GenerationConfig(
        bad_words_ids=[[PAD]], eos_token_id=EOS, pad_token_id=PAD, decoder_start_token_id=PAD
    )
    model.save_pretrained(directory)
    lines = [" ".join(chr(97 + (i * 7 + j * j) % 26) * (1 + i % 3) for j in range(9)) for i in range(200)]
    prefix = str(directory / "pieces")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=prefix, vocab_size=60, hard_vocab_limit=False, minloglevel=2
    )
    names = ["</s>", "<unk>"] + [f"t{i}" for i in range(2, PAD)] + ["<pad>"]
    (directory / "names.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    transformers.MarianTokenizer(
        source_spm=prefix + ".model", target_spm=prefix + ".model", vocab=str(directory / "names.json")
    ).save_pretrained(directory)


def random_sources(count):
    generator = np.random.default_rng(3)
    return [generator.integers(2, PAD, generator.integers(3, 21)).tolist() + [EOS] for _ in range(count)]


def read_sources(model, sentences, language, count):
    """Ids of the first lines of a file."""
    import transformers

    tokenizer = transformers.MarianTokenizer.from_pretrained(model)
    lines = sentences.read_text(encoding="utf-8").splitlines()[:count]
    return tokenizer([f">>{language}<< {line}" if language else line for line in lines])["input_ids"]


class Headway:
    name = "Headway"

    def __init__(self, arguments, directory, device="cpu", dtype="float32"):
        command = [str(arguments.program), str(directory), str(arguments.threads), device, dtype]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.arguments = arguments

    def run(self, sources, beam, batch):
        request = {"sources": sources, "beam": beam, "batch_size": batch, "max_length": self.arguments.max_length}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        tokens = [[t for t in found[0]["tokens"] if t != EOS] for found in answer["hypotheses"]]
        return answer["seconds"], answer["processor_seconds"], tokens


class CTranslate2:
    name = "CTranslate2"

    def __init__(self, arguments, directory, work):
        import ctranslate2

        target = work / "ctranslate2"
        ctranslate2.converters.TransformersConverter(str(directory)).convert(str(target), force=True)
        self.translator = ctranslate2.Translator(
            str(target), compute_type=arguments.dtype, inter_threads=1, intra_threads=arguments.threads
        )
        self.ids = json.loads((directory / "vocab.json").read_text(encoding="utf-8"))
        self.names = {number: name for name, number in self.ids.items()}
        self.arguments = arguments

    def run(self, sources, beam, batch):
        texts = [[self.names[number] for number in source] for source in sources]
        start, processor = time.perf_counter(), time.process_time()
        results = self.translator.translate_batch(
            texts, beam_size=beam, max_batch_size=batch, max_decoding_length=self.arguments.max_length
        )
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
        return seconds, processor, [[self.ids[name] for name in result.hypotheses[0]] for result in results]


class Transformers:
    name = "transformers"

    def __init__(self, arguments, directory):
        import torch
        import transformers

        torch.set_num_threads(arguments.threads)
        self.torch = torch
        self.model = transformers.MarianMTModel.from_pretrained(directory).eval()
        self.arguments = arguments

    def run(self, sources, beam, batch):
        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        tokens = [None] * len(sources)
        start, processor = time.perf_counter(), time.process_time()
        for first in range(0, len(order), batch):
            members = order[first : first + batch]
            longest = len(sources[members[0]])
            pad = self.model.config.pad_token_id
            ids = self.torch.tensor([sources[i] + [pad] * (longest - len(sources[i])) for i in members])
            with self.torch.inference_mode():
                found = self.model.generate(
                    input_ids=ids,
                    attention_mask=(ids != pad).long(),
                    num_beams=beam,
                    max_new_tokens=self.arguments.max_length,
                    do_sample=False,
                ).tolist()
            for i, row in zip(members, found):
                tokens[i] = [t for t in row if t not in (EOS, pad)]
        return time.perf_counter() - start, time.process_time() - processor, tokens


def measure(sides, sources, beam, batch, arguments):
    """Sentences per second of each side, and how many translations agree with the first side's."""
    shares = {"transformers": arguments.transformers_share if batch == 1 or beam > 1 else 1.0}
    rates = {side.name: [] for side in sides}
    tokens = {}
    for turn in range(arguments.rounds + 1):
        for side in sides:
            count = max(batch, int(len(sources) * shares.get(side.name, 1.0)))
            some = sources[:: max(1, len(sources) // count)][:count]
            if turn == 0:
                some = some[: 2 * batch]  # the first round only warms up
            seconds, processor, found = side.run(some, beam, batch)
            if turn > 0:
                rates[side.name].append(len(some) / (processor if arguments.processor_time else seconds))
                tokens[side.name] = {tuple(source): tuple(out) for source, out in zip(some, found)}
    first = tokens[sides[0].name]
    agree = {
        side.name: sum(first.get(source) == out for source, out in tokens[side.name].items()) / len(tokens[side.name])
        for side in sides
    }
    return {name: statistics.median(values) for name, values in rates.items()}, agree


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path, help="the built translate_tokens")
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--sentences", type=pathlib.Path, help="a file of source sentences, one per line")
    parser.add_argument("--to", default="", help="the target language's code, for a model that has several")
    parser.add_argument("--count", type=int, default=1000, help="sentences")
    parser.add_argument("--max-length", type=int, help="tokens of a translation (default: 15, with a model 128)")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--transformers-share", type=float, default=0.1, help="of the sentences, where it is slow")
    parser.add_argument("--sides", default="headway,ctranslate2,transformers")
    parser.add_argument("--dtype", choices=("float32", "int8"), default="float32")
    parser.add_argument("--settings", default="", help="as in 1x32,4x1: beam x batch; default: all four")
    parser.add_argument("--processor-time", action="store_true", help="for a busy machine, with --threads 1")
    arguments = parser.parse_args()
    if (arguments.model is None) != (arguments.sentences is None):
        parser.error("--model and --sentences go together")
    arguments.max_length = arguments.max_length or (128 if arguments.model else 15)
    settings = [tuple(map(int, one.split("x"))) for one in arguments.settings.split(",") if one] or SETTINGS

    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        directory = arguments.model or work / "model"
        if arguments.model:
            sources = read_sources(directory, arguments.sentences, arguments.to, arguments.count)
        else:
            write_model(directory)
            sources = random_sources(arguments.count)
        wanted = arguments.sides.split(",")
        sides = [Headway(arguments, directory, dtype=arguments.dtype)]
        if "ctranslate2" in wanted:
            sides.append(CTranslate2(arguments, directory, work))
        if "transformers" in wanted:
            sides.append(Transformers(arguments, directory))
        print(f"{len(sources)} sentences, {arguments.threads} threads, {arguments.dtype}, sentences per second")
        for beam, batch in settings:
            rates, agree = measure(sides, sources, beam, batch, arguments)
            cells = [f"{sides[0].name} {rates[sides[0].name]:.1f}"]
            for side in sides[1:]:
                ratio = rates[sides[0].name] / rates[side.name]
                cells.append(f"{side.name} {rates[side.name]:.1f} ({ratio:.2f} x, same tokens {agree[side.name]:.1%})")
            print(f"beam {beam}, batch {batch:2}: " + ", ".join(cells), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
