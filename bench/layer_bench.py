#!/usr/bin/env python3
"""Headway's layers and models beside PyTorch's in one process: the same weights and inputs, the same threads, steps
that take turns. Python drives both, as it drives PyTorch for its users."""

import dataclasses
import datetime
import gc
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

from layer_sides import Case, HeadwayLibrary, HeadwaySide, TorchSide, disagreement, random_inputs
from row_flags import Pace, flags_of, row_parser, run_program, thread_counts

LAYER = dict(model="layer 512/8", layers=0, width=512, heads=8, feed_forward=0, batch=8, length=512)
BASE = dict(model="Transformer 512/8, 6 + 6", layers=6, width=512, heads=8, feed_forward=2048, batch=16, length=64)
SMALL = dict(model="Transformer 256/4, 3 + 3", layers=3, width=256, heads=4, feed_forward=1024, batch=64, length=16)

LEARNING_RATE = 1e-4
DOUBTFUL_LOAD = 0.03
MEMORY_STEPS = 4
MEMORY_PROCESSES = 3


def all_cases():
    cases = []
    for step in (dict(training=False), dict(training=True), dict(training=True, dropout=0.1)):
        cases += [Case(**LAYER, **step, weights=weights) for weights in ("none", "averaged", "per head")]
    for model in (BASE, SMALL):
        cases += [Case(**model, training=True, dropout=dropout) for dropout in (0.1, 0.0)]
    return cases


# ---- time ----


def quantile(values, share):
    values = sorted(values)
    position = share * (len(values) - 1)
    low = int(position)
    high = min(low + 1, len(values) - 1)
    return values[low] + (position - low) * (values[high] - values[low])


def wait_until_quiet():
    """OpenMP's workers spin for milliseconds after a parallel region, and would take a core from the next side."""
    end = time.perf_counter() + 0.1
    while time.perf_counter() < end:
        before = time.process_time()
        time.sleep(0.01)
        if time.process_time() - before < 0.001:
            return


@dataclasses.dataclass
class Timing:
    milliseconds: float  # of one step: the median over the rounds
    spread: float  # interquartile range / median
    rounds: int


def measure_interleaved(sides, threads, flags, every_round):
    """A Timing for each side; who begins rotates with every round."""
    clock = time.process_time if flags.processor_time else time.perf_counter
    seconds = flags.seconds_per_row * len(sides) / 2
    samples = [[] for _ in sides]
    for side in sides:
        side.run()
        side.run()
    start = time.perf_counter()
    turn = 0
    gc.collect()
    gc.disable()
    try:
        while len(samples[0]) < flags.min_rounds or time.perf_counter() - start < seconds:
            for i in range(len(sides)):
                which = (i + turn) % len(sides)
                if threads > 1:
                    wait_until_quiet()
                begin = clock()
                sides[which].run()
                samples[which].append(clock() - begin)
            turn += 1
            if threads > 1:
                wait_until_quiet()
            every_round()
            gc.collect()
    finally:
        gc.enable()
    timings = []
    for one in samples:
        middle = statistics.median(one)
        timings.append(Timing(1e3 * middle, (quantile(one, 0.75) - quantile(one, 0.25)) / middle, len(one)))
    return timings


class OtherLoad:
    """How busy other programs keep the machine while this one measures."""

    def __init__(self):
        self.start = self.now()

    @staticmethod
    def now():
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system = (int(word) for word in file.readline().split()[1:4])
        spent = os.times()
        own = spent.user + spent.system + spent.children_user + spent.children_system
        return (user + nice + system) / os.sysconf("SC_CLK_TCK"), own, time.perf_counter()

    def share(self):
        busy, own, wall = (after - before for after, before in zip(self.now(), self.start))
        return max(0.0, (busy - own) / (wall * os.cpu_count()))


# ---- memory ----


def memory_kilobytes(field):
    """VmRSS is what is resident now, VmHWM the most that ever was."""
    text = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(rf"^{field}:\s+(\d+)", text, re.MULTILINE).group(1))


def make_alone(case, side, library):
    """One side in a process of its own; Headway's does not even load PyTorch."""
    if side == "Headway":
        return HeadwaySide(library, case, None, LEARNING_RATE)
    import torch

    return TorchSide(case, random_inputs(case, torch), LEARNING_RATE)


def print_peak_memory(case, side, library_path, threads):
    """MiB that the steps of a case take at most, over a process that has run the same steps of a tiny model."""
    library = None
    if side == "Headway":
        library = HeadwayLibrary(library_path)
        library.set_threads(threads)
    else:
        TorchSide.set_threads(threads)
    tiny = dataclasses.replace(case, width=16, heads=2, feed_forward=16 if case.layers else 0, batch=2, length=4)
    warm_up = make_alone(tiny, side, library)
    warm_up.run()
    before = memory_kilobytes("VmRSS")
    measured = make_alone(case, side, library)
    for _ in range(MEMORY_STEPS):
        measured.run()
    print((memory_kilobytes("VmHWM") - before) / 1024)


def peak_memory(case, side, flags, threads):
    """The same, the median of fresh processes: what the allocator keeps differs from one to the next."""
    command = [sys.executable, "-B", __file__, "--library", flags.library, "--memory-of", case.name, "--side", side]
    command += ["--memory-threads", str(threads)]
    samples = []
    for _ in range(MEMORY_PROCESSES):
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise RuntimeError(f"peak memory of {side}: {answer.stderr.strip().splitlines()[-1:]}")
        samples.append(float(answer.stdout))
    return statistics.median(samples)


# ---- rows ----


def check_group(cases, library, torch):
    """{case: figures}; raises where the sides do not compute the same."""
    figures = {}
    for case in cases:
        torch_side, headway_side = make_pair(case, library, torch)
        reason, figures[case] = disagreement(torch_side, headway_side)
        headway_side.close()
        if reason:
            raise RuntimeError("wrong result: " + reason)
    return figures


def make_pair(case, library, torch):
    inputs = random_inputs(case, torch)
    torch_side = TorchSide(case, inputs, LEARNING_RATE)
    headway_side = HeadwaySide(library, case, inputs, LEARNING_RATE)
    headway_side.load(torch_side.model.state_dict())
    return torch_side, headway_side


def measure_group(cases, library, torch, threads, flags):
    """A row for each case; they share their rounds, so that the price of the weights is measured in one go."""
    pairs = [make_pair(case, library, torch) for case in cases]
    peaks = [library.float32_peak(threads)]
    timings = measure_interleaved(
        [side for pair in pairs for side in pair],
        threads,
        flags,
        lambda: peaks.append(library.float32_peak(threads)),
    )
    for _, headway_side in pairs:
        headway_side.close()
    # Whatever else runs on the machine only lowers a sample, so the upper quartile is nearer to the truth.
    peak = quantile(peaks, 0.75)
    rows = []
    for i, case in enumerate(cases):
        torch_time, headway_time = timings[2 * i], timings[2 * i + 1]
        row = {
            "group": case.group,
            "name": case.name,
            "threads": threads,
            **dataclasses.asdict(case),
            "headway_ms": headway_time.milliseconds,
            "torch_ms": torch_time.milliseconds,
            "ratio": torch_time.milliseconds / headway_time.milliseconds,
            "headway_spread": headway_time.spread,
            "torch_spread": torch_time.spread,
            "rounds": headway_time.rounds,
            "limit": "GFLOP/s",
            "limit_value": peak,
            "headway_share": case.useful_flops() / (headway_time.milliseconds * 1e6) / peak,
            "torch_share": case.useful_flops() / (torch_time.milliseconds * 1e6) / peak,
            "failure": None,
        }
        if case.weights != "none" and cases[0].weights == "none":
            row["headway_weights_cost"] = headway_time.milliseconds / timings[1].milliseconds
            row["torch_weights_cost"] = torch_time.milliseconds / timings[0].milliseconds
        rows.append(row)
    return rows


def run_group(cases, library, torch, counts, flags):
    rows = []
    try:
        set_threads(library, torch, counts[-1])
        figures = check_group(cases, library, torch)
        memory = {}
        if not flags.no_memory:
            memory = {
                case: [peak_memory(case, side, flags, counts[-1]) for side in ("Headway", "PyTorch")]
                for case in cases
            }
        for threads in counts:
            set_threads(library, torch, threads)
            for case, row in zip(cases, measure_group(cases, library, torch, threads, flags)):
                row["errors"] = figures[case]
                row["headway_mib"], row["torch_mib"] = memory.get(case, (None, None))
                rows.append(row)
                print_row(row)
    except RuntimeError as error:
        threads = counts[min(len(rows) // len(cases), len(counts) - 1)]
        row = {"group": cases[0].group, "name": cases[0].name, "threads": threads, **dataclasses.asdict(cases[0])}
        row["failure"] = str(error).splitlines()[0]
        rows.append(row)
        print_row(row)
    return rows


def set_threads(library, torch, count):
    library.set_threads(count)
    torch.set_num_threads(count)


def print_heading(group):
    print(
        f"\n{group:<58} {'thr':>3} {'Headway ms':>16} {'PyTorch ms':>16} {'ratio':>6} {'Headway':>8} {'PyTorch':>8}"
        f" {'of GF/s':>8} {'MiB':>7} {'MiB':>7}"
    )


def print_row(row):
    weights = "" if row["weights"] == "none" else "weights " + row["weights"]
    line = f"  {weights or 'without weights' if not row['layers'] else '':<56} {row['threads']:>3} "
    if row["failure"]:
        print(line + "FAIL: " + row["failure"], flush=True)
        return
    line += (
        f"{row['headway_ms']:>10.2f} +-{100 * row['headway_spread']:>2.0f}% "
        f"{row['torch_ms']:>10.2f} +-{100 * row['torch_spread']:>2.0f}% {row['ratio']:>6.2f} "
        f"{100 * row['headway_share']:>7.1f}% {100 * row['torch_share']:>7.1f}% {row['limit_value']:>8.1f}"
    )
    for side in ("headway_mib", "torch_mib"):
        line += " " * 8 if row[side] is None else f" {row[side]:>7.0f}"
    if "headway_weights_cost" in row:
        line += f"  {row['headway_weights_cost']:.2f} x without (PyTorch {row['torch_weights_cost']:.2f} x)"
    print(line, flush=True)


def cpu_name():
    """As attention_bench writes it: virtual machines often hide the full name, but not the numbers."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        pairs = [line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines()]
    fields = {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2}
    name = fields.get("model name", "unknown")
    if "cpu family" not in fields:
        return name
    return f"{name} (family {fields['cpu family']}, model {fields.get('model', '')})"


def parse_flags():
    parser = row_parser(__doc__, Pace(8.0, 7), quick=Pace(1.0, 2))
    parser.add_argument("--library", required=True, help="liblayer_steps.so")
    parser.add_argument("--no-memory", action="store_true", help="do not measure the peak memory, as with --quick")
    parser.add_argument("--memory-of", metavar="NAME", help="print the peak memory of one row and one side")
    parser.add_argument("--side", choices=["Headway", "PyTorch"])
    parser.add_argument("--memory-threads", type=int, default=1)
    flags = flags_of(parser)
    flags.no_memory |= flags.quick
    return flags


def measure_all(cases, flags):
    import torch

    library = HeadwayLibrary(flags.library)
    load = OtherLoad()
    machine = describe_machine("layers", library.instruction_set(), torch)
    print(
        f"{machine_line(machine, library.version())}\n"
        "ms: median of one step, +- interquartile range; ratio: PyTorch's time / Headway's;\n"
        "share: of the multiply-add peak measured beside each row;\n"
        "MiB: peak memory of such steps in a fresh process, Headway's and PyTorch's"
    )
    rows = []
    for group in dict.fromkeys(case.group for case in cases):
        print_heading(group)
        rows += run_group([case for case in cases if case.group == group], library, torch, thread_counts(flags), flags)
    note_other_load(machine, load)
    if flags.json:
        write_json(flags.json, machine | {"rows": rows})
    return 1 if any(row["failure"] for row in rows) else 0


def describe_machine(kind, instruction_set, torch):
    """The first fields of a file of results."""
    return {
        "kind": kind,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "cpu": cpu_name(),
        "instruction_set": instruction_set,
        "max_threads": os.cpu_count(),
        "torch": torch.__version__.split("+")[0],
    }


def machine_line(machine, version, peers=""):
    """What stands above a table."""
    return (
        f"{machine['date']}  {machine['cpu']}, {machine['max_threads']} threads, Headway {version} "
        f"({machine['instruction_set']}), {peers}PyTorch {machine['torch']}"
    )


def note_other_load(machine, load):
    """Adds what other programs took to the results, and warns where that was too much."""
    machine["other_load"] = load.share()
    if machine["other_load"] >= DOUBTFUL_LOAD:
        share = 100 * machine["other_load"]
        print(f"\nOther programs took {share:.0f}% of the machine's time: do not trust these figures.")


def write_json(path, machine):
    """One line for each row; written beside and then renamed."""
    rows = [{key: round_number(value) for key, value in row.items()} for row in machine["rows"]]
    lines = ",\n    ".join(json.dumps(row) for row in rows)
    rest = {key: round_number(value) for key, value in machine.items() if key != "rows"}
    temporary = pathlib.Path(f"{path}.tmp")
    temporary.write_text(f'{json.dumps(rest, indent=2)[:-2]},\n  "rows": [\n    {lines}\n  ]\n}}\n', encoding="utf-8")
    os.replace(temporary, path)


def round_number(value):
    """Six significant digits; None for what JSON cannot say."""
    if isinstance(value, dict):
        return {key: round_number(one) for key, one in value.items()}
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else None


def main():
    flags = parse_flags()
    cases = [case for case in all_cases() if all(word in case.name for word in flags.filter.split())]
    if flags.list:
        print("\n".join(case.name for case in cases))
        return 0
    if flags.memory_of:
        case = next(case for case in all_cases() if case.name == flags.memory_of)
        print_peak_memory(case, flags.side, flags.library, flags.memory_threads)
        return 0
    if not cases:
        sys.exit(f"layer_bench: no row matches {flags.filter}; --list prints their names")
    return measure_all(cases, flags)


if __name__ == "__main__":
    run_program("layer_bench", main)
