"""Small BERT models with a tokenizer of a few words, written without any package."""

import array
import json
import random
import struct

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "i", "love", "hate", "it", "ada", "was", "in", "paris", ".",
         "who", "the", "cat", "sat", "##s", "a", "b", "c"]
WIDTH, HIDDEN, LAYERS, POSITIONS = 8, 12, 2, 24


def linear(tensors, name, outputs, inputs):
    tensors[name + ".weight"] = (outputs, inputs)
    tensors[name + ".bias"] = (outputs,)


def norm(tensors, name):
    tensors[name + ".weight"] = tensors[name + ".bias"] = (WIDTH,)


def shapes(head, labels):
    """Names and shapes as Hugging Face has them."""
    tensors = {}
    base = "bert." if head != "BertModel" else ""
    for table, count in (("word", len(WORDS)), ("position", POSITIONS), ("token_type", 2)):
        tensors[f"{base}embeddings.{table}_embeddings.weight"] = (count, WIDTH)
    norm(tensors, base + "embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"{base}encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            linear(tensors, f"{name}attention.self.{part}", WIDTH, WIDTH)
        linear(tensors, name + "attention.output.dense", WIDTH, WIDTH)
        norm(tensors, name + "attention.output.LayerNorm")
        linear(tensors, name + "intermediate.dense", HIDDEN, WIDTH)
        linear(tensors, name + "output.dense", WIDTH, HIDDEN)
        norm(tensors, name + "output.LayerNorm")
    if head in ("BertModel", "BertForSequenceClassification"):
        linear(tensors, base + "pooler.dense", WIDTH, WIDTH)
    if head in ("BertForSequenceClassification", "BertForTokenClassification"):
        linear(tensors, "classifier", labels, WIDTH)
    if head == "BertForQuestionAnswering":
        linear(tensors, "qa_outputs", 2, WIDTH)
    if head == "BertForMaskedLM":
        linear(tensors, "cls.predictions.transform.dense", WIDTH, WIDTH)
        norm(tensors, "cls.predictions.transform.LayerNorm")
        tensors["cls.predictions.bias"] = (len(WORDS),)
    return tensors


def write_safetensors(path, tensors):
    generator = random.Random(1)
    header, data = {}, b""
    for name, shape in tensors.items():
        count = 1
        for size in shape:
            count *= size
        is_norm = "LayerNorm.weight" in name
        values = array.array("f", [1.0 if is_norm else generator.gauss(0, 0.5) for _ in range(count)])
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def tokenizer():
    special = [{"id": i, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i, word in enumerate(WORDS[:5])]
    token = lambda name, kind: {"SpecialToken": {"id": name, "type_id": kind}}
    text = lambda name, kind: {"Sequence": {"id": name, "type_id": kind}}
    single = [token("[CLS]", 0), text("A", 0), token("[SEP]", 0)]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": single,
                           "pair": single + [text("B", 1), token("[SEP]", 1)],
                           "special_tokens": {name: {"id": name, "ids": [WORDS.index(name)], "tokens": [name]}
                                              for name in ("[CLS]", "[SEP]")}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {word: i for i, word in enumerate(WORDS)}},
    }


def write_model(directory, head="BertModel", labels=()):
    """A model directory with random parameters."""
    directory.mkdir(parents=True)
    config = {"model_type": "bert", "architectures": [head], "vocab_size": len(WORDS), "hidden_size": WIDTH,
              "num_hidden_layers": LAYERS, "num_attention_heads": 2, "intermediate_size": HIDDEN, "hidden_act": "gelu",
              "max_position_embeddings": POSITIONS, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0}
    if labels:
        config["id2label"] = {str(i): label for i, label in enumerate(labels)}
        config["label2id"] = {label: i for i, label in enumerate(labels)}
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer()), encoding="utf-8")
    names = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]",
             "mask_token": "[MASK]", "model_max_length": 512, "tokenizer_class": "BertTokenizer"}
    (directory / "tokenizer_config.json").write_text(json.dumps(names), encoding="utf-8")
    write_safetensors(directory / "model.safetensors", shapes(head, len(labels)))
    return directory


def write_all(directory):
    """What docs/models.md and docs/fine_tuning.md speak of: one model for each task, and small data."""
    write_model(directory / "all-MiniLM-L6-v2")
    write_model(directory / "sentiment", "BertForSequenceClassification", ["negative", "positive"])
    write_model(directory / "names", "BertForTokenClassification", ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    write_model(directory / "squad", "BertForQuestionAnswering")
    write_model(directory / "bert-base-uncased", "BertForMaskedLM")
    (directory / "page.txt").write_text("Ada was in Paris. The cat sat in it.\n", encoding="utf-8")
    (directory / "lines.txt").write_text("I love it\nI hate it\n", encoding="utf-8")
    for name in ("train.csv", "test.csv"):
        rows = "I love it,good\nI hate it,bad\nthe cat sat,none\n" * 4
        (directory / name).write_text("text,label\n" + rows, encoding="utf-8")
    (directory / "premises.tsv").write_text("the cat sat\tit sat\n", encoding="utf-8")
