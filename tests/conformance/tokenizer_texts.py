"""Texts for the comparisons of tokenizers: real ones where HEADWAY_DATA names them, written and drawn ones."""

import io
import json
import os
import pathlib
import unicodedata
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

WRITTEN = [
    "",
    " ",
    "  ",
    "\n",
    "\t\n \r\n",
    "a",
    " a",
    "a ",
    "Hello, y'all! How are you 😁 ?",
    "I'll won't they'RE 'S 'ſ we've",
    "Größe, naïve café, e\u0301 vs é, ﬁ ½ Å ™ … ｆｕｌｌ",
    "İstanbul ẞ ǅ ΑΣ ς",
    "中文字符和English混合 123",
    "ひらがな カタカナ 漢字ー",
    "한국어 조선말 \u1112\u1161\u11ab",
    "हिन्दी में क्षत्रिय",
    "ภาษาไทยน้ำ",
    "العربية ١٢٣ مَرْحَبًا",
    "עברית שָׁלוֹם",
    "Ελληνικά κείμενο",
    "русский текст ёЁ й",
    "Tiếng Việt rất đẹp",
    "👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 👍🏽",
    "a\u00a0b\u2003c\u200bd\ufeffe\u3000f\u180eg",
    "\u0000\u0001\u007f\u0085\u00ad",
    "1234567890 12,345.67 ⅷ ² ①",
    "x=1;y=[2];z={'k':\"v\"}\n\tif (a&&b) return;\n\n\n  end",
    "http://a.b/c?d=e&f#g",
    "   leading and   inner    spaces   ",
    "<s> </s> <unk> <pad> <mask> [CLS] [SEP] [MASK] <|endoftext|>",
    "[MASK]x y[MASK] [ MASK ]",
    "▁ a▁b ▁▁ c",
    "Ġ Ċ ĉ",
    "<0x41> <0x0A> <extra_id_0>",
    "a" * 300,
    "ab" * 120,
    "word " * 60,
    "\u0301\u0323a\u0323\u0301b\u0301\u0301",
    "q\u0307\u0323 \u1e0b\u0323 \u212b \u2126",
    "\u302e\u302fa \U0001d165\U0001d15e",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟏𝟐𝟑",
    "\r\n\r\nx\r",
    "don't do not can n't ' quoted ' . ,",
    "\u0915\u093c \u09c7\u09be \u0b47\u0b56",
    "a\u0304\u0304\u0304o \u0cc6\u0cc2",
    "\ufffd\ufffe",
    "क़ ড় ਲ਼",
    "ｶﾞ ﾊﾟ",
    "ﷺ ﻻ",
    "A\u030aB\u030a",
]

RANGES = [
    (0x20, 0x7F),
    (0x20, 0x7F),
    (0x61, 0x7B),
    (0xA0, 0x250),
    (0x250, 0x370),
    (0x300, 0x370),
    (0x370, 0x600),
    (0x600, 0x700),
    (0x700, 0x900),
    (0x900, 0xE00),
    (0xE00, 0x1000),
    (0x1600, 0x1E00),
    (0x10000, 0x12000),
    (0x1100, 0x1200),
    (0x1E00, 0x2000),
    (0x2000, 0x2070),
    (0x2070, 0x2C00),
    (0x3000, 0x3100),
    (0x4E00, 0x5200),
    (0xAC00, 0xAE00),
    (0xF900, 0xFB50),
    (0xFE00, 0xFFFE),
    (0x1F300, 0x1F700),
    (0x1D400, 0x1D800),
    (0x20000, 0x20100),
]


def is_assigned(character):
    """Whether Unicode has the character, in the version that this Python knows."""
    return unicodedata.category(character) not in ("Cn", "Co", "Cs")


def drawn(random, longest=60):
    """Characters of many scripts with spaces, digits and signs between them."""
    parts = []
    for _ in range(random.randrange(longest)):
        if random.random() < 0.25:
            parts.append(
                random.choice(
                    [" ", " ", "  ", ". ", ", ", "\n", "'s", "3.5", "1,000", "\t", "▁", "<s>", "[MASK]", "e\u0301"]
                )
            )
            continue
        begin, end = random.choice(RANGES)
        character = chr(random.randrange(begin, end))
        if is_assigned(character):
            parts.append(character)
    return "".join(parts)


def broken(random):
    """Bytes that are not UTF-8, on one line."""
    text = drawn(random, 20).encode()
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(text) + 1)
        text = text[:at] + bytes([random.choice([0x80, 0xBF, 0xC0, 0xC3, 0xE2, 0xED, 0xF0, 0xF5, 0xFF])]) + text[at:]
    return bytes(byte for byte in text if byte not in (0, 10, 13))


def real(count):
    """Paragraphs: of the data folder where there is one, else of the documents in this repository."""
    folder = os.environ.get("HEADWAY_DATA")
    if not folder:
        files = [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").glob("*.md"))]
        lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        return lines[:count]
    texts = []
    with zipfile.ZipFile(pathlib.Path(folder) / "xquad.zip") as archive:
        for language in ("en", "de", "zh"):
            data = json.loads(archive.read(f"xquad.{language}.json"))["data"]
            contexts = [paragraph["context"] for article in data for paragraph in article["paragraphs"]]
            questions = [
                qa["question"] for article in data for paragraph in article["paragraphs"] for qa in paragraph["qas"]
            ]
            texts += contexts[: count // 6] + questions[: count // 6]
    with zipfile.ZipFile(pathlib.Path(folder) / "acl-abstracts.zip") as archive:
        with io.TextIOWrapper(archive.open("acl-abstracts.tsv"), encoding="utf-8") as lines:
            texts += [line.rstrip("\n") for _, line in zip(range(count // 4), lines)]
    return texts
