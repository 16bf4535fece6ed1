"""What the tests of the program share: calls, a made-up language, and a model that knows it."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import unittest

WORDS = "ka mo ti lu re so na pe wi du fa go".split()
MEANINGS = "Xor Yip Zan Qel Vum Olt Ird Enk Ars Ubl Yad Zet".split()
# A model that learns the language in seconds.
SMALL = ["--vocab-size", 300, "--width", 32, "--heads", 4, "--encoder-layers", 1, "--decoder-layers", 1,
         "--feed-forward", 64, "--batch-tokens", 1500, "--epochs", 1000, "--learning-rate", 1e-2, "--warmup-steps", 40,
         "--dropout", 0, "--validate-sentences", 10, "--seed", 2]

program = None  # the path of the program, set by main
shared = None   # a directory with pairs.tsv and, once it is wanted, a trained model


def meaning(sentence):
    """The translation of a sentence: word by word, from behind."""
    return " ".join(MEANINGS[WORDS.index(word)] for word in reversed(sentence.split()))


def write_pairs(path, count=800, seed=1):
    """A file of sentence pairs."""
    generator = random.Random(seed)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(count):
            sentence = " ".join(generator.choices(WORDS, k=generator.randrange(1, 5)))
            file.write(f"{sentence}\t{meaning(sentence)}\n")


class ProgramTest(unittest.TestCase):
    """Calls of the program in an empty directory."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.work = pathlib.Path(directory.name)

    def program_elsewhere(self):
        """A copy of the program with no model beside it."""
        return shutil.copy(program, self.work / "headway")

    def call(self, *arguments, data="", environment=None, of=None):
        """The finished call: its return code, and text of both outputs. `of`: another program than the built one."""
        data = data.encode() if isinstance(data, str) else data
        variables = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
        variables.update({"HEADWAY_NUM_THREADS": "1", **(environment or {})})
        done = subprocess.run([of or program, *map(str, arguments)], input=data, capture_output=True, check=False,
                              cwd=self.work, env=variables, timeout=300)
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode(errors="replace")
        return done

    def good(self, *arguments, **options):
        """Standard output of a call that succeeds."""
        done = self.call(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def bad(self, code, part, *arguments, **options):
        """Checks that a call fails with one line on standard error that has `part` in it."""
        done = self.call(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(part, done.stderr)
        self.assertRegex(done.stderr, r"^headway( [a-z-]+)*: .*\n$")
        # What the user typed comes first, never the name of a class or a function.
        self.assertNotRegex(done.stderr, r"^headway( [a-z-]+)*: ([A-Z][a-z][A-Za-z]*: |\w+::|\w+_\w+: )")
        return done

    def good_json(self, *arguments, **options):
        """Standard output as the JSON that it is."""
        return json.loads(self.good(*arguments, **options))


def small_model():
    """The directory of a model that was trained once for all tests."""
    model = shared / "model"
    if not (model / "config.json").exists():
        write_pairs(shared / "pairs.tsv")
        arguments = ["train", "--data", shared / "pairs.tsv", "--output", model, *SMALL, "--max-steps", 700,
                     "--validate-every", 700, "--checkpoint-every", 700]
        subprocess.run([program, *map(str, arguments)], check=True, capture_output=True,
                       env={**os.environ, "HEADWAY_NUM_THREADS": "1"})
    return model
