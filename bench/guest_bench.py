#!/usr/bin/env python3
"""Attention of Headway between calls of PyTorch, in one process: on threads of Headway's own, on those of PyTorch's
OpenMP runtime, and as Headway chooses by itself. Nothing waits between the calls, as in a model that uses both.

HEADWAY_THREADS is read once, so each choice has processes of its own, which take turns."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

CHOICES = ("own", "openmp", "automatic")
SHAPES = ((1, 4, 128, 64), (8, 12, 128, 64), (4, 8, 512, 64), (1, 8, 2048, 64))
PAUSES = (0.0, 0.001, 0.01, 0.1)


def time_of(run):
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def attention_calls(torch, shape, training):
    """{side: a call of attention on [batch, heads, length, head_dim]}, forward or forward and backward."""
    import headway.torch as ht

    inputs = [torch.randn(shape, requires_grad=training) for _ in range(3)]
    direction = torch.randn(shape)

    def call_of(function):
        def infer():
            with torch.no_grad():
                function(*inputs)

        def train():
            torch.autograd.grad(function(*inputs), inputs, direction)

        return train if training else infer

    functions = (ht.scaled_dot_product_attention, torch.nn.functional.scaled_dot_product_attention)
    return dict(zip(("headway", "pytorch"), map(call_of, functions)))


def measure_in_turn(torch, seconds):
    """{row: {side: times}}: Headway, PyTorch, Headway, ... without a pause."""
    rows = {}
    for training in (False, True):
        for shape in SHAPES:
            calls = attention_calls(torch, shape, training)
            times = {side: [] for side in calls}
            end = time.perf_counter() + seconds
            while time.perf_counter() < end or len(times["headway"]) < 5:
                for side, call in calls.items():
                    times[side].append(time_of(call))
            name = f"{'forward and backward' if training else 'forward'} {' x '.join(map(str, shape))}"
            rows[name] = {side: values[1:] for side, values in times.items()}
    return rows


def measure_after_pauses(torch, seconds):
    """The same of a short call that comes some time after a product of PyTorch's."""
    rows = {}
    matrix = torch.randn(256, 256)
    calls = attention_calls(torch, SHAPES[0], False)
    for pause in PAUSES:
        times = {side: [] for side in calls}
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(times["headway"]) < 5:
            for side, call in calls.items():
                matrix @ matrix
                if pause:
                    time.sleep(pause)
                times[side].append(time_of(call))
        rows[f"forward {' x '.join(map(str, SHAPES[0]))}, {1e3 * pause:g} ms after a product"] = times
    return rows


def measure(threads, seconds):
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    rows = measure_in_turn(torch, seconds) | measure_after_pauses(torch, seconds)
    json.dump(rows, sys.stdout)


def process_with(choice, arguments):
    """What a process with this choice has measured."""
    environment = {name: value for name, value in os.environ.items() if name != "HEADWAY_THREADS"}
    if choice != "automatic":
        environment["HEADWAY_THREADS"] = choice
    command = [sys.executable, "-B", __file__, "--measure"]
    command += [f"--threads={arguments.threads}", f"--seconds-per-row={arguments.seconds_per_row}"]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def print_table(samples):
    """samples[row][choice][side]: times of all processes."""
    print("microseconds of a call, median [9 of 10 are below]; ratio: PyTorch's median / Headway's")
    heading = "".join(f" | {choice + ': Headway':>24} {'PyTorch':>8} {'ratio':>5}" for choice in CHOICES)
    print(f"{'':<42}{heading}")
    for row, choices in samples.items():
        line = f"{row:<42}"
        for choice in CHOICES:
            mine, theirs = (sorted(choices[choice][side]) for side in ("headway", "pytorch"))
            middle, other = statistics.median(mine), statistics.median(theirs)
            high = mine[int(0.9 * (len(mine) - 1))]
            line += f" | {1e6 * middle:>12.0f} [{1e6 * high:>8.0f}] {1e6 * other:>9.0f} {other / middle:>5.2f}"
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=8, help="processes for each choice")
    parser.add_argument("--seconds-per-row", type=float, default=0.5, help="in each process")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        return measure(arguments.threads, arguments.seconds_per_row)
    from layer_bench import OtherLoad

    load = OtherLoad()
    samples = {}
    for turn in range(arguments.rounds):
        for i in range(len(CHOICES)):
            choice = CHOICES[(i + turn) % len(CHOICES)]
            for row, sides in process_with(choice, arguments).items():
                into = samples.setdefault(row, {}).setdefault(choice, {})
                for side, times in sides.items():
                    into.setdefault(side, []).extend(times)
    print_table(samples)
    print(f"other programs used {100 * load.share():.0f}% of the machine meanwhile")


if __name__ == "__main__":
    main()
