#!/usr/bin/env python3
"""Kills training runs by SIGKILL at random moments, resumes them, and compares what they end with.

  tools/kill_resume.py                                      20 kills of each command on the CPU
  tools/kill_resume.py --device cuda --precision bfloat16   the same on a GPU
  tools/kill_resume.py --move cpu,cuda                      every start on the next device of the list

A run that stays on one device must end with the bits of one that was never stopped. One that moves between devices
rounds differently, so its losses are compared within --tolerance.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/cli")]
import program_test  # noqa: E402
import small_bert  # noqa: E402


def translation(work, steps):
    """The arguments of a run of `headway train`."""
    program_test.write_pairs(work / "pairs.tsv", 400)
    return ["train", "--data", work / "pairs.tsv", "--vocab-size", 300, "--width", 64, "--heads", 4, "--encoder-layers",
            2, "--decoder-layers", 2, "--feed-forward", 128, "--batch-tokens", 1500, "--epochs", 100000,
            "--learning-rate", 5e-3, "--warmup-steps", 40, "--dropout", 0.1, "--validate-sentences", 10, "--patience",
            10000, "--average-last", 0.3, "--max-steps", steps, "--checkpoint-every", 7, "--validate-every", 50]


def finetune(work, steps):
    """The arguments of a run of `headway finetune`."""
    model = small_bert.write_model(work / "bert")
    lines = ["text,label"] + ["I love it,good", "the cat sat,none", "I hate it,bad", "Ada was in Paris,none"] * 8
    (work / "train.csv").write_text("\r\n".join(lines) + "\r\n")
    return ["finetune", "--task", "classify", "--model", model, "--data", work / "train.csv", "--validation",
            work / "train.csv", "--learning-rate", 1e-3, "--dropout", 0.1, "--batch", 8, "--steps", steps,
            "--checkpoint-every", 7, "--validate-every", 50]


RUNS = {"train": translation, "finetune": finetune}
COMPARED = ["model.safetensors", "config.json", "training/validation.jsonl"]


class Trial:
    """Runs of one command."""

    def __init__(self, options, command, work):
        self.options, self.work = options, work
        self.arguments = [str(word) for word in RUNS[command](work, options.steps)]
        self.arguments += ["--precision", options.precision, "--quiet"]
        self.devices = options.move.split(",") if options.move else [options.device]
        self.starts = self.killed = self.ended = self.resumed = 0

    def start(self, output):
        """Starts a run, or resumes it by its directory alone once it has settings."""
        device = self.devices[self.starts % len(self.devices)]
        self.starts += 1
        if (output / "training/settings.json").exists():
            self.resumed += 1
            words = [self.arguments[0], "--resume", str(output), "--quiet"]
        else:
            words = [*self.arguments, "--output", str(output)]
        return subprocess.Popen([self.options.program, *words, "--device", device], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def ends(self, process, seconds):
        """Waits so long and then kills. True when the run ended by itself before."""
        try:
            _, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return process.returncode == 0  # it may have ended just before the signal
        if process.returncode != 0:
            raise SystemExit(f"{self.arguments[0]}: a run failed after {self.killed} kills: {errors}")
        return True

    def run(self):
        """Kills until there were enough kills and the last run ended; returns what differed."""
        whole = self.work / "whole"
        begin = time.monotonic()
        self.ends(self.start(whole), None)
        duration = time.monotonic() - begin
        differences = []
        while self.killed < self.options.kills:
            output = self.work / f"run{self.ended}"
            while not self.ends(self.start(output), random.uniform(0, self.options.share * duration)
                                if self.killed < self.options.kills else None):
                self.killed += 1
            self.ended += 1
            differences += self.differences(whole, output)
        print(f"{self.arguments[0]}: an undisturbed run takes {duration:.1f} s; {self.killed} kills, {self.resumed} starts "
              f"from the directory alone, {self.ended} runs ended, {len(differences)} differences", flush=True)
        return differences

    def differences(self, whole, output):
        """What differs between two finished runs."""
        if self.options.move:
            one, two = losses(whole), losses(output)
            far = [f"{name} {one[name]} and {two[name]}" for name in one
                   if not abs(one[name] - two[name]) <= self.options.tolerance * abs(one[name])]
            print(f"{self.arguments[0]}: {one} without, {two} with moves", flush=True)
            return [f"{output.name}: {text}" for text in far]
        strays = [f"{path}: was left behind" for path in output.rglob(".headway-*")]
        return strays + [f"{output.name}: {name} differs" for name in COMPARED
                         if (whole / name).read_bytes() != (output / name).read_bytes()]


def losses(output):
    """The mean loss of the last 20 steps, and that of the last validation."""
    steps = [json.loads(line)["loss"] for line in (output / "training/training.jsonl").read_text().splitlines()]
    last = json.loads((output / "training/validation.jsonl").read_text().splitlines()[-1])
    return {"training loss": sum(steps[-20:]) / len(steps[-20:]), "validation loss": last["loss"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/headway"))
    parser.add_argument("--command", choices=[*RUNS, "both"], default="both")
    parser.add_argument("--kills", type=int, default=20, help="of each command")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--share", type=float, default=0.3, help="of a run's time, within which it is killed")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--move", help="devices that starts take by turns, as cpu,cuda")
    parser.add_argument("--tolerance", type=float, default=0.25, help="of losses, for --move")
    parser.add_argument("--seed", type=int, default=None, help="of the moments")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(2**31)
    random.seed(seed)
    print(f"seed {seed}", flush=True)
    differences = []
    for command in RUNS if options.command == "both" else [options.command]:
        with tempfile.TemporaryDirectory() as work:
            differences += Trial(options, command, pathlib.Path(work)).run()
    for text in differences:
        print(text)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
