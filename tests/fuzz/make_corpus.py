#!/usr/bin/env python3
"""Writes the seeds of a fuzz target into a directory: small files, some whole and some broken."""

import io
import json
import pathlib
import struct
import sys
import zipfile
import zlib

BITS = {"F32": 32, "F64": 64, "BF16": 16, "F16": 16, "I32": 32, "I64": 64, "BOOL": 8, "U8": 8, "F4": 4, "F6_E2M3": 6,
        "F8_E4M3": 8, "C64": 64}


def file_of(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header, ensure_ascii=False).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_seeds():
    """Name -> bytes."""
    files = {
        "nothing": b"",
        "no_tensors": file_of({}),
        "padded": file_of(b"{}      "),
        "metadata": file_of({"__metadata__": {"format": "pt", "\u6ce8\u610f": "\U0001f680"}}),
        "scalar": file_of({"x": tensor("F32", [], 0, 4)}, bytes(4)),
        "empty_tensor": file_of({"x": tensor("F32", [2, 0, 3], 0, 0)}),
        "several": file_of({"a": tensor("F64", [2], 0, 16), "b": tensor("I32", [1, 2], 16, 24),
                            "c": tensor("BOOL", [3], 24, 27), "d": tensor("F16", [0], 27, 27)}, bytes(27)),
        "misaligned": file_of({"a": tensor("BOOL", [1], 0, 1), "b": tensor("F32", [2], 1, 9)}, bytes(9)),
        "not_a_bool": file_of({"a": tensor("BOOL", [2], 0, 2)}, b"\x01\x02"),
        "eight_dimensions": file_of({"a": tensor("U8", [1] * 8, 0, 1)}, bytes(1)),
        "nine_dimensions": file_of({"a": tensor("U8", [1] * 9, 0, 1)}, bytes(1)),
        "overlap": file_of({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 2, 6)}, bytes(6)),
        "hole": file_of({"a": tensor("U8", [2], 0, 2), "b": tensor("U8", [2], 3, 5)}, bytes(5)),
        "backwards": file_of({"a": tensor("U8", [2], 2, 0)}, bytes(2)),
        "overflow": file_of({"a": tensor("F32", [1 << 32, 1 << 32], 0, 8)}, bytes(8)),
        "huge_offset": file_of({"a": tensor("U8", [1], (1 << 64) - 2, (1 << 64) - 1)}, bytes(1)),
        "huge_size": file_of({"a": tensor("U8", [1 << 63], 0, 8)}, bytes(8)),
        "fraction": file_of({"a": tensor("U8", [1.5], 0, 8)}, bytes(8)),
        "twice": file_of(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},'
                         b'"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
        "escaped": file_of(b'{"\\u0061\\n\\"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
        "not_utf8": file_of(b'{"\xff":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
        "deep": file_of(b'{"a":' + b"[" * 200),
        "zero_byte": file_of(b"{}\0{}"),
        "long_length": struct.pack("<Q", (1 << 64) - 1) + b"{}",
        "truncated": file_of({"x": tensor("F32", [4], 0, 16)}, bytes(7)),
    }
    for dtype, bits in BITS.items():
        files[f"dtype_{dtype}"] = file_of({"x": tensor(dtype, [2, 4], 0, bits)}, bytes(bits))
    return files


def text_of(value):
    return json.dumps(value, ensure_ascii=False).encode()


def marian_config_seeds():
    config = {
        "model_type": "marian", "vocab_size": 40, "d_model": 16, "encoder_layers": 1, "decoder_layers": 2,
        "encoder_attention_heads": 2, "decoder_attention_heads": 4, "encoder_ffn_dim": 8, "decoder_ffn_dim": 12,
        "max_position_embeddings": 32, "activation_function": "swish", "scale_embedding": True, "eos_token_id": 0,
        "pad_token_id": 39, "decoder_start_token_id": 39, "dropout": 0.1,
    }
    changes = {"whole": {}, "another": {"model_type": "bert"}, "negative": {"d_model": -16}, "odd": {"d_model": 15},
               "text": {"vocab_size": "40"}, "huge": {"vocab_size": 1 << 70}, "null": {"dropout": None},
               "outside": {"pad_token_id": 40}}
    files = {name: text_of(config | change) for name, change in changes.items()}
    return files | {"nothing": b"", "array": b"[]", "cut": text_of(config)[:60], "deep": b"[" * 500, "not_utf8": b'{"\xff":1}'}


def model_config_seeds():
    encoder = {"vocab_size": 40, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2,
               "intermediate_size": 8, "max_position_embeddings": 32}
    rope = {"rope_type": "yarn", "factor": 2.0, "rope_theta": 500, "original_max_position_embeddings": 16}
    sizes = {"d_model": 12, "vocab_size": 40}
    picture = {"hidden_size": 12, "num_attention_heads": 2, "image_size": [4, 8], "patch_size": 2, "num_channels": 1}
    configs = {
        "bert": encoder, "roberta": encoder, "modernbert": encoder | {"layer_types": ["full_attention"] * 2},
        "distilbert": {"dim": 12, "n_heads": 3, "architectures": ["DistilBertForSequenceClassification"],
                       "id2label": {"0": "a", "1": "b", "2": "c"}},
        "gpt2": {"n_embd": 12, "n_head": 3, "architectures": ["GPT2LMHeadModel"]},
        "llama": encoder | {"rope_parameters": rope, "eos_token_id": [1, 2]},
        "qwen3": encoder | {"rope_scaling": {"type": "linear", "factor": 2}},
        "phi3": encoder | {"rope_scaling": {"type": "longrope", "short_factor": [1, 1, 1], "long_factor": [2, 2, 2]}},
        "gemma3": {"text_config": encoder}, "bart": sizes, "marian": sizes,
        "t5": sizes | {"feed_forward_proj": "gated-gelu"},
        "vit": picture | {"architectures": ["ViTForImageClassification"], "num_labels": 3}, "deit": picture,
        "whisper": sizes | {"num_mel_bins": 4, "max_source_positions": 8},
        "vision-encoder-decoder": {
            "encoder": picture | {"model_type": "vit"}, "eos_token_id": 2,
            "decoder": {"model_type": "gpt2", "n_embd": 9, "n_head": 3, "add_cross_attention": True},
        },
    }
    files = {name: text_of({"model_type": name} | config) for name, config in configs.items()}
    changes = {"another": {"model_type": "rwkv"}, "negative": {"hidden_size": -12}, "odd": {"num_attention_heads": 5},
               "huge": {"vocab_size": 1 << 70}, "labels": {"architectures": ["BertForTokenClassification"],
                                                           "id2label": {"1": "a"}}}
    files |= {name: text_of({"model_type": "bert"} | encoder | change) for name, change in changes.items()}
    return files | {"nothing": b"", "array": b"[]", "cut": files["llama"][:60], "not_utf8": b'{"\xff":1}'}


def tokenizer_seeds():
    vocabulary = {"</s>": 0, "<unk>": 1, "\u2581a": 2, "\u2581few": 3, ">>deu<<": 4, "<pad>": 5}
    config = {"eos_token": "</s>", "pad_token": {"content": "<pad>"}, "separate_vocabs": False,
              "added_tokens_decoder": {"5": {"content": "<pad>"}}}
    files = {"whole": text_of(vocabulary), "config": text_of(vocabulary) + b"\0" + text_of(config)}
    for name, change in {"twice": {"<pad>": 0}, "far": {"<pad>": 7}, "negative": {"<pad>": -1}, "text": {"<pad>": "5"},
                         "huge": {"<pad>": 1 << 64}}.items():
        files[name] = text_of(vocabulary | change)
    return files | {"nothing": b"", "array": b"[]", "no_pad": text_of({"</s>": 0, "<unk>": 1}), "deep": b'{"a":' * 40}


def pairs_seeds():
    plain = "a house\tein Haus\n\nwords\tW\u00f6rter\tmore\r\nlast\tletzte".encode()
    files = {"plain": plain, "mark": b"\xef\xbb\xbf" + plain, "nothing": b"", "no_tab": b"words\n", "not_utf8": b"a\t\xff\n",
             "long": b"x" * 900 + b"\ty\n"}
    for name, entries in {"zipped": {"pairs.tsv": plain}, "two": {"a.txt": plain, "b.tsv": plain},
                          "hidden": {"_about.txt": b"", "pairs.txt": plain}, "none": {}}.items():
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for entry, content in entries.items():
                archive.writestr(zipfile.ZipInfo(entry), content, zipfile.ZIP_DEFLATED)
        files[name] = buffer.getvalue()
    return files | {"cut_zip": files["zipped"][:-20]}


def text_tokenizer_seeds():
    """Files of each kind of model, with the other components spread over them."""
    word_piece = {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "a": 1, "few": 2, "##w": 3}}
    bpe = {
        "type": "BPE",
        "unk_token": "<unk>",
        "byte_fallback": True,
        "fuse_unk": True,
        "vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3, "\u2581": 4, "<0xC3>": 5},
        "merges": ["a b"],
    }
    unigram = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["\u2581", -1], ["a", -2.5], ["few", -3]]}
    words = {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0, "few": 1}}
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
    split = {
        "type": "Split",
        "pattern": {"Regex": "\\s+(?!\\S)|\\p{L}+"},
        "behavior": "MergedWithNext",
        "invert": False,
    }
    added = [
        {"id": 9, "content": "<s>", "special": True, "lstrip": True},
        {"id": 10, "content": "few", "single_word": True},
    ]
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A"}}, {"Sequence": {"id": "B"}}],
        "special_tokens": {"x": {"id": "x", "ids": [1]}},
    }
    steps = [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 1},
    ]
    charsmap = {"type": "Precompiled", "precompiled_charsmap": "CAAAAAAEAIABAACAYQA="}
    files = {
        "word_piece": {
            "model": word_piece,
            "normalizer": {"type": "BertNormalizer"},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "decoder": {"type": "WordPiece"},
            "added_tokens": added,
        },
        "bpe": {
            "model": bpe,
            "normalizer": {"type": "Prepend", "prepend": "\u2581"},
            "decoder": {"type": "Sequence", "decoders": steps},
        },
        "unigram": {
            "model": unigram,
            "normalizer": {"type": "Sequence", "normalizers": [charsmap, {"type": "NFKC"}]},
            "pre_tokenizer": metaspace,
            "decoder": metaspace,
            "post_processor": template,
        },
        "words": {
            "model": words,
            "normalizer": {"type": "Replace", "pattern": {"Regex": "[a-e]"}, "content": ""},
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [split, {"type": "Digits"}, {"type": "UnicodeScripts"}],
            },
        },
        "bytes": {
            "model": bpe,
            "pre_tokenizer": {"type": "ByteLevel"},
            "decoder": {"type": "ByteLevel"},
            "post_processor": {"type": "RobertaProcessing", "sep": ["b", 2], "cls": ["a", 1]},
        },
        "far": {"model": {"type": "WordLevel", "vocab": {"a": 1 << 40}}},
    }
    seeds = {name: text_of(value) for name, value in files.items()}
    piece = b"\x0a\x0a\x0a\x03few\x15\x00\x00\x80\xbf"
    return seeds | {
        "nothing": b"",
        "text": seeds["bpe"] + b"\0ab \xff ab",
        "pieces": b"\x0a\x09\x0a\x05<unk>\x18\x02" + piece,
        "pieces_cut": piece[:-2],
    }


def checkpoint_seeds():
    metadata = {"format": "headway-checkpoint-1", "step": "3", "seed": "7", "loss": "0.5", "skipped_steps": "0",
                "skipped_in_a_row": "0", "state": "{}"}
    tensors = {"model.a": tensor("F32", [2], 0, 8), "optimizer.a.mean": tensor("F32", [2], 8, 16)}
    files = {"whole": file_of({"__metadata__": metadata} | tensors, bytes(16)),
             "nameless": file_of({"__metadata__": metadata, "x": tensor("U8", [1], 0, 1)}, bytes(1)),
             "no_metadata": file_of(tensors, bytes(16)), "nothing": b""}
    for key, value in {"format": "x", "step": "4", "seed": "-1", "loss": "nan"}.items():
        files[key] = file_of({"__metadata__": metadata | {key: value}} | tensors, bytes(16))
    return files | {"cut": files["whole"][:-4]}


def generation_config_seeds():
    configs = {
        "greedy": {"max_length": 20, "eos_token_id": 2, "bos_token_id": 0, "decoder_start_token_id": 0},
        "sampling": {"do_sample": True, "temperature": 0.6, "top_k": 50, "top_p": 0.9, "min_p": 0.1,
                     "eos_token_id": [1, 2]},
        "beams": {"num_beams": 4, "length_penalty": 2.0, "early_stopping": True, "no_repeat_ngram_size": 3},
        "rules": {"bad_words_ids": [[1], [2, 3]], "suppress_tokens": [5], "begin_suppress_tokens": [6],
                  "forced_bos_token_id": 1, "forced_eos_token_id": [2], "repetition_penalty": 1.3, "min_length": 4},
        "never": {"early_stopping": "never", "min_new_tokens": 2, "max_new_tokens": 7},
        "huge": {"max_length": -(1 << 63), "no_repeat_ngram_size": (1 << 63) - 1}, "kinds": {"top_k": 1.5},
    }
    files = {name: text_of(config) for name, config in configs.items()}
    odd = {"odd_" + name: content + b" " * (1 - len(content) % 2) for name, content in files.items()}  # config.json
    return files | odd | {"nothing": b""}


def training_config_seeds():
    return {
        "translation": b'// a comment\n{"data": "a.tsv", "source_language": "eng", "target_language": "deu",'
                       b' "vocab_size": 400, "width": 64, "heads": 4, "dropout": 0.1, "pieces": "bpe",'
                       b' "schedule": "cosine", "output": "m"}',
        "fine_tuning": b'{"model": "m", "task": "classify", "data": "a.csv", "output": "o", "epochs": 2}',
        "range": b'{"dropout": 2}', "kind": b'{"heads": "4"}', "unknown": b'{"head": 4}', "array": b"[]",
        "nothing": b"",
        "huge": b'{"seed": 18446744073709551615, "max_steps": 1e400}',
    }


def sentences_seeds():
    return {
        "plain": "Good morning. How are you? Fine!\nDr. A. Smith has 3.5 m of it.\r\nnext".encode(),
        "quotes": "\u201eJa.\u201c Er ging. \u00bbNein\u2026\u00ab z. B. (so.) Und".encode(),
        "chinese": "\u4f60\u597d\u3002\u518d\u89c1\uff01\u771f\u7684\uff1f\u662f".encode(),
        "controls": b"\x1b[31m red \xc2\x9b2J \xe2\x80\xae \x00",
        "not_utf8": b"a\xff\xe2\x82 \xed\xa0\x80 \xf4\x90\x80\x80.",
        "long": b"word " * 100 + b"x" * 200, "nothing": b"",
    }


def examples_seeds():
    questions = {"data": [{"paragraphs": [{"context": "A f\u00fcr B", "qas": [
        {"id": "1", "question": "Who?", "answers": [{"text": "B", "answer_start": 6}]}]}]}]}
    return {
        "csv": 'text,label\n"a, ""b""",x\nc,y\n'.encode(), "tsv": b"a\tx\nb\ty\n",
        "json": text_of([{"text": "a", "label": "x"}, ["b", "y"]]),
        "parts": text_of({"train": [["a", "x"]], "test": []}),
        "jsonl": text_of({"text": "a", "label": "x"}) + b"\n" + text_of({"text": "b", "label": "y"}),
        "spans": text_of([{"text": "f\u00fcr B", "spans": [{"begin": 4, "end": 5, "label": "P"}]}]),
        "restaurant": text_of([{"userInput": {"text": "at 5"}, "labels": [
            {"slot": "time", "valueSpan": {"startIndex": 3, "endIndex": 4}}]}]),
        "questions": text_of(questions), "nothing": b"", "quote": b'a,"b', "not_utf8": b"a\t\xff\n",
    }


def varint(number):
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes(parts) + bytes([number])


def sentence_pieces_seeds():
    """Model files of each method, with small character maps."""

    def field(number, content):
        if isinstance(content, int):
            return varint(number << 3) + varint(content)
        return varint(number << 3 | 2) + varint(len(content)) + content

    def piece(text, score=-1.0, kind=1):
        return field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + field(3, kind))

    def rules(units, texts):
        return field(3, field(2, struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + texts))

    pieces = piece("<unk>", 0, 2) + piece("</s>", 0, 3)
    words = piece("\u2581a", -2) + piece("a", -3) + piece("aa", -2.5) + piece("few", -4) + piece("\u00f6", -5)
    files = {"unigram": pieces + words, "bpe": pieces + words + field(2, field(3, 2)),
             "words": pieces + words + field(2, field(3, 3)), "characters": pieces + words + field(2, field(3, 4)),
             "symbols": pieces + words + piece("aaa", 0, 4) + piece("aaaa", 0, 4) + piece("b", 0, 5),
             "unused": pieces + piece("a", -1) + piece("aa", -1, 5) + piece("aaa", -2, 5) + field(2, field(3, 2)),
             "flags": pieces + words + field(2, field(24, 1) + field(44, b"??"))
                      + field(3, field(3, 0) + field(4, 0) + field(5, 0)),
             "bytes": pieces + words + piece("<0x41>", 0, 6) + field(2, field(35, 1)), "nothing": b""}
    # Children of the root at 0 ^ label: "a" (97) becomes the text at the value of unit 8.
    units = [0] * 112
    units[97] = (97 ^ 8) << 10 | 1 << 8 | 97
    units[8] = 1 << 31
    files["map"] = pieces + words + rules(units, b"bc\0")
    files["denormalizer"] = pieces + words + b"\x2a" + rules(units, b"bc\0")[1:]
    units[97] = 97 << 10 | 97
    files["cycle"] = pieces + words + rules(units, b"bc\0")
    files["far"] = pieces + words + rules([0xFFFFFFFF] * 4 + [0x7FFFFF61] * 100, b"\0")
    return files | {"cut": files["map"][:-3]}


def sound_seeds():
    """WAV files of several depths, broken ones, other kinds and configs."""

    def wav(kind, bits, channels, data, size=None):
        form = struct.pack("<HHIIHH", kind, channels, 8000, 8000 * channels * bits // 8, channels * bits // 8, bits)
        chunks = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data"
        chunks += struct.pack("<I", len(data) if size is None else size) + data
        return b"RIFF" + struct.pack("<I", len(chunks)) + chunks

    data = bytes(range(96))
    files = {f"wav_{bits}_{channels}": wav(1, bits, channels, data) for bits in (8, 16, 24, 32) for channels in (1, 2)}
    files |= {"float": wav(3, 32, 1, struct.pack("<4f", 0, 0.5, -1, 2)), "nan": wav(3, 32, 1, b"\xff" * 8),
              "law": wav(7, 8, 1, data), "adpcm": wav(2, 4, 1, data), "cut": wav(1, 16, 1, data, 4000),
              "silence": wav(1, 16, 1, bytes(8)), "none": wav(1, 16, 1, b""), "text": b"hello",
              "flac": b"fLaC\0\0\0\x22" + bytes(40), "ogg": b"OggS" + bytes(60), "nothing": b"",
              "au": b".snd" + struct.pack(">IIIII", 24, 8, 3, 8000, 1) + bytes(8),
              "aiff": b"FORM\0\0\0\x2eAIFFCOMM\0\0\0\x12\0\1\0\0\0\4\0\x10\x40\x0b\xfa" + bytes(7) + b"SSND"}
    config = {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 40, "sampling_rate": 8000,
              "n_fft": 200, "hop_length": 80, "chunk_length": 4}
    return files | {"config": text_of(config), "long": text_of(config | {"chunk_length": 1e300})}


def picture_seeds():
    """PNG files of several kinds, a small JPEG, broken ones and configs."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    def png(depth, colours, rows, *chunks, width=2, height=2, interlace=0):
        header = struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, interlace)
        return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunks)
                + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

    palette = chunk(b"PLTE", bytes(12))
    files = {"grey": png(8, 0, bytes(6)), "bits": png(1, 0, bytes(4)), "rgb": png(8, 2, bytes(14)),
             "palette": png(2, 3, bytes(4), palette, chunk(b"tRNS", b"\0\x80")), "grey_alpha": png(8, 4, bytes(10)),
             "rgba": png(8, 6, bytes(18)), "deep": png(16, 6, bytes(34)), "interlaced": png(8, 0, bytes(8), interlace=1),
             "huge": png(8, 2, bytes(14), width=1 << 30, height=1 << 30), "few": png(8, 2, bytes(3)),
             "filter": png(8, 0, b"\x09" * 6), "text": b"hello", "nothing": b""}
    frame = bytes([8, 0, 8, 0, 8, 1, 1, 0x11, 0])
    codes = bytes([0, 1] + [0] * 15 + [0]) + bytes([0x10, 1] + [0] * 15 + [0])
    jpeg = b"\xff\xd8"
    for marker, data in ((0xDB, bytes([0] + [1] * 64)), (0xC0, frame), (0xC4, codes), (0xDA, bytes([1, 1, 0, 0, 63, 0]))):
        jpeg += bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data
    exif = b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6" + bytes(7)
    files |= {"jpeg": jpeg + b"\x3f\xff\xd9", "turned": jpeg[:2] + exif + jpeg[2:] + b"\x3f\xff\xd9", "cut": jpeg}
    config = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 24}, "resample": 3,
              "crop_size": {"height": 20, "width": 20}, "image_mean": [0.5, 0.4, 0.3], "image_std": [1, 1, 1]}
    return files | {"config": text_of(config), "odd": text_of(config | {"size": -1})}


SEEDS = {"safetensors": safetensors_seeds, "marian_config": marian_config_seeds, "model_config": model_config_seeds,
         "generation_config": generation_config_seeds, "training_config": training_config_seeds,
         "checkpoint": checkpoint_seeds, "tokenizer": tokenizer_seeds, "text_tokenizer": text_tokenizer_seeds,
         "sentence_pieces": sentence_pieces_seeds, "pairs": pairs_seeds, "examples": examples_seeds,
         "sentences": sentences_seeds, "sound": sound_seeds, "picture": picture_seeds}


def main():
    directory = pathlib.Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in SEEDS[sys.argv[1]]().items():
        (directory / name).write_bytes(content)


if __name__ == "__main__":
    main()
