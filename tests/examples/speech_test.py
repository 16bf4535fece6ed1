"""example_speech: a few steps on made-up recordings, killed and resumed, an evaluation, bad input."""

import math
import random
import struct
import wave

import example_program


def write_wav(path, samples):
    """16 bits at 8 kHz."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(struct.pack(f"<{len(samples)}h", *(round(20000 * sample) for sample in samples)))


class Speech(example_program.ExampleTest):
    """The commands of example_speech."""

    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        self.data.mkdir()
        numbers = random.Random(1)
        (self.data / "split.tsv").write_text("speaker\tsplit\na\ttrain\nb\ttrain\nc\ttest\n")
        for speaker in "abc":
            (self.data / speaker).mkdir()
            for digit in range(10):
                pitch = numbers.uniform(0.1, 0.2) + digit / 10
                write_wav(self.data / speaker / f"{digit}_{speaker}_0.wav",
                          [0.3 * math.sin(pitch * i) * math.sin(math.pi * i / 2400) for i in range(2400)])

    def test_train_and_evaluate(self):
        model = self.folder / "model"
        self.run_program("train", self.data, "--output", model, "--steps", 3)
        self.run_program("train", self.data, "--also", self.data, "--from", model, "--output", self.folder / "more",
                         "--steps", 1)
        printed, _ = self.run_program("evaluate", self.data, model, "--strings", 4)
        self.assertRegex(printed, r"4 strings, \d+ words: word error rate [\d.]+%")
        self.assertRegex(printed, r"single digits: \d+ of 10")

    def test_killed_and_resumed(self):
        self.check_resumes(self.data, "--steps", 5, "--checkpoint-every", 2, checkpoints="training/*.safetensors")

    def test_bad_input(self):
        self.refuse("DATA", "train")
        self.refuse("split.tsv", "train", self.folder)
        self.refuse("no speaker of the part", "evaluate", self.data, self.folder, "--part", "none")
        self.refuse("there is no option --stepz", "train", self.data, "--stepz", 3)
        (self.data / "a" / "3_a_0.wav").write_text("no sound")
        self.refuse("3_a_0.wav", "train", self.data)


if __name__ == "__main__":
    example_program.main()
