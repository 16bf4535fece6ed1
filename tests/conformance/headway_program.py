"""The `headway` program for the comparisons: where it is, and how it is called."""

import argparse
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parser(description):
    """An argument parser with --program, --seed and --count."""
    build = pathlib.Path(os.environ.get("HEADWAY_CONFORMANCE_BUILD", ROOT / "build" / "release"))
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--program", type=pathlib.Path, default=os.environ.get("HEADWAY_PROGRAM", build / "headway"))
    result.add_argument("--seed", type=int, default=1)
    result.add_argument("--count", type=int, default=400, help="random texts")
    return result


def call(program, *arguments, data=b""):
    """Standard output of a call that must succeed."""
    done = subprocess.run([str(program), *map(str, arguments)], input=data, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"headway {' '.join(map(str, arguments))}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode()


def random_text(random, longest):
    """Characters of many scripts, with spaces, punctuation, digits, emoji and compatibility forms."""
    ranges = [(0x20, 0x7F), (0x61, 0x7B), (0xA0, 0x250), (0x370, 0x600), (0x2000, 0x2070), (0x3000, 0x3100),
              (0x4E00, 0x4F00), (0x1F300, 0x1F700), (0xFB00, 0xFB07), (0xFF01, 0xFF60), (0x300, 0x330)]
    text = ""
    for _ in range(random.randrange(longest)):
        if random.random() < 0.2:
            text += random.choice([" ", "  ", ". ", ", ", "-", "3.5", "1,000", "&amp;", "&quot;", "'s"])
        else:
            text += chr(random.randrange(*random.choice(ranges)))
    return text.replace("\u2028", " ").replace("\u2029", " ")


class Tally:
    """Counts what passed and failed and prints the one summary line."""

    def __init__(self, name):
        self.name, self.passed, self.failed = name, 0, 0

    def check(self, good, *what):
        """Counts one comparison and shows it where it failed."""
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print(f"{self.name}: FAILED", *what)

    def finish(self):
        """The summary line, and the exit code."""
        print(f"{self.name}: {self.passed} passed, {self.failed} failed, 0 skipped")
        return 1 if self.failed or not self.passed else 0
