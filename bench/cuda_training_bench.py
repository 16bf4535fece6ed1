#!/usr/bin/env python3
"""Training steps of Headway's modules on a GPU beside PyTorch's, eager and compiled: bfloat16, the same weights and
inputs, one stream, steps that take turns. Before anything is timed, outputs and gradients in evaluation mode are
compared with PyTorch's in float32: Headway's may not be farther from them than PyTorch's in bfloat16. A step is
forward, backward and AdamW; of the attention layer alone, forward and backward.

Neither side has float32 masters of the weights. AdamW's moments are bfloat16 in PyTorch, because they take the
parameters' dtype, and float32 in Headway: Headway's optimizer moves 22 bytes for each value for which PyTorch's moves
14, and its moments take twice the memory.

Headway is called through bench/cuda_training_interface.cpp; `bench/run.sh cuda-training` builds it and calls this."""

import argparse
import copy
import ctypes
import dataclasses
import datetime
import json
import math
import pathlib
import random
import statistics
import sys
import time

import torch
from c_interface import load_library

TOLERANCE = 1.3  # how much farther from float32 Headway's results may be than PyTorch's
LEARNING_RATE = 1e-4
MODELS = ("attention layer", "Transformer", "encoder")  # as CudaTrainingModel counts


@dataclasses.dataclass(frozen=True)
class Row:
    """A model, its sizes, and what its step does."""

    model: str
    width: int
    heads: int
    batch: int
    length: int
    layers: int = 0  # of the encoder and of the decoder
    feed_forward: int = 0
    dropout: float = 0.0
    weights: bool = False  # of the attention layer: averaged over heads

    @property
    def name(self):
        depth = f", {self.layers} layers" if self.layers else ""
        weights = ", with attention weights" if self.weights else ""
        return f"{self.model} {self.width}, {self.heads} heads{depth}, {self.batch} x {self.length}{weights}"


ROWS = (
    Row("attention layer", 1024, 16, 8, 2048),
    Row("attention layer", 1024, 16, 8, 2048, weights=True),
    Row("Transformer", 512, 8, 64, 64, layers=6, feed_forward=2048, dropout=0.1),
    Row("encoder", 1024, 16, 8, 512, layers=24, feed_forward=4096, dropout=0.1),
)


# ---- the two sides ----


class TorchSide:
    """What a user of PyTorch writes: the modules of torch.nn, AdamW(fused=True)."""

    def __init__(self, row, inputs):
        self.row = row
        self.source, self.target, self.direction = inputs
        options = dict(dropout=row.dropout, batch_first=True, device="cuda", dtype=torch.bfloat16)
        self.mask = None
        if row.model == "Transformer":
            self.model = torch.nn.Transformer(
                row.width, row.heads, row.layers, row.layers, row.feed_forward, **options
            )
            self.mask = torch.nn.Transformer.generate_square_subsequent_mask(
                row.length, device="cuda", dtype=torch.bfloat16
            )
        elif row.model == "encoder":
            layer = torch.nn.TransformerEncoderLayer(row.width, row.heads, row.feed_forward, **options)
            self.model = torch.nn.TransformerEncoder(layer, row.layers, enable_nested_tensor=False)
            for parameter in self.model.parameters():  # the copies of a layer start alike
                if parameter.dim() > 1:
                    torch.nn.init.xavier_uniform_(parameter)
        else:
            self.model = torch.nn.MultiheadAttention(row.width, row.heads, **options)
            self.source = self.source.requires_grad_()
        self.call = self.model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE, fused=True)
        self.output = None

    def forward(self):
        if self.row.model == "Transformer":
            return self.call(self.source, self.target, tgt_mask=self.mask, tgt_is_causal=True)
        if self.row.model == "encoder":
            return self.call(self.source)
        x = self.source
        return self.call(x, x, x, need_weights=self.row.weights)[0]

    def forward_backward(self):
        self.optimizer.zero_grad()
        if self.row.layers == 0:
            self.source.grad = None
        output = self.forward()
        if self.row.layers == 0:
            output.backward(self.direction)
        else:
            (output * self.direction).mean().backward()
        self.output = output.detach()

    def step(self):
        self.call = self.model
        self.forward_backward()
        if self.row.layers:
            self.optimizer.step()

    def evaluate(self):
        self.model.eval()
        self.forward_backward()
        self.model.train()

    def gradients(self):
        found = {name: parameter.grad for name, parameter in self.model.named_parameters()}
        if self.row.layers == 0:
            found["source"] = self.source.grad
        return found

    def in_float32(self):
        """The same model with the same inputs in float32."""
        other = copy.copy(self)
        other.model = other.call = copy.deepcopy(self.model).float()
        other.source = self.source.detach().float().requires_grad_(self.row.layers == 0)
        other.target = None if self.target is None else self.target.float()
        other.direction = self.direction.float()
        other.mask = None if self.mask is None else self.mask.float()
        other.optimizer = torch.optim.SGD(other.model.parameters(), lr=0.0)
        return other

    def compiled(self, whole):
        """A step by torch.compile: of the whole model, or of each layer, which takes far less time to compile."""
        torch._dynamo.config.cache_size_limit = 64
        if whole or self.row.layers == 0:
            compiled = torch.compile(self.model)

            def step_whole():
                self.call = compiled
                self.forward_backward()
                if self.row.layers:
                    self.optimizer.step()

            return step_whole
        kinds = (torch.nn.TransformerEncoderLayer, torch.nn.TransformerDecoderLayer)
        layers = [module for module in self.model.modules() if isinstance(module, kinds)]
        forwards = [torch.compile(layer.forward) for layer in layers]

        def step_layers():
            for layer, forward in zip(layers, forwards):
                layer.forward = forward
            self.step()
            for layer in layers:
                del layer.forward

        return step_layers


class Config(ctypes.Structure):
    """CudaTrainingConfig of cuda_training_interface.cpp."""

    _fields_ = [
        *(
            (name, ctypes.c_int64)
            for name in ("model", "layers", "width", "heads", "feed_forward", "batch", "length", "weights")
        ),
        ("dropout", ctypes.c_double),
        ("learning_rate", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("stream", "source", "target", "direction")),
    ]


class HeadwaySide:
    """The same model in Headway, with PyTorch's weights."""

    def __init__(self, library, row, theirs):
        self.library = library
        self.inputs = [theirs.source, theirs.target, theirs.direction]  # read in place
        config = Config(
            MODELS.index(row.model), row.layers, row.width, row.heads, row.feed_forward, row.batch, row.length,
            int(row.weights), row.dropout, LEARNING_RATE, torch.cuda.current_stream().cuda_stream,
            *(0 if tensor is None else tensor.data_ptr() for tensor in self.inputs),
        )  # fmt: skip
        self.handle = library.cuda_training_create(ctypes.byref(config))
        if not self.handle:
            raise self.error()
        for name, value in theirs.model.state_dict().items():
            self.check(library.cuda_training_load(self.handle, name.encode(), value.contiguous().data_ptr()))

    def __del__(self):
        if getattr(self, "handle", None):
            self.library.cuda_training_destroy(self.handle)

    def error(self):
        return RuntimeError("Headway: " + self.library.cuda_training_error().decode())

    def check(self, code):
        if code != 0:
            raise self.error()

    def step(self):
        self.check(self.library.cuda_training_step(self.handle))

    def evaluate(self):
        self.check(self.library.cuda_training_evaluate(self.handle))

    def read(self, name, like):
        target = torch.full(like.shape, math.nan, dtype=like.dtype, device="cuda")
        self.check(self.library.cuda_training_read(self.handle, name.encode(), target.data_ptr()))
        return target


class PoolPeak:
    """The most memory that the driver's default pool, from which Headway takes all of its own, had in use."""

    USED_HIGH = 8  # CU_MEMPOOL_ATTR_USED_MEM_HIGH

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.pool = ctypes.c_void_p()
        self.ask(self.driver.cuDeviceGetDefaultMemPool(ctypes.byref(self.pool), torch.cuda.current_device()))

    def ask(self, code):
        if code != 0:
            raise RuntimeError(f"the driver's memory pool answers {code}")

    def reset(self):
        self.ask(self.driver.cuMemPoolSetAttribute(self.pool, self.USED_HIGH, ctypes.byref(ctypes.c_uint64(0))))

    def bytes(self):
        value = ctypes.c_uint64()
        self.ask(self.driver.cuMemPoolGetAttribute(self.pool, self.USED_HIGH, ctypes.byref(value)))
        return value.value


# ---- measurements ----


def difference(one, other):
    """The norm of the difference, relative; infinite for NaN."""
    value = ((one.float() - other.float()).norm() / other.float().norm().clamp_min(1e-30)).item()
    return math.inf if math.isnan(value) else value


def compare(ours, theirs):
    """How far outputs, and gradients as one long vector, are from float32: {what: (Headway's, PyTorch's)}."""
    exact = theirs.in_float32()
    for side in (ours, theirs, exact):
        side.evaluate()
    gradients = theirs.gradients()
    wanted = exact.gradients()

    def joined(found):
        return torch.cat([found[name].float().flatten() for name in wanted])

    ours_joined = joined({name: ours.read(name, gradient) for name, gradient in gradients.items()})
    return {
        "outputs": (
            difference(ours.read("output", theirs.output), exact.output),
            difference(theirs.output, exact.output),
        ),
        "gradients": (difference(ours_joined, joined(wanted)), difference(joined(gradients), joined(wanted))),
    }


def time_steps(step, count):
    """Milliseconds of a step: on the GPU, by the wall clock, and until the host had enqueued all work."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    started = time.perf_counter()
    begin.record()
    for _ in range(count):
        step()
    end.record()
    given = time.perf_counter()
    end.synchronize()
    done = time.perf_counter()
    return begin.elapsed_time(end) / count, (done - started) * 1e3 / count, (given - started) * 1e3 / count


def measure(steps, flags):
    """For each side the medians of rounds in which all take turns, in random order."""
    counts = {}
    for name, step in steps.items():
        time_steps(step, 3)
        counts[name] = max(2, min(20, math.ceil(flags.round_ms / time_steps(step, 2)[1])))
    samples = {name: [] for name in steps}
    order = list(steps)
    begin = time.monotonic()
    while len(samples[order[0]]) < flags.min_rounds or time.monotonic() - begin < flags.seconds_per_row:
        random.shuffle(order)
        for name in order:
            samples[name].append(time_steps(steps[name], counts[name]))
    return {
        name: dict(zip(("gpu_ms", "wall_ms", "host_ms"), map(statistics.median, zip(*values))))
        for name, values in samples.items()
    }


def print_profile(step, limit):
    """Where the time of two of Headway's steps goes: kernels by their time on the GPU, calls of the driver by their time on the
    host."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        step()
        step()
        torch.cuda.synchronize()
    events = recorded.key_averages()
    kernels = sorted((e for e in events if e.self_device_time_total > 0), key=lambda e: -e.self_device_time_total)
    total = sum(e.self_device_time_total for e in kernels)
    print(f"    {sum(e.count for e in kernels) // 2} kernels of {total / 2000:.3f} ms in a step")
    for e in kernels[:limit]:
        print(f"      {e.self_device_time_total / 2000:8.3f} ms  {e.count // 2:5} x  {e.key[:150]}")
    calls = sorted((e for e in events if e.key.startswith(("cuda", "cu"))), key=lambda e: -e.self_cpu_time_total)
    for e in calls[:12]:
        print(f"      {e.self_cpu_time_total / 2000:8.3f} ms of the host  {e.count // 2:5} x  {e.key[:60]}")


def run_row(row, library, flags):
    generator = torch.Generator("cuda").manual_seed(17)
    shape = (row.batch, row.length, row.width)
    inputs = [torch.randn(shape, generator=generator, device="cuda").bfloat16() for _ in range(3)]
    if row.model != "Transformer":
        inputs[1] = None
    theirs = TorchSide(row, inputs)
    pool = PoolPeak()
    ours = HeadwaySide(library, row, theirs)
    differences = compare(ours, theirs)
    torch.cuda.empty_cache()
    print(f"  {row.name}")
    for what, (one, other) in differences.items():
        print(f"    {what} differ from float32 by {one:.4f}, PyTorch's by {other:.4f}", flush=True)
    steps = {"Headway": ours.step, "eager": theirs.step}
    for _ in range(2):
        for step in steps.values():
            step()
    torch.cuda.synchronize()
    pool.reset()
    torch.cuda.reset_peak_memory_stats()
    for step in steps.values():
        step()
    torch.cuda.synchronize()
    peaks = {"Headway": pool.bytes(), "eager": torch.cuda.max_memory_allocated()}
    if flags.compile != "off":
        steps["compile"] = theirs.compiled(flags.compile == "whole")
        begin = time.monotonic()
        steps["compile"]()
        torch.cuda.synchronize()
        print(f"    compiled in {time.monotonic() - begin:.0f} s", flush=True)
        torch.cuda.reset_peak_memory_stats()
        steps["compile"]()
        torch.cuda.synchronize()
        peaks["compile"] = torch.cuda.max_memory_allocated()
    times = measure(steps, flags)
    for name, one in times.items():
        ratio = "" if name == "Headway" else f"  Headway {one['wall_ms'] / times['Headway']['wall_ms']:.2f} x as fast"
        print(
            f"    {name:<8} {one['wall_ms']:8.3f} ms by the clock, {one['gpu_ms']:8.3f} on the GPU, "
            f"{one['host_ms']:8.3f} for the host, {peaks[name] / 2**20:7.0f} MiB{ratio}",
            flush=True,
        )
    if flags.profile:
        print_profile(ours.step, flags.profile)
    failed = not all(one <= TOLERANCE * other for one, other in differences.values())
    if failed:
        print("    FAILED: results are farther from float32 than PyTorch's")
    return {
        "name": row.name,
        "differences": differences,
        "failed": failed,
        "times": times,
        "peak_bytes": peaks,
    }


def parse_flags():
    default = pathlib.Path(__file__).resolve().parent.parent / "build/release/bench/libcuda_training_interface.so"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interface", type=pathlib.Path, default=default, help="the library of bench/cuda_training_interface.cpp")
    parser.add_argument("--filter", default="", metavar="WORDS", help="only rows whose name has every word")
    parser.add_argument(
        "--compile", choices=("off", "layers", "whole"), default="whole", help="what torch.compile gets (whole)"
    )
    parser.add_argument("--seconds-per-row", type=float, default=3.0)
    parser.add_argument("--min-rounds", type=int, default=5)
    parser.add_argument("--round-ms", type=float, default=40.0, help="about how long one side's turn is")
    parser.add_argument("--profile", type=int, default=0, metavar="COUNT", help="print Headway's COUNT dearest kernels")
    parser.add_argument("--json", metavar="PATH", help="write the results there")
    return parser.parse_args()


def main():
    flags = parse_flags()
    if not torch.cuda.is_available():
        print("no CUDA device: PyTorch finds none")
        return 0
    library = load_library(
        flags.interface, "cuda_training", ("create", "step", "evaluate", "destroy"), named_calls=("load", "read")
    )
    torch.manual_seed(0)
    random.seed(0)
    results = []
    # A stream of its own: Headway takes PyTorch's default one, which is null, for a wish for a stream of Headway's.
    with torch.cuda.stream(torch.cuda.Stream()):
        print(f"{datetime.date.today()}  {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, bfloat16")
        for row in ROWS:
            if all(word in row.name for word in flags.filter.split()):
                results.append(run_row(row, library, flags))
                torch.cuda.empty_cache()
                if flags.json:
                    pathlib.Path(flags.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return int(any(row["failed"] for row in results))


if __name__ == "__main__":
    sys.exit(main())
