#!/usr/bin/env python3
"""Fine-tuning steps of all-MiniLM-L6-v2 with `headway finetune` beside PyTorch: the same texts of 32 tokens in batches
of 32, forward, backward, clipping and AdamW. Both run as processes that take turns; a row is the median step of each,
or with --processor-time, for machines that others use too, the processor's time of a step.

    finetune_bench.py --model DIR [--threads 1] [--steps 12] [--rounds 3] [--device cuda]
"""

import argparse
import json
import pathlib
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORDS = "time year people way day man thing woman life child world school state family student group country problem " \
        "hand part place case week company system program question work government number night point home water".split()


def write_texts(path, batches, rows, tokens):
    """Texts of words that are one token each, with two labels."""
    generator = random.Random(1)
    lines = [" ".join(generator.choice(WORDS) for _ in range(tokens - 2)) + f"\t{i % 2}" for i in range(batches * rows)]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def run_headway(options, work, name, steps):
    """The processor's time of a run in seconds; its files are in work/name."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([options.program, "finetune", "--task", "classify", "--model", options.model, "--data",
                    work / "texts.tsv", "--batch", str(options.rows), "--steps", str(steps), "--threads",
                    str(options.threads), "--device", options.device, "--precision", options.precision, "--output",
                    work / name, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def headway_step(options, work, name):
    """A step in milliseconds: the median of the run's log, or the difference of a long and a short run."""
    long = run_headway(options, work, name, options.steps)
    if options.processor_time:
        short = options.steps // 4
        return 1e3 * (long - run_headway(options, work, f"{name}-short", short)) / (options.steps - short)
    lines = (work / name / "training" / "training.jsonl").read_text(encoding="utf-8").splitlines()
    seconds = [json.loads(line)["seconds"] for line in lines]
    steps = [1e3 * (b - a) for a, b in zip(seconds, seconds[1:])]
    return statistics.median(steps[len(steps) // 4:])


def torch_step(options, work, name):
    """The same of PyTorch's side."""
    command = [options.python, ROOT / "bench" / "finetune_torch.py", work / name / "training_config.json", "--speed",
               "--threads", str(options.threads), "--device", options.device]
    done = subprocess.run([*command, *(["--compile"] if options.compile else [])], check=True, capture_output=True)
    line = "processor time of a step" if options.processor_time else "median of a step"
    return float(re.search(rf"{line}: ([0-9.]+) ms", done.stdout.decode())[1])


def main():
    """Takes turns and prints a row a round, then the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="directory of all-MiniLM-L6-v2")
    parser.add_argument("--program", default=ROOT / "build" / "release" / "headway")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch and transformers")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--processor-time", action="store_true")
    options = parser.parse_args()
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        write_texts(work / "texts.tsv", 4, options.rows, options.tokens)
        for number in range(options.rounds):
            ours.append(headway_step(options, work, f"run{number}"))
            theirs.append(torch_step(options, work, f"run{number}"))
            print(f"round {number + 1}: Headway {ours[-1]:.1f} ms, PyTorch {theirs[-1]:.1f} ms", flush=True)
    headway, torch = statistics.median(ours), statistics.median(theirs)
    print(f"fine-tuning step of MiniLM, batch {options.rows} x {options.tokens}, {options.threads} threads: "
          f"Headway {headway:.1f} ms, PyTorch {torch:.1f} ms, {torch / headway:.2f} x")


if __name__ == "__main__":
    main()
