#!/usr/bin/env python3
"""`headway evaluate` against sacreBLEU, on random texts of many scripts."""

import json
import pathlib
import random
import sys
import tempfile

from headway_program import Tally, call, parser, random_text


def changed(generator, text):
    """A hypothesis: the reference with some words gone, swapped or replaced."""
    words = text.split(" ")
    result = []
    for word in words:
        draw = generator.random()
        if draw < 0.1:
            continue
        result.append(random_text(generator, 6) if draw < 0.25 else word)
    if generator.random() < 0.2:
        generator.shuffle(result)
    return " ".join(result)


def compare(tally, program, work, hypotheses, references):
    """Scores of one corpus, and their signatures."""
    from sacrebleu.metrics import BLEU, CHRF

    for name, lines in (("hypotheses", hypotheses), ("references", references)):
        (work / name).write_bytes("".join(line + "\n" for line in lines).encode())
    output = call(program, "evaluate", "--json", "--hypotheses", work / "hypotheses", "--reference",
                  work / "references")
    ours = json.loads(output)[0]
    bleu, chrf = BLEU(), CHRF()
    expected = bleu.corpus_score(hypotheses, [references])
    pairs = [("BLEU", ours["bleu"]["score"], expected.score), ("BP", ours["bleu"]["brevity_penalty"], expected.bp),
             ("chrF", ours["chrf"]["score"], chrf.corpus_score(hypotheses, [references]).score)]
    pairs += [("precision", a, b) for a, b in zip(ours["bleu"]["precisions"], expected.precisions)]
    for name, a, b in pairs:
        tally.check(abs(a - b) <= 1e-6, name, a, "expected", b, "for", hypotheses[:3], references[:3])
    tally.check(ours["bleu"]["hypothesis_length"] == expected.sys_len, "lengths of hypotheses")
    tally.check(ours["bleu"]["reference_length"] == expected.ref_len, "lengths of references")
    tally.check(ours["bleu"]["signature"] == str(bleu.get_signature()), ours["bleu"]["signature"])
    tally.check(ours["chrf"]["signature"] == str(chrf.get_signature()), ours["chrf"]["signature"])


def main():
    """Corpora of one to some hundred sentences."""
    options = parser(__doc__).parse_args()
    tally = Tally("text_scores")
    generator = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as work:
        for _ in range(max(1, options.count // 4)):
            references = [random_text(generator, 60).strip("\r") for _ in range(generator.choice([1, 2, 5, 40, 150]))]
            hypotheses = [changed(generator, reference).strip("\r") for reference in references]
            compare(tally, options.program, pathlib.Path(work), hypotheses, references)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
