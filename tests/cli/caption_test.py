"""headway caption, with the model that comes with Headway and pictures of every kind."""

import json
import pathlib
import struct
import unittest
import zlib

from program_test import ProgramTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "emoji-captions"
SAMPLES = ROOT / "examples" / "captions" / "samples"
COOK = SAMPLES / "woman-cook.png"
CAPTION = "woman cook: medium skin tone"


def png(width, height, depth, colour_type, row, palette=b""):
    """The bytes of a PNG whose rows are all `row`."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + (chunk(b"PLTE", palette) if palette else b"")
            + chunk(b"IDAT", zlib.compress((b"\0" + row) * height)) + chunk(b"IEND", b""))


class CaptionFiles(ProgramTest):
    """headway caption"""

    def setUp(self):
        super().setUp()
        self.command = ["caption", "--model", MODEL]

    def write(self, name, content):
        path = self.work / name
        path.write_bytes(content)
        return path

    def test_a_combination_that_training_did_not_have(self):
        self.assertEqual(self.good(*self.command, COOK), CAPTION + "\n")
        self.assertEqual(self.good(*self.command, "--beams", 4, "--threads", 2, COOK), CAPTION + "\n")

    def test_several_files(self):
        names = sorted(SAMPLES.glob("*.png"))
        lines = self.good(*self.command, *names).splitlines()
        self.assertEqual([line.split("\t")[0] for line in lines], [str(name) for name in names])
        objects = [json.loads(line) for line in self.good(*self.command, "--json", *names).splitlines()]
        self.assertEqual([one["caption"] for one in objects], [line.split("\t")[1] for line in lines])
        self.assertEqual({tuple(one) for one in objects}, {("file", "caption", "score", "tokens", "note")})

    def test_pictures_of_every_kind(self):
        kinds = {"palette": png(40, 20, 2, 3, b"\x1b" * 10, bytes(range(12))), "grey": png(9, 9, 1, 0, b"\xaa\x80"),
                 "deep": png(5, 7, 16, 2, b"\x12\x34" * 15), "pixel": png(1, 1, 8, 6, b"\1\2\3\4"),
                 "wide": png(2000, 1, 8, 0, bytes(2000)), "two": png(6, 6, 8, 4, b"\xff\x80" * 6)}
        for name, content in kinds.items():
            done = self.call(*self.command, self.write(name + ".png", content))
            self.assertEqual((name, done.returncode), (name, 0))
            self.assertEqual(done.stdout.count("\n"), 1)
        self.assertIn("stretched from 2000 x 1 to 72 x 72 pixels", self.call(*self.command, "wide.png").stderr)

    def test_what_cannot_be_read(self):
        whole = COOK.read_bytes()
        bad = {"text.png": b"not a picture\n", "empty.png": b"", "cut.png": whole[:len(whole) // 2],
               "signature.png": whole[:8]}
        for name, content in bad.items():
            self.write(name, content)
            self.bad(1, name, *self.command, name)
        self.bad(1, "missing.png", *self.command, "missing.png")
        # The others are still captioned.
        done = self.call(*self.command, "text.png", COOK, "missing.png")
        self.assertEqual((done.returncode, done.stdout), (1, f"{COOK}\t{CAPTION}\n"))
        self.assertEqual(done.stderr.count("\n"), 3)  # the third is what was noted on the picture

    def test_page_and_picture(self):
        self.good(*self.command, "--html", "page.html", "--svg", "picture.svg", COOK)
        self.assertIn("<html", (self.work / "page.html").read_text(encoding="utf-8"))
        self.assertIn("<svg", (self.work / "picture.svg").read_text(encoding="utf-8"))
        self.assertTrue(self.good(*self.command, "--svg", "-", COOK).lstrip().startswith("<svg"))
        lines = self.good(*self.command, "--attention", COOK).splitlines()
        self.assertEqual((lines[0], lines[1]), (CAPTION, ""))
        self.assertEqual(lines[4].split(), ["woman", "cook:", "medium", "skin", "tone"])
        self.assertEqual([row[:12].find("██") for row in lines[5:11]], [-1, -1, -1, 6, -1, -1])  # 6 by 6 patches
        self.bad(2, "--attention is for readers", *self.command, "--attention", "--json", COOK)
        self.bad(2, "--attention is given for 2 pictures", *self.command, "--attention", COOK, COOK)
        self.bad(2, "--html is given for 2 pictures", *self.command, "--html", "page.html", COOK, COOK)

    def test_models_of_other_kinds(self):
        self.bad(1, "titles", "caption", "--model", ROOT / "models" / "titles", COOK)
        self.bad(1, "missing", "caption", "--model", "missing", COOK)


if __name__ == "__main__":
    unittest.main()
