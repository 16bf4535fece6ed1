"""Files and inputs that mean harm: deep JSON, pipes and devices as files, endless lines, no disk and no memory left."""

import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import unittest

import program_test
from program_test import ProgramTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from small_bert import write_model

MODELS = ROOT / "models"
MIB = 1 << 20
DEEP = "[" * 100_000
TOO_DEEP = "arrays and objects are nested deeper than 64"


def safetensors(header):
    """A file with this header and no data."""
    header = header.encode()
    return struct.pack("<Q", len(header)) + header


class Directories(ProgramTest):
    """Each file of a model directory, replaced by something that is no such file."""

    # The command, the model, and the files that it reads. Files that the model does not have are put there.
    CASES = [
        (["translate", "x"], "en-de", ["config.json", "vocab.json", "tokenizer_config.json"]),
        (["summarize", "x"], "titles", ["config.json", "generation_config.json", "tokenizer.json",
                                        "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                        "model.safetensors.index.json"]),
        (["embed", "x"], "titles", ["modules.json", "1_Pooling/config.json", "sentence_bert_config.json",
                                    "config_sentence_transformers.json"]),
    ]

    def each(self, replace, check):
        """Calls replace(file) for a file of a good directory, then check(file, call) with a call that reads it."""
        for command, model, files in self.CASES:
            for name in files:
                directory = self.work / "model"
                shutil.rmtree(directory, ignore_errors=True)
                directory.mkdir()
                for file in (MODELS / model).iterdir():
                    (directory / file.name).symlink_to(file)
                if name.endswith("index.json"):
                    (directory / "model.safetensors").unlink()
                if command[0] == "embed":
                    self.add_sentence_modules(directory)
                file = directory / name
                file.unlink(missing_ok=True)
                replace(file)
                with self.subTest(command=command[0], file=name):
                    check(file, [command[0], "--model", directory, *command[1:]])

    def refused(self, part):
        """A check that such a call fails, with the file and this in its message."""
        return lambda file, call: self.assertIn(file.name, self.bad(1, part, *call).stderr)

    @staticmethod
    def add_sentence_modules(directory):
        """What makes a sentence-transformers model of a directory."""
        kinds = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling")]
        modules = [{"idx": int(number), "name": number, "path": path, "type": "sentence_transformers.models." + kind}
                   for number, path, kind in kinds]
        (directory / "modules.json").write_text(json.dumps(modules))
        (directory / "1_Pooling").mkdir()
        (directory / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))

    def test_deep_json(self):
        self.each(lambda file: file.write_text(DEEP), self.refused("is not JSON at byte 65: " + TOO_DEEP))

    def test_pipes(self):
        self.each(os.mkfifo, self.refused("is not a regular file"))

    def test_endless_devices(self):
        self.each(lambda file: file.symlink_to("/dev/zero"), self.refused("is not a regular file"))

    def test_huge_files(self):
        def make_hole(file):
            with open(file, "wb") as hole:
                hole.truncate(1 << 40)

        self.each(make_hole, self.refused("has 1099511627776 bytes, expected at most"))

    def test_weights(self):
        directory = self.work / "model"
        shutil.copytree(MODELS / "titles", directory)
        weights = directory / "model.safetensors"
        for header in (DEEP, '{"a":' + DEEP, '{"__metadata__":' + DEEP, '{"a":{"shape":' + DEEP):
            weights.unlink()
            weights.write_bytes(safetensors(header))
            self.bad(1, "model.safetensors", "summarize", "--model", directory, "x")
        weights.unlink()
        os.mkfifo(weights)
        self.bad(1, "is a device or a pipe", "summarize", "--model", directory, "x")


class OtherFiles(ProgramTest):
    """Files that a user names."""

    def test_configs(self):
        (self.work / "deep.json").write_text(DEEP)
        os.mkfifo(self.work / "pipe.json")
        for command in ("train", "finetune"):
            done = self.bad(1, TOO_DEEP, command, "--config", "deep.json", "--output", "out")
            self.assertIn("deep.json", done.stderr)
            self.bad(1, "pipe.json: is not a regular file", command, "--config", "pipe.json", "--output", "out")

    def test_lines_of_json(self):
        done = self.bad(1, TOO_DEEP, "tokenizer", "encode", "--model", MODELS / "titles", "--json-lines", data=DEEP)
        self.assertIn("a line of the input", done.stderr)

    def test_examples(self):
        for name in ("deep.json", "deep.jsonl"):
            (self.work / name).write_text(DEEP)
            done = self.bad(1, TOO_DEEP, "finetune", "--task", "text-to-text", "--model", MODELS / "titles",
                            "--data", name, "--output", "out")
            self.assertIn(name, done.stderr)

    # What is read as a text may come from a pipe, as by a shell's <(command).
    def test_texts_from_pipes(self):
        pairs = "one two\teins zwei\n" * 3
        script = f"'{program_test.program}' data clean <(printf '{pairs}') --output -"
        done = subprocess.run(["bash", "-c", script], capture_output=True, check=False, timeout=60)
        self.assertEqual(done.stdout.decode(), "one two\teins zwei\n", done.stderr)
        self.assertEqual(self.good("data", "clean", "/dev/stdin", "--output", "-", data=pairs), "one two\teins zwei\n")
        self.assertIn("BLEU 100.00", self.good("evaluate", "--hypotheses", "/dev/stdin", "--reference", "r.txt",
                                               data=self.write_lines("r.txt")))

    def write_lines(self, name):
        text = "one two three four five\n" * 2
        (self.work / name).write_text(text)
        return text

    def test_endless_texts(self):
        for name in ("/dev/zero", "link"):
            if name == "link":
                (self.work / name).symlink_to("/dev/zero")
            self.bad(1, "line 1 is longer than 1 MiB", "evaluate", "--hypotheses", name, "--reference", name)
            self.bad(1, "line 1: is longer than 16 MiB", "data", "clean", name, "--output", "-")


class LongLines(ProgramTest):
    """Lines that are longer than what is read at once."""

    NOTE = "headway translate: line 2 is longer than 1 MiB, and is read in parts\n"
    ENCODE = ["tokenizer", "encode", "--tokenizer"]

    def test_translations_stay_a_line_each(self):
        gap = " " * (MIB // 2)
        texts = ["Good morning.", f"Good morning.{gap} {gap}Good night.{gap}", "Good night."]
        arguments = ["translate", "--model", MODELS / "en-de", "--beam", 1, "--to", "de"]
        done = self.call(*arguments, data="\n".join(texts))
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.split("\n")
        self.assertEqual(lines, [lines[0], f"{lines[0]} {lines[2]}", lines[2], ""])
        self.assertEqual(done.stderr, self.NOTE)
        objects = [json.loads(line) for line in self.good(*arguments, "--json", data="\n".join(texts)).splitlines()]
        parts = [one for one in objects if "part" in one]
        self.assertEqual("".join(one["source"] for one in parts), texts[1])
        self.assertEqual([one["part"] for one in parts], list(range(1, len(parts) + 1)))
        self.assertEqual(len(objects), len(parts) + 2)

    def test_tokens_are_those_of_the_words(self):
        words = "The animal was too tired to go home"
        for tokenizer in (MODELS / "en-de/source.spm", MODELS / "titles"):
            expected = self.good(*self.ENCODE, tokenizer, words).replace(" </s>", "").split()
            done = self.call(*self.ENCODE, tokenizer, data=" ".join([words] * 40_000) + "\nThe animal\n")
            tokens = [token for token in done.stdout.split("\n")[0].split(" ") if token != "</s>"]
            self.assertEqual(tokens, expected * 40_000)
            self.assertEqual(done.stdout.count("\n"), 2)
            self.assertEqual(done.stderr.count("line 1 is longer than 1 MiB, and is read in parts"), 1)

    # Memory does not grow with the line: 20 MB took 2 GB once.
    def test_memory_has_a_bound(self):
        def limit_memory():
            resource.setrlimit(resource.RLIMIT_AS, (600 * MIB, 600 * MIB))

        command = [program_test.program, *map(str, self.ENCODE), str(MODELS / "en-de")]
        done = subprocess.run(command, input=b"The animal was tired. " * 800_000, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, check=False, preexec_fn=limit_memory, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_texts_that_need_all_of_the_line(self):
        line = "1 2 " * (MIB // 2)
        refused = "line 1 is longer than 1 MiB"
        self.bad(1, refused, "tokenizer", "decode", "--tokenizer", MODELS / "titles", data=line)
        self.bad(1, refused, *self.ENCODE, MODELS / "titles", "--json", data=line)
        self.bad(1, refused, "summarize", "--model", MODELS / "titles", "--lines", "--tokens", data=line)

    def test_tasks_read_the_beginning(self):
        long = "the cat sat " * (MIB // 10)
        model = write_model(self.work / "model")
        expected = self.good("embed", "--model", model, "the cat sat " * 100, "ada").splitlines()
        done = self.call("embed", "--model", model, data=f"{long}\nada\n")
        vectors = done.stdout.splitlines()
        self.assertEqual(len(vectors), 2)
        for mine, its in zip(vectors, expected):
            for one, other in zip(json.loads(mine), json.loads(its)):
                self.assertAlmostEqual(one, other, places=5)
        self.assertIn("headway embed: line 1 is longer than 1 MiB; what comes after is left out\n", done.stderr)
        model = write_model(self.work / "answers", "BertForQuestionAnswering")
        (self.work / "context").symlink_to("/dev/zero")
        self.bad(1, "expected, at most 16777216", "answer", "--model", model, "--context", "context", "who?")

    def test_spans_count_from_the_begin(self):
        model = write_model(self.work / "model", "BertForTokenClassification", ["O", "B-PER", "I-PER"])
        line = "the cat sat . " + " " * MIB + "ada was in paris . i love it"
        done = self.call("tag", "--model", model, "--json", data=f"ada\n{line}\nada\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        first, *parts, last = [json.loads(answer) for answer in done.stdout.splitlines()]
        for answer in (first, last):
            self.assertEqual([(span["begin"], span["end"]) for span in answer["spans"]], [(0, 3)])
        self.assertEqual("".join(part["text"] for part in parts), line)
        spans = [span for part in parts for span in part["spans"]]
        self.assertGreater(max(span["begin"] for span in spans), MIB)
        for span in spans:
            self.assertEqual(line[span["begin"] : span["end"]], span["text"])
        rows = [row.split("\t") for row in self.good("tag", "--model", model, data=f"ada\n{line}\nada\n").splitlines()]
        self.assertEqual([row[3] for row in rows if row[0] == "2"], [str(span["begin"]) for span in spans])
        self.assertEqual({row[0] for row in rows}, {"1", "2", "3"})

    def test_summaries_read_the_beginning(self):
        text = "Attention is all you need. " * 60_000
        for flags, which in (["--lines"], "line 1"), ([], "the text"):
            done = self.call("summarize", "--max-new-tokens", 2, "--model", MODELS / "titles", *flags, data=text)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.count("\n"), 1)
            note = f"headway summarize: {which} is longer than 1 MiB; what comes after is left out\n"
            self.assertIn(note, done.stderr)


class Limits(ProgramTest):
    """Where the system gives no more."""

    def limited(self, limits, *arguments, may_succeed=False):
        """The error of a call under such limits, which must not end by a signal."""
        def set_limits():
            for kind, value in limits:
                resource.setrlimit(kind, (value, value))

        done = subprocess.run([program_test.program, *map(str, arguments)], capture_output=True, check=False,
                              cwd=self.work, preexec_fn=set_limits, timeout=100)
        self.assertIn(done.returncode, (0, 1) if may_succeed else (1,), done.stderr)
        return done.stderr.decode()

    def test_file_size(self):
        program_test.write_pairs(self.work / "pairs.tsv", 2000)
        (self.work / "out.tsv").write_text("old")
        error = self.limited([(resource.RLIMIT_FSIZE, 4096)], "data", "clean", "pairs.tsv", "--output", "out.tsv")
        self.assertRegex(error, r"^headway data clean: out.tsv: cannot be written: .*\n$")
        self.assertEqual((self.work / "out.tsv").read_text(), "old")
        self.assertEqual(sorted(file.name for file in self.work.iterdir()), ["out.tsv", "pairs.tsv"])

    # The trainer's own threads throw where they get no memory.
    def test_memory_of_the_piece_trainer(self):
        program_test.write_pairs(self.work / "pairs.tsv", 20_000)
        for size in range(70, 190, 15):
            error = self.limited([(resource.RLIMIT_AS, size * MIB), (resource.RLIMIT_CORE, 0)], "tokenizer", "train",
                                 "pairs.tsv", "--vocab-size", 300, "--output", "out.spm", may_succeed=size > 100)
            if error:
                self.assertRegex(error, r"^headway tokenizer train: .*memory.*\n$")
                self.assertFalse((self.work / "out.spm").exists())
            (self.work / "out.spm").unlink(missing_ok=True)

    def test_a_closed_pipe_ends_the_program(self):
        program_test.write_pairs(self.work / "pairs.tsv", 20_000)
        script = f"'{program_test.program}' data clean pairs.tsv --output - | head -1; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", script], capture_output=True, check=False, cwd=self.work, timeout=60)
        self.assertEqual(done.returncode, 128 + signal.SIGPIPE)
        self.assertEqual(done.stdout.count(b"\n"), 1)


if __name__ == "__main__":
    unittest.main()
