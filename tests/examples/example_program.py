"""What the tests of the example programs share: running one, and pictures as PNG files."""

import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


class ExampleTest(unittest.TestCase):
    """Runs the program whose file is the first argument, with a folder of its own for each test."""

    program = ""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def run_program(self, *words):
        """What the program prints; it must end well."""
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def refuse(self, expected, *words):
        """The program must end with this message."""
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(expected, done.stderr)
        self.assertRegex(done.stderr, "(?m)^error: ")

    def check_resumes(self, *words, checkpoints):
        """`train` with these words, killed after its first checkpoint and resumed, ends with the same bits."""
        whole, killed = self.folder / "whole", self.folder / "killed"
        self.run_program("train", *words, "--output", whole)
        with subprocess.Popen([self.program, "train", *map(str, words), "--output", str(killed)],
                              stderr=subprocess.DEVNULL) as program:
            deadline = time.monotonic() + 60
            while not list(killed.glob(checkpoints)) and program.poll() is None and time.monotonic() < deadline:
                time.sleep(0.005)
            program.send_signal(signal.SIGKILL)
        self.run_program("train", *words, "--output", killed, "--resume")
        self.assertEqual((whole / "model.safetensors").read_bytes(), (killed / "model.safetensors").read_bytes())


def grey_png(rows):
    """A grey PNG of rows of bytes."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def main():
    ExampleTest.program = sys.argv.pop(1)
    unittest.main(verbosity=2)
