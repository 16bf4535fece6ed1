"""Commands under mpirun. Batch commands: the bytes of one rank, in the order of the input; lines and ranks that fail.
Training: the batches of one rank that accumulates as many."""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import program_test
from output_test import sentences
from program_test import SMALL, ProgramTest, meaning, small_model, write_pairs

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from small_bert import write_model

SUBJECTS = ["the cat", "Ada", "cats", "I", "it"]


def texts(count):
    """Lines of many lengths."""
    generator = random.Random(4)
    return [" ".join(generator.choices(SUBJECTS, k=generator.randrange(1, 9))) for _ in range(count)]


class RanksTest(ProgramTest):
    """Calls by mpirun, where it and the library are there."""

    def setUp(self):
        super().setUp()
        if shutil.which("mpirun") is None:
            self.skipTest("there is no mpirun")
        if not list(pathlib.Path(program_test.program).parent.glob("libheadway_mpi.so*")):
            self.skipTest("libheadway_mpi was not built")

    @staticmethod
    def environment():
        variables = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
        return {**variables, "HEADWAY_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    @staticmethod
    def command(count, *arguments):
        return ["mpirun", "--oversubscribe", "-n", str(count), program_test.program, *map(str, arguments)]

    def ranks(self, count, *arguments, data="", environment=None):
        """A finished call of so many ranks. `headway`: what the program itself said on standard error."""
        done = subprocess.run(self.command(count, *arguments), input=data, capture_output=True, check=False, text=True,
                              cwd=self.work, env=environment or self.environment(), timeout=200)
        done.headway = [line for line in done.stderr.splitlines() if line.startswith("headway ")]
        return done


class SameBytes(RanksTest):
    """Each command"""

    def check_same(self, *arguments, data, ranks=(2,)):
        expected = self.good(*arguments, data=data)
        for count in ranks:
            done = self.ranks(count, *arguments, data=data)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, expected)
        return expected

    def test_translate(self):
        command = ["translate", "--model", small_model(), "--to", "de", "--beam", 2, "--max-length", 8, "--batch", 8]
        lines = sentences(700)
        self.check_same(*command, data="\n".join(lines), ranks=(2, 4))
        self.check_same(*command, data="ka mo\nti\n", ranks=(4,))  # more ranks than lines
        self.check_same(*command, data="")
        gap = " " * (1 << 20)
        self.check_same(*command, "--n-best", 2, data=f"ka\nmo{gap}ti{gap}\nlu\n" + "\n".join(lines[:50]))

    def test_encoders(self):
        data = "\n".join(texts(200))
        model = write_model(self.work / "plain")
        self.check_same("embed", "--model", model, data=data)
        self.assertEqual(self.ranks(2, "embed", "--model", model, "--output", "v.npy", data=data).returncode, 0)
        self.good("embed", "--model", model, "--output", "one.npy", data=data)
        self.assertEqual((self.work / "v.npy").read_bytes(), (self.work / "one.npy").read_bytes())
        model = write_model(self.work / "labels", "BertForSequenceClassification", ["bad", "fine", "good"])
        self.check_same("classify", "--model", model, "--top", 2, data=data)
        model = write_model(self.work / "tags", "BertForTokenClassification", ["O", "B-PER", "I-PER"])
        self.check_same("tag", "--model", model, data=data)

    def test_summarize(self):
        data = "\n".join(texts(40))
        self.check_same("summarize", "--lines", "--max-new-tokens", 4, data=data)
        self.check_same("summarize", "--max-new-tokens", 4, data=data)

    def test_evaluate(self):
        lines = sentences(100)
        (self.work / "source").write_text("\n".join(lines) + "\n")
        (self.work / "reference").write_text("\n".join(map(meaning, lines)) + "\n")
        command = ["evaluate", "--model", small_model(), "--beam", 1]
        self.check_same(*command, "--to", "de", "--source", "source", "--reference", "reference", "--output", "-",
                        data="")
        self.check_same(*command, "--data", program_test.shared / "pairs.tsv", "--json", data="")


class Failures(RanksTest):
    """What goes wrong is told once"""

    def test_lines_that_fail(self):
        model = write_model(self.work / "model", "BertForSequenceClassification", ["bad", "good"])
        lines = ["the cat\tsat"] * 40
        lines[11] = "the cat"
        command = ["classify", "--model", model, "--pairs"]
        done = self.ranks(2, *command, data="\n".join(lines))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout, self.call(*command, data="\n".join(lines)).stdout)
        self.assertRegex(done.headway[0], r"^headway classify: text 12 failed on rank [01]: has no tab")
        self.assertEqual(done.headway[1:], ["headway classify: 1 of 40 lines failed"])

    def test_wrong_calls(self):
        for code, part, *arguments in ((2, "--frobnicate", "--frobnicate"), (1, "none: no such directory", "--model",
                                                                            "none"), (2, "--resume", "--resume")):
            done = self.ranks(2, "translate", *arguments)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(len(done.headway), 1, done.stderr)
            self.assertIn(part, done.headway[0])
            self.assertNotIn("rank", done.headway[0])
        self.assertEqual(self.ranks(2, "translate", "--help").stdout.count("Usage:"), 1)
        command = self.command(1, "translate", "--model", small_model(), "--to", "de")
        command += [":", "-n", "1", program_test.program, "translate", "--model", "none"]
        done = subprocess.run(command, input="ka\n", capture_output=True, check=False, text=True, cwd=self.work,
                              env=self.environment(), timeout=100)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("headway translate: rank 1: none: no such directory\n", done.stderr)

    def test_a_rank_is_killed(self):
        lines = sentences(6000)
        arguments = ["translate", "--model", small_model(), "--to", "de", "--max-length", 8, "--output", "out"]
        state = self.work / "out.state"
        with open(self.work / "errors", "wb") as errors:
            process = subprocess.Popen(self.command(2, *arguments), stdin=subprocess.PIPE, stderr=errors, cwd=self.work,
                                       env=self.environment())
        for some in (lines[:3000], lines[3000:]):
            process.stdin.write(("\n".join(some) + "\n").encode())
            process.stdin.flush()
            while process.poll() is None and "\nlines 0\n" in (state.read_text() if state.exists() else "\nlines 0\n"):
                time.sleep(0.02)
        os.kill(self.process_of_rank(1, process.pid), signal.SIGKILL)
        self.assertNotEqual(process.wait(timeout=60), 0)
        process.stdin.close()
        errors = (self.work / "errors").read_text()
        kept = int(state.read_text().split("\nlines ")[1].split("\n")[0])
        self.assertIn(f"out has {kept} lines; --resume goes on from line {kept + 1}\n", errors)
        self.assertRegex(errors, r"rank 1\b")
        self.assertGreater(kept, 0)
        done = self.ranks(4, *arguments, "--resume", data="\n".join(lines))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.work / "out").read_text(), self.good(*arguments[:-2], data="\n".join(lines)))

    @staticmethod
    def process_of_rank(rank, launcher):
        """The process that mpirun started as this rank."""
        for directory in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                parent = int(re.search(r"^PPid:\s*(\d+)", (directory / "status").read_text(), re.MULTILINE)[1])
                variables = (directory / "environ").read_bytes() if parent == launcher else b""
            except OSError:
                continue
            if f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables.split(b"\0"):
                return int(directory.name)
        raise AssertionError("there is no such rank")


class Training(RanksTest):
    """headway train"""

    def test_losses_are_those_of_one_rank(self):
        write_pairs(self.work / "pairs.tsv", 300)
        options = ["--data", "pairs.tsv", *SMALL, "--batch-tokens", 300, "--dropout", 0.1, "--max-steps", 12, "--quiet"]
        losses = []
        for count in (1, 2, 4):
            output = f"ranks{count}"
            done = self.ranks(count, "train", *options, "--accumulate", 4 // count, "--output", output)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = (self.work / output / "training" / "training.jsonl").read_text(encoding="utf-8").splitlines()
            losses.append([json.loads(line)["loss"] for line in lines])
        for found in losses[1:]:
            self.assertEqual(len(found), 12)
            for mine, one in zip(found, losses[0]):
                self.assertAlmostEqual(mine / one, 1, delta=1e-6)


class Threads(RanksTest):
    """Ranks on one machine share its processors"""

    def test_shares(self):
        environment = self.environment()
        del environment["HEADWAY_NUM_THREADS"]
        command = self.command(2, "info", "--json")
        command[1:1] = ["--bind-to", "none"]
        done = subprocess.run(command, capture_output=True, check=True, text=True, env=environment, timeout=100)
        share = max(len(os.sched_getaffinity(0)) // 2, 1)
        self.assertEqual(re.findall(r'"threads": (\d+)', done.stdout), [str(share)] * 2)
        done = subprocess.run([*command, "--threads", "3"], capture_output=True, check=True, text=True, env=environment,
                              timeout=100)
        self.assertEqual(re.findall(r'"threads": (\d+)', done.stdout), ["3"] * 2)


if __name__ == "__main__":
    program_test.unittest.main()
