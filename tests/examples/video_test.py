"""example_video: training that is killed and resumed, figures of a few clips, clips as files, bad input."""

import random
import shutil
import unittest

import example_program

SMALL = ["--width", 16, "--heads", 2, "--layers", 1, "--hidden", 16, "--batch", 2]


class Video(example_program.ExampleTest):
    """The commands of example_video."""

    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        self.data.mkdir()
        numbers = random.Random(1)
        (self.data / "digits.csv").write_text("".join(
            ",".join(str(numbers.randrange(17)) for _ in range(64)) + f",{row // 5}\n" for row in range(50)))

    def train(self, steps=3):
        """A small model that has learnt nothing."""
        self.run_program("train", self.data, "--output", self.folder / "model", "--steps", steps, *SMALL)
        return self.folder / "model"

    def strip(self, name, side=24, frames=16):
        """A strip of frames in which a square moves."""
        rows = [[255 if abs(x % side - side // 4 - x // side) < 3 and abs(y - side // 2) < 3 else 0
                 for x in range(side * frames)] for y in range(side)]
        (self.folder / name).write_bytes(example_program.grey_png(rows))
        return self.folder / name

    def test_train_and_evaluate(self):
        model = self.train()
        self.assertEqual(sorted(path.name for path in model.iterdir()), ["config.json", "model.safetensors", "training"])
        printed, _ = self.run_program("evaluate", self.data, model, "--clips", 20)
        self.assertIn("20 clips", printed)
        self.assertIn("action and digit right", printed)
        self.refuse("checkpoints of another run", "train", self.data, "--output", model, "--steps", 3, *SMALL)

    def test_killed_and_resumed(self):
        self.check_resumes(self.data, "--steps", 60, "--checkpoint-every", 10, *SMALL,
                           checkpoints="training/*.safetensors")

    def test_clips_as_files(self):
        model = self.train()
        printed, notes = self.run_program("classify", self.strip("clip.png"), "--model", model)
        self.assertRegex(printed, r"^digit \d \w+")
        self.assertEqual(notes, "")
        _, notes = self.run_program("classify", self.strip("one.png", frames=1), "--model", model)
        self.assertIn("one frame, repeated", notes)
        _, notes = self.run_program("classify", self.strip("large.png", 40, 20), "--model", model)
        self.assertIn("frames of 40 x 40 pixels resized to 24 x 24; 20 frames spread over 16", notes)
        frames = self.folder / "frames"
        frames.mkdir()
        for number in range(16):
            shutil.copy(self.folder / "one.png", frames / f"{number:02}.png")
        _, notes = self.run_program("classify", frames, "--model", model)
        self.assertEqual(notes, "")
        self.run_program("show", self.data, "--action", 1, "--digit", 3, "--output", self.folder / "shown.png")
        self.run_program("classify", self.folder / "shown.png", "--model", model, "--html", self.folder / "page.html",
                         "--svg", self.folder / "picture.svg")
        self.assertIn("<html", (self.folder / "page.html").read_text())
        self.assertIn("<svg", (self.folder / "picture.svg").read_text())

    def test_bad_input(self):
        model = self.train()
        strip = self.strip("clip.png")
        (self.folder / "text.png").write_text("not a picture\n")
        self.refuse("text.png", "classify", self.folder / "text.png", "--model", model)
        (self.folder / "broken.png").write_bytes(strip.read_bytes()[:60])
        self.refuse("broken.png", "classify", strip, self.folder / "broken.png", "--model", model)
        (self.folder / "empty").mkdir()
        self.refuse("has no PNG or JPEG files", "classify", self.folder / "empty", "--model", model)
        self.refuse("classify takes", "classify", "--model", model)
        self.refuse("config.json: cannot be read", "classify", strip, "--model", self.folder / "none")
        config = (model / "config.json").read_text()
        (model / "config.json").write_text(config.replace('"width": 16', '"width": 32'))
        self.refuse("model.safetensors: ", "classify", strip, "--model", model)
        (model / "config.json").write_text(config.replace('"heads": 2', '"heads": 3'))
        self.refuse("\"heads\" is 3, which does not divide 16", "classify", strip, "--model", model)
        (model / "config.json").write_text(config.replace("16", '"many"', 1))
        self.refuse("is not a whole number", "classify", strip, "--model", model)
        (model / "config.json").write_text(config)
        (self.data / "digits.csv").write_text("1,2,3\n")
        self.refuse("line 1: 3 numbers, expected 64 pixels and the digit", "evaluate", self.data, model)
        (self.data / "digits.csv").rename(self.data / "digits.csv.gz")
        self.refuse("gzip -dk", "train", self.data)


if __name__ == "__main__":
    example_program.main()
