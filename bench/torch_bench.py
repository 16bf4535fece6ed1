#!/usr/bin/env python3
"""headway.torch beside PyTorch in one process: the same inputs and weights, the same threads, calls that take turns.

Tiny shapes show what a call costs, so their difference is given in microseconds; large shapes show the ratio."""

import argparse
import copy
import dataclasses
import datetime
import functools
import gc
import json
import os
import pathlib
import statistics
import sys
import time
from typing import Callable

import torch
from torch import nn
from torch.nn import functional

import headway
import headway.torch as ht
from layer_bench import DOUBTFUL_LOAD, OtherLoad, cpu_name, quantile, round_number, wait_until_quiet

OVERHEAD_GOAL = 12.0  # microseconds above PyTorch's call at tiny shapes
TOLERANCE = 1e-4
SHORT_CALL = 1e-3  # seconds; shorter calls are timed in bunches
BUNCH_SECONDS = 2e-3


@dataclasses.dataclass
class Row:
    """One row: what is called, by whom. A peer is one more entry of `sides`; each side returns tensors to compare."""

    group: str
    name: str
    sides: dict[str, Callable[[], tuple]]
    tiny: bool = False


# ---- rows ----


def attention_sides(shape, training, **options):
    """Calls of scaled_dot_product_attention on [batch, heads, length, head_dim]."""
    inputs = [torch.randn(shape) for _ in range(3)]
    direction = torch.randn(shape)

    def make(function):
        leaves = [x.clone().requires_grad_(training) for x in inputs]
        if not training:

            def infer():
                with torch.no_grad():
                    return (function(*leaves, **options),)

            return infer

        def train():
            output = function(*leaves, **options)
            return (output.detach(), *torch.autograd.grad(output, leaves, direction))

        return train

    return {
        "Headway": make(ht.scaled_dot_product_attention),
        "PyTorch": make(functional.scaled_dot_product_attention),
    }


def layer_sides(width, heads, batch, length, training, need_weights, average=True):
    """Calls of MultiheadAttention: self-attention, batch first."""
    theirs = nn.MultiheadAttention(width, heads, batch_first=True)
    mine = ht.MultiheadAttention(width, heads, batch_first=True)
    mine.load_state_dict(theirs.state_dict())
    x = torch.randn(batch, length, width)
    direction = torch.randn(batch, length, width)

    def make(layer):
        layer.train(training)
        leaf = x.clone().requires_grad_(training)
        options = dict(need_weights=need_weights, average_attn_weights=average)

        def infer():
            with torch.no_grad():
                return tuple(y for y in layer(leaf, leaf, leaf, **options) if y is not None)

        def train():
            output, weights = layer(leaf, leaf, leaf, **options)
            gradients = torch.autograd.grad(output, [leaf, *layer.parameters()], direction)
            return (output.detach(), *([] if weights is None else [weights.detach()]), *gradients)

        return train if training else infer

    return {"Headway": make(mine), "PyTorch": make(theirs)}


def encoder_sides():
    """nn.TransformerEncoder before and after replace_attention, in evaluation with padding."""
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    theirs = nn.TransformerEncoder(layer, 2).eval()
    mine = ht.replace_attention(copy.deepcopy(theirs))
    x = torch.randn(8, 256, 512)

    def make(model):
        def infer():
            with torch.no_grad():
                return (model(x),)

        return infer

    return {"Headway": make(mine), "PyTorch": make(theirs)}


def all_rows():
    """(group, name, function that makes the sides, whether it is tiny)"""
    rows = []
    for training in (False, True):
        word = "training" if training else "inference"
        group = f"scaled_dot_product_attention, {word}"
        for shape in ((1, 1, 4, 8), (2, 4, 8, 16)):
            rows.append((group, f"{shape}", functools.partial(attention_sides, shape, training), True))
        triangle = torch.ones(8, 8).tril().bool()
        for name, option in (("causal", dict(is_causal=True)), ("mask", dict(attn_mask=triangle))):
            make = functools.partial(attention_sides, (2, 4, 8, 16), training, **option)
            rows.append((group, f"(2, 4, 8, 16) {name}", make, True))
        for shape in ((4, 8, 512, 64), (1, 8, 2048, 64), (8, 12, 128, 64)):
            rows.append((group, f"{shape}", functools.partial(attention_sides, shape, training), False))
        make = functools.partial(attention_sides, (4, 8, 512, 64), training, is_causal=True)
        rows.append((group, "(4, 8, 512, 64) causal", make, False))
    for training in (False, True):
        group = f"MultiheadAttention 512/8, {'training' if training else 'inference'}"
        for name, options in (
            ("without weights", dict(need_weights=False)), ("weights averaged", dict(need_weights=True)),
            ("weights per head", dict(need_weights=True, average=False)),
        ):
            make = functools.partial(layer_sides, 512, 8, 8, 512, training, **options)
            rows.append((group, f"8 x 512, {name}", make, False))
        make = functools.partial(layer_sides, 512, 8, 1, 16, training, need_weights=False)
        rows.append((group, "1 x 16, without weights", make, False))
    rows.append(("TransformerEncoder 512/8, 2 layers, inference", "8 x 256", encoder_sides, False))
    return rows


# ---- time ----


def time_of(run, calls, clock):
    begin = clock()
    for _ in range(calls):
        run()
    return (clock() - begin) / calls


def measure(sides, threads, flags):
    """{side: seconds of every round}; who begins rotates with every round."""
    clock = time.process_time if flags.processor_time else time.perf_counter
    names = list(sides)
    calls = {}
    for name in names:
        sides[name]()
        once = min(time_of(sides[name], 1, clock) for _ in range(3))
        calls[name] = max(1, int(BUNCH_SECONDS / max(once, 1e-7))) if once < SHORT_CALL else 1
    samples = {name: [] for name in names}
    start, turn = time.perf_counter(), 0
    gc.collect()
    gc.disable()
    try:
        while turn < flags.min_rounds or time.perf_counter() - start < flags.seconds_per_row:
            for i in range(len(names)):
                name = names[(i + turn) % len(names)]
                if threads > 1:
                    wait_until_quiet()
                samples[name].append(time_of(sides[name], calls[name], clock))
            turn += 1
    finally:
        gc.enable()
    return samples


def disagreement(sides):
    """The largest relative error of any result of any side against PyTorch's."""
    wanted = sides["PyTorch"]()
    worst = 0.0
    for name, run in sides.items():
        got = run()
        if len(got) != len(wanted):
            raise RuntimeError(f"{name} gives {len(got)} results, expected {len(wanted)}")
        for one, other in zip(got, wanted):
            if one.shape != other.shape:
                raise RuntimeError(f"{name} gives shape {tuple(one.shape)}, expected {tuple(other.shape)}")
            error = (one - other).abs().max() / other.abs().max().clamp_min(1e-3)
            worst = max(worst, error.item())
    if not worst <= TOLERANCE:
        raise RuntimeError(f"wrong result: relative error {worst:.2g}, allowed {TOLERANCE:g}")
    return worst


def measure_row(group, name, make, tiny, threads, flags):
    torch.manual_seed(1)
    row = Row(group, name, make(), tiny)
    before = headway.call_count()
    error = disagreement(row.sides)
    if headway.call_count() == before:
        raise RuntimeError("Headway computed nothing")
    samples = measure(row.sides, threads, flags)
    result = {"group": group, "name": name, "threads": threads, "tiny": tiny, "error": error, "failure": None}
    for side, values in samples.items():
        middle = statistics.median(values)
        key = side.lower().replace(" ", "_")
        result[f"{key}_us"] = 1e6 * middle
        result[f"{key}_spread"] = (quantile(values, 0.75) - quantile(values, 0.25)) / middle
    result["rounds"] = len(samples["Headway"])
    result["ratio"] = result["pytorch_us"] / result["headway_us"]
    result["overhead_us"] = result["headway_us"] - result["pytorch_us"]
    if tiny:
        # Rounds take turns, so their differences are steadier than the difference of two medians.
        pairs = zip(samples["Headway"], samples["PyTorch"])
        result["overhead_us"] = 1e6 * statistics.median(one - other for one, other in pairs)
        result["within_goal"] = result["overhead_us"] <= OVERHEAD_GOAL
    return result


def print_result(result):
    line = f"  {result['name']:<28} {result['threads']:>3} "
    if result["failure"]:
        print(line + "FAIL: " + result["failure"], flush=True)
        return
    unit, size = ("us", 1.0) if result["pytorch_us"] < 1e3 else ("ms", 1e-3)
    for side in ("headway", "pytorch"):
        line += f" {size * result[f'{side}_us']:>9.2f} {unit} +-{100 * result[f'{side}_spread']:>2.0f}%"
    line += f" {result['ratio']:>6.2f}"
    if result["tiny"]:
        line += f" {result['overhead_us']:>+8.1f} us"
    print(line, flush=True)


def parse_flags():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="", metavar="WORDS", help="only rows whose name has every word")
    parser.add_argument("--threads", default="both", choices=["1", "all", "both"])
    parser.add_argument("--seconds-per-row", type=float, default=4.0)
    parser.add_argument("--min-rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="half a second per row, three rounds at least")
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="time the processor instead of the wall: for one thread while others use the machine",
    )
    parser.add_argument("--json", metavar="PATH", help="write the results there")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    flags = parser.parse_args()
    if flags.quick:
        flags.seconds_per_row, flags.min_rounds = 0.5, 3
    return flags


def measure_all(rows, flags):
    load = OtherLoad()
    cpus = os.cpu_count()
    machine = {
        "kind": "torch",
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "cpu": cpu_name(),
        "instruction_set": headway.info()["instruction_set"],
        "max_threads": cpus,
        "torch": torch.__version__.split("+")[0],
    }
    print(
        f"{machine['date']}  {machine['cpu']}, {cpus} threads, Headway {headway.__version__} "
        f"({machine['instruction_set']}), PyTorch {machine['torch']}\n"
        "time: median of one call, +- interquartile range; ratio: PyTorch's time / Headway's;\n"
        f"at tiny shapes also Headway's time less PyTorch's, to be at most {OVERHEAD_GOAL:g} us"
    )
    results = []
    heading = None
    for group, name, make, tiny in rows:
        if group != heading:
            heading = group
            print(f"\n{group}\n  {'':<28} {'thr':>3} {'Headway':>17} {'PyTorch':>17} {'ratio':>6}")
        for threads in {"1": [1], "all": [cpus], "both": sorted({1, cpus})}[flags.threads]:
            torch.set_num_threads(threads)
            headway.set_num_threads(threads)
            try:
                result = measure_row(group, name, make, tiny, threads, flags)
            except RuntimeError as error:
                result = {"group": group, "name": name, "threads": threads, "failure": str(error).splitlines()[0]}
            results.append(result)
            print_result(result)
    machine["other_load"] = load.share()
    if machine["other_load"] >= DOUBTFUL_LOAD:
        share = 100 * machine["other_load"]
        print(f"\nOther programs took {share:.0f}% of the machine's time: do not trust these figures.")
    machine["rows"] = results
    return machine


def write_json(path, machine):
    """One line for each row; written beside and then renamed."""
    rows = [{key: round_number(value) for key, value in row.items()} for row in machine["rows"]]
    lines = ",\n    ".join(json.dumps(row) for row in rows)
    rest = {key: round_number(value) for key, value in machine.items() if key != "rows"}
    temporary = pathlib.Path(path + ".tmp")
    temporary.write_text(f'{json.dumps(rest, indent=2)[:-2]},\n  "rows": [\n    {lines}\n  ]\n}}\n', encoding="utf-8")
    os.replace(temporary, path)


def main():
    flags = parse_flags()
    rows = [row for row in all_rows() if all(word in f"{row[0]} {row[1]}" for word in flags.filter.split())]
    if flags.list:
        print("\n".join(f"{group}: {name}" for group, name, _, _ in rows))
        return 0
    if not rows:
        sys.exit(f"torch_bench: no row matches {flags.filter}; --list prints their names")
    machine = measure_all(rows, flags)
    if flags.json:
        write_json(flags.json, machine)
    return int(any(result["failure"] for result in machine["rows"]))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception as error:  # 1 would say that a row failed
        print(f"torch_bench: {error}", file=sys.stderr)
        sys.exit(2)
