"""headway finetune, and the ROUGE of headway evaluate."""

import json
import pathlib
import sys

from program_test import ProgramTest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_bert import write_model

TEXTS = [("I love it", "good"), ("the cat sat", "none"), ("I hate it", "bad"), ("Ada was in Paris", "none")]


class Finetune(ProgramTest):
    """headway finetune"""

    def setUp(self):
        super().setUp()
        self.model = write_model(self.work / "model")
        lines = ["text,label"] + [f"\"{text}\",{label}" for text, label in TEXTS * 8]
        (self.work / "train.csv").write_text("\r\n".join(lines) + "\r\n")
        self.command = ["finetune", "--task", "classify", "--model", self.model, "--data", "train.csv", "--test",
                        "train.csv", "--output", "mine", "--learning-rate", "1e-2", "--dropout", "0", "--batch", "8", "--steps", "80"]

    def test_a_model_that_classify_opens(self):
        result = self.good_json(*self.command, "--json", "--quiet")
        self.assertTrue(result["finished"])
        self.assertEqual((result["last_step"], result["saved_step"]), (80, 80))
        self.assertGreater(result["test"][0]["accuracy"], 90)
        labels = [json.loads(line)["labels"][0]["label"] for line in
                  self.good("classify", "--model", "mine", "--json", "I love it", "I hate it").splitlines()]
        self.assertEqual(labels, ["good", "bad"])
        self.assertIn("headway finetune --task classify", (self.work / "mine" / "README.md").read_text())

    def test_a_config_is_written_and_read(self):
        config = self.good_json(*self.command, "--print-config", "--device", "cuda")
        self.assertEqual((config["task"], config["steps"], config["device"]), ("classify", 80, "cuda"))
        (self.work / "run.json").write_text(json.dumps({**config, "device": "cpu", "steps": 2}))
        text = self.good("finetune", "--config", "run.json", "--steps", "1", "--quiet")
        self.assertIn("mine: 1 steps", text)
        self.assertIn("test: loss", text)

    def test_a_run_is_resumed_by_its_directory(self):
        whole = self.good_json(*self.command, "--json", "--quiet", "--steps", 40, "--output", "whole")
        self.good(*self.command, "--quiet", "--steps", 20, "--learning-rate", 1e-2, "--schedule", "constant")
        self.bad(1, "batch is 4, and", "finetune", "--resume", "mine", "--batch", 4)
        self.bad(1, "expected translation", "train", "--resume", "mine")
        result = self.good_json("finetune", "--resume", "mine", "--steps", 40, "--json", "--quiet")
        self.assertEqual((result["last_step"], whole["last_step"]), (40, 40))

    def test_what_does_not_go_together(self):
        self.bad(1, "expected one of them", "finetune", "--data", "train.csv")
        self.bad(1, "has no field \"category\"", *self.command, "--label-field", "category")
        self.bad(1, "expected one of \"classify\"", *self.command, "--task", "translate")
        self.bad(1, "none.csv", *self.command, "--data", "none.csv")
        self.bad(1, "not in the format of SQuAD", *self.command, "--task", "answer", "--data", self.model / "config.json")


class Rouge(ProgramTest):
    """headway evaluate --metric rouge"""

    def test_rouge(self):
        (self.work / "texts").write_text("the cats sat\nx\n")
        (self.work / "right").write_text("the cat sat\ny\n")
        files = ["evaluate", "--metric", "rouge", "--hypotheses", "texts", "--reference", "right"]
        plain, stems = self.good_json(*files, "--json"), self.good_json(*files, "--stemmer", "--json")
        self.assertAlmostEqual(plain["rouge1"]["f1"], 1 / 3)
        self.assertAlmostEqual(plain["rougeL"]["recall"], 1 / 3)
        self.assertAlmostEqual(stems["rouge2"]["precision"], 0.5)
        self.assertIn("rougeL 50.00", self.good(*files, "--stemmer"))
