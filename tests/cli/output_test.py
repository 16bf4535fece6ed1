"""--output and --resume of the commands that compute lines, and lines that fail."""

import json
import random
import resource
import signal
import subprocess
import sys
import time

import program_test
from program_test import ProgramTest, WORDS, meaning, small_model

sys.path.insert(0, str(program_test.pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_bert import write_model


def sentences(count, seed=3):
    """Lines of the made-up language."""
    generator = random.Random(seed)
    return ["" if generator.random() < 0.02 else " ".join(generator.choices(WORDS, k=generator.randrange(1, 5)))
            for _ in range(count)]


class Output(ProgramTest):
    """headway translate --output"""

    def setUp(self):
        super().setUp()
        self.command = ["translate", "--model", small_model(), "--to", "de", "--batch", 16]
        self.output, self.state = self.work / "out", self.work / "out.state"

    def start(self, *arguments):
        """A running call that reads the file `in` and writes the file `out`."""
        with open(self.work / "in", "rb") as source, open(self.work / "errors", "wb") as errors:
            return subprocess.Popen([program_test.program, *map(str, self.command), "--output", "out",
                                     *map(str, arguments)], stdin=source, stderr=errors, cwd=self.work)

    def errors(self):
        """What the last of them said."""
        return (self.work / "errors").read_text()

    def write_input(self, count):
        text = "\n".join(sentences(count)) + "\n"
        (self.work / "in").write_text(text, encoding="utf-8")
        return text

    def lines_kept(self):
        """The complete lines that the state knows of."""
        return int(self.state.read_text().split("\nlines ")[1].split("\n")[0]) if self.state.exists() else 0

    def wait_for_lines(self, process, more_than=0):
        """Returns when the state knows of more lines, or at the end of the process."""
        while process.poll() is None and self.lines_kept() <= more_than:
            time.sleep(0.01)

    def break_off(self, data):
        """A run that the disk ends after 4 KiB: its message."""
        done = subprocess.run([program_test.program, *map(str, self.command), "--output", "out"], input=data.encode(),
                              capture_output=True, check=False, cwd=self.work, timeout=100,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr.decode()

    def test_the_same_as_standard_output(self):
        data = self.write_input(40)
        expected = self.good(*self.command, data=data)
        self.assertEqual(self.good(*self.command, "--output", "out", data=data), "")
        self.assertEqual(self.output.read_text(), expected)
        self.assertEqual(self.good(*self.command, "--output", "new", "--resume", data=data), "")
        self.assertEqual((self.work / "new").read_text(), expected)
        self.assertFalse(self.state.exists())
        self.good(*self.command, "--output", "out", "ka mo")  # starts over
        self.assertEqual(self.output.read_text(), meaning("ka mo") + "\n")

    def test_killed_at_any_moment(self):
        data = self.write_input(4000)
        expected = self.good(*self.command, data=data)
        generator = random.Random(5)
        kills, code = 0, None
        while code != 0:
            process = self.start("--resume")
            # In loading, in computing, in writing; from the third on there is progress each time.
            if kills > 1:
                self.wait_for_lines(process, self.lines_kept())
            time.sleep(generator.random() * 0.3)
            if kills < 5:
                process.kill()
            code = process.wait(timeout=100)
            self.assertIn(code, (0, -signal.SIGKILL), self.errors())
            if code != 0:
                kills += 1
                if self.output.exists():
                    with open(self.output, "ab") as file:
                        file.write(b"half a li")  # as if the kill had come in the middle of a write
        self.assertEqual(self.output.read_text(), expected)
        self.assertFalse(self.state.exists())
        self.assertGreaterEqual(kills, 2)

    def test_a_signal_ends_it_with_its_state(self):
        self.write_input(20000)
        process = self.start()
        self.wait_for_lines(process)
        process.terminate()
        self.assertEqual(process.wait(timeout=100), 128 + signal.SIGTERM, self.errors())
        self.assertIn(f"ended by signal 15; out has {self.lines_kept()} lines; --resume goes on from line "
                      f"{self.lines_kept() + 1}\n", self.errors())
        self.assertEqual(self.output.read_text().count("\n"), self.lines_kept())

    def test_full_disk(self):
        data = self.write_input(2000)
        self.assertRegex(self.break_off(data), r"\nheadway translate: out: cannot be written: File too large; "
                                               r"out has \d+ lines?; --resume goes on from line \d+\n$")
        self.good(*self.command, "--output", "out", "--resume", data=data)
        self.assertEqual(self.output.read_text(), self.good(*self.command, data=data))

    def test_another_run_is_refused(self):
        data = self.write_input(2000)
        self.break_off(data)
        # So that some lines are complete: a run that waits for the rest of its input keeps its state.
        with subprocess.Popen([program_test.program, *map(str, self.command), "--output", "out", "--resume"],
                              stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=self.work) as process:
            process.stdin.write(data[:data.index("\n", len(data) // 2) + 1].encode())
            process.stdin.flush()
            self.wait_for_lines(process)
            process.kill()
        self.assertGreater(self.lines_kept(), 0)
        call = [*self.command, "--output", "out"]
        self.bad(1, "out.state is there: a run ended after", *call, data=data)
        call.append("--resume")
        self.bad(1, 'the run is another one: it had --beam "4", and now there is --beam "2"', *call, "--beam", 2,
                 data=data)
        self.bad(1, "--n-best", *call, "--n-best", 2, data=data)
        self.bad(1, "the input differs in its first", *call, data="ti\n" + data)
        self.bad(1, "the input differs in its first", *call, data="ka mo\n")
        state = self.state.read_text()
        self.state.write_text(state[:20])
        self.bad(1, "out.state: is not the state", *call, data=data)
        self.state.write_text(state)
        content = self.output.read_bytes()
        self.output.write_bytes(content[:10])
        self.bad(1, "out: has fewer bytes than", *call, data=data)
        self.output.write_bytes(content)
        self.good(*call, "--threads", 2, data=data)  # these may differ
        self.assertEqual(self.output.read_text(), self.good(*self.command, data=data))
        self.bad(1, "out is there without out.state", *call, data=data)

    def test_bad(self):
        self.bad(2, "--resume is given, expected --output FILE", *self.command, "--resume", "ka")
        self.bad(1, "none/out: cannot be opened", *self.command, "--output", "none/out", "ka")
        (self.work / "directory").mkdir()
        self.bad(1, "directory: is there already and is not a file", *self.command, "--output", "directory", "ka")
        self.assertFalse(self.state.exists())

    def test_long_lines(self):
        gap = " " * (1 << 20)
        data = f"ka\nmo{gap}ti{gap}\nlu\n"
        self.good(*self.command, "--output", "out", data=data)
        self.assertEqual(self.output.read_text(), self.good(*self.command, data=data))
        self.assertEqual(self.output.read_text().count("\n"), 3)


class OtherCommands(ProgramTest):
    """Tasks on text"""

    def test_lines_of_vectors(self):
        command = ["embed", "--model", write_model(self.work / "model")]
        data = "the cat sat\nada\n"
        self.good(*command, "--output", "v.jsonl", data=data)
        self.assertEqual((self.work / "v.jsonl").read_text(), self.good(*command, data=data))
        self.bad(2, "--resume goes on with lines", *command, "--output", "v.npy", "--resume", data=data)
        self.good("summarize", "--lines", "--max-new-tokens", 3, "--output", "t.txt", data=data)
        self.assertEqual((self.work / "t.txt").read_text().count("\n"), 2)

    def test_lines_that_fail(self):
        model = write_model(self.work / "model", "BertForSequenceClassification", ["bad", "good"])
        command = ["classify", "--model", model, "--pairs"]
        lines = ["the cat\tsat"] * 30
        whole = self.good(*command, data="\n".join(lines)).splitlines()
        lines[7], lines[19] = "the cat", ""
        for output in ([], ["--output", "out"]):
            done = self.call(*command, *output, data="\n".join(lines))
            self.assertEqual(done.returncode, 1)
            why = "failed: has no tab, expected two texts with one between them"
            self.assertEqual(done.stderr, f"headway classify: text 8 {why}\nheadway classify: text 20 {why}\n"
                                          "headway classify: 2 of 30 lines failed\n")
            text = (self.work / "out").read_text() if output else done.stdout
            whole[7] = whole[19] = ""
            self.assertEqual(text.split("\n"), [*whole, ""])
        done = self.call(*command, "--json", data="the cat\nthe cat\tsat\n")
        self.assertIn("has no tab", json.loads(done.stdout.splitlines()[0])["error"])
        # Where nothing succeeds the run ends.
        self.bad(1, "text 1 failed: has no tab, expected two texts with one between them; so did 49 after it", *command,
                 data="the cat\n" * 50)


if __name__ == "__main__":
    program_test.unittest.main()
