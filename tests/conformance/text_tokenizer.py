#!/usr/bin/env python3
"""Headway's tokenizer against transformers' MarianTokenizer: the same files, the same ids, the same texts."""

import pathlib
import random
import sys
import tempfile
import warnings

from headway_program import Tally, call, parser, random_text

SPECIAL = [">>deu<< Hello world.", ">>deu<<Hello", ">>eng<<", "", " ", "   a  b ", "\t", "a\nb\n", "emoji 🤯🏳️‍🌈 x",
           "中文 と 日本語", "ﬁ ½ Å ｆｕｌｌ", ">>xyz<< Hi", ">><<", ">>a", "<<", ">>deu<<>>eng<< x", "> >deu<<", "Straße",
           "e\u0301", "a\u00a0b\u202fc", "\u200b\u00ad", "▁▁", "▁", "x▁y", "١٢٣", "\u2028x", "\ufeffy",
           ">>Ja<<, sagte er.", "\x01\x02", "a" * 300, "ǆ ﷺ", "한국어 ⁉", "I am.  <0x41>", "<s>", "\x7f"]


def sentences(generator):
    """Sentences of made-up words, enough to learn pieces from."""
    syllables = ["ka", "lo", "mi", "tre", "über", "straß", "ing", "the", "er", "n", "äu", "qua"]
    words = ["".join(generator.choices(syllables, k=generator.randrange(1, 4))) for _ in range(400)]
    lengths = [generator.randrange(2, 12) for _ in range(3000)]
    return [" ".join(generator.choices(words, k=length)) + generator.choice(".!?") for length in lengths]


def compare(tally, program, directory, texts):
    """Ids of both sides, and the texts that they decode to."""
    from transformers import MarianTokenizer

    theirs = MarianTokenizer.from_pretrained(str(directory))
    data = "".join(text + "\0" for text in texts).encode()
    for side, flags in (("source", []), ("target", ["--target"])):
        lines = call(program, "tokenizer", "encode", "--tokenizer", directory, "--ids", "--zero", *flags, data=data)
        decoded = call(program, "tokenizer", "decode", "--tokenizer", directory, data=lines.encode())
        ours = [[int(word) for word in line.split()] for line in lines.splitlines()]
        tally.check(len(ours) == len(texts), side, len(ours), "lines for", len(texts), "texts")
        for text, ids, back in zip(texts, ours, decoded.split("\n")):
            expected = theirs(text)["input_ids"] if side == "source" else theirs(text_target=text)["input_ids"]
            tally.check(ids == expected, side, repr(text), "ids", ids, "expected", expected)
            # Codes of languages are no part of a text here; MarianTokenizer shows them.
            shown = [i for i in expected if not theirs.convert_ids_to_tokens(i).startswith(">>")]
            # The program writes a text a line.
            text_of_ids = theirs.decode(shown, skip_special_tokens=True).replace("\n", " ").replace("\r", " ")
            tally.check(back == text_of_ids, side, repr(text), "decoded", repr(back), "expected", repr(text_of_ids))
    return theirs


def main():
    """Trains tokenizers with Headway, compares them, and reads what transformers saved."""
    warnings.filterwarnings("ignore")
    options = parser(__doc__).parse_args()
    tally = Tally("text_tokenizer")
    generator = random.Random(options.seed)
    texts = SPECIAL + [random_text(generator, 40) for _ in range(options.count)] + sentences(generator)[:100]
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        (work / "text.txt").write_text("\n".join(sentences(generator)) + "\n", encoding="utf-8")
        for kind in ("unigram", "bpe"):
            for size, extra in ((400, []), (200, ["--no-byte-fallback"]), (400, ["--normalization", "identity"])):
                directory = work / "-".join([kind, *extra])
                call(options.program, "tokenizer", "train", work / "text.txt", "--kind", kind, "--vocab-size", size,
                     *extra, "--languages", "deu,eng", "--output", directory)
                theirs = compare(tally, options.program, directory, texts)
                saved = work / "saved-by-transformers"
                theirs.save_pretrained(str(saved))
                compare(tally, options.program, saved, SPECIAL)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
