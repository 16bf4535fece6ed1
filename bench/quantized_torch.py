#!/usr/bin/env python3
"""Products in 8 bits beside PyTorch's: dynamically quantized Linear layers of the same shapes, one thread, in turns with
quantized_bench. Other programs only make a call slower, so the best time of each side counts.

    quantized_torch.py build/release/bench/quantized_bench [--rounds N] [TOKENSxINxOUT[:gelu] ...]
"""

import argparse
import subprocess
import time
import warnings

import torch

SHAPES = ["896x384x1152", "896x384x1536:gelu", "896x1536x384", "512x768x2048", "32x256x1024", "32x256x8000", "8x768x768",
          "1x4096x14336"]
ENGINES = ["fbgemm", "onednn"]


def sample(call):
    """Seconds of one call: of as many as take about a millisecond, after one that fills the caches."""
    call()
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        seconds = time.perf_counter() - start
        if seconds > 5e-4:
            return seconds / calls
        calls *= 4


def torch_call(engine, rows, inputs, outputs, gelu):
    torch.backends.quantized.engine = engine
    layer = torch.nn.Sequential(torch.nn.Linear(inputs, outputs))
    layer = torch.ao.quantization.quantize_dynamic(layer, {torch.nn.Linear}, dtype=torch.qint8)
    x = torch.randn(rows, inputs)
    return (lambda: torch.nn.functional.gelu(layer(x))) if gelu else (lambda: layer(x))


def best_times(program, shape, rounds):
    size, _, activation = shape.partition(":")
    calls = {engine: torch_call(engine, *map(int, size.split("x")), activation == "gelu") for engine in ENGINES}
    best = {name: float("inf") for name in ["headway", *ENGINES]}
    for _ in range(rounds):
        line = subprocess.run([program, "--plain", "--seconds", "0.2", shape], check=True, capture_output=True, text=True)
        best["headway"] = min(best["headway"], float(line.stdout.split()[1]) * 1e-3)
        for engine, call in calls.items():
            torch.backends.quantized.engine = engine
            end = time.monotonic() + 0.2
            while time.monotonic() < end:
                best[engine] = min(best[engine], sample(call))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="quantized_bench")
    parser.add_argument("shapes", nargs="*", default=SHAPES)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    print(f"PyTorch {torch.__version__}, one thread\n{'tokens x in x out':<20} {'Headway ms':>11}"
          + "".join(f" {engine + ' ms':>10} {'ratio':>6}" for engine in ENGINES))
    for shape in arguments.shapes:
        best = best_times(arguments.program, shape, arguments.rounds)
        print(f"{shape:<20} {best['headway'] * 1e3:>11.4f}"
              + "".join(f" {best[engine] * 1e3:>10.4f} {best[engine] / best['headway']:>6.2f}" for engine in ENGINES),
              flush=True)


if __name__ == "__main__":
    main()
