#!/usr/bin/env python3
"""`headway evaluate --metric rouge` against rouge-score, with and without its stemmer."""

import json
import pathlib
import random
import sys
import tempfile

from headway_program import Tally, call, parser, random_text

ENDINGS = ["", "s", "es", "ies", "ed", "ied", "eed", "ing", "y", "ational", "alli", "fulli", "logi", "ization", "ness",
           "ement", "ion", "ll", "e", "iviti", "ative", "ical"]


def word(generator):
    """Letters that Porter's rules look at, with one of its endings."""
    letters = "".join(generator.choice("aeiouylstdnbzrgmcwx") for _ in range(generator.randint(1, 7)))
    return letters + generator.choice(ENDINGS)


def text(generator):
    """Words, capitals, digits and now and then other scripts."""
    if generator.random() < 0.15:
        return random_text(generator, 30).replace("\r", " ")
    words = [word(generator) for _ in range(generator.randint(0, 25))]
    return generator.choice([" ", ", ", "-"]).join(w.upper() if generator.random() < 0.2 else w for w in words)


def changed(generator, reference):
    """The reference with some words gone, changed or moved."""
    words = [word(generator) if generator.random() < 0.2 else w for w in reference.split() if generator.random() > 0.2]
    if generator.random() < 0.3:
        generator.shuffle(words)
    return " ".join(words)


def compare(tally, program, work, texts, references):
    """Means over a corpus, of rouge-score and of the program."""
    from rouge_score import rouge_scorer

    for name, lines in (("texts", texts), ("references", references)):
        (work / name).write_bytes("".join(line + "\n" for line in lines).encode())
    for stemmer in (False, True):
        flags = ["--stemmer"] if stemmer else []
        ours = json.loads(call(program, "evaluate", "--metric", "rouge", "--json", *flags, "--hypotheses",
                               work / "texts", "--reference", work / "references"))
        scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=stemmer)
        scores = [scorer.score(reference, line) for line, reference in zip(texts, references)]
        for name in ("rouge1", "rouge2", "rougeL"):
            for field in ("precision", "recall", "fmeasure"):
                expected = sum(getattr(score[name], field) for score in scores) / len(scores)
                got = ours[name]["f1" if field == "fmeasure" else field]
                tally.check(abs(got - expected) <= 1e-12, name, field, got, "expected", expected, "stemmer", stemmer)


def main():
    """Corpora of one to some hundred texts."""
    options = parser(__doc__).parse_args()
    tally = Tally("rouge")
    generator = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as work:
        for _ in range(max(1, options.count // 8)):
            references = [" ".join(text(generator).split()) for _ in range(generator.choice([1, 3, 50, 300]))]
            texts = [changed(generator, reference) for reference in references]
            compare(tally, options.program, pathlib.Path(work), texts, references)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
