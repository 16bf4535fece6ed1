"""Small tokenizers of every kind, trained here, laid out as the files of the families are."""

import base64
import io
import json

import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|"
    r"\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
ALPHABET = pre_tokenizers.ByteLevel.alphabet()


def train_spm(corpus, kind, size=1500, **options):
    """The bytes of a SentencePiece model."""
    bytes_ = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus),
        model_writer=bytes_,
        vocab_size=size,
        model_type=kind,
        minloglevel=2,
        hard_vocab_limit=False,
        character_coverage=0.98,
        num_threads=1,
        **options,
    )
    return bytes_.getvalue()


def charsmap(model):
    """A SentencePiece model's character map, as tokenizer.json has it."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    return proto, base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()


def edited(tokenizer, change):
    """The tokenizer whose JSON was changed."""
    data = json.loads(tokenizer.to_str())
    change(data)
    return Tokenizer.from_str(json.dumps(data))


def bert(random, corpus):
    """WordPiece; lower case, accents and Chinese characters drawn."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=random.choice([100, 12])))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=random.random() < 0.8,
        handle_chinese_chars=random.random() < 0.8,
        strip_accents=random.choice([None, True, False]),
        lowercase=random.random() < 0.6,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(
        corpus, trainers.WordPieceTrainer(vocab_size=900, special_tokens=special, show_progress=False)
    )
    cls, sep = ("[CLS]", 2), ("[SEP]", 3)
    if random.random() < 0.5:
        tokenizer.post_processor = processors.BertProcessing(sep, cls)
    else:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[cls, sep]
        )
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=random.random() < 0.7)
    return tokenizer


def byte_level(random, corpus, normalizer=None, pre=None, **options):
    """Byte-level BPE."""
    tokenizer = Tokenizer(models.BPE(**options))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre or pre_tokenizers.ByteLevel(add_prefix_space=random.random() < 0.3)
    tokenizer.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=1100,
            special_tokens=["<|endoftext|>", "<s>", "</s>"],
            initial_alphabet=ALPHABET,
            show_progress=False,
        ),
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def gpt2(random, corpus):
    """GPT-2, with its post-processor on or off."""
    tokenizer = byte_level(random, corpus)
    if random.random() < 0.7:
        tokenizer.post_processor = processors.ByteLevel(
            trim_offsets=random.random() < 0.5, add_prefix_space=random.random() < 0.5
        )
    return tokenizer


def roberta(random, corpus):
    """RoBERTa and BART: a mask that takes the space before it."""
    tokenizer = byte_level(random, corpus)
    prefix = tokenizer.pre_tokenizer.add_prefix_space
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 1), trim_offsets=random.random() < 0.7, add_prefix_space=prefix
    )
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=random.random() < 0.3, special=True)])
    return tokenizer


def modern_bert(random, corpus):
    """ModernBERT: NFC, tokens of spaces, and a template."""
    tokenizer = byte_level(
        random, corpus, normalizers.NFC(), pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True)
    )
    tokenizer.add_tokens(
        [AddedToken(" " * n, normalized=True) for n in (8, 4, 2)] + [AddedToken("|||IP|||", normalized=True)]
    )
    tokenizer.add_special_tokens(
        [AddedToken("[MASK]", lstrip=True, normalized=False), AddedToken("[CLS]", normalized=False)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s>:0 $A:0 </s>:0", pair="<s>:0 $A:0 </s>:0 $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return tokenizer


def split_and_bytes(regex, behavior="isolated", invert=False):
    """The pre-tokenizer of Llama 3 and Qwen."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(regex), behavior, invert=invert),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def llama3(random, corpus):
    """Llama 3."""
    pre = split_and_bytes(LLAMA3, *random.choice([("isolated", False), ("removed", True)]))
    tokenizer = byte_level(random, corpus, None, pre, ignore_merges=random.random() < 0.7)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|eot_id|>"])
    bos = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=random.random() < 0.5),
            processors.TemplateProcessing(
                single="<|begin_of_text|> $A",
                pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                special_tokens=[("<|begin_of_text|>", bos)],
            ),
        ]
    )
    return tokenizer


def qwen(random, corpus):
    """Qwen 2 and 3."""
    tokenizer = byte_level(random, corpus, normalizers.NFC(), split_and_bytes(QWEN2))
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens(["<think>", "</think>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def tekken(random, corpus):
    """Mistral's later tokenizer, and others with long patterns."""
    return byte_level(random, corpus, None, split_and_bytes(random.choice([TEKKEN, CL100K])), ignore_merges=True)


def sentence_bpe(random, corpus, special):
    """BPE over texts whose spaces are marks, with tokens for bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = random.choice(
        [pre_tokenizers.Metaspace(split=True), pre_tokenizers.Split("▁", "merged_with_next")]
    )
    extra = [f"<0x{byte:02X}>" for byte in range(256)] if random.random() < 0.8 else []
    tokenizer.train_from_iterator(
        corpus,
        trainers.BpeTrainer(vocab_size=1000, limit_alphabet=150, special_tokens=special + extra, show_progress=False),
    )

    def change(data):
        data["added_tokens"] = [token for token in data["added_tokens"] if not token["content"].startswith("<0x")]
        data["pre_tokenizer"] = None
        data["model"]["fuse_unk"] = random.random() < 0.8

    return edited(tokenizer, change)


def llama2(random, corpus):
    """Llama 2, Mistral and Phi-3: in the old layout or the new."""
    tokenizer = sentence_bpe(random, corpus, ["<unk>", "<s>", "</s>"])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    if random.random() < 0.5:
        tokenizer.normalizer = None
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
            prepend_scheme=random.choice(["first", "always", "never"]), split=False
        )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    tokenizer.add_special_tokens(
        [AddedToken("<|user|>", rstrip=True, normalized=False), AddedToken("<|end|>", rstrip=True, normalized=False)]
    )
    return tokenizer


def gemma(random, corpus):
    """Gemma: words that end with a mark, tokens of line ends."""
    tokenizer = sentence_bpe(random, corpus, ["<pad>", "<eos>", "<bos>", "<unk>"])
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_tokens(
        [AddedToken("\n" * n, normalized=False) for n in (1, 2, 3)] + [AddedToken("<b>", normalized=False)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos>:1 $B:1", special_tokens=[("<bos>", 2)]
    )
    return tokenizer


def unigram(random, corpus):
    """T5, XLM-R, mBART and Pegasus: pieces and the character map of SentencePiece."""
    rule = random.choice(["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"])
    fallback = random.random() < 0.3
    proto, characters = charsmap(
        train_spm(
            corpus,
            "unigram",
            1500,
            normalization_rule_name=rule,
            byte_fallback=fallback,
            user_defined_symbols=["<pad>", "<mask>"],
        )
    )
    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    tokenizer = Tokenizer(models.Unigram(pieces, 0, fallback))
    precompiled = normalizers.Precompiled(base64.b64decode(characters))
    tokenizer.normalizer = random.choice(
        [
            precompiled,
            normalizers.Sequence([precompiled, normalizers.Replace(Regex(" {2,}"), random.choice([" ", "▁"]))]),
            normalizers.Sequence([normalizers.Strip(left=random.random() < 0.5, right=True), precompiled]),
        ]
    )
    metaspace = pre_tokenizers.Metaspace(prepend_scheme=random.choice(["always", "first", "never"]))
    tokenizer.pre_tokenizer = random.choice(
        [metaspace, pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=metaspace.prepend_scheme)
    tokenizer.add_special_tokens(
        [
            "<unk>",
            "<s>",
            "</s>",
            "<pad>",
            AddedToken("<mask>", lstrip=True, special=True, normalized=random.random() < 0.5),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))]
    )
    return tokenizer


def clip(random, corpus):
    """A BPE whose last pieces of words have a suffix."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=random.random() < 0.5))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=700, limit_alphabet=100, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False
        ),
    )
    tokenizer.decoder = decoders.BPEDecoder()
    return tokenizer


def prefixed(random, corpus):
    """A BPE whose pieces inside words have a prefix."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(random.random() < 0.5)]
    )
    tokenizer.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=700,
            limit_alphabet=100,
            special_tokens=["<unk>"],
            continuing_subword_prefix="##",
            show_progress=False,
        ),
    )
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    return tokenizer


def mixed(random, corpus):
    """Word level, with normalizers and pre-tokenizers drawn one by one."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    steps = [
        normalizers.NFC(),
        normalizers.NFD(),
        normalizers.NFKC(),
        normalizers.NFKD(),
        normalizers.Lowercase(),
        normalizers.Nmt(),
        normalizers.StripAccents(),
        normalizers.Strip(),
        normalizers.Prepend("x"),
        normalizers.Replace("a", "bb"),
        normalizers.Replace(Regex(r"[aeiou]\w"), "-"),
        normalizers.Replace("e", ""),
    ]
    tokenizer.normalizer = normalizers.Sequence(random.sample(steps, random.randrange(4)))
    behaviours = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
    splits = [
        pre_tokenizers.Whitespace(),
        pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.BertPreTokenizer(),
        pre_tokenizers.Punctuation(random.choice(behaviours)),
        pre_tokenizers.Digits(random.random() < 0.5),
        pre_tokenizers.UnicodeScripts(),
        pre_tokenizers.CharDelimiterSplit("-"),
        pre_tokenizers.FixedLength(random.randrange(1, 9)),
        pre_tokenizers.Metaspace("_", random.choice(["always", "first", "never"]), random.random() < 0.5),
    ]
    patterns = [
        " ",
        "e",
        Regex(r"\s+"),
        Regex(r"\w+"),
        Regex(r"[^\w\s]+"),
        Regex(r"(?i:the)|\p{Lu}+"),
        Regex(r"\d{1,3}(?=(\d{3})*\b)"),
        Regex("[a-f]*"),
        Regex(r"\S\S?"),
    ]
    splits += [
        pre_tokenizers.Split(random.choice(patterns), random.choice(behaviours), invert=random.random() < 0.3)
        for _ in range(4)
    ]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(random.sample(splits, random.randrange(1, 4)))
    tokenizer.train_from_iterator(
        corpus, trainers.WordLevelTrainer(vocab_size=500, special_tokens=["<unk>"], show_progress=False)
    )
    tokenizer.add_tokens(
        [
            AddedToken(
                text,
                single_word=random.random() < 0.5,
                lstrip=random.random() < 0.5,
                rstrip=random.random() < 0.5,
                normalized=random.random() < 0.5,
            )
            for text in ("the", "ing", "of the", "<s>", "中")
        ]
    )
    if random.random() < 0.5:
        tokenizer.decoder = decoders.Sequence(
            random.sample(
                [
                    decoders.Replace("e", "E"),
                    decoders.ByteFallback(),
                    decoders.Strip("t", 1, 0),
                    decoders.WordPiece(),
                    decoders.Metaspace(),
                    decoders.Fuse(),
                    decoders.ByteLevel(),
                ],
                random.randrange(1, 4),
            )
        )
    return tokenizer


KINDS = [
    bert,
    gpt2,
    roberta,
    modern_bert,
    llama3,
    qwen,
    tekken,
    llama2,
    gemma,
    unigram,
    clip,
    prefixed,
    mixed,
    mixed,
    mixed,
]
