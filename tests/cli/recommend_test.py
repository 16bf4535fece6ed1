"""headway recommend, on a small random model whose items are 1 to 7."""

import json

from generate_test import gpt2
from program_test import ProgramTest


class Recommend(ProgramTest):
    """headway recommend"""

    def setUp(self):
        super().setUp()
        self.model = gpt2(self.work / "model", tokenizer=False)
        self.command = ["recommend", "--model", self.model]

    def write_counts(self, counts):
        (self.model / "items.json").write_text(json.dumps({"counts": counts}))

    def rows(self, *arguments, **options):
        return [line.split("\t") for line in self.good(*self.command, *arguments, **options).splitlines()]

    def test_one_history(self):
        rows = self.rows("--history", "5,2,6")
        self.assertEqual([row[0] for row in rows], ["1", "2", "3", "4"])
        self.assertEqual(sorted(row[1] for row in rows), ["1", "3", "4", "7"])
        self.assertEqual(len(self.rows("--history", "5,2,6", "--with-seen")), 7)
        self.assertRegex(rows[0][3], r"^from \d+% [526](, \d+% [526]){0,2}$")
        self.assertEqual(self.rows("--history", " 5 2, 6 ", "--count", 2), rows[:2])
        found = self.good_json(*self.command, "--history", "5,2,6", "--json")
        self.assertEqual([str(item["item"]) for item in found["items"]], [row[1] for row in rows])
        for item in found["items"]:
            self.assertAlmostEqual(sum(item["shares"]), 1.0, places=5)
        self.assertEqual([len(head) for head in found["attention"][0]], [3, 3])
        self.assertEqual((found["history"], found["read"], found["note"]), ([5, 2, 6], [5, 2, 6], ""))

    def test_a_history_a_line(self):
        rows = self.rows("--count", 1, data="5,2,6\n3\r\n1 1 1\n")
        self.assertEqual([row[:2] for row in rows], [["1", "1"], ["2", "1"], ["3", "1"]])
        self.assertEqual(rows[0][1:], self.rows("--history", "5,2,6", "--count", 1)[0])
        self.assertEqual(self.rows(data=""), [])

    def test_remarkable_histories(self):
        self.write_counts([0, 9, 8, 7, 6, 5, 4, 0])
        long = ",".join(["1", "2"] * 20)
        done = self.call(*self.command, "--count", 2, data=f"\n7\n3,7,99,4\n{long}\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split("\t") for line in done.stdout.splitlines()]
        self.assertEqual([row[2] for row in rows[:4]], ["1", "2", "1", "2"])
        self.assertEqual(done.stderr.splitlines(), [
            "headway recommend: history 1: the history is empty; these are the most popular items",
            "headway recommend: history 2: item 7 was ignored: training never met it; these are the most popular items",
            "headway recommend: history 3: items 7, 99 were ignored: training never met them",
            "headway recommend: history 4: the oldest 8 items were left out: the history is longer than the model reads",
        ])
        self.assertEqual(len(self.call(*self.command, "--history", "").stdout.splitlines()), 6)

    def test_pages(self):
        done = self.call(*self.command, "--history", "5,2,6", "--html", "page.html", "--svg", "picture.svg")
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 4), done.stderr)
        self.assertIn("item 6", (self.work / "page.html").read_text(encoding="utf-8"))
        self.assertIn("item 6", (self.work / "picture.svg").read_text(encoding="utf-8"))
        self.assertTrue(self.good(*self.command, "--history", "5", "--svg", "-").startswith("<svg"))

    def test_bad(self):
        for history, part in (("5,x", '--history has "x", expected items'), ("5,0", 'has "0"'), ("-3", 'has "-3"'),
                              ("5.5", 'has "5.5"'), ("99999999999999999999", "expected items: numbers from 1"),
                              ("8", "history 1 has no item that the model knows")):
            self.bad(1, part, *self.command, f"--history={history}")
        self.bad(1, "history 1 is empty", *self.command, "--history", "")
        self.bad(2, "--history", *self.command, "--history")
        self.bad(1, 'history 2 has "b"', *self.command, data="5\nb\n")
        self.bad(2, "--html and --svg draw one history", *self.command, "--html", "page.html", data="5\n")
        self.bad(2, "--count", *self.command, "--history", "5", "--count", 0)
        self.bad(1, "no/page.html", *self.command, "--history", "5", "--html", "no/page.html")
        self.bad(1, "none", "recommend", "--model", "none", "--history", "5")
        self.write_counts([1, 2])
        self.bad(1, "counts has 2 numbers, expected one for each of the model's 8 tokens", *self.command, "--history", "5")
        self.write_counts([0, 1, 1, 1, 1, 1, 1, 1])
        self.bad(1, "the history has no item that the model knows", *self.command, "--history", "9", "--svg", "a.svg")
        self.bad(1, "no model: name one with --model DIR (looked at", "recommend", "--history", "5",
                 of=self.program_elsewhere())
