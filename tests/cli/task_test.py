"""Commands of tasks on text: embed, classify, tag, answer, fill, and attend for an encoder."""

import array
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import unittest

import program_test
from program_test import ProgramTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import small_families
from small_bert import WIDTH, write_all, write_model

LINES = ["I love it", "", "the cat sat.", "Ada was in Paris", "cats"]


def rows(output):
    return [json.loads(line) for line in output.splitlines()]


def read_npy(path):
    """Shape and numbers of a .npy file."""
    content = path.read_bytes()
    assert content[:8] == b"\x93NUMPY\x01\x00" and content.index(b"\n") % 64 == 63
    begin = content.index(b"\n") + 1
    values = array.array("f", content[begin:])
    return content[10:begin].decode(), list(values)


class Embed(ProgramTest):
    """headway embed"""

    def setUp(self):
        super().setUp()
        self.model = write_model(self.work / "model")
        self.command = ["embed", "--model", self.model]

    def test_an_array_a_line(self):
        vectors = rows(self.good(*self.command, *LINES))
        self.assertEqual([len(vector) for vector in vectors], [WIDTH] * len(LINES))
        self.assertEqual(rows(self.good(*self.command, data="\n".join(LINES) + "\n")), vectors)
        self.assertEqual(len({json.dumps(vector) for vector in vectors}), len(LINES))
        for threads in (1, 3):
            self.assertEqual(rows(self.good(*self.command, "--threads", threads, *LINES)), vectors)
        objects = rows(self.good(*self.command, "--json", *LINES))
        self.assertEqual([one["embedding"] for one in objects], vectors)
        self.assertEqual([one["text"] for one in objects], LINES)
        self.assertIn("empty", objects[1]["note"])

    def test_files(self):
        vectors = [number for vector in rows(self.good(*self.command, *LINES)) for number in vector]
        done = self.call(*self.command, "--output", "vectors.npy", data="\n".join(LINES))
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertIn("vectors.npy written: 5 vectors of 8 numbers", done.stderr)
        header, values = read_npy(self.work / "vectors.npy")
        self.assertIn("'shape': (5,8,)", header)
        self.assertEqual(values, list(array.array("f", vectors)))
        self.call(*self.command, "--output", "vectors.safetensors", *LINES)
        content = (self.work / "vectors.safetensors").read_bytes()
        self.assertIn(b'"embeddings"', content)
        self.assertTrue(content.endswith(array.array("f", vectors).tobytes()))
        done = self.call(*self.command, "--output", "none.npy")
        self.assertIn("'shape': (0,8,)", read_npy(self.work / "none.npy")[0])

    def test_weights_in_8_bits(self):
        self.good("quantize", self.model, "int8")
        quantized = self.good("embed", "--model", "int8", *LINES)
        self.assertEqual(quantized, self.good(*self.command, "--dtype", "int8", *LINES))
        for found, expected in zip(rows(quantized), rows(self.good(*self.command, *LINES)), strict=True):
            for number, exact in zip(found, expected, strict=True):
                self.assertAlmostEqual(number, exact, delta=0.1)

    def test_prompt(self):
        self.assertEqual(self.good(*self.command, "--prompt", "the ", "cat"), self.good(*self.command, "the cat"))
        unit, = rows(self.good(*self.command, "--normalize", "cat"))
        self.assertAlmostEqual(sum(number * number for number in unit), 1.0, places=5)

    def test_remarkable_lines(self):
        data = b"cat\r\n\n \n\xff\xfe cat\n" + b"a " * 100
        done = self.call(*self.command, data=data)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 5)
        for number, words in ((2, "empty"), (3, "empty"), (4, "not UTF-8"), (5, "78 tokens at the end")):
            self.assertRegex(done.stderr, f"headway embed: text {number}: .*{words}")
        self.assertEqual(self.good(*self.command), "")

    def test_bad(self):
        self.bad(2, "--model", "embed", "x")
        self.bad(1, "none", "embed", "--model", "none", "x")
        self.bad(2, "--output is a.txt", *self.command, "--output", "a.txt", "x")
        self.bad(2, "exclude each other", *self.command, "--output", "a.npy", "--json", "x")
        self.bad(1, 'there is no prompt "query", and the model has no prompts', *self.command, "--prompt-name", "query",
                 "x")
        self.bad(1, "no/a.npy", *self.command, "--output", "no/a.npy", "x")
        self.bad(2, "--dtype", *self.command, "--dtype", "int3", "x")
        (self.model / "tokenizer.json").write_text("{")
        self.bad(1, "tokenizer.json", *self.command, "x")


class Classify(ProgramTest):
    """headway classify"""

    def setUp(self):
        super().setUp()
        self.model = write_model(self.work / "model", "BertForSequenceClassification", ["bad", "fine", "good"])
        self.command = ["classify", "--model", self.model]

    def test_table(self):
        table = [line.split("\t") for line in self.good(*self.command, *LINES).splitlines()]
        self.assertEqual([row[2] for row in table], LINES)
        answers = rows(self.good(*self.command, "--json", data="\n".join(LINES) + "\n"))
        self.assertEqual([row[0] for row in table], [answer["label"] for answer in answers])
        for answer in answers:
            self.assertAlmostEqual(sum(label["score"] for label in answer["labels"]), 1.0, places=6)
            self.assertEqual(len(answer["labels"]), 3)
        self.assertEqual(len(self.good(*self.command, "--top", 2, "cat").splitlines()), 2)

    def test_pairs(self):
        one, = rows(self.good(*self.command, "--json", "--pairs", "the cat\tsat"))
        other, = rows(self.good(*self.command, "--json", "the cat sat"))
        self.assertNotEqual(one["score"], other["score"])
        self.bad(2, "text 1 has no tab", *self.command, "--pairs", "the cat sat")

    def test_columns_on_a_terminal(self):
        mine, its = pty.openpty()
        process = subprocess.Popen([program_test.program, *map(str, self.command), "I love it", "cat"], stdout=its)
        process.wait(timeout=100)
        os.close(its)
        output = os.read(mine, 4000).decode().splitlines()
        os.close(mine)
        self.assertEqual(output[0].index("I love it"), output[1].index("cat"))
        self.assertNotIn("\t", output[0])

    def test_another_head(self):
        self.bad(1, "ForSequenceClassification", "classify", "--model", write_model(self.work / "bare"), "x")


class Tag(ProgramTest):
    """headway tag"""

    def test_spans(self):
        model = write_model(self.work / "model", "BertForTokenClassification", ["O", "B-PER", "I-PER"])
        for aggregation in ("none", "simple", "first", "average", "max"):
            command = ["tag", "--model", model, "--aggregation", aggregation]
            answers = rows(self.good(*command, "--json", *LINES))
            self.assertEqual([answer["text"] for answer in answers], LINES)
            table = []
            for number, answer in enumerate(answers, 1):
                for span in answer["spans"]:
                    self.assertEqual(answer["text"][span["begin"] : span["end"]], span["text"])
                    table.append([str(number), span["label"], span["text"]])
            lines = [line.split("\t") for line in self.good(*command, *LINES).splitlines()]
            self.assertEqual([[line[0], line[1], line[5]] for line in lines], table)
            self.assertGreater(len(table), 0)


class AnswerTest(ProgramTest):
    """headway answer"""

    def test_answers(self):
        model = write_model(self.work / "model", "BertForQuestionAnswering")
        context = "Ada was in Paris. The cat sat in it. " * 20
        (self.work / "page.txt").write_text(context, encoding="utf-8")
        command = ["answer", "--model", model, "--context", "page.txt"]
        answer, = rows(self.good(*command, "--n-best", 3, "--json", "Who was in Paris?"))
        self.assertEqual(len(answer["best"]), 3)
        for one in answer["best"]:
            self.assertEqual(context[one["begin"] : one["end"]], one["text"])
        self.assertEqual(self.good(*command, "Who was in Paris?"), answer["answer"] + "\n")
        self.assertEqual(len(self.good(*command, "--n-best", 2, data="who\nwas\n").splitlines()), 4)
        self.assertEqual(self.good("answer", "--model", model, "--context", "-", "Who was in Paris?", data=context),
                         answer["answer"] + "\n")
        (self.work / "page.txt").write_bytes(b"")
        done = self.call(*command, "who")
        self.assertEqual((done.returncode, done.stdout), (0, "\n"))
        self.assertIn("text 1: the text is empty", done.stderr)
        self.bad(1, "none.txt", "answer", "--model", model, "--context", "none.txt", "who")
        self.bad(2, "--context", "answer", "--model", model, "who")
        self.bad(2, "expected the questions as arguments", "answer", "--model", model, "--context", "-")


class Fill(ProgramTest):
    """headway fill"""

    def test_masks(self):
        model = write_model(self.work / "model", "BertForMaskedLM")
        answer, = rows(self.good("fill", "--model", model, "--json", "The [MASK] sat in [MASK]."))
        self.assertEqual([len(mask) for mask in answer["masks"]], [5, 5])
        word = answer["masks"][1][0]
        self.assertEqual(word["text"], f"The [MASK] sat in {word['word']}.")
        table = [line.split("\t") for line in
                 self.good("fill", "--model", model, "--top", 2, "The [MASK] sat").splitlines()]
        self.assertEqual([row[0] for row in table], ["1", "1"])
        self.assertEqual(self.good("fill", "--model", model, "--top", 1, "[MASK]").split("\t")[0], "1")
        self.bad(1, "text 2 has no [MASK]", "fill", "--model", model, "[MASK]", "the cat")


class AttendAnEncoder(ProgramTest):
    """headway attend with a model that does not translate"""

    def test_one_part(self):
        model = write_model(self.work / "model", "BertForMaskedLM")
        command = ["attend", "--model", model]
        plain = self.good(*command, "the cat sat in Paris")
        self.assertTrue(plain.startswith("the cat sat in Paris\n\nencoder, layer 2"), plain)
        self.assertIn("head 2", plain)
        record = self.good_json(*command, "--json", "-", "--pair", "Ada was", "the cats")
        self.assertEqual([part["name"] for part in record["parts"]], ["encoder"])
        self.assertEqual(record["parts"][0]["queries"],
                         ["[CLS]", "▁the", "▁cat", "s", "[SEP]", "▁Ada", "▁was", "[SEP]"])
        self.assertEqual(len(record["parts"][0]["rollout"]), 8)
        self.good(*command, "--quiet", "--html", "a.html", "--svg", "a.svg", "the cat")
        self.assertIn("<svg", (self.work / "a.svg").read_text(encoding="utf-8"))
        self.bad(1, "--part is cross, and the model has encoder alone", *command, "--part", "cross", "the cat")
        self.bad(1, "--head is 3, expected 1 to 2", *command, "--head", 3, "the cat")
        self.bad(2, "--to is given", *command, "--to", "de", "the cat")
        self.bad(1, "is an encoder", *command, "--target", "x", "the cat")


class ModelsDocument(ProgramTest):
    """docs/models.md: its commands run as they are written."""

    @unittest.skipUnless(shutil.which("bash"), "there is no bash")
    def test_commands(self):
        write_all(self.work)
        small_families.write_all(program_test.program, self.work)
        text = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
        commands = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(commands), 6)
        path = f"{pathlib.Path(program_test.program).parent}:{os.environ['PATH']}"
        done = subprocess.run(["bash", "-euxo", "pipefail", "-c", "".join(commands)], cwd=self.work, check=False,
                              env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("vectors.npy", "page.html"):
            self.assertGreater((self.work / name).stat().st_size, 0, name)

    def test_every_family_has_a_snippet(self):
        text = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
        snippets = "".join(re.findall(r"^```\w+\n(.*?)^```$", text.split("## One snippet")[1], re.MULTILINE | re.DOTALL))
        for name in ("bert-base-uncased", "opus-mt-en-de", *small_families.FAMILIES):
            self.assertIn(name, snippets)
