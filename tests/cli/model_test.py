"""Commands that use a model: translate, evaluate, attend, quantize, info."""

import json
import os
import pty
import shutil
import subprocess
import unittest

import program_test
from program_test import ProgramTest, meaning, small_model

LINES = ["ka mo", "ti", "lu re so", "na pe", "wi du fa go"]


class Translate(ProgramTest):
    """headway translate"""

    def test_arguments(self):
        self.assertEqual(self.good("translate", "--model", small_model(), "--to", "de", *LINES).split("\n"),
                         [meaning(line) for line in LINES] + [""])

    def test_standard_input_keeps_order(self):
        lines = LINES * 30
        for beam in (1, 4):
            output = self.good("translate", "--model", small_model(), "--to", "deu", "--beam", beam, "--batch", 7,
                               data="\n".join(lines))
            self.assertEqual(output.split("\n"), [meaning(line) for line in lines] + [""])

    def test_back_again(self):
        output = self.good("translate", "--model", small_model(), "--to", "English", meaning("ka mo ti"))
        self.assertEqual(output, "ka mo ti\n")

    def test_same_for_every_number_of_threads(self):
        command = ["translate", "--model", small_model(), "--to", "de", "--json"]
        outputs = {self.good(*command, "--threads", threads, *LINES) for threads in (1, 2, 3)}
        self.assertEqual(len(outputs), 1)

    def test_remarkable_lines(self):
        data = b"ka mo\r\n\n   \n\xff\xfe ka\nka \xf0\x9f\xa4\xaf mo\n" + "中文 Привет\n".encode() + b"ka mo " * 2000
        done = self.call("translate", "--model", small_model(), "--to", "de", "--beam", 1, "--max-length", 20,
                         data=data)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.split("\n")
        self.assertEqual(len(lines), 8)
        self.assertEqual(lines[0], "Yip Xor")
        self.assertEqual(lines[1:3], ["", ""])
        for number in (2, 3, 4, 7):
            self.assertIn(f"headway translate: text {number}: ", done.stderr)
        self.assertNotIn("text 1:", done.stderr)

    def test_no_input(self):
        self.assertEqual(self.good("translate", "--model", small_model()), "")

    def test_json_and_n_best(self):
        lines = self.good("translate", "--model", small_model(), "--to", "de", "--json", "--n-best", 3, "ka mo", '"\\')
        answers = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual([answer["source"] for answer in answers], ["ka mo", '"\\'])
        self.assertEqual(answers[0]["translation"], "Yip Xor")
        self.assertEqual(answers[0]["to"], "deu")
        scores = [best["score"] for best in answers[0]["best"]]
        self.assertEqual(len(scores), 3)
        self.assertEqual(scores, sorted(scores, reverse=True))
        rows = [row.split("\t") for row in
                self.good("translate", "--model", small_model(), "--to", "de", "--n-best", 2, "ti", "ka").splitlines()]
        self.assertEqual([row[0] for row in rows], ["1", "1", "2", "2"])
        self.assertEqual(rows[0][2], "Zan")

    def test_odd_arguments_stay_whole(self):
        for text in ("[ka, mo]", "{}", "train", "", "'ka'"):
            answer = self.good_json("translate", "--model", small_model(), "--to", "de", "--json", text)
            self.assertEqual(answer["source"], text)
        self.assertEqual(self.good_json("translate", "--model", small_model(), "--json", "--", "-x")["source"], "-x")

    def test_streams_on_a_terminal(self):
        mine, its = pty.openpty()
        process = subprocess.Popen([program_test.program, "translate", "--model", str(small_model()), "--to", "de",
                                    "--beam", "1", "ka mo ti"], stdout=its, stderr=subprocess.PIPE)
        os.close(its)
        _, errors = process.communicate(timeout=100)
        output = b""
        try:
            while part := os.read(mine, 1000):
                output += part
        except OSError:
            pass  # the other end is closed
        os.close(mine)
        self.assertEqual((process.returncode, errors), (0, b""))
        self.assertEqual(output.decode().replace("\r\n", "\n"), meaning("ka mo ti") + "\n")

    def test_answers_before_the_input_ends(self):
        process = subprocess.Popen([program_test.program, "translate", "--model", str(small_model()), "--to", "de"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for line in LINES:
            process.stdin.write((line + "\n").encode())
            process.stdin.flush()
            self.assertEqual(process.stdout.readline().decode(), meaning(line) + "\n")
        process.stdin.close()
        self.assertEqual(process.wait(timeout=100), 0)
        process.stdout.close()

    def test_model_of_the_environment(self):
        output = self.good("translate", "--to", "de", "ti", environment={"HEADWAY_MODEL": str(small_model())})
        self.assertEqual(output, "Zan\n")
        shutil.copytree(small_model(), self.work / "models/en-de", ignore=shutil.ignore_patterns("training"))
        self.assertEqual(self.good("translate", "--to", "de", "ti", of=self.program_elsewhere()), "Zan\n")

    def test_model_that_comes_along(self):
        self.assertEqual(self.good("translate", "Good morning!"), "Guten Morgen!\n")
        self.assertEqual(self.good("translate", "--to", "en", "Guten Morgen!"), "Good morning.\n")
        self.assertEqual(self.good_json("info", "--json")["model"]["languages"], ["deu", "eng"])

    def test_wrong_usage(self):
        self.bad(2, "--beam", "translate", "--model", small_model(), "--beam", 0, "x")
        self.bad(2, "--beam", "translate", "--model", small_model(), "--beam", "four", "x")
        self.bad(2, "--n-best is 3, expected at most --beam", "translate", "--beam", 2, "--n-best", 3, "x")
        self.bad(2, "--frobnicate", "translate", "--frobnicate", "x")
        self.bad(2, "--threads", "translate", "--threads", "-1", "x")
        self.bad(1, "--to is fr, expected one of deu, eng", "translate", "--model", small_model(), "--to", "fr", "x")
        self.bad(1, '"foo" is not known', "translate", "--model", small_model(), "--device", "foo", "x")
        self.bad(2, "--dtype is float16, expected float32 or int8 on the CPU", "translate", "--dtype", "float16", "x")

    def test_devices_that_are_not_there(self):
        if self.good_json("info", "--json")["cuda_devices"] > 0:
            self.skipTest("there is a GPU")
        for command in (("translate", "x"), ("attend", "x")):
            self.bad(1, "cuda: ", *command, "--model", small_model(), "--device", "cuda")
        self.assertEqual(json.loads(self.good("train", "--device", "cuda", "--print-config"))["device"], "cuda")
        self.bad(1, "cuda: ", "train", "--device", "cuda", "--data", "pairs.tsv")

    def test_bad_models(self):
        self.bad(1, "none", "translate", "--model", "none", "x")
        for name in ("config.json", "model.safetensors", "vocab.json", "source.spm"):
            broken = self.work / ("broken-" + name)
            shutil.copytree(small_model(), broken, ignore=shutil.ignore_patterns("training"))
            content = (broken / name).read_bytes()
            (broken / name).write_bytes(content[: len(content) // 2])
            self.bad(1, name, "translate", "--model", broken, "x")
            (broken / name).unlink()
            self.bad(1, name, "translate", "--model", broken, "x")

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([program_test.program, "translate", "--model", str(small_model()), "ka"], stdout=full,
                                  stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output cannot be written", done.stderr)


class Evaluate(ProgramTest):
    """headway evaluate"""

    def setUp(self):
        super().setUp()
        (self.work / "source").write_text("\n".join(LINES) + "\n", encoding="utf-8")
        (self.work / "reference").write_text("\n".join(map(meaning, LINES)) + "\n", encoding="utf-8")

    def test_files(self):
        (self.work / "output").write_text("The cat sat on the mat.\nA b c d.\n", encoding="utf-8")
        (self.work / "right").write_text("The cat sat on a mat.\nA b c d.\n", encoding="utf-8")
        text = self.good("evaluate", "--hypotheses", "output", "--reference", "right")
        self.assertIn("2 sentences\nBLEU 69.19  ", text)
        self.assertIn("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0", text)
        self.assertIn("chrF ", text)
        result, = self.good_json("evaluate", "--hypotheses", "output", "--reference", "right", "--json")
        self.assertAlmostEqual(result["bleu"]["score"], 69.19, places=2)
        self.assertEqual(result["sentences"], 2)

    def test_standard_input(self):
        data = "\n".join(map(meaning, LINES))
        text = self.good("evaluate", "--hypotheses", "-", "--reference", "reference", data=data)
        self.assertIn("chrF 100.00", text)

    def test_of_a_model(self):
        text = self.good("evaluate", "--model", small_model(), "--source", "source", "--reference", "reference",
                         "--to", "de", "--output", "translations")
        self.assertIn("chrF 100.00", text)
        self.assertEqual((self.work / "translations").read_text(), (self.work / "reference").read_text())

    def test_of_data(self):
        data = program_test.shared / "pairs.tsv"
        both = self.good_json("evaluate", "--model", small_model(), "--data", data, "--json")
        self.assertEqual([part["direction"] for part in both], ["eng-deu", "deu-eng"])
        self.assertGreater(both[0]["chrf"]["score"], 90)
        one, = self.good_json("evaluate", "--model", small_model(), "--data", data, "--to", "en", "--json", "--part",
                              "validation", "--beam", 1)
        self.assertEqual(one["direction"], "deu-eng")

    def test_bad(self):
        self.bad(2, "expected one of", "evaluate")
        self.bad(2, "expected one of", "evaluate", "--hypotheses", "source", "--data", "x")
        self.bad(2, "--reference FILE is required", "evaluate", "--hypotheses", "source")
        self.bad(2, "--reference is not expected", "evaluate", "--data", "x", "--reference", "reference")
        self.bad(2, "--part", "evaluate", "--data", "x", "--part", "training")
        self.bad(1, "none: no such file", "evaluate", "--hypotheses", "none", "--reference", "reference")
        (self.work / "short").write_text("a\n", encoding="utf-8")
        self.bad(1, "short has 1 line and reference 5", "evaluate", "--hypotheses", "short", "--reference", "reference")
        self.bad(1, "none.tsv: no such file", "evaluate", "--model", small_model(), "--data", "none.tsv")
        (self.work / "few.tsv").write_text("a\tb\n", encoding="utf-8")
        self.bad(1, "test part has no pairs", "evaluate", "--model", small_model(), "--data", "few.tsv")


class Attend(ProgramTest):
    """headway attend"""

    def test_terminal(self):
        plain = self.good("attend", "--model", small_model(), "--to", "de", "ka mo ti")
        self.assertTrue(plain.startswith("ka mo ti\n→ Zan Yip Xor\n\n"), plain)
        self.assertNotIn("\x1b", plain)
        colored = self.good("attend", "--model", small_model(), "--to", "de", "--color", "always", "ka mo ti")
        self.assertIn("\x1b[", colored)
        word = self.good("attend", "--model", small_model(), "--to", "de", "--part", "encoder", "--word", "mo",
                         "ka mo ti")
        self.assertNotEqual(word, plain)
        one = self.good("attend", "--model", small_model(), "--to", "de", "--layer", 1, "--head", 3, "ka mo ti")
        self.assertIn("head 3", one)
        self.assertNotIn("head 2", one)

    def test_files(self):
        done = self.call("attend", "--model", small_model(), "--to", "de", "--html", "a.html", "--svg", "a.svg",
                         "--json", "a.json", "--quiet", "--layer", 1, "--head", 2, data="ka mo")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertIn("a.html written", done.stderr)
        self.assertIn("<html", (self.work / "a.html").read_text(encoding="utf-8").lower())
        self.assertIn("<svg", (self.work / "a.svg").read_text(encoding="utf-8"))
        record = json.loads((self.work / "a.json").read_text(encoding="utf-8"))
        self.assertEqual(record["target"], "Yip Xor")
        self.assertEqual(sorted(path.name for path in self.work.iterdir()), ["a.html", "a.json", "a.svg"])

    def test_of_a_given_translation(self):
        record = self.good_json("attend", "--model", small_model(), "--to", "de", "--target", "Zan", "--json", "-",
                                "ka mo")
        self.assertEqual(record["target"], "Zan")

    def test_bad(self):
        model = ["attend", "--model", small_model(), "--to", "de"]
        self.bad(2, "expected one: put it in quotes", *model, "ka", "mo")
        self.bad(2, "standard input has 2 lines", *model, data="ka\nmo\n")
        self.bad(2, "--part", *model, "--part", "nose", "ka")
        self.bad(1, "--layer is 7, expected 1 to 1", *model, "--layer", 7, "ka")
        self.bad(1, "--head is 9, expected 1 to 4", *model, "--head", 9, "ka")
        self.bad(2, "--layer", *model, "--layer", 0, "ka")
        self.bad(1, "none/a.html: no file can be made in its directory", *model, "--quiet", "--html", "none/a.html", "ka")


class Quantize(ProgramTest):
    """headway quantize, and --dtype int8"""

    def test_a_translator(self):
        said = self.good("quantize", small_model(), "int8")
        before, after = ((model / "model.safetensors").stat().st_size for model in (small_model(), self.work / "int8"))
        self.assertEqual(said, f"int8: weights of {after / 1e6:.1f} MB, before {before / 1e6:.1f} MB\n")
        self.assertLess(after, before / 2)  # norms, biases and scales are much of so small a model
        same = {path.name for path in small_model().iterdir()} - {"training"}
        self.assertEqual({path.name for path in (self.work / "int8").iterdir()}, same)
        for options in ((), ("--beam", 1), ("--threads", 2, "--batch", 3)):
            expected = "".join(meaning(line) + "\n" for line in LINES)
            for model in (("--model", "int8"), ("--model", small_model(), "--dtype", "int8")):
                self.assertEqual(self.good("translate", *model, "--to", "de", *options, *LINES), expected)
        self.assertEqual(self.good("translate", "--model", "int8", "--dtype", "float32", "--to", "de", "ti"), "Zan\n")
        for model, dtype in (("int8", "int8"), (small_model(), "float32")):
            self.assertEqual(self.good_json("info", "--json", "--model", model)["model"]["dtype"], dtype)
        self.assertIn("  numbers        int8\n", self.good("info", "--model", "int8"))
        self.assertIn("Yip", self.good("attend", "--model", "int8", "--to", "de", "ka mo"))

    def test_the_model_that_comes_along(self):
        self.assertEqual(self.good("translate", "--dtype", "int8", "Good morning!"), "Guten Morgen!\n")
        self.assertEqual(self.good("translate", "--dtype", "int8", "--to", "en", "Guten Morgen!"), "Good morning.\n")
        text = "The animal didn't cross the street because it was too tired."
        self.assertEqual(self.good("translate", "--dtype", "int8", text),
                         "Das Tier überquerte nicht die Straße, weil es zu müde war.\n")

    def test_refusals(self):
        facts = self.good_json("quantize", small_model(), "int8", "--json")
        self.assertEqual(facts["output"], "int8")
        self.assertLess(facts["bytes_after"], facts["bytes_before"])
        self.bad(1, "int8: is there already, expected no such directory or an empty one", "quantize", small_model(),
                 "int8")
        self.bad(1, "int8: its weights have 8 bits already", "quantize", "int8", "again")
        self.bad(1, "none", "quantize", "none", "again")
        self.bad(2, "OUT is required", "quantize", "int8")
        config = json.loads((self.work / "int8/config.json").read_text())
        config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_8bit": True}
        (self.work / "int8/config.json").write_text(json.dumps(config))
        self.bad(1, 'int8/config.json: quantization_config: quant_method is "bitsandbytes", expected "headway"',
                 "translate", "--model", "int8", "x")
        self.assertFalse((self.work / "again").exists())


class Info(ProgramTest):
    """headway info"""

    def test_without_a_model(self):
        elsewhere = self.program_elsewhere()
        self.bad(1, "no model", "translate", "x", of=elsewhere)
        text = self.good("info", of=elsewhere)
        self.assertIn("threads          1\n", text)
        self.assertRegex(text, r"CUDA             \S")
        facts = self.good_json("info", "--json", "--threads", 2, of=elsewhere)
        self.assertEqual((facts["threads"], facts["model"]), (2, None))
        self.assertEqual(facts["cuda"], facts["cuda_devices"] > 0)
        self.assertIn("CUDA             " + facts["cuda_description"] + "\n", text)
        self.assertIn(facts["instruction_set"], facts["instruction_sets"])

    def test_with_a_model(self):
        facts = self.good_json("info", "--json", "--model", small_model())
        self.assertEqual(facts["model"]["d_model"], 32)
        self.assertEqual(facts["model"]["languages"], ["deu", "eng"])
        self.assertIn("languages      deu, eng", self.good("info", "--model", small_model()))
        self.bad(1, "none", "info", "--model", "none")


if __name__ == "__main__":
    unittest.main()
