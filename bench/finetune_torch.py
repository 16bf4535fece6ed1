#!/usr/bin/env python3
"""The PyTorch side of `headway finetune`: the same data, order of batches, rates and scores, by transformers.

    finetune_torch.py OUTPUT/training_config.json [--device cuda] [--steps N] [--compile] [--speed]

reads the settings of a run that Headway made and repeats it from the same weights (models from nothing: from the same
config and tokenizer, with PyTorch's own initial values). --speed measures a few steps and scores nothing.
"""

import argparse
import json
import math
import os
import pathlib
import re
import string
import subprocess
import tempfile
import time

import numpy
import torch
import transformers

WORD = (1 << 64) - 1
ODD = 0x9E3779B97F4A7C15
SORTED_BATCHES = 32


class RandomWords:
    """SplitMix64, as src/training/random_words.h has it."""

    def __init__(self, seed, stream):
        self.state = seed
        self.state = self.next() ^ (stream * ODD & WORD)

    def next(self):
        """The next 64 bits."""
        self.state = word = (self.state + ODD) & WORD
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
        return word ^ (word >> 31)

    def below(self, count):
        """0 .. count - 1."""
        return ((self.next() >> 32) * count) >> 32

    def shuffle(self, values):
        """In place, from the last to the first."""
        for i in range(len(values), 1, -1):
            j = self.below(i)
            values[i - 1], values[j] = values[j], values[i - 1]


def length_key(lengths):
    """Sorts by source length; target lengths ascend for even ones and descend for odd ones."""
    source, target = lengths
    return source, target if source % 2 == 0 else -target


class BatchPlan:
    """Which examples are in which batch, as src/training/batches.cpp has it."""

    def __init__(self, lengths, config):
        self.lengths, self.seed, self.epoch = lengths, config["seed"], -1
        self.order, self.batch_order, self.ties = [], [], []
        self.sorted = list(range(len(lengths)))
        if config["batch_tokens"] > 0:
            self.cut_by_tokens(config["batch_tokens"])
        else:
            self.starts = list(range(0, len(lengths), config["batch"])) + [len(lengths)]

    def cut_by_tokens(self, most):
        """As many rows as fit."""
        self.sorted.sort(key=lambda i: length_key(self.lengths[i]))
        self.starts, longest = [], (0, 0)
        for place, index in enumerate(self.sorted):
            here = self.lengths[index]
            if place == 0 or here != self.lengths[self.sorted[place - 1]]:
                self.ties.append(place)
            joined = (max(longest[0], here[0]), max(longest[1], here[1]))
            rows = place - self.starts[-1] if self.starts else 0
            if rows > 0 and (rows + 1) * sum(joined) <= most:
                longest = joined
            else:
                self.starts.append(place)
                longest = here
        self.ties.append(len(self.sorted))
        self.starts.append(len(self.sorted))

    def count(self):
        """Batches of an epoch."""
        return len(self.starts) - 1

    def members(self, index):
        """The examples of batch `index`, counted over all epochs."""
        epoch, place = divmod(index, self.count())
        if epoch != self.epoch:
            self.begin(epoch)
        batch = self.batch_order[place]
        return self.order[self.starts[batch]:self.starts[batch + 1]]

    def begin(self, epoch):
        """Shuffles."""
        random = RandomWords(self.seed, epoch)
        self.order = list(self.sorted)
        if not self.ties:
            random.shuffle(self.order)
            for batch in range(0, self.count(), SORTED_BATCHES):
                first = self.starts[batch]
                end = self.starts[min(batch + SORTED_BATCHES, self.count())]
                self.order[first:end] = sorted(self.order[first:end], key=lambda i: length_key(self.lengths[i]))
        for first, end in zip(self.ties, self.ties[1:]):
            some = self.order[first:end]
            random.shuffle(some)
            self.order[first:end] = some
        self.batch_order = list(range(self.count()))
        random.shuffle(self.batch_order)
        self.epoch = epoch


# ---- data ----


def read_csv(path):
    """Records of a .csv or .tsv; with a header where the first record names a text."""
    import csv

    if path.endswith(".csv"):
        with open(path, encoding="utf-8-sig", newline="") as file:
            records = [record for record in csv.reader(file) if record]
    else:
        text = pathlib.Path(path).read_bytes().decode("utf-8-sig")
        records = [line.rstrip("\r").split("\t") for line in text.split("\n") if line.strip("\r")]
    header = records[0]
    if "text" in header or "category" in header or "label" in header:
        text = header.index("text")
        label = next(header.index(name) for name in ("label", "category", "intent", "target") if name in header)
        return [(record[text], record[label]) for record in records[1:]]
    return [(record[0], record[1]) for record in records]


def read_labelled(path, parts):
    """Texts with labels or targets."""
    if not path.endswith(".json"):
        return read_csv(path)
    with open(path, encoding="utf-8") as file:
        lists = json.load(file)
    names = parts.split(",") if parts else list(lists)
    return [tuple(item) for name in names for item in lists[name]]


def read_spans(path, _):
    """restaurant8k: (text, [(begin, end, label)])."""
    with open(path, encoding="utf-8") as file:
        items = json.load(file)
    return [(item["userInput"]["text"],
             sorted((label["valueSpan"].get("startIndex", 0), label["valueSpan"]["endIndex"], label["slot"])
                    for label in item.get("labels", []))) for item in items]


def read_questions(path, _):
    """SQuAD 1.1: (article, question, context, answers)."""
    with open(path, encoding="utf-8") as file:
        articles = json.load(file)["data"]
    return [(number, qa["question"], paragraph["context"], [(a["answer_start"], a["text"]) for a in qa["answers"]])
            for number, article in enumerate(articles) for paragraph in article["paragraphs"]
            for qa in paragraph["qas"]]


def read_parts(config, read, group=lambda example, index: index):
    """Training, validation and test."""
    training = read(config["data"], config["parts"])
    validation, test = [], []
    if config["validation"] or config["validation_parts"]:
        validation = read(config["validation"] or config["data"], config["validation_parts"])
    if config["test"] or config["test_parts"]:
        test = read(config["test"] or config["data"], config["test_parts"])
    if config["folds"]:
        held = [group(example, i) % config["folds"] == config["fold"] for i, example in enumerate(training)]
        test = [example for example, out in zip(training, held) if out]
        training = [example for example, out in zip(training, held) if not out]
    if config["validate_texts"]:
        validation = validation[:config["validate_texts"]]
    return training, validation, test


def padded(rows, value):
    """Rows of different lengths as one tensor."""
    longest = max(map(len, rows))
    return torch.tensor([list(row) + [value] * (longest - len(row)) for row in rows])


# ---- tasks: examples are (ids, targets) ----


class Task:
    """What the tasks share: parts of examples and their batches."""

    def __init__(self, config, tokenizer, device):
        self.config, self.tokenizer, self.device = config, tokenizer, device

    def plan(self):
        """Of the training part."""
        self.batches = BatchPlan([(len(ids), len(target)) for ids, target in self.training], self.config)
        return self.batches

    def inputs(self, examples):
        """input_ids and attention_mask."""
        ids = padded([example[0] for example in examples], self.tokenizer.pad_token_id or 0).to(self.device)
        lengths = torch.tensor([len(example[0]) for example in examples], device=self.device)
        mask = (torch.arange(ids.shape[1], device=self.device)[None] < lengths[:, None]).long()
        return {"input_ids": ids, "attention_mask": mask}

    def chunks(self, examples, rows=64):
        """Batches for an evaluation, and the places of their examples."""
        order = sorted(range(len(examples)), key=lambda i: len(examples[i][0]))
        for first in range(0, len(order), rows):
            yield order[first:first + rows], [examples[i] for i in order[first:first + rows]]

    def loss(self, model, index):
        """Of batch `index`."""
        return self.batch_loss(model, [self.training[i] for i in self.batches.members(index)])


class Classify(Task):
    """A label of a text."""

    architecture = transformers.AutoModelForSequenceClassification

    def __init__(self, config, tokenizer, device):
        super().__init__(config, tokenizer, device)
        parts = read_parts(config, read_labelled)
        self.labels = sorted({label for _, label in parts[0]}, key=lambda label: label.encode())
        numbers = {label: i for i, label in enumerate(self.labels)}
        cut = config["max_length"] or 512
        encoded = [[(ids, [numbers[label]]) for ids, (_, label) in zip(
            tokenizer([text for text, _ in part], truncation=True, max_length=cut)["input_ids"], part)]
            if part else [] for part in parts]
        self.training, self.validation, self.test = encoded

    def batch_loss(self, model, examples):
        """Cross entropy."""
        logits = model(**self.inputs(examples)).logits
        targets = torch.tensor([target[0] for _, target in examples], device=self.device)
        return torch.nn.functional.cross_entropy(logits, targets, label_smoothing=self.config["label_smoothing"])

    def scores(self, model, examples):
        """Accuracy, in scope and out of scope."""
        right = [False] * len(examples)
        for places, some in self.chunks(examples):
            best = model(**self.inputs(some)).logits.argmax(-1).tolist()
            for place, guess, (_, target) in zip(places, best, some):
                right[place] = guess == target[0]
        result = {"accuracy": 100 * sum(right) / len(right)}
        if self.config["out_of_scope"]:
            outside = self.labels.index(self.config["out_of_scope"])
            inner = [r for r, (_, target) in zip(right, examples) if target[0] != outside]
            outer = [r for r, (_, target) in zip(right, examples) if target[0] == outside]
            result["in_scope_accuracy"] = 100 * sum(inner) / len(inner)
            result["out_of_scope_recall"] = 100 * sum(outer) / len(outer)
        return result


class Tag(Task):
    """Spans of a text as B-, I- and O tags."""

    architecture = transformers.AutoModelForTokenClassification

    def __init__(self, config, tokenizer, device):
        super().__init__(config, tokenizer, device)
        parts = read_parts(config, read_spans)
        self.names = sorted({span[2] for _, spans in parts[0] for span in spans})
        self.labels = ["O"] + [mark + name for name in self.names for mark in ("B-", "I-")]
        self.gold = {}
        self.training, self.validation, self.test = ([self.encode(*example) for example in part] for part in parts)

    def encode(self, text, spans):
        """Ids and the tags of tokens; the spans and the offsets are kept for the scores."""
        tokens = self.tokenizer(text, truncation=True, max_length=self.config["max_length"] or 512,
                                return_offsets_mapping=True)
        tags, previous = [], None
        for begin, end in tokens["offset_mapping"]:
            if begin == end:
                tags.append(-100)
                continue
            here = next((span for span in spans if begin < span[1] and span[0] < end), None)
            tags.append(0 if here is None else 2 * self.names.index(here[2]) + (1 if here != previous else 2))
            previous = here
        example = (tokens["input_ids"], tags)
        self.gold[id(tags)] = (tokens["offset_mapping"], spans)
        return example

    def batch_loss(self, model, examples):
        """Cross entropy of all tokens but the special ones."""
        logits = model(**self.inputs(examples)).logits
        targets = padded([tags for _, tags in examples], -100).to(self.device)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100,
                                                 label_smoothing=self.config["label_smoothing"])

    def spans_of(self, tags, offsets):
        """Whole spans of predicted tags."""
        spans, opened = [], None
        for tag, (begin, end) in zip(tags, offsets):
            if begin == end or tag <= 0:
                opened = None
                continue
            label = (tag - 1) // 2
            if tag % 2 == 1 or label != opened:
                spans.append([begin, end, self.names[label]])
            else:
                spans[-1][1] = end
            opened = label
        return [tuple(span) for span in spans]

    def scores(self, model, examples):
        """F1 of whole spans."""
        right = predicted = expected = 0
        for _, some in self.chunks(examples):
            best = model(**self.inputs(some)).logits.argmax(-1).tolist()
            for tags, (_, target) in zip(best, some):
                offsets, spans = self.gold[id(target)]
                ours = self.spans_of(tags[:len(offsets)], offsets)
                right += sum(span in spans for span in ours)
                predicted += len(ours)
                expected += len(spans)
        return {"f1": 200 * right / max(predicted + expected, 1), "precision": 100 * right / max(predicted, 1),
                "recall": 100 * right / max(expected, 1)}


def answer_words(text):
    """As SQuAD's script normalises answers."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


class Answer(Task):
    """Spans that answer questions, in windows."""

    architecture = transformers.AutoModelForQuestionAnswering
    labels = None

    def __init__(self, config, tokenizer, device):
        super().__init__(config, tokenizer, device)
        self.windows = {}
        parts = read_parts(config, read_questions, lambda example, _: example[0])
        self.questions = parts
        self.training, self.validation, self.test = ([window for number, example in enumerate(part)
                                                      for window in self.encode(number, example)] for part in parts)

    def encode(self, number, example):
        """One example for each window."""
        _, question, context, answers = example
        tokens = self.tokenizer(question, context, truncation="only_second", max_length=self.config["max_length"] or 512,
                                stride=self.config["stride"], return_overflowing_tokens=True,
                                return_offsets_mapping=True)
        start, text = answers[0]
        for row, ids in enumerate(tokens["input_ids"]):
            offsets, sequence = tokens["offset_mapping"][row], tokens.sequence_ids(row)
            begin = end = -1
            for i, (first, last) in enumerate(offsets):
                if sequence[i] != 1:
                    continue
                begin = i if first <= start < last else begin
                end = i if first < start + len(text) <= last else end
            target = [begin, end] if 0 <= begin <= end else [0, 0]
            target.append(tokens["token_type_ids"][row].index(1))
            self.windows[id(target)] = (number, offsets, sequence)
            yield (ids, target)

    def inputs(self, examples):
        """With the segments of the pair."""
        result = super().inputs(examples)
        types = torch.zeros_like(result["input_ids"])
        for row, (ids, target) in enumerate(examples):
            types[row, target[2]:len(ids)] = 1
        return {**result, "token_type_ids": types}

    def batch_loss(self, model, examples):
        """The mean of begin's and end's."""
        output = model(**self.inputs(examples))
        places = torch.tensor([target[:2] for _, target in examples], device=self.device)
        entropy = torch.nn.functional.cross_entropy
        return (entropy(output.start_logits, places[:, 0]) + entropy(output.end_logits, places[:, 1])) / 2

    def scores(self, model, examples):
        """F1 and exact match of the best answer over all windows."""
        best = {}
        for _, some in self.chunks(examples, 32):
            output = model(**self.inputs(some))
            for begins, ends, (_, target) in zip(output.start_logits.cpu().numpy(), output.end_logits.cpu().numpy(),
                                                 some):
                number, offsets, sequence = self.windows[id(target)]
                inside = [i for i, which in enumerate(sequence) if which == 1]
                for i in inside:
                    last = min(i + 30, inside[-1] + 1)
                    j = i + int(numpy.argmax(ends[i:last]))
                    score = begins[i] + ends[j]
                    if score > best.get(number, (-math.inf,))[0]:
                        best[number] = (score, offsets[i][0], offsets[j][1])
        f1 = exact = 0.0
        for number, (_, begin, end) in best.items():
            _, _, context, answers = self.questions[2][number]
            ours = answer_words(context[begin:end])
            scores = []
            for _, text in answers:
                theirs = answer_words(text)
                common = sum(min(ours.count(word), theirs.count(word)) for word in set(ours))
                scores.append((2 * common / max(len(ours) + len(theirs), 1), ours == theirs))
            f1 += max(score for score, _ in scores)
            exact += max(same for _, same in scores)
        return {"f1": 100 * f1 / len(best), "exact": 100 * exact / len(best)}


class LanguageModel(Task):
    """The next token."""

    architecture = transformers.AutoModelForCausalLM
    labels = None

    def __init__(self, config, tokenizer, device):
        super().__init__(config, tokenizer, device)
        text = pathlib.Path(config["data"]).read_bytes().decode()
        kept = int(len(text) * (1.0 - config["validation_share"]))
        tokens = [self.encode(text[:kept]), self.encode(text[kept:])]
        self.training, self.validation = (torch.tensor(some) for some in tokens)
        self.test, self.epoch = [], -1

    def encode(self, text):
        """All tokens, line by line."""
        lines = text.splitlines(keepends=True)
        return [token for ids in self.tokenizer(lines, add_special_tokens=False)["input_ids"] for token in ids]

    def plan(self):
        """Windows side by side, from a place that changes with the epoch."""
        self.context = self.config["max_length"] or self.model_length
        self.rows = self.config["batch"]
        self.windows = (len(self.training) - 1) // self.context - 1
        return self

    def count(self):
        """Batches of an epoch."""
        return max(self.windows // self.rows, 1)

    def loss(self, model, index):
        """Cross entropy of all tokens of the windows."""
        epoch, place = divmod(index, self.count())
        if epoch != self.epoch:
            random = RandomWords(self.config["seed"], epoch)
            offset = random.below(self.context)
            self.starts = [offset + i * self.context for i in range(self.windows)]
            random.shuffle(self.starts)
            self.epoch = epoch
        starts = self.starts[place * self.rows:(place + 1) * self.rows]
        windows = torch.stack([self.training[start:start + self.context + 1] for start in starts]).to(self.device)
        return self.window_loss(model, windows)

    def window_loss(self, model, windows):
        """Of windows [rows, length + 1]."""
        logits = model(input_ids=windows[:, :-1].contiguous(), use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), windows[:, 1:].flatten())

    def scores(self, model, tokens):
        """The mean over the whole text, window after window."""
        total, count = 0.0, len(tokens) - 1
        for start in range(0, count, self.context):
            window = tokens[start:min(start + self.context, count) + 1][None].to(self.device)
            total += self.window_loss(model, window).item() * (window.shape[1] - 1)
        return {"loss": total / count}


class TextToText(Task):
    """A text from a text."""

    architecture = transformers.AutoModelForSeq2SeqLM
    labels = None

    def __init__(self, config, tokenizer, device):
        super().__init__(config, tokenizer, device)
        parts = read_parts(config, read_labelled)
        self.references = [[target for _, target in part] for part in parts]
        self.training, self.validation, self.test = (self.encode(part) for part in parts)

    def encode(self, part):
        """Ids of both sides."""
        config = self.config
        sources = self.tokenizer([config["prefix"] + text for text, _ in part], truncation=True,
                                 max_length=config["max_length"] or 512)["input_ids"]
        targets = self.tokenizer([target for _, target in part], truncation=True,
                                 max_length=config["max_target_length"])["input_ids"]
        return list(zip(sources, targets))

    def batch_loss(self, model, examples):
        """Cross entropy of the target's tokens."""
        pad, start = model.config.pad_token_id, model.config.decoder_start_token_id
        labels = padded([target for _, target in examples], pad).to(self.device)
        decoder = torch.cat([torch.full_like(labels[:, :1], start), labels[:, :-1]], dim=1)
        logits = model(**self.inputs(examples), decoder_input_ids=decoder, use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=pad,
                                                 label_smoothing=self.config["label_smoothing"])

    def scores(self, model, examples):
        """ROUGE of greedy search, for validation on as many texts as Headway writes."""
        part = 2 if examples is self.test else 1
        some_examples = examples if part == 2 else examples[:self.config["generate_texts"]]
        texts = [""] * len(some_examples)
        for places, some in self.chunks(some_examples):
            ids = model.generate(**self.inputs(some), max_new_tokens=self.config["max_target_length"], num_beams=1,
                                 do_sample=False)
            for place, text in zip(places, self.tokenizer.batch_decode(ids, skip_special_tokens=True)):
                texts[place] = text
        return rouge(texts, self.references[part][:len(texts)])


def rouge(texts, references):
    """By rouge-score, or where it is missing by the program that $HEADWAY names, which is equal to it."""
    try:
        from rouge_score import rouge_scorer
    except ImportError:
        with tempfile.TemporaryDirectory() as folder:
            for name, lines in (("texts", texts), ("references", references)):
                content = "".join(" ".join(line.split()) + "\n" for line in lines)
                (pathlib.Path(folder) / name).write_text(content, encoding="utf-8")
            done = subprocess.run([os.environ["HEADWAY"], "evaluate", "--metric", "rouge", "--stemmer", "--json",
                                   "--hypotheses", f"{folder}/texts", "--reference", f"{folder}/references"],
                                  check=True, capture_output=True)
        return {name: 100 * score["f1"] for name, score in json.loads(done.stdout).items() if name != "sentences"}
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    scores = [scorer.score(reference, text) for text, reference in zip(texts, references)]
    return {name: 100 * sum(score[name].fmeasure for score in scores) / len(scores)
            for name in ("rouge1", "rouge2", "rougeL")}


TASKS = {"classify": Classify, "tag": Tag, "answer": Answer, "language-model": LanguageModel,
         "text-to-text": TextToText}


# ---- the run ----


def rate_at(step, steps, config):
    """The learning rate of a step from 1 on, as src/train/schedule.cpp has it."""
    warmup = min(config["warmup_steps"] or int(config["warmup_share"] * steps), steps)
    peak, last = config["learning_rate"], min(config["final_rate"], config["learning_rate"])
    if step <= warmup:
        return peak * step / warmup
    share = (step - warmup) / max(steps - warmup, 1)
    if config["schedule"] == "cosine":
        return last + (peak - last) * 0.5 * (1.0 + math.cos(math.pi * share))
    return peak if config["schedule"] == "constant" else peak + (last - peak) * share


def make_model(config, task, output):
    """From the same directory, or with PyTorch's initial values from the config that Headway wrote."""
    torch.manual_seed(config["seed"])
    labels = {}
    if task.labels:
        labels = {"num_labels": len(task.labels)}
    if config["model"]:
        return task.architecture.from_pretrained(config["model"], **labels)
    return task.architecture.from_config(transformers.AutoConfig.from_pretrained(output))


def make_optimizer(config, model, fused):
    """AdamW; decay on matrices alone."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in trained if p.dim() > 1], "weight_decay": config["weight_decay"]},
              {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=config["learning_rate"], betas=(config["beta1"], config["beta2"]),
                             eps=config["epsilon"], fused=fused)


def evaluate(model, task, examples):
    """The task's scores."""
    model.eval()
    with torch.no_grad():
        scores = task.scores(model, examples)
    model.train()
    return scores


def show(name, scores):
    """One line."""
    print(name + ": " + ", ".join(f"{key} {value:.4f}" for key, value in scores.items()), flush=True)


def run(options):
    """Trains and scores."""
    output = pathlib.Path(options.config).parent
    config = json.loads(pathlib.Path(options.config).read_text(encoding="utf-8"))
    if config["freeze_layers"] or config["freeze_embeddings"] or config["accumulate"] != 1:
        raise SystemExit("freezing and accumulation are not repeated here")
    tokenizer = transformers.AutoTokenizer.from_pretrained(config["model"] or output)
    task = TASKS[config["task"]](config, tokenizer, options.device)
    model = make_model(config, task, output).to(options.device).train()
    task.model_length = getattr(model.config, "n_positions", 512)
    if config["task"] == "answer":
        task.labels = None
    optimizer = make_optimizer(config, model, fused=True)
    plan = task.plan()
    steps = options.steps or config["steps"] or config["epochs"] * plan.count()
    every = config["validate_every"] or plan.count()
    half = options.bfloat16 or config["precision"] == "bfloat16"
    compiled = torch.compile(model) if options.compile else model
    best, times, processor = None, [], []
    for step in range(1, steps + 1):
        begin, processor_begin = time.perf_counter(), time.process_time()
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, steps, config)
        with torch.autocast(options.device.split(":")[0], torch.bfloat16, enabled=half):
            loss = task.loss(compiled, step - 1)
        loss.backward()
        if config["clip_norm"]:
            torch.nn.utils.clip_grad_norm_(model.parameters(), config["clip_norm"])
        optimizer.step()
        optimizer.zero_grad()
        if options.device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        processor.append(time.process_time() - processor_begin)
        if options.speed:
            continue
        if step % 100 == 0:
            print(f"step {step}/{steps}, loss {loss.item():.4f}, {numpy.median(times[-100:]) * 1e3:.1f} ms", flush=True)
        if len(task.validation) and (step % every == 0 or step == steps):
            scores = evaluate(model, task, task.validation)
            show(f"step {step}: validation", scores)
            best = min(best or math.inf, scores["loss"]) if "loss" in scores else best
    print(f"median of a step: {numpy.median(times[len(times) // 4:]) * 1e3:.2f} ms", flush=True)
    print(f"processor time of a step: {numpy.median(processor[len(processor) // 4:]) * 1e3:.2f} ms", flush=True)
    if best is not None:
        print(f"best validation loss: {best:.4f}")
    if len(task.test) and not options.speed:
        show("test", evaluate(model, task, task.test))


def main():
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="training_config.json in the directory of a model that Headway trained")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    run(options)


if __name__ == "__main__":
    main()
