"""Data of `headway finetune` as Python reads it: the same files, parts, folds and order of batches."""

import csv
import json
import pathlib

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


def read_csv(path):
    """Records of a .csv or .tsv; with a header where the first record names a text."""
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
