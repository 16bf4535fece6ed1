"""What benchmarks of several sides on a GPU share: first runs, a table, and the kernels that a side starts."""

import json
import time

import torch


def first_runs(sides, run):
    """Calls run(side), which compiles and records and gives a text, and drops the sides that fail."""
    for side in list(sides):
        begin = time.perf_counter()
        try:  # one way of calling a peer may not work in its version
            text = run(side)
            print(f"  {side.name}: {text}, {time.perf_counter() - begin:.1f} s", flush=True)
        except Exception as error:
            print(f"  {side.name}: left out: {type(error).__name__}: {str(error)[:300]}", flush=True)
            sides.remove(side)


def print_table(sides, row_of, profiled=None):
    """A line of JSON for each side with the figures of row_of(side), and the kernels of profiled(side)."""
    for side in sides:
        print(json.dumps({"side": side.name, **row_of(side)}), flush=True)
        if profiled:
            print_kernels(lambda side=side: profiled(side))


def print_kernels(work):
    """The kernels of some work: their number and time."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        work()
        torch.cuda.synchronize()
    rows = [row for row in profiler.key_averages() if row.device_time_total > 0]
    for row in sorted(rows, key=lambda row: -row.device_time_total)[:24]:
        each = row.device_time_total / row.count
        print(f"  {row.device_time_total / 1e3:9.3f} ms {row.count:6} x {each:8.1f} us  {row.key[:100]}", flush=True)
