"""example_recommend: training that is killed and resumed, evaluation beside popularity, bad input."""

import json
import random
import re

import example_program


class Recommend(example_program.ExampleTest):
    """The commands of example_recommend on 40 users who go through 20 items in a circle."""

    def setUp(self):
        super().setUp()
        numbers = random.Random(1)
        self.data = self.folder / "Video.txt"
        lines = []
        for user in range(1, 41):
            first = numbers.randrange(20)
            lines += [f"{user} {(first + i) % 20 + 1}" for i in range(numbers.randrange(3, 9))]
        self.data.write_text("\n".join([*lines, "41 21", "42 5", "42 6"]) + "\n")
        self.shape = ["--width", 16, "--hidden", 16, "--negatives", 8, "--users", 16, "--dropout", 0]

    def numbers(self, line):
        return [float(number) for number in re.findall(r"\d\.\d{4}", line)]

    def test_train_and_evaluate(self):
        model = self.folder / "model"
        self.run_program("train", self.folder, "--output", model, "--steps", 200, *self.shape)
        counts = json.loads((model / "items.json").read_text())["counts"]
        self.assertEqual((len(counts), counts[0], counts[21]), (22, 0, 1))
        printed, _ = self.run_program("evaluate", self.data, model, "--draws", 2)
        lines = printed.splitlines()
        self.assertEqual(lines[0], "test: 40 users, 21 items")
        self.assertEqual(len(lines), 6)
        hit_rate, ndcg = self.numbers(lines[-1])
        self.assertTrue(0.9 < ndcg <= hit_rate, printed)  # the next item of the circle
        popular, _ = self.run_program("popular", self.data, "--part", "validation")
        self.assertTrue(popular.startswith("validation: 40 users"))
        self.assertLess(self.numbers(popular.splitlines()[-1])[1], ndcg)

    def test_killed_and_resumed(self):
        self.check_resumes(self.data, "--steps", 60, "--checkpoint-every", 20, *self.shape,
                           checkpoints="training/*.safetensors")

    def test_bad_input(self):
        for text, expected in [("1 2\n1\n", 'Video.txt:2: "1", expected a user and an item'), ("1 x\n", "Video.txt:1"),
                               ("1 2 3\n", "Video.txt:1"), ("1 0\n", "the item is 0, expected 1 to"), ("", "is empty"),
                               ("1 99999999\n", "expected 1 to 16777215"), ("1 2\n2 3\n", "no user has two items")]:
            self.data.write_text(text)
            self.refuse(expected, "train", self.data, "--output", self.folder / "model", "--steps", 1)
        self.refuse("none cannot be opened", "popular", self.folder / "none")
        self.data.write_text("1 2\n1 3\n")
        self.refuse("no user has 3 items", "popular", self.data)
        self.data.write_text("1 2\n1 3\n1 4\n")
        self.refuse('--part is "x", expected test or validation', "popular", self.data, "--part", "x")
        self.refuse("--draws is 0", "popular", self.data, "--draws", 0)
        self.refuse("expected a command", "rank")
        self.refuse("evaluate: expected DATA MODEL", "evaluate", self.data)
        self.refuse("there is no option --step", "train", self.data, "--step", 5)


if __name__ == "__main__":
    example_program.main()
