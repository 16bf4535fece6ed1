#!/usr/bin/env python3
"""Unpacks the data sets of the fine-tuning examples: prepare_data.py ARCHIVES OUTPUT.

ARCHIVES holds banking77.zip, clinc-oos.zip, uci-sentiment.zip, restaurant8k.zip, xquad.zip, tiny-shakespeare.zip and
acl-abstracts.zip, or some of them. Only the standard library is used.
"""

import pathlib
import random
import re
import sys
import zipfile


def unpack(archives, output, name):
    """The files of an archive under OUTPUT/NAME; False where there is no such archive."""
    archive = archives / f"{name}.zip"
    if not archive.exists():
        return False
    with zipfile.ZipFile(archive) as files:
        files.extractall(output / name)
    return True


def join_sentiment(folder):
    """The three files of sentences as one, lines as they are."""
    names = ("amazon_cells_labelled.txt", "imdb_labelled.txt", "yelp_labelled.txt")
    parts = [[line for line in (folder / name).read_bytes().split(b"\n") if line.strip()] for name in names]
    # Sentences of the three take turns, so that every fold has as many of each.
    lines = [line for three in zip(*parts) for line in three]
    (folder / "sentiment.tsv").write_bytes(b"".join(line.rstrip(b"\r") + b"\n" for line in lines))


def first_sentence(text):
    """The lead of an abstract: up to the first full stop that a space and a capital follow."""
    found = re.search(r"[.!?](?=\s+[A-Z\"(])", text)
    return text[: found.end()] if found else text


def copying_exercises(pairs):
    """Abstracts and titles, and pairs from which a small model learns to copy, which titles alone do not teach it: a
    sentence as it is; one of three sentences, to be found by its first words; a title hidden among three sentences."""
    generator = random.Random(1)
    result = []
    for abstract, title in pairs:
        result.append((abstract, title))
        sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z\"(])", abstract)
        fitting = [sentence for sentence in sentences if 5 <= len(sentence.split()) <= 28]
        if not fitting:
            continue
        sentence = generator.choice(fitting)
        result.append((sentence, sentence))
        three = generator.sample(fitting, min(3, len(fitting)))
        sentence = generator.choice(three)
        first = " ".join(sentence.split()[: generator.randint(2, 4)])
        result.append((f"{first} ... {' '.join(three)}", sentence))
        place = generator.randint(0, len(three))
        result.append((" ".join(three[:place] + [title + "."] + three[place:]), title))
    return result


def split_titles(folder):
    """Abstracts and titles by year: 2025 for validation, 2026 for test; and the test's baseline."""
    lines = (folder / "acl-abstracts.tsv").read_text(encoding="utf-8").split("\n")
    parts = {"train": [], "validation": [], "test": []}
    for line in lines[1:]:
        if line:
            _, year, title, abstract = line.split("\t")
            part = {"2025": "validation", "2026": "test"}.get(year, "train")
            parts[part].append((abstract, title))
    parts["exercises"] = copying_exercises(parts["train"])
    for part, pairs in parts.items():
        text = "".join(f"{abstract}\t{title}\n" for abstract, title in pairs)
        (folder / f"{part}.tsv").write_text("text\ttarget\n" + text, encoding="utf-8")
    leads = "".join(first_sentence(abstract) + "\n" for abstract, _ in parts["test"])
    (folder / "test-leads.txt").write_text(leads, encoding="utf-8")
    (folder / "test-titles.txt").write_text("".join(title + "\n" for _, title in parts["test"]), encoding="utf-8")


def main():
    """Unpacks what is there."""
    archives, output = map(pathlib.Path, sys.argv[1:3])
    for name in ("banking77", "clinc-oos", "restaurant8k", "xquad", "tiny-shakespeare"):
        unpack(archives, output, name)
    if unpack(archives, output, "uci-sentiment"):
        join_sentiment(output / "uci-sentiment")
    if unpack(archives, output, "acl-abstracts"):
        split_titles(output / "acl-abstracts")


if __name__ == "__main__":
    main()
