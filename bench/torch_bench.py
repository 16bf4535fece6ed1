#!/usr/bin/env python3
"""headway.torch beside PyTorch in one process: the same inputs and weights, the same threads, calls that take turns.

Tiny shapes show what a call costs, so their difference is given in microseconds; large shapes show the ratio. Large
inference rows of scaled_dot_product_attention have JAX and ONNX Runtime as further sides, where they are installed."""

import copy
import dataclasses
import functools
import gc
import statistics
import time
from typing import Callable

import torch
from torch import nn
from torch.nn import functional

import headway
import headway.torch as ht
import peers
from layer_bench import (
    OtherLoad, describe_machine, machine_line, note_other_load, quantile, wait_until_quiet, write_json,
)
from row_flags import Pace, flags_of, row_parser, run_program, run_rows, thread_counts

OVERHEAD_GOAL = 12.0  # microseconds above PyTorch's call at tiny shapes
TOLERANCE = 1e-4
SHORT_CALL = 1e-3  # seconds; shorter calls are timed in bunches
BUNCH_SECONDS = 2e-3


@dataclasses.dataclass(frozen=True)
class Row:
    """One row; make() returns its sides by name. A side returns tensors to compare, or is a peers.Side."""

    group: str
    name: str
    make: Callable[[], dict[str, Callable]]
    tiny: bool = False
    with_peers: bool = False


# ---- rows ----


def attention_sides(shape, training, with_peers=False, **options):
    """Calls of scaled_dot_product_attention on [batch, heads, length, head_dim]; peers know is_causal alone."""
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

    sides = {
        "Headway": make(ht.scaled_dot_product_attention),
        "PyTorch": make(functional.scaled_dot_product_attention),
    }
    if with_peers:
        sides |= peers.attention_sides(inputs, options.get("is_causal", False), torch.get_num_threads())
    return sides


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


def attention_rows(training):
    group = f"scaled_dot_product_attention, {'training' if training else 'inference'}"
    triangle = torch.ones(8, 8).tril().bool()
    rows = []
    for shape, word, options in (
        ((1, 1, 4, 8), "", {}),
        ((2, 4, 8, 16), "", {}),
        ((2, 4, 8, 16), " causal", dict(is_causal=True)),
        ((2, 4, 8, 16), " mask", dict(attn_mask=triangle)),
    ):
        make = functools.partial(attention_sides, shape, training, **options)
        rows.append(Row(group, f"{shape}{word}", make, tiny=True))
    for shape, word, options in (
        ((4, 8, 512, 64), "", {}),
        ((1, 8, 2048, 64), "", {}),
        ((8, 12, 128, 64), "", {}),
        ((4, 8, 512, 64), " causal", dict(is_causal=True)),
    ):
        with_peers = not training
        make = functools.partial(attention_sides, shape, training, with_peers, **options)
        rows.append(Row(group, f"{shape}{word}", make, with_peers=with_peers))
    return rows


def layer_rows(training):
    group = f"MultiheadAttention 512/8, {'training' if training else 'inference'}"
    rows = []
    for word, options in (
        ("without weights", dict(need_weights=False)),
        ("weights averaged", dict(need_weights=True)),
        ("weights per head", dict(need_weights=True, average=False)),
    ):
        make = functools.partial(layer_sides, 512, 8, 8, 512, training, **options)
        rows.append(Row(group, f"8 x 512, {word}", make))
    make = functools.partial(layer_sides, 512, 8, 1, 16, training, need_weights=False)
    return rows + [Row(group, "1 x 16, without weights", make)]


def all_rows():
    rows = attention_rows(False) + attention_rows(True) + layer_rows(False) + layer_rows(True)
    return rows + [Row("TransformerEncoder 512/8, 2 layers, inference", "8 x 256", encoder_sides)]


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
    seconds = flags.seconds_per_row * len(names) / 2
    start, turn = time.perf_counter(), 0
    gc.collect()
    gc.disable()
    try:
        while turn < flags.min_rounds or time.perf_counter() - start < seconds:
            for i in range(len(names)):
                name = names[(i + turn) % len(names)]
                if threads > 1:
                    wait_until_quiet()
                samples[name].append(time_of(sides[name], calls[name], clock))
            turn += 1
    finally:
        gc.enable()
    return samples


def results_of(run):
    return run.tensors() if isinstance(run, peers.Side) else run()


def disagreement(sides):
    """The largest relative error of any result of any side against PyTorch's."""
    wanted = results_of(sides["PyTorch"])
    worst = 0.0
    for name, run in sides.items():
        got = results_of(run)
        if len(got) != len(wanted):
            raise RuntimeError(f"{name} gives {len(got)} results, expected {len(wanted)}")
        for one, other in zip(got, wanted):
            if one.shape != other.shape:
                raise RuntimeError(f"{name} gives shape {tuple(one.shape)}, expected {tuple(other.shape)}")
            error = ((one - other).abs().max() / other.abs().max().clamp_min(1e-3)).item()
            if not error <= TOLERANCE:
                raise RuntimeError(f"wrong result of {name}: relative error {error:.2g}, allowed {TOLERANCE:g}")
            worst = max(worst, error)
    return worst


def measure_row(row, threads, flags):
    torch.manual_seed(1)
    sides = row.make()
    before = headway.call_count()
    error = disagreement(sides)
    if headway.call_count() == before:
        raise RuntimeError("Headway computed nothing")
    samples = measure(sides, threads, flags)
    result = dict(group=row.group, name=row.name, threads=threads, tiny=row.tiny, error=error, failure=None)
    for side, values in samples.items():
        middle = statistics.median(values)
        key = peers.key_of(side)
        result[f"{key}_us"] = 1e6 * middle
        result[f"{key}_spread"] = (quantile(values, 0.75) - quantile(values, 0.25)) / middle
    result["rounds"] = len(samples["Headway"])
    result["ratio"] = result["pytorch_us"] / result["headway_us"]
    for key in (peers.key_of(side) for side in samples if side not in ("Headway", "PyTorch")):
        result[f"{key}_ratio"] = result[f"{key}_us"] / result["headway_us"]
    result["overhead_us"] = result["headway_us"] - result["pytorch_us"]
    if row.tiny:
        # Rounds take turns, so their differences are steadier than the difference of two medians.
        pairs = zip(samples["Headway"], samples["PyTorch"])
        result["overhead_us"] = 1e6 * statistics.median(one - other for one, other in pairs)
        result["within_goal"] = result["overhead_us"] <= OVERHEAD_GOAL
    return result


def print_heading(group, peer_names):
    line = f"\n{group}\n  {'':<28} {'thr':>3} {'Headway':>17} {'PyTorch':>17} {'ratio':>6} {'above':>11}"
    print(line + "".join(f" {name:>19}" for name in peer_names))


def print_result(result, peer_names):
    line = f"  {result['name']:<28} {result['threads']:>3} "
    if result["failure"]:
        print(line + "FAIL: " + result["failure"], flush=True)
        return
    unit, size = ("us", 1.0) if result["pytorch_us"] < 1e3 else ("ms", 1e-3)
    for side in ("headway", "pytorch"):
        line += f" {size * result[f'{side}_us']:>9.2f} {unit} +-{100 * result[f'{side}_spread']:>2.0f}%"
    line += f" {result['ratio']:>6.2f}"
    line += f" {result['overhead_us']:>+8.1f} us" if result["tiny"] else f" {'':>11}"
    for key in map(peers.key_of, peer_names):
        if f"{key}_us" in result:
            line += f" {size * result[f'{key}_us']:>9.2f} {unit} {result[f'{key}_ratio']:>6.2f}"
    print(line.rstrip(), flush=True)


def describe_peers(rows):
    """The fields about JAX and ONNX Runtime, which are loaded only for rows that have them."""
    found, missing = peers.find_peers() if any(row.with_peers for row in rows) else ([], {})
    fields = ("version", "call", "threads_note")
    return {
        "peers": {peer.name: {field: getattr(peer, field) for field in fields} for peer in found},
        "missing_peers": missing,
    }


def measure_all(rows, flags):
    load = OtherLoad()
    machine = describe_machine("torch", headway.info()["instruction_set"], torch) | describe_peers(rows)
    print(
        f"{machine_line(machine, headway.__version__)}\n"
        "time: median of one call, +- interquartile range; ratio: PyTorch's time / Headway's;\n"
        f"above: Headway's time less PyTorch's at tiny shapes, to be at most {OVERHEAD_GOAL:g} us"
    )
    for name, peer in machine["peers"].items():
        print(f"{name} {peer['version']}: {peer['call']}; its time / Headway's; {peer['threads_note']}")
    for name, reason in machine["missing_peers"].items():
        print(f"without {name}: {reason}")
    results = []
    heading = None
    for row in rows:
        if row.group != heading:
            heading = row.group
            peer_names = machine["peers"] if any(one.with_peers for one in rows if one.group == heading) else ()
            print_heading(heading, peer_names)
        for threads in thread_counts(flags):
            torch.set_num_threads(threads)
            headway.set_num_threads(threads)
            try:
                result = measure_row(row, threads, flags)
            except RuntimeError as error:
                failure = str(error).splitlines()[0]
                result = dict(group=row.group, name=row.name, threads=threads, tiny=row.tiny, failure=failure)
            results.append(result)
            print_result(result, peer_names)
    note_other_load(machine, load)
    machine["rows"] = results
    return machine


def main():
    flags = flags_of(row_parser(__doc__, Pace(4.0, 7), quick=Pace(0.5, 3)))
    return run_rows("torch_bench", {f"{row.group}: {row.name}": row for row in all_rows()}, flags, measure_all, write_json)


if __name__ == "__main__":
    run_program("torch_bench", main)
