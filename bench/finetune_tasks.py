"""Tasks of `headway finetune` in PyTorch: the same examples, losses and scores. Examples are (ids, targets)."""

import json
import math
import os
import pathlib
import re
import string
import subprocess
import tempfile

import numpy
import torch
import transformers
from finetune_data import BatchPlan, RandomWords, read_labelled, read_parts, read_questions, read_spans


def padded(rows, value):
    """Rows of different lengths as one tensor."""
    longest = max(map(len, rows))
    return torch.tensor([list(row) + [value] * (longest - len(row)) for row in rows])


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


def class_weights(text, labels, examples):
    """As src/training/class_weights.cpp has it."""
    if text == "balanced":
        return torch.tensor([len(examples) / (len(labels) * examples.count(label)) for label in labels])
    given = dict(item.rsplit("=", 1) for item in text.split(",") if item)
    return torch.tensor([float(given.get(label, 1)) for label in labels])


class Classify(Task):
    """A label of a text."""

    architecture = transformers.AutoModelForSequenceClassification

    def __init__(self, config, tokenizer, device):
        super().__init__(config, tokenizer, device)
        parts = read_parts(config, read_labelled)
        self.labels = sorted({label for _, label in parts[0]}, key=lambda label: label.encode())
        numbers = {label: i for i, label in enumerate(self.labels)}
        self.weights = class_weights(config.get("class_weights", ""), self.labels, [label for _, label in parts[0]])
        cut = config["max_length"] or 512
        encoded = [[(ids, [numbers[label]]) for ids, (_, label) in zip(
            tokenizer([text for text, _ in part], truncation=True, max_length=cut)["input_ids"], part)]
            if part else [] for part in parts]
        self.training, self.validation, self.test = encoded

    def batch_loss(self, model, examples):
        """Cross entropy, its mean by the weights of the labels."""
        logits = model(**self.inputs(examples)).logits
        targets = torch.tensor([target[0] for _, target in examples], device=self.device)
        losses = torch.nn.functional.cross_entropy(logits, targets, label_smoothing=self.config["label_smoothing"],
                                                   reduction="none")
        weights = self.weights.to(self.device)[targets]
        return (losses * weights).sum() / weights.sum()

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
