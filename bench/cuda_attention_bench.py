#!/usr/bin/env python3
"""Headway's attention on a GPU beside cuDNN's and FlashAttention-2's in PyTorch: the same memory, the same stream,
calls that take turns. Results are compared before they are timed.

Headway is called through bench/cuda_attention_interface.cpp; `bench/run.sh cuda-attention` builds it and calls this."""

import argparse
import dataclasses
import datetime
import functools
import json
import math
import os
import pathlib
import random
import statistics
import time
from typing import Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from cuda_attention_side import Attention, load_library
from row_flags import run_program

TOKENS = 16384
WIDTH = 2048  # heads * head_dim
TOLERANCE = 0.02  # of two results in 16 bits: the norm of their difference, relative
SHORT_CALL_MS = 0.4  # shorter calls are timed in bunches
BACKENDS = {
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "FlashAttention-2": SDPBackend.FLASH_ATTENTION,
    "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
}

# (head_dim, length, causal) of the backward that need not give the same bits again.
ANY_ORDER = [
    (64, 16384, False), (64, 16384, True), (128, 16384, False), (128, 16384, True), (128, 2048, False),
    (128, 512, False), (256, 16384, False),
]

# ---- sides: what is timed, and its results ----


@dataclasses.dataclass
class Side:
    run: Callable[[], None]
    results: Callable[[], list]


def headway_side(backward, *tensors, **options):
    attention = Attention(*tensors, **options)
    attention.forward()
    if backward:
        attention.backward()
        return Side(attention.backward, attention.gradients)
    return Side(attention.forward, lambda: [attention.output()])


def torch_side(backend, backward, query, key, value, d_output, causal=False):
    grouped = dict(enable_gqa=True) if query.shape[1] != key.shape[1] else {}

    def forward(*inputs):
        with sdpa_kernel(BACKENDS[backend]):
            return scaled_dot_product_attention(*inputs, is_causal=causal, **grouped)

    if not backward:
        return Side(lambda: forward(query, key, value), lambda: [forward(query, key, value)])
    leaves = [tensor.detach().requires_grad_() for tensor in (query, key, value)]
    output = forward(*leaves)

    def gradients():
        return torch.autograd.grad(output, leaves, d_output, retain_graph=True)

    return Side(gradients, lambda: list(gradients()))


def difference(ours, theirs):
    """The largest relative difference of two lists of results."""
    worst = 0.0
    for one, other in zip(ours, theirs):
        worst = max(worst, ((one.float() - other.float()).norm() / other.float().norm()).item())
        if math.isnan(worst):
            return math.inf
    return worst


def measure(sides, flags):
    """Milliseconds of a call of each side: the median of rounds in which all take turns, in random order."""

    def time_of(run, calls):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / calls

    calls = {}
    for name, run in sides.items():
        time_of(run, 2)
        calls[name] = max(1, min(50, math.ceil(SHORT_CALL_MS / max(1e-3, time_of(run, 2)))))
    samples = {name: [] for name in sides}
    order = list(sides)
    begin = time.monotonic()
    rounds = 0
    while rounds < flags.min_rounds or time.monotonic() - begin < flags.seconds_per_row:
        random.shuffle(order)
        for name in order:
            samples[name].append(time_of(sides[name], calls[name]))
        rounds += 1
    return {name: statistics.median(values) for name, values in samples.items()}


# ---- rows ----


@dataclasses.dataclass
class Row:
    """One line: measure(flags, machine) returns its fields."""

    group: str
    name: str
    measure: Callable[..., dict]


def random_inputs(batch, heads, length, dim, kv_heads=None, keys=None, dtype=torch.bfloat16):
    def draw(count, rows):
        return torch.randn(batch, count, rows, dim, device="cuda", dtype=dtype)

    kv_heads, keys = kv_heads or heads, keys or length
    return draw(heads, length), draw(kv_heads, keys), draw(kv_heads, keys), draw(heads, length)


def flops_of(batch, heads, length, dim, causal, backward):
    return (10 if backward else 4) * batch * heads * length * length * dim / (2 if causal else 1)


def versus(shape, causal, backward, peers, dtype, flags, machine, **options):
    """Headway beside peers; a peer that cannot do it is left out."""
    batch, heads, length, dim = shape
    inputs = random_inputs(*shape, dtype=dtype)
    sides = {"Headway": headway_side(backward, *inputs, causal=causal, **options)}
    result = {"missing": {}}
    ours = sides["Headway"].results()
    for peer in peers:
        try:
            side = torch_side(peer, backward, *inputs, causal=causal)
            error = difference(ours, side.results())
        except RuntimeError as reason:
            result["missing"][peer] = str(reason).splitlines()[0]
            continue
        sides[peer] = side
        result[f"{peer} difference"] = error
        if not error <= TOLERANCE:
            raise RuntimeError(f"the result differs from {peer}'s by {error:.3g}, relative")
    flops = flops_of(batch, heads, length, dim, causal, backward)
    times = measure({name: side.run for name, side in sides.items()}, flags)
    for name, milliseconds in times.items():
        result[f"{name} ms"] = milliseconds
        result[f"{name} TFLOP/s"] = flops / milliseconds / 1e9
        if name != "Headway":
            result[f"{name} ratio"] = milliseconds / times["Headway"]
    if dtype == torch.bfloat16:
        result["share of peak"] = result["Headway TFLOP/s"] / machine["matmul_tflops"]
    return result


def versus_rows():
    rows = []
    for backward in (False, True):
        group = f"bfloat16 {'backward' if backward else 'forward'}, {TOKENS} tokens, heads * dim = {WIDTH}"
        for dim in (64, 128, 256):
            for length in (16384, 2048, 512, 4096):
                for causal in (False, True):
                    shape = (TOKENS // length, WIDTH // dim, length, dim)
                    peers = ("cuDNN", "FlashAttention-2")
                    measure_row = functools.partial(versus, shape, causal, backward, peers, torch.bfloat16)
                    rows.append(Row(group, f"d {dim} length {length} {'causal' if causal else 'full'}", measure_row))
    for dim, length, causal in ANY_ORDER:
        shape, name = (TOKENS // length, WIDTH // dim, length, dim), f"d {dim} length {length}"
        measure_row = functools.partial(
            versus, shape, causal, True, ("cuDNN",), torch.bfloat16, deterministic=False
        )
        group = "bfloat16 backward, sums in any order"
        rows.append(Row(group, f"{name} {'causal' if causal else 'full'}", measure_row))
    for backward in (False, True):
        shape, peers = (4, 32, 4096, 64), ("memory-efficient",)
        measure_row = functools.partial(versus, shape, False, backward, peers, torch.float32)
        rows.append(Row("float32", f"d 64 length 4096 {'backward' if backward else 'forward'}", measure_row))
    return rows


def decoding(flags, machine):
    """One query for each of 8 sequences with 32768 keys: memory is all that counts."""
    batch, heads, kv_heads, keys, dim = 8, 32, 8, 32768, 128
    query, key, value, _ = random_inputs(batch, heads, 1, dim, kv_heads, keys)
    sides = {"Headway": headway_side(False, query, key, value)}
    ours = sides["Headway"].results()
    result = {}
    for peer in ("cuDNN", "FlashAttention-2"):
        try:
            side = torch_side(peer, False, query, key, value, None)
            result[f"{peer} difference"] = difference(ours, side.results())
            sides[peer] = side
        except RuntimeError:
            continue
        if not result[f"{peer} difference"] <= TOLERANCE:
            raise RuntimeError(f"the result differs from {peer}'s by {result[f'{peer} difference']:.3g}, relative")
    number_of_bytes = 2 * (key.numel() + value.numel())
    for name, milliseconds in measure({name: side.run for name, side in sides.items()}, flags).items():
        result[f"{name} ms"] = milliseconds
        result[f"{name} TB/s"] = number_of_bytes / milliseconds / 1e9
    result["share of copy rate"] = result["Headway TB/s"] / machine["copy_tb_s"]
    return result


def relative(make_form, backward, flags, machine):
    """A form beside the plain one at length 4096, d 128: how fast it computes, the plain one being 1."""
    shape = (4, 16, 4096, 128)
    plain_inputs = random_inputs(*shape)
    form, flops, check = make_form(backward, plain_inputs)
    if check is not None:
        error = difference(form.results(), check())
        if not error <= TOLERANCE:
            raise RuntimeError(f"the result is wrong by {error:.3g}, relative")
    sides = {"form": form, "plain": headway_side(backward, *plain_inputs)}
    times = measure({name: side.run for name, side in sides.items()}, flags)
    plain_flops = flops_of(*shape, False, backward)
    result = {f"{name} ms": milliseconds for name, milliseconds in times.items()}
    result["speed, plain = 1"] = (flops or plain_flops) / plain_flops * times["plain"] / times["form"]
    return result


def torch_results(backward, inputs, **options):
    return lambda: torch_side("FlashAttention-2", backward, *inputs, **options).results()


def grouped_form(backward, plain):
    inputs = random_inputs(4, 16, 4096, 128, kv_heads=4)
    return headway_side(backward, *inputs), None, torch_results(backward, inputs)


def length_first_form(backward, plain):
    inputs = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in plain]
    return headway_side(backward, *inputs), None, torch_results(backward, inputs)


def ragged_form(backward, plain):
    """The same tokens as a packed batch of sequences between 1000 and 6000 tokens."""
    lengths = [5700, 1300, 4096, 2600, 1688, 1000]
    ends = [0]
    for length in lengths:
        ends.append(ends[-1] + length)
    assert ends[-1] == TOKENS
    inputs = random_inputs(1, 16, TOKENS, 128)
    flops = sum(flops_of(1, 16, length, 128, False, backward) for length in lengths)

    def check():
        parts = []
        for begin, end in zip(ends, ends[1:]):
            piece = [tensor[:, :, begin:end].contiguous() for tensor in inputs]
            parts.append(torch_results(backward, piece)())
        return [torch.cat(results, dim=2) for results in zip(*parts)]

    return headway_side(backward, *inputs, cu_lengths=ends), flops, check


def padded_form(backward, plain):
    lengths = [4096, 3000, 2500, 3500]
    flops = sum((10 if backward else 4) * 16 * 4096 * length * 128 for length in lengths)
    return headway_side(backward, *plain, key_lengths=lengths), flops, None


def bias_form(backward, plain):
    bias = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    return headway_side(backward, *plain, bias=bias), None, None


def dropout_form(backward, plain):
    return headway_side(backward, *plain, dropout=0.1), None, None


def weights_form(backward, plain):
    return headway_side(backward, *plain, weights=True), None, None


def relative_rows():
    rows = []
    forms = {
        "grouped, 16 / 4 heads": grouped_form,
        "[b, l, h, d]": length_first_form,
        "ragged": ragged_form,
        "key lengths": padded_form,
        "bias [l, l]": bias_form,
        "dropout": dropout_form,
        "weights per head": weights_form,
    }
    for name, form in forms.items():
        for backward in (False, True):
            if backward and form is weights_form:
                continue
            words = f"{name}, {'backward' if backward else 'forward'}"
            group = "forms, d 128 length 4096: speed beside the plain one"
            rows.append(Row(group, words, functools.partial(relative, form, backward)))
    return rows


def repeatable(flags, machine):
    """The backward whose bits are the same in every run: Headway's, and FlashAttention-2's with and without."""
    shape = (4, 16, 4096, 128)
    inputs = random_inputs(*shape)
    ours = headway_side(True, *inputs)
    first = ours.results()
    ours.run()
    if not all(torch.equal(one, other) for one, other in zip(first, ours.results())):
        raise RuntimeError("two runs of Headway's backward give different bits")
    theirs = torch_side("FlashAttention-2", True, *inputs)
    torch.utils.deterministic.fill_uninitialized_memory = False  # it costs time and changes nothing here

    def deterministic():
        torch.use_deterministic_algorithms(True)
        theirs.run()
        torch.use_deterministic_algorithms(False)

    sides = {"Headway": ours.run, "FlashAttention-2": theirs.run, "FlashAttention-2 deterministic": deterministic}
    times = measure(sides, flags)
    flops = flops_of(*shape, False, True)
    result = {}
    for name, milliseconds in times.items():
        result |= {f"{name} ms": milliseconds, f"{name} TFLOP/s": flops / milliseconds / 1e9}
    return result


def all_rows():
    decode = Row("decoding", "32 / 8 heads d 128, 8 x 32768 keys", decoding)
    return [*versus_rows(), decode, *relative_rows(), Row("same bits in every run", "d 128 length 4096", repeatable)]


# ---- the machine ----


def matmul_tflops(flags):
    """The rate of torch.matmul in bfloat16, as the peak that attention is held against."""
    size = 8192
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * size**3 / measure({"matmul": lambda: a @ b}, flags)["matmul"] / 1e9


def copy_tb_s(flags):
    """Bytes read and written by a copy of a gigabyte."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / measure({"copy": lambda: target.copy_(source)}, flags)["copy"] / 1e9


def machine_of(flags):
    return {
        "kind": "cuda_attention",
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__.split("+")[0],
        "cudnn": torch.backends.cudnn.version(),
        "matmul_tflops": matmul_tflops(flags),
        "copy_tb_s": copy_tb_s(flags),
    }


# ---- output ----


def text_of(result):
    if result["failure"]:
        return "FAIL: " + result["failure"]
    if "missing" in result:
        parts = [f"{result['Headway ms']:8.3f} ms {result['Headway TFLOP/s']:5.0f} TFLOP/s"]
        if "share of peak" in result:
            parts.append(f"{100 * result['share of peak']:3.0f}% of peak")
        for peer in BACKENDS:
            if f"{peer} ratio" in result:
                parts.append(f"{peer} {result[f'{peer} TFLOP/s']:4.0f}, ratio {result[f'{peer} ratio']:.2f}")
        parts += [f"no {peer}" for peer in result["missing"]]
        return "  ".join(parts)
    return "  ".join(f"{key} {value:.3f}" for key, value in result.items() if isinstance(value, float))


def run_row(row, flags, machine):
    try:
        fields = row.measure(flags, machine) | {"failure": ""}
    except RuntimeError as error:
        fields = {"failure": str(error).splitlines()[0]}
    torch.cuda.empty_cache()
    return {"group": row.group, "name": row.name} | fields


def write_json(path, machine):
    """Written beside and then renamed."""
    temporary = pathlib.Path(path + ".tmp")
    temporary.write_text(json.dumps(machine, indent=1) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def parse_flags():
    default = pathlib.Path(__file__).resolve().parent.parent / "build/release/bench/libcuda_attention_interface.so"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interface", type=pathlib.Path, default=default, help="the library of bench/cuda_attention_interface.cpp")
    parser.add_argument("--filter", default="", metavar="WORDS", help="only rows whose group and name have every word")
    parser.add_argument("--seconds-per-row", type=float, default=1.0)
    parser.add_argument("--min-rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="0.15 seconds per row, 5 rounds at least")
    parser.add_argument("--json", metavar="PATH", help="write the results there")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    flags = parser.parse_args()
    if flags.quick:
        flags.seconds_per_row, flags.min_rounds = 0.15, 5
    return flags


def main():
    flags = parse_flags()
    rows = [row for row in all_rows() if all(word in f"{row.group}: {row.name}" for word in flags.filter.split())]
    if flags.list:
        print("\n".join(f"{row.group}: {row.name}" for row in rows))
        return 0
    if not torch.cuda.is_available():
        print("no CUDA device: PyTorch finds none")
        return 0
    Attention.library = load_library(flags.interface)
    torch.manual_seed(0)
    random.seed(0)
    # A stream of its own: Headway takes PyTorch's default one, which is null, for a wish for a stream of Headway's.
    with torch.cuda.stream(torch.cuda.Stream()):
        machine = machine_of(flags)
        print(
            f"{machine['date']}  {machine['gpu']}, PyTorch {machine['torch']}, cuDNN {machine['cudnn']}\n"
            f"torch.matmul bfloat16 {machine['matmul_tflops']:.0f} TFLOP/s, copy {machine['copy_tb_s']:.2f} TB/s\n"
            "ratio: the other's time / Headway's"
        )
        machine["rows"] = []
        for row in rows:
            if not machine["rows"] or machine["rows"][-1]["group"] != row.group:
                print(f"\n{row.group}")
            machine["rows"].append(run_row(row, flags, machine))
            print(f"  {row.name:<34} {text_of(machine['rows'][-1])}", flush=True)
            if flags.json:
                write_json(flags.json, machine)  # after every row, so that a run cut short leaves what it has
    return int(any(row["failure"] for row in machine["rows"]))


if __name__ == "__main__":
    run_program("cuda_attention_bench", main)
