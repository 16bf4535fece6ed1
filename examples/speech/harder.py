#!/usr/bin/env python3
"""Word errors in harder sounds than `example_speech evaluate` makes: voices of flite and espeak-ng that were in no
training, and strings of the validation speakers that begin late or have seven to ten digits without pauses.

    examples/speech/harder.py spoken-digits [MODEL]        (needs the programs flite and espeak-ng)
"""

import collections
import pathlib
import random
import subprocess
import sys
import tempfile

import headway
import numpy as np

WORDS = "zero one two three four five six seven eight nine".split()
FLITE = "kal16 awb rms slt".split()
ESPEAK = ("en-us+f2 en-us+m3 en-gb+f2 en-us+klatt2 en-gb-scotland en-us-nyc en-gb-x-gbclan en-us+Annie en-us+adam "
          "en-gb+Michael").split()


def synthetic(folder):
    """(kind, file, digits) of strings that programs speak."""
    draw = random.Random(5)
    for voice in FLITE:
        for k in range(24):
            digits = [k] if k < 10 else [draw.randrange(10) for _ in range(draw.randint(2, 6))]
            text = (", " if k % 2 else " ").join(WORDS[digit] for digit in digits)
            file = folder / f"{voice}-{k}.wav"
            subprocess.run(["flite", "-voice", voice, "-t", text, "-o", file], check=True, capture_output=True)
            yield "flite", file, digits
    for voice in ESPEAK:
        for k in range(12):
            digits = [draw.randrange(10) for _ in range(1 if k < 4 else draw.randint(2, 5))]
            text = (", " if k % 2 else " ").join(WORDS[digit] for digit in digits)
            file = folder / f"{voice}-{k}.wav"
            subprocess.run(["espeak-ng", "-v", voice, "-s", str(draw.choice([120, 150, 170, 200])), "-g",
                            str(draw.choice([0, 8, 20])), "-w", file, text], check=True, capture_output=True)
            yield "espeak-ng", file, digits


def joined(data):
    """(kind, sound, digits) of strings of the validation speakers, with faint noise."""
    draw = np.random.default_rng(8)
    rows = (line.split() for line in (data / "split.tsv").read_text().splitlines())
    speakers = [speaker for speaker, part in rows if part == "validation"]
    for k in range(80):
        many = k % 2 == 1
        speaker = speakers[draw.integers(len(speakers))]
        digits = draw.integers(0, 10, draw.integers(7, 11) if many else draw.integers(1, 5))
        parts = [np.zeros(int(8000 * (0.1 if many else draw.uniform(1, 3.5))))]
        for digit in digits:
            file = data / speaker / f"{digit}_{speaker}_{draw.integers(0, 6)}.wav"
            samples = headway.read_sound(file).samples
            pause = draw.uniform(0, 0.1 if many else 0.3)
            parts += [samples / np.sqrt(np.mean(samples**2)), np.zeros(int(8000 * pause))]
        samples = np.concatenate([*parts, np.zeros(1600)])
        samples = 0.1 * (samples + draw.normal(0, 0.02, len(samples)))
        yield ("many" if many else "late"), headway.Sound(samples.astype(np.float32), 8000, ""), digits


def errors(said, heard):
    """The fewest words to replace, leave out and add."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(said):
        above, row[0] = row[:], i + 1
        for j, other in enumerate(heard):
            row[j + 1] = min(above[j] + (word != other), above[j + 1] + 1, row[j] + 1)
    return row[-1]


def main():
    """One line for each kind."""
    data = pathlib.Path(sys.argv[1])
    shipped = pathlib.Path(__file__).resolve().parents[2] / "models" / "spoken-digits"
    transcriber = headway.Transcriber(sys.argv[2] if len(sys.argv) > 2 else shipped)
    wrong, words = collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for kind, sound, digits in [*synthetic(pathlib.Path(folder)), *joined(data)]:
            heard = transcriber.transcribe(sound, words=False).text.split()
            wrong[kind] += errors([WORDS[digit] for digit in digits], heard)
            words[kind] += len(digits)
    for kind, count in words.items():
        print(f"{kind}: {wrong[kind]} word errors in {count} words, {100 * wrong[kind] / count:.1f}%")


if __name__ == "__main__":
    main()
