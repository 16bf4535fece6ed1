"""headway generate and headway summarize, on small random models that the test writes."""

import json
import math
import random
import struct

from program_test import ProgramTest

TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None,
    "added_tokens": [{"id": 0, "content": "<end>", "single_word": False, "lstrip": False, "rstrip": False,
                      "normalized": False, "special": True}],
    "normalizer": None,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "post_processor": None,
    "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
              "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
              "vocab": {"<end>": 0, "a": 1, "b": 2, "c": 3, "\u0120": 4, "ab": 5, "bc": 6, "d": 7}, "merges": ["a b", "b c"]},
}


def write_model(directory, config, shapes, tokenizer=True, given=None):
    """A directory with random weights: name -> shape. `given`: the values of tensors that are not random."""
    directory.mkdir()
    generator = random.Random(5)
    header, data = {}, b""
    for name, shape in shapes.items():
        count = math.prod(shape)
        norm = "norm" in name or ".ln_" in name
        values = [1.0 if norm and name.endswith("weight") else generator.gauss(0, 0.7) for _ in range(count)]
        values = (given or {}).get(name, values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
        data += struct.pack(f"<{count}f", *values)
    text = json.dumps(header).encode()
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (directory / "config.json").write_text(json.dumps(config))
    if tokenizer:
        (directory / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    return directory


def gpt2(directory, **options):
    width, hidden, vocabulary = 8, 16, 8
    shapes = {"transformer.wte.weight": [vocabulary, width], "transformer.wpe.weight": [32, width]}
    layer = "transformer.h.0."
    for norm in ("ln_1", "ln_2"):
        shapes.update({f"{layer}{norm}.weight": [width], f"{layer}{norm}.bias": [width]})
    for name, size in {"attn.c_attn": [width, 3 * width], "attn.c_proj": [width, width], "mlp.c_fc": [width, hidden],
                       "mlp.c_proj": [hidden, width]}.items():
        shapes.update({f"{layer}{name}.weight": size, f"{layer}{name}.bias": size[1:]})
    shapes.update({"transformer.ln_f.weight": [width], "transformer.ln_f.bias": [width]})
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": vocabulary, "n_embd": width,
              "n_head": 2, "n_layer": 1, "n_inner": hidden, "n_positions": 32, "bos_token_id": 0, "eos_token_id": 0}
    return write_model(directory, config, shapes, **options)


def t5(directory, **options):
    width, vocabulary = 8, 8
    square = [width, width]
    shapes = {"shared.weight": [vocabulary, width], "lm_head.weight": [vocabulary, width]}
    for stack in ("encoder", "decoder"):
        layers = ["SelfAttention"] + (["EncDecAttention"] if stack == "decoder" else [])
        for number, attention in enumerate(layers):
            prefix = f"{stack}.block.0.layer.{number}."
            shapes.update({f"{prefix}{attention}.{part}.weight": square for part in "qkvo"})
            shapes[prefix + "layer_norm.weight"] = [width]
        shapes[f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = [8, 2]
        prefix = f"{stack}.block.0.layer.{len(layers)}."
        shapes.update({prefix + "DenseReluDense.wi.weight": square, prefix + "DenseReluDense.wo.weight": square,
                       prefix + "layer_norm.weight": [width], f"{stack}.final_layer_norm.weight": [width]})
    config = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": vocabulary,
              "d_model": width, "d_kv": 4, "d_ff": width, "num_heads": 2, "num_layers": 1, "num_decoder_layers": 1,
              "relative_attention_num_buckets": 8, "relative_attention_max_distance": 16,
              "feed_forward_proj": "relu", "tie_word_embeddings": False, "decoder_start_token_id": 0,
              "eos_token_id": 0, "pad_token_id": 0}
    return write_model(directory, config, shapes, **options)


class Generate(ProgramTest):
    """headway generate"""

    def setUp(self):
        super().setUp()
        self.model = gpt2(self.work / "model")

    def generate(self, *arguments, **options):
        return self.good("generate", "--model", self.model, "--max-new-tokens", 8, *arguments, **options)

    def test_arguments_and_lines_are_prompts(self):
        both = self.generate("--ignore-end", "ab", "c")
        self.assertEqual(len(both.splitlines()), 2)
        self.assertEqual(self.generate("--ignore-end", data="ab\nc\n"), both)
        self.assertEqual(self.generate("--ignore-end", "ab"), both.splitlines()[0] + "\n")

    def test_json(self):
        line = json.loads(self.generate("--json", "--ignore-end", "ab c"))
        text = line["texts"][0]
        self.assertEqual(line["prompt"], "ab c")
        self.assertEqual((len(text["tokens"]), len(text["log_probabilities"]), text["reason"]), (8, 8, "length"))

    def test_tokens_need_no_tokenizer(self):
        self.model = gpt2(self.work / "bare", tokenizer=False)
        self.assertEqual(len(self.generate("--tokens", "--ignore-end", "5 4 3").split()), 8)
        self.bad(1, "no tokenizer", "generate", "--model", self.model, "ab")
        self.bad(2, "is not a token id", "generate", "--model", self.model, "--tokens", "5 x")
        self.bad(1, "has id 8, expected 0 to 7", "generate", "--model", self.model, "--tokens", "8")

    def test_draws_depend_on_the_seed_alone(self):
        draw = ["--temperature", 3, "--ignore-end", "--num-return", 3, "ab"]
        first = self.generate(*draw, "--seed", 1)
        self.assertEqual(len(first.splitlines()), 3)
        self.assertEqual(self.generate(*draw, "--seed", 1, "--threads", 2), first)
        self.assertNotEqual(self.generate(*draw, "--seed", 2), first)

    def test_beams_and_rules(self):
        found = self.generate("--beams", 3, "--num-return", 3, "ab").splitlines()
        scores = [float(line.split("\t")[1]) for line in found]
        self.assertEqual(scores, sorted(scores, reverse=True))
        rules = ["generate", "--model", self.model, "--json", "--ignore-end", "--no-repeat-ngram", 1, "--logit-bias",
                 "7:-100"]
        tokens = self.good_json(*rules, "--max-new-tokens", 6, "a")["texts"][0]["tokens"]
        self.assertEqual(len(set(tokens)), 6)
        self.assertNotIn(7, tokens)
        self.bad(1, "the rules leave no token", *rules, "--max-new-tokens", 8, "a")
        self.assertNotIn("c", self.generate("--ignore-end", "--stop", "c", "ab"))

    def test_wrong_options(self):
        self.bad(2, "--model", "generate", "ab")
        self.bad(2, "--logit-bias is 7, expected ID:X", "generate", "--model", self.model, "--logit-bias", "7", "ab")
        self.bad(1, "top_p is 2", "generate", "--model", self.model, "--top-p", 2, "ab")
        self.bad(1, "32 positions", "generate", "--model", self.model, "--tokens", "1 " * 33)
        self.bad(1, "encoder-decoder", "summarize", "--model", self.model, "ab")


class Summarize(ProgramTest):
    """headway summarize"""

    def test_standard_input_is_a_text(self):
        model = t5(self.work / "model")
        write = ["summarize", "--model", model, "--max-new-tokens", 6, "--ignore-end"]
        whole = self.good(*write, data="ab c\nab\n")
        self.assertEqual(len(whole.splitlines()), 1)
        lines = self.good(*write, "--lines", data="ab c\nab\n").splitlines()
        self.assertEqual(lines, self.good(*write, "ab c", "ab").splitlines())
        self.assertEqual(self.good(*write, "--prefix", "ab ", "c"), lines[0] + "\n")
        self.bad(1, "decoder alone", "generate", "--model", model, "ab")
