"""headway classify-picture with the shipped ViT, and the programs of examples/digits and examples/clip."""

import json
import pathlib
import shutil
import struct
import unittest
import zlib

import program_test
from program_test import ProgramTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "models" / "digits"
SAMPLES = ROOT / "examples" / "digits" / "samples"
NAMES = {"zero": "0", "two": "2", "three": "3", "five": "5", "seven": "7", "eight": "8"}


def png(width, height, color_type, rows, depth=8, palette=b""):
    """A PNG of the given rows of bytes."""
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    header = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, 0)
    parts = [chunk(b"IHDR", header)] + ([chunk(b"PLTE", palette)] if palette else [])
    parts += [chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def grey_rows(name):
    """The 8 rows of 8 bytes of a sample."""
    content, data, place = (SAMPLES / f"{name}.png").read_bytes(), b"", 8
    while place < len(content):
        length, kind = struct.unpack(">I4s", content[place:place + 8])
        data += content[place + 8:place + 8 + length] if kind == b"IDAT" else b""
        place += 12 + length
    raw, rows = zlib.decompress(data), []
    for begin in range(0, len(raw), 9):
        kind, row, above = raw[begin], bytearray(raw[begin + 1:begin + 9]), rows[-1] if rows else bytes(8)
        for i in range(8):
            left, corner = (row[i - 1], above[i - 1]) if i else (0, 0)
            guess = left + above[i] - corner
            paeth = min((left, above[i], corner), key=lambda value: abs(guess - value))
            row[i] = (row[i] + (0, left, above[i], (left + above[i]) // 2, paeth)[kind]) % 256
        rows.append(bytes(row))
    return rows


class ClassifyPicture(ProgramTest):
    """headway classify-picture"""

    def setUp(self):
        super().setUp()
        self.command = ["classify-picture", "--model", DIGITS]

    def test_samples(self):
        files = [SAMPLES / f"{name}.png" for name in NAMES]
        rows = [line.split("\t") for line in self.good(*self.command, *files).splitlines()]
        self.assertEqual([row[0] for row in rows], list(NAMES.values()))
        self.assertEqual([row[2] for row in rows], [str(file) for file in files])
        self.assertEqual(len(self.good(*self.command, "--top", 3, files[0]).splitlines()), 3)
        found = self.good_json(*self.command, "--json", files[0])
        self.assertEqual((found["label"], len(found["labels"]), found["note"]), ("0", 10, ""))
        self.assertAlmostEqual(sum(label["score"] for label in found["labels"]), 1.0, places=4)
        self.assertEqual(found["score"], max(label["score"] for label in found["labels"]))
        for threads in (1, 3):
            self.assertEqual(self.good_json(*self.command, "--threads", threads, "--json", files[0]), found)

    def test_pictures_of_every_kind(self):
        grey = grey_rows("three")
        large = [bytes(value for value in row for _ in range(10)) for row in grey for _ in range(10)]
        pictures = {
            "grey": png(8, 8, 0, grey),
            "colours": png(8, 8, 2, [bytes(value for value in row for _ in range(3)) for row in grey]),
            "palette": png(8, 8, 3, grey, palette=bytes(value for value in range(256) for _ in range(3))),
            "alpha": png(8, 8, 6, [b"".join(bytes([value] * 3 + [255]) for value in row) for row in grey]),
            "large": png(80, 80, 0, large),
        }
        for name, content in pictures.items():
            (self.work / f"{name}.png").write_bytes(content)
            done = self.call(*self.command, f"{name}.png")
            self.assertEqual((done.returncode, done.stdout.split("\t")[0]), (0, "3"), name + done.stderr)
            self.assertEqual("resized from 80 x 80 to 8 x 8" in done.stderr, name == "large")

    def test_bad_pictures(self):
        whole = (SAMPLES / "three.png").read_bytes()
        (self.work / "text.png").write_text("this is no picture")
        (self.work / "empty.png").write_bytes(b"")
        (self.work / "half.png").write_bytes(whole[:60])
        for name in ("text.png", "empty.png", "half.png", "missing.png", "."):
            done = self.call(*self.command, name, SAMPLES / "seven.png")
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, rf"^headway classify-picture: {name}: .*\n$")
            self.assertEqual(done.stdout.split("\t")[0], "7")  # those after it are looked at all the same
        self.bad(2, "no picture", *self.command)
        self.bad(2, "--model", "classify-picture", SAMPLES / "three.png")
        self.bad(1, "config.json", "classify-picture", "--model", self.work, SAMPLES / "three.png")

    def test_model_without_its_preprocessor(self):
        shutil.copytree(DIGITS, self.work / "model")
        (self.work / "model" / "preprocessor_config.json").unlink()
        self.bad(1, "preprocessor_config.json", "classify-picture", "--model", "model", SAMPLES / "three.png")
        config = json.loads((DIGITS / "preprocessor_config.json").read_text())
        config["size"] = {"height": 16, "width": 16}
        (self.work / "model" / "preprocessor_config.json").write_text(json.dumps(config))
        self.bad(1, "the model reads 8 x 8", "classify-picture", "--model", "model", SAMPLES / "three.png")


def example(name):
    """The program of an example; skips the test where it was not built."""
    path = pathlib.Path(program_test.program).parent / "examples" / name / f"example_{name}"
    if not path.exists():
        raise unittest.SkipTest(f"example_{name} is not built")
    return path


class Digits(ProgramTest):
    """example_digits"""

    def setUp(self):
        super().setUp()
        self.program = example("digits")
        rows = [row for _ in range(4) for name in NAMES for row in [b"".join(grey_rows(name)), NAMES[name]]]
        lines = [",".join(str(value // 16) for value in pixels) + "," + label
                 for pixels, label in zip(rows[::2], rows[1::2])]
        (self.work / "digits.csv").write_text("\n".join(lines) + "\n")

    def train(self, output, steps, *options):
        return self.good("train", ".", "--output", output, "--steps", steps, *options, of=self.program)

    def test_training_goes_on_with_the_same_bits(self):
        # There is a checkpoint of step 500 and one of the last step; without the last one a run goes on from the other.
        self.train("whole", 501)
        shutil.copytree(self.work / "whole" / "training", self.work / "again" / "training")
        (self.work / "again" / "training" / "step-00000501.safetensors").unlink()
        self.train("again", 501, "--resume")
        self.assertEqual((self.work / "whole" / "model.safetensors").read_bytes(),
                         (self.work / "again" / "model.safetensors").read_bytes())
        self.assertRegex(self.good("evaluate", ".", "whole", of=self.program), r"\d of 4 right")

    def test_attend(self):
        text = self.good("attend", SAMPLES / "three.png", DIGITS, "--html", "a.html", "--svg", "a.svg", of=self.program)
        self.assertIn("three.png: 3 (", text)
        self.assertIn("<svg", (self.work / "a.svg").read_text()[:200])
        self.assertGreater((self.work / "a.html").stat().st_size, 10000)
        done = self.call("attend", EMOJI / "wolf.png", DIGITS, of=self.program)
        self.assertEqual(done.returncode, 0)
        self.assertIn("wolf.png: alpha over white; colours made grey; resized from 72 x 72 to 8 x 8", done.stderr)
        done = self.call("attend", SAMPLES / "three.png", DIGITS, "--layer", 99, of=self.program)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("--layer is 99, expected 1 to 4", done.stderr)

    def test_bad_data(self):
        for content, part in (("1,2,3\n", "row 1 is not 64 numbers"), ("", "has 0 rows"), (None, "cannot be read")):
            (self.work / "digits.csv").unlink(missing_ok=True)
            if content is not None:
                (self.work / "digits.csv").write_text(content)
            done = self.call("train", ".", "--output", "x", of=self.program)
            self.assertEqual(done.returncode, 1)
            self.assertIn(part, done.stderr)


CLIP = ROOT / "models" / "emoji-clip"
EMOJI = ROOT / "examples" / "clip" / "samples"


class Clip(ProgramTest):
    """example_clip"""

    def setUp(self):
        super().setUp()
        self.program = example("clip")

    def test_training(self):
        names = {"woman-cook": "woman cook: medium skin tone", "man-pilot": "man pilot: medium-dark skin tone",
                 "wolf": "wolf", "thumbs-up": "thumbs up: light skin tone", "kiss": "kiss: man, man, light skin tone"}
        (self.work / "72x72").mkdir()
        rows = ["file\tcaption\tkind\tgroup\tsubgroup"]
        for number in range(60):
            name = list(names)[number % len(names)]
            shutil.copy(EMOJI / f"{name}.png", self.work / "72x72" / f"{number}.png")
            rows.append(f"{number}.png\t{names[name]}\tperson\tPeople\tperson")
        (self.work / "captions.tsv").write_text("\n".join(rows) + "\n")
        for output in ("one", "two"):
            self.good("train", ".", "--output", output, "--steps", 2, "--batch", 8, of=self.program)
        self.good("train-questions", ".", "one", "--steps", 2, "--batch", 8, "--views", 1, of=self.program)
        text = self.good("evaluate", ".", "one", of=self.program)
        self.assertRegex(text, r"recall@1 +10 .*\n.*new combinations +9 .*\n.*new kinds +1 ")
        self.assertIn("half of them are yes", text)
        self.assertEqual((self.work / "one" / "model.safetensors").read_bytes(),
                         (self.work / "two" / "model.safetensors").read_bytes())
        (self.work / "72x72" / "7.png").write_text("this is no picture")
        done = self.call("evaluate", ".", "one", of=self.program)
        self.assertEqual(done.returncode, 1)
        self.assertIn("7.png", done.stderr)

    def test_ask(self):
        question = "is there a hat?"
        for name, answer in (("woman-guard", "yes"), ("kiss", "no")):
            text = self.good("ask", EMOJI / f"{name}.png", question, "--model", CLIP, "--html", "a.html", "--svg",
                             "a.svg", of=self.program)
            self.assertRegex(text, rf"is there a hat\? {answer} \(\d+\.\d%\)")
        self.assertIn("<svg", (self.work / "a.svg").read_text()[:200])
        self.good("ask", EMOJI / "wolf.png", "Is there an astronaut", "--model", CLIP, of=self.program)
        for bad, part in (("is there a zeppelin?", 'the word "zeppelin", which the model has never seen'),
                          ("", 'the question is "", expected'), ("hat is there a", "of the form"),
                          ("is there a a?", "of the form")):
            done = self.call("ask", EMOJI / "wolf.png", bad, "--model", CLIP, of=self.program)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(part, done.stderr)

    def test_search(self):
        lines = self.good("search", "woman cook: medium skin tone", EMOJI, "--model", CLIP, "--top", 2,
                          of=self.program).splitlines()
        self.assertEqual(len(lines), 2)
        self.assertIn("woman-cook.png", lines[0])
        done = self.call("search", "zeppelin", EMOJI, "--model", CLIP, of=self.program)
        self.assertEqual(done.returncode, 0)
        self.assertIn("never seen", done.stderr)
        done = self.call("search", "cook " * 100, SAMPLES / "three.png", "--model", CLIP, of=self.program)
        self.assertEqual(done.returncode, 0)
        self.assertIn("the first 22 words alone are read", done.stderr)
        self.assertIn("three.png: resized from 8 x 8 to 72 x 72", done.stderr)
        done = self.call("search", " ", EMOJI, "--model", CLIP, of=self.program)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("search: the text is empty", done.stderr)
        done = self.call("search", "cook", self.work, "--model", CLIP, of=self.program)
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no picture", done.stderr)
