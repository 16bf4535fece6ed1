"""Commands that need no model: tokenizer, data, train, completion, man, and the program's own words."""

import json
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import time
import unittest
import zipfile

import program_test
from program_test import SMALL, ProgramTest, write_pairs

COMMANDS = ["translate", "train", "finetune", "evaluate", "attend", "generate", "summarize", "caption", "embed", "classify",
            "tag", "answer", "fill", "recommend", "tokenizer train", "tokenizer encode", "tokenizer decode", "data split",
            "data clean", "quantize", "info", "completion", "man"]


class Words(ProgramTest):
    """Help, version, wrong commands, completion, the manual."""

    def test_help_has_examples(self):
        for command in COMMANDS + ["tokenizer", "data"]:
            text = self.good(*command.split(), "--help")
            self.assertIn("Examples:\n  ", text, command)
            self.assertIn("headway " + command.split()[0], text)
        for command in ("translate", "train"):
            self.assertIn(command, self.good("--help"))

    def test_version(self):
        self.assertRegex(self.good("--version"), r"^headway \d+\.\d+\.\d+\n$")

    def test_wrong_commands(self):
        self.bad(2, "a command is required, expected translate, train")
        self.bad(2, "there is no command translat, expected translate", "translat")
        self.bad(2, "there is no command splt, expected split, clean", "data", "splt")
        self.bad(2, "a command is required", "tokenizer")
        self.bad(2, "SHELL", "completion")
        self.bad(2, "tcsh", "completion", "tcsh")
        self.bad(2, "extra", "man", "extra")

    def test_manual(self):
        page = self.good("man")
        self.assertTrue(page.startswith(".TH HEADWAY 1"))
        for command in COMMANDS:
            self.assertIn('.SS "headway ' + command + '"', page)
        for name in ("n\\-best", "learning\\-rate", "HEADWAY_MODEL", "EXIT STATUS"):
            self.assertIn(name, page)
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=page.encode(), capture_output=True,
                                  check=True)
            self.assertEqual(done.stderr, b"")

    def complete(self, *words):
        """What bash proposes for the last word."""
        script = ('. ./headway.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _headway; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "bash", "headway", *words], capture_output=True, check=True,
                              cwd=self.work, text=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    @unittest.skipUnless(shutil.which("bash"), "there is no bash")
    def test_bash_completion(self):
        (self.work / "headway.bash").write_text(self.good("completion", "bash"), encoding="utf-8")
        self.assertEqual(self.complete("tra")[:2], ["translate", "train"])
        self.assertEqual(self.complete("data", "s"), ["split"])
        self.assertEqual(self.complete("attend", "--part", ""), ["encoder", "decoder", "cross"])
        self.assertEqual(self.complete("translate", "--n"), ["--n-best"])
        self.assertEqual(self.complete("completion", "f"), ["fish"])
        self.assertIn("--learning-rate", self.complete("train", "--"))
        (self.work / "folder").mkdir()
        self.assertEqual(self.complete("translate", "--model", ""), ["folder"])

    def test_other_shells(self):
        for shell in ("zsh", "fish"):
            script = self.good("completion", shell)
            for word in ("translate", "headway data split", "n-best", "encoder decoder cross"):
                self.assertIn(word, script)
            if shutil.which(shell):
                (self.work / "script").write_text(script, encoding="utf-8")
                subprocess.run([shell, "-n", "script"], check=True, cwd=self.work)


class Tokenizer(ProgramTest):
    """headway tokenizer"""

    def setUp(self):
        super().setUp()
        write_pairs(self.work / "pairs.tsv", 200)

    def test_single_model(self):
        text = self.good("tokenizer", "train", "pairs.tsv", "--output", "joint.spm", "--vocab-size", 300)
        self.assertEqual(text, "joint.spm: 300 tokens from 400 sentences\n")
        pieces = self.good("tokenizer", "encode", "--tokenizer", "joint.spm", "ka mo", "🤯")
        self.assertEqual(self.good("tokenizer", "decode", "--tokenizer", "joint.spm", data=pieces), "ka mo\n🤯\n")
        first = (self.work / "joint.spm").read_bytes()
        self.good("tokenizer", "train", "pairs.tsv", "--output", "again.spm", "--vocab-size", 300)
        self.assertEqual((self.work / "again.spm").read_bytes(), first)

    def test_directory(self):
        (self.work / "more.txt").write_text("ka mo\nti lu\n", encoding="utf-8")
        result = self.good_json("tokenizer", "train", "pairs.tsv", "more.txt", "--output", "tokenizer", "--languages",
                                "deu,eng", "--kind", "bpe", "--vocab-size", 310, "--json")
        self.assertEqual(result, {"output": "tokenizer", "sentences": 402, "size": 313})
        names = sorted(path.name for path in (self.work / "tokenizer").iterdir())
        self.assertEqual(names, ["source.spm", "target.spm", "tokenizer_config.json", "vocab.json"])
        ids = self.good("tokenizer", "encode", "--tokenizer", "tokenizer", "--ids", "--to", "eng", "ka mo")
        vocabulary = json.loads((self.work / "tokenizer/vocab.json").read_text(encoding="utf-8"))
        self.assertEqual(int(ids.split()[0]), vocabulary[">>eng<<"])
        self.assertEqual(self.good("tokenizer", "decode", "--tokenizer", "tokenizer", ids.strip()), "ka mo\n")
        zeros = self.good("tokenizer", "encode", "--tokenizer", "tokenizer", "--target", "--zero", data="ka\nmo\0ti")
        self.assertEqual(len(zeros.splitlines()), 2)

    def test_control_characters_are_shown(self):
        vocabulary = {"[UNK]": 0, "\x1b[31mred": 1, "\x9b2J": 2, "a\u202eb": 3}
        (self.work / "words").mkdir()
        (self.work / "words/tokenizer.json").write_text(json.dumps({
            "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": {"type": "Fuse"},
            "model": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": vocabulary}}), encoding="utf-8")
        text = "\x1b[31mred \x9b2J a\u202eb"
        shown = self.good("tokenizer", "encode", "--tokenizer", "words", text)
        self.assertEqual(shown, "\\x1b[31mred \\u009b2J a\\u202eb\n")
        # Decoded texts keep what they have, but not on a terminal.
        decode = ["tokenizer", "decode", "--tokenizer", "words", "1"]
        self.assertEqual(self.good(*decode), "\x1b[31mred\n")
        mine, its = pty.openpty()
        subprocess.run([program_test.program, *decode], stdout=its, check=True, timeout=100, cwd=self.work)
        os.close(its)
        self.assertEqual(os.read(mine, 4000).decode().strip(), "\\x1b[31mred")
        os.close(mine)
        # Errors that name an entry of a file.
        self.good("tokenizer", "train", "pairs.tsv", "--output", "marian", "--languages", "deu", "--vocab-size", 300)
        (self.work / "marian/vocab.json").write_text(json.dumps({"\x1b]0;title": "x"}), encoding="utf-8")
        done = self.bad(1, "\\x1b]0;title", "tokenizer", "encode", "--tokenizer", "marian", "ka")
        self.assertNotIn("\x1b", done.stderr)

    def test_shuffled_vocabulary(self):
        self.good("tokenizer", "train", "pairs.tsv", "--output", "marian", "--languages", "deu", "--vocab-size", 300)
        vocabulary = json.loads((self.work / "marian/vocab.json").read_text(encoding="utf-8"))
        names = list(vocabulary)
        names[270], names[280] = names[280], names[270]
        (self.work / "marian/vocab.json").write_text(json.dumps({name: n for n, name in enumerate(names)}))
        self.bad(1, "vocab.json: the token of id 270 is", "tokenizer", "encode", "--tokenizer", "marian", "ka")

    def test_hugging_face(self):
        vocabulary = {"[UNK]": 0, "good": 1, "morn": 2, "##ing": 3, "!": 4, "[S]": 5}
        (self.work / "bert").mkdir()
        (self.work / "bert/tokenizer.json").write_text(json.dumps({
            "added_tokens": [{"id": 5, "content": "[S]", "special": True}], "normalizer": {"type": "BertNormalizer"},
            "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece"},
            "post_processor": {"type": "BertProcessing", "cls": ["[S]", 5], "sep": ["[S]", 5]},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": vocabulary}}), encoding="utf-8")
        encode = ["tokenizer", "encode", "--model", "bert"]
        self.assertEqual(self.good(*encode, "Good morning!"), "[S] good morn ##ing ! [S]\n")
        self.assertEqual(self.good(*encode, "--ids", "--no-special-tokens", "Good!"), "1 4\n")
        self.assertEqual(self.good(*encode, "--offsets", "good"), "[S][0,0) good[0,4) [S][0,0)\n")
        result = json.loads(self.good(*encode, "--json-lines", data='["good", "morning\\n"]\n'))
        self.assertEqual(result["ids"], [5, 1, 5, 2, 3, 5])
        self.assertEqual(result["types"], [0, 0, 0, 1, 1, 1])
        self.assertEqual(result["offsets"][3:5], [[0, 4], [4, 7]])
        self.assertEqual(result["words"], [-1, 0, -1, 0, 0, -1])
        windows = json.loads(self.good(*encode, "--windows", "--max-length", 4, "--stride", 1, "good good good"))
        self.assertEqual([window["ids"] for window in windows], [[5, 1, 1, 5]] * 2)
        decode = ["tokenizer", "decode", "--model", "bert"]
        self.assertEqual(self.good(*decode, "5 1 2 3 4 5"), "good morning!\n")
        self.assertEqual(self.good(*decode, "--keep-special-tokens", "5 1"), "[S] good\n")
        streamed = self.good(*decode, "--stream", "--json-lines", data="[1, 2, 3]\n")
        self.assertEqual(streamed, '["good"," morn","ing",""]\n')
        self.bad(1, "an id is 6, expected 0 to 5", *decode, "6")
        self.bad(1, "is not ids", *decode, "one")
        self.bad(1, "neither a JSON string nor an array of two", *encode, "--json-lines", data="[1]\n")
        self.bad(1, "max_length is 1", *encode, "--max-length", 1, "good")
        self.bad(2, "--target and --to need", *encode, "--to", "deu", "good")
        self.good("tokenizer", "train", "pairs.tsv", "--output", "t", "--vocab-size", 300)
        self.bad(2, "need a directory with a tokenizer.json", "tokenizer", "encode", "--tokenizer", "t", "--json", "x")

    def test_bad(self):
        train = ["tokenizer", "train", "pairs.tsv", "--output", "joint.spm"]
        self.bad(2, "--output is required", "tokenizer", "train", "pairs.tsv")
        self.bad(2, "FILE is required", "tokenizer", "train", "--output", "joint.spm")
        self.bad(2, "--kind", *train, "--kind", "wordpiece")
        self.bad(2, "--languages is for a directory", *train, "--languages", "deu")
        self.bad(1, "vocab_size is 100000", *train, "--vocab-size", 100000)
        self.bad(1, "vocab_size is 10", *train, "--vocab-size", 10)
        self.bad(1, "none.txt", "tokenizer", "train", "none.txt", "--output", "joint.spm")
        self.bad(1, "a language code is", "tokenizer", "train", "pairs.tsv", "--output", "x", "--vocab-size", 300,
                 "--languages", "d u")
        self.assertFalse((self.work / "joint.spm").exists())
        self.bad(1, "none: no such directory", "tokenizer", "encode", "--tokenizer", "none", "x")
        self.good("tokenizer", "train", "pairs.tsv", "--output", "t", "--vocab-size", 300)
        self.bad(1, "is not an id", "tokenizer", "decode", "--tokenizer", "t", "1 two")
        self.bad(1, "an id is 5000", "tokenizer", "decode", "--tokenizer", "t", "5000")
        self.bad(1, "language is \"deu\"", "tokenizer", "encode", "--tokenizer", "t", "--to", "deu", "x")


class Data(ProgramTest):
    """headway data"""

    def test_split(self):
        write_pairs(self.work / "pairs.tsv", 1000)
        counts = self.good_json("data", "split", "pairs.tsv", "--output", "parts", "--modulus", 5, "--json")
        parts = {name: (self.work / "parts" / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
                 for name in ("training", "validation", "test")}
        sentences = {name: set("\t".join(lines).split("\t")) for name, lines in parts.items()}
        for name, lines in parts.items():
            self.assertEqual(len(lines), counts[name]["pairs"])
            self.assertGreater(len(lines), 50)
        self.assertFalse(sentences["training"] & sentences["test"])
        self.assertFalse(sentences["validation"] & sentences["test"])
        self.assertEqual(sum(map(len, parts.values())), counts["cleaning"]["kept"])
        self.assertIn("components that share no sentence", self.good("data", "split", "pairs.tsv", "--output", "again"))

    def test_zip_and_parallel_files_are_alike(self):
        write_pairs(self.work / "pairs.tsv", 100)
        lines = (self.work / "pairs.tsv").read_text(encoding="utf-8").splitlines()
        with zipfile.ZipFile(self.work / "pairs.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("_about.txt", "nothing")
            archive.writestr("pairs.txt", "\n".join(lines))
        for side in (0, 1):
            texts = [line.split("\t")[side] + "\n" for line in lines]
            (self.work / f"side{side}").write_text("".join(texts), encoding="utf-8")
        plain = self.good("data", "clean", "pairs.tsv", "--output", "-")
        self.assertEqual(self.good("data", "clean", "pairs.zip", "--output", "-"), plain)
        self.assertEqual(self.good("data", "clean", "side0", "--target-file", "side1", "--output", "-"), plain)

    def test_clean(self):
        lines = [" a  b\tc\x01d", "a b\tc d", "\tx", "long\t" + "y" * 500]
        (self.work / "pairs.tsv").write_text("\n".join(lines), encoding="utf-8")
        counts = self.good_json("data", "clean", "pairs.tsv", "--output", "clean.tsv", "--json")
        self.assertEqual(counts, {"kept": 1, "empty": 1, "too_long": 1, "ratio": 0, "duplicates": 1})
        self.assertEqual((self.work / "clean.tsv").read_text(encoding="utf-8"), "a b\tc d\n")
        text = self.good("data", "clean", "pairs.tsv", "--output", "clean.tsv", "--max-characters", 600, "--max-ratio",
                         1000)
        self.assertIn("kept 2 pairs", text)

    def test_bad(self):
        self.bad(2, "FILE is required", "data", "split", "--output", "x")
        self.bad(2, "--output is required", "data", "clean", "pairs.tsv")
        self.bad(2, "--modulus", "data", "split", "pairs.tsv", "--output", "x", "--modulus", 1)
        self.bad(1, "pairs.tsv: no such file", "data", "split", "pairs.tsv", "--output", "x")
        (self.work / "pairs.tsv").write_text("one\teins\ntwo\n", encoding="utf-8")
        self.bad(1, "pairs.tsv: line 2: has no tab", "data", "clean", "pairs.tsv", "--output", "clean.tsv")
        (self.work / "pairs.tsv").write_bytes(b"one\t\xff\n")
        self.bad(1, "line 1: is not UTF-8", "data", "clean", "pairs.tsv", "--output", "clean.tsv")
        (self.work / "pairs.zip").write_bytes(b"no archive")
        self.bad(1, "pairs.zip: cannot be opened as a zip archive", "data", "clean", "pairs.zip", "--output", "c.tsv")
        self.assertFalse((self.work / "clean.tsv").exists())


class Train(ProgramTest):
    """headway train"""

    def setUp(self):
        super().setUp()
        write_pairs(self.work / "pairs.tsv", 300)
        self.arguments = ["--data", "pairs.tsv", *SMALL, "--max-steps", 200, "--validate-every", 80,
                          "--checkpoint-every", 50]

    def test_config_and_flags(self):
        config = self.good_json("train", *self.arguments, "--output", "model", "--print-config")
        self.assertEqual((config["width"], config["max_steps"]), (32, 200))
        config["max_steps"] = 1000
        (self.work / "run.json").write_text(json.dumps(config), encoding="utf-8")
        result = self.good_json("train", "--config", "run.json", "--max_steps=20", "--quiet", "--json")
        self.assertTrue(result["finished"])
        self.assertEqual(result["last_step"], 20)
        for name in ("config.json", "model.safetensors", "vocab.json", "source.spm", "README.md"):
            self.assertTrue((self.work / "model" / name).exists(), name)

    def weights(self, name):
        return (self.work / name / "model.safetensors").read_bytes()

    def start(self, output, *more):
        """A run in the background, once it has taken a step."""
        command = [program_test.program, "train", *map(str, self.arguments), "--output", output, *map(str, more)]
        process = subprocess.Popen(command, cwd=self.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        log = pathlib.Path(self.work / output / "training/training.jsonl")
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline and (not log.exists() or log.stat().st_size == 0) and process.poll() is None:
            time.sleep(0.002)
        return process

    def stop(self, process, number):
        """Ends a run by a signal: what it wrote, and the command that it shows for going on."""
        process.send_signal(number)
        output, errors = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 128 + number, errors)
        self.assertIn("stopped after step", output)
        return output.strip().split("to go on: ")[1]

    def test_interrupted_and_resumed(self):
        self.good("train", *self.arguments, "--output", "whole", "--quiet")
        self.stop(self.start("parts"), signal.SIGINT)
        self.assertFalse((self.work / "parts/model.safetensors").exists())
        self.bad(1, "parts", "train", *self.arguments, "--output", "parts", "--quiet")
        self.good("train", *self.arguments, "--output", "parts", "--resume", "--quiet")
        self.assertEqual(self.weights("parts"), self.weights("whole"))

    def test_the_command_that_is_shown_goes_on(self):
        self.good("train", *self.arguments, "--output", "whole", "--quiet")
        for name in ("my run's \"[1]\"; $HOME", "data"):  # the second is the name of a command
            shown = self.stop(self.start(name), signal.SIGTERM)
            done = subprocess.run(["sh", "-c", shown], cwd=self.work, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, shown + done.stderr)
            self.assertEqual(self.weights(name), self.weights("whole"))

    def test_resuming_knows_the_settings(self):
        self.stop(self.start("mine"), signal.SIGINT)
        # Settings that fit the checkpoints may change, the others are errors that name both values.
        for field, value, was in (("width", 64, 32), ("seed", 3, 2), ("vocab-size", 400, 300)):
            done = self.bad(1, f"{field.replace('-', '_')} is {value}, ", "train", "--resume", "mine", "--" + field, value)
            self.assertIn(f"with {was}\n", done.stderr)
        (self.work / "other.json").write_text('{"heads": 2}')
        self.bad(1, "heads is 2, and", "train", "--config", "other.json", "--resume", "mine")
        self.bad(2, "--resume names mine, and output is other", "train", "--resume", "mine", "--output", "other")
        self.bad(1, "none/training: holds no run to resume", "train", "--resume", "none")
        self.bad(1, "expected fine-tuning", "finetune", "--resume", "mine")
        self.assertEqual(self.good_json("train", "--resume", "mine", "--print-config")["width"], 32)
        # From another directory, with the data and the run elsewhere.
        (self.work / "inner").mkdir()
        (self.work / "mine").rename(self.work / "inner/moved")
        done = subprocess.run([program_test.program, "train", "--resume", "moved", "--quiet", "--max-steps", "60",
                               "--json"], cwd=self.work / "inner", capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreaterEqual(json.loads(done.stdout)["last_step"], 60)
        (self.work / "pairs.tsv").rename(self.work / "moved.tsv")
        self.bad(1, "pairs.tsv", "train", "--resume", "inner/moved")
        self.good("train", "--resume", "inner/moved", "--data", "moved.tsv", "--max-steps", 70, "--quiet")
        write_pairs(self.work / "moved.tsv", 300, seed=5)
        self.bad(1, "moved.tsv has changed", "train", "--resume", "inner/moved", "--data", "moved.tsv")

    def test_verify(self):
        self.good("train", *self.arguments, "--output", "mine", "--max-steps", 2, "--quiet")
        self.assertEqual(self.good("info", "--verify", "mine"), "mine/model.safetensors: whole\n")
        self.assertEqual(self.good("info", "--verify", "mine/training").count(": whole\n"), 1)
        file = self.work / "mine/model.safetensors"
        file.write_bytes(file.read_bytes()[:-100] + b"x" + file.read_bytes()[-99:])
        done = self.call("info", "--verify", "mine")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is damaged: its checksum is", done.stdout)

    def test_a_second_signal_ends_at_once(self):
        # A step that takes far longer than the signals.
        large = ["--width", 512, "--feed-forward", 2048, "--encoder-layers", 6, "--decoder-layers", 6,
                 "--batch-tokens", 100000]
        command = [program_test.program, "train", *self.arguments, *large, "--output", "large"]
        process = subprocess.Popen([str(word) for word in command], cwd=self.work, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env={**os.environ, "HEADWAY_NUM_THREADS": "1"})
        for line in process.stderr:
            if "parameters" in line:
                break
        process.send_signal(signal.SIGINT)
        for line in process.stderr:
            if "a second signal ends at once" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=100)
        self.assertEqual(process.returncode, -signal.SIGTERM)

    def test_bad(self):
        self.bad(1, "data", "train", "--output", "model")
        self.bad(1, "none.tsv", "train", "--data", "none.tsv", "--output", "model")
        self.bad(1, "none.json", "train", "--config", "none.json")
        (self.work / "run.json").write_text('{"epoch": 3}', encoding="utf-8")
        self.bad(1, "epochs", "train", "--config", "run.json")
        (self.work / "run.json").write_text("{", encoding="utf-8")
        self.bad(1, "run.json", "train", "--config", "run.json")
        self.bad(1, "heads", "train", "--data", "pairs.tsv", "--heads", 7)
        self.bad(1, "epochs", "train", "--data", "pairs.tsv", "--epochs", "many")
        self.bad(2, "--epoch", "train", "--epoch", 3)


if __name__ == "__main__":
    unittest.main()
