"""example_gestures: training that is killed and resumed, both splits, rows from a file, bad input."""

import random

import example_program


class Gestures(example_program.ExampleTest):
    """The commands of example_gestures."""

    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        self.data.mkdir()
        numbers = random.Random(1)
        self.rows = [f"{row // 300}," + ",".join(f"{numbers.uniform(-0.2, 0.2):.6f}" for _ in range(32))
                     for row in range(1200)]
        (self.data / "point_history.csv").write_text("\n".join(self.rows) + "\n")

    def train(self, *words):
        """A model that has learnt nothing."""
        self.run_program("train", self.data, "--output", self.folder / "model", "--steps", 3, *words)
        return self.folder / "model"

    def test_splits(self):
        printed, _ = self.run_program("split", self.data)
        # numpy.random.RandomState(42).permutation(1200)[:300]
        self.assertEqual(printed.split()[:4], ["1178", "865", "101", "439"])
        self.assertEqual(len(set(printed.split())), 300)
        printed, _ = self.run_program("split", self.data, "--blocks")
        self.assertEqual([int(row) for row in printed.split()],
                         [300 * label + row for label in range(4) for row in range(192, 256)])

    def test_train_and_evaluate(self):
        model = self.train()
        printed, _ = self.run_program("evaluate", self.data, model, "--rows", 50)
        self.assertIn("50 rows of the split at random", printed)
        (self.folder / "model").rename(self.folder / "first")
        printed, _ = self.run_program("evaluate", self.data, self.train("--blocks"))
        self.assertIn("256 rows of the split by blocks", printed)

    def test_killed_and_resumed(self):
        self.check_resumes(self.data, "--steps", 100, "--checkpoint-every", 20, checkpoints="training/*.safetensors")

    def test_rows(self):
        model, rows = self.train(), self.folder / "rows.csv"
        rows.write_text(self.rows[0] + "\n" + self.rows[700].split(",", 1)[1] + "\n")
        printed, _ = self.run_program("classify", rows, "--model", model, "--html", self.folder / "page.html", "--svg",
                                      self.folder / "picture.svg")
        self.assertEqual([line.split(":")[0] for line in printed.splitlines()], ["row 1", "row 2"])
        rows.write_bytes(b"\xef\xbb\xbf" + rows.read_bytes().replace(b"\n", b"\r\n"))
        self.assertEqual(self.run_program("classify", rows, "--model", model)[0], printed)
        self.assertIn("<html", (self.folder / "page.html").read_text())
        self.assertIn("<svg", (self.folder / "picture.svg").read_text())

    def test_bad_input(self):
        model, rows = self.train(), self.folder / "rows.csv"
        for text, expected in [("1,2,3\n", "line 1: 3 numbers, expected x and y of 16 points"),
                               ("\n", "line 1: 0 numbers"), ("", "has no rows"),
                               ("7," + self.rows[0][2:] + "\n", "the class is not 0 to 3"),
                               (self.rows[0].replace("0.", "x.", 1) + "\n", "is not a number"),
                               (self.rows[0][:-9] + ",nan\n", "is not a number"),
                               (self.rows[0].rsplit(",", 1)[0] + ",1e30\n", "line 1: 1e30 is too large")]:
            rows.write_text(text)
            self.refuse(expected, "classify", rows, "--model", model)
        self.refuse("rows.csv: cannot be read", "classify", self.folder / "none/rows.csv", "--model", model)
        (model / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes()[:1000])
        self.refuse("model.safetensors", "evaluate", self.data, model)


if __name__ == "__main__":
    example_program.main()
