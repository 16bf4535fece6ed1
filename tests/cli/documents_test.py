"""Commands and configs of the documents: they run as they are written, and say what the program does."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import program_test
from program_test import ProgramTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import small_translator

LANGUAGES = ("", ".zh-CN")


def text_of(name, language=""):
    return (ROOT / f"{name}{language}.md").read_text(encoding="utf-8")


def blocks(text, kind):
    """The fenced blocks of one language."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def without_comments(block):
    return re.sub(r"//.*", "", block)


def value_of(text):
    """A default as a table shows it: `relu`, `true` or a number."""
    text = text.strip().strip("`")
    try:
        return json.loads(text)
    except ValueError:
        return text


class Documents(ProgramTest):
    """docs/translation.md and the README's section on translation."""

    def run_commands(self, commands, **variables):
        """Runs shell commands one after the other in the test's directory, which holds what the document speaks of."""
        pairs = small_translator.pairs()[:8]
        small_translator.write_pairs(self.work / "pairs.tsv")
        small_translator.write_config(self.work / "run.json")
        for name, side in (("english.txt", 0), ("german.txt", 1)):
            (self.work / name).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
        environment["PATH"] = f"{pathlib.Path(program_test.program).parent}:{environment['PATH']}"
        done = subprocess.run(["bash", "-euxo", "pipefail", "-c", "\n".join(commands)], cwd=self.work, check=False,
                              env={**environment, **variables}, capture_output=True, text=True, timeout=500)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @unittest.skipUnless(shutil.which("bash"), "there is no bash")
    def test_commands(self):
        output = self.run_commands(blocks(text_of("docs/translation"), "sh"))
        for line in ("model: 120 steps, BLEU ", "eng-deu, 5 sentences", "what it looks at: encoder, layer 2"):
            self.assertIn(line, output)
        for name in ("parts/test.tsv", "clean.tsv", "output.txt", "attention.html", "cross.svg", "attention.json",
                     "model/training/plot.html"):
            self.assertTrue((self.work / name).stat().st_size > 0, name)
        self.assertEqual(len((self.work / "german_by_model.txt").read_text(encoding="utf-8").splitlines()), 8)
        files = re.findall(r"^\| (`[^|]*`) \|", text_of("docs/translation").split("## The model directory")[1], re.M)
        named = {name for row in files for name in re.findall(r"`([^`]+)`", row)}
        self.assertEqual(named, {path.name for path in (self.work / "model").iterdir()} - {"training"})

    @unittest.skipUnless(shutil.which("bash"), "there is no bash")
    def test_commands_of_the_readme(self):
        commands = [block for block in blocks(text_of("README"), "sh") if block.startswith("headway ")]
        self.assertTrue(commands)
        small_translator.train(program_test.program, self.work)
        self.run_commands(commands, HEADWAY_MODEL=str(self.work / "model"))

    def test_config(self):
        defaults = self.good_json("train", "--print-config")
        block, = blocks(text_of("docs/translation"), "json")
        (self.work / "run.json").write_text(block, encoding="utf-8")
        config = self.good_json("train", "--config", "run.json", "--print-config")
        self.assertEqual(config, {**defaults, **json.loads(without_comments(block))})

    def test_every_field_is_explained_with_its_default(self):
        defaults = self.good_json("train", "--print-config")
        for language in LANGUAGES:
            table = text_of("docs/translation", language).split("\n### ")[0]
            shown = {}
            for names, values in re.findall(r"^\| (`[^|]*`) \| ([^|]*)\|", table, re.MULTILINE):
                names = re.findall(r"`(\w+)`", names)
                values = values.split(",") if values.strip() else [""] * len(names)
                shown.update(zip(names, map(value_of, values), strict=True))
            self.assertEqual(shown, defaults)


if __name__ == "__main__":
    unittest.main()
