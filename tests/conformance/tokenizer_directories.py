"""Directories without a tokenizer.json, against transformers and sentencepiece."""

import json
import random
import warnings

import sentencepiece
from tokenizers import models, pre_tokenizers, trainers
from tokenizers import Tokenizer

from tokenizer_kinds import ALPHABET, train_spm
from tokenizer_texts import WRITTEN, drawn

FAIRSEQ_OFFSET = 1  # of ids in files against those of SentencePiece


def pieces_directory(directory, file, model, tokenizer_class, **config):
    """A directory with a SentencePiece model."""
    directory.mkdir()
    (directory / file).write_bytes(model)
    (directory / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": tokenizer_class, **config}), encoding="utf-8"
    )
    return directory


def made_directories(work, corpus):
    """Name -> directory."""
    t5 = train_spm(corpus, "unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    fairseq = train_spm(corpus, "unigram")
    plain = {"byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    llama = train_spm(corpus, "bpe", **plain)
    gemma = train_spm(
        corpus,
        "bpe",
        **plain,
        pad_id=0,
        eos_id=1,
        bos_id=2,
        unk_id=3,
        pad_piece="<pad>",
        eos_piece="<eos>",
        bos_piece="<bos>",
        add_dummy_prefix=False,
        user_defined_symbols=["<mask>", "<start_of_turn>", "\n", "\n\n"],
    )
    made = {
        "t5": pieces_directory(work / "t5", "spiece.model", t5, "T5Tokenizer"),
        "pegasus": pieces_directory(work / "pegasus", "spiece.model", t5, "PegasusTokenizer"),
        "xlm-r": pieces_directory(work / "xlm-r", "sentencepiece.bpe.model", fairseq, "XLMRobertaTokenizer"),
        "mbart": pieces_directory(work / "mbart", "sentencepiece.bpe.model", fairseq, "MBartTokenizer"),
        "llama": pieces_directory(
            work / "llama", "tokenizer.model", llama, "LlamaTokenizer", add_bos_token=True, legacy=False
        ),
        "gemma": pieces_directory(work / "gemma", "tokenizer.model", gemma, "GemmaTokenizer", add_bos_token=True),
    }
    bert = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    bert.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    bert.train_from_iterator(
        corpus, trainers.WordPieceTrainer(vocab_size=900, special_tokens=special, show_progress=False)
    )
    tokens = sorted(bert.get_vocab(), key=bert.get_vocab().get)
    for name, lower in (("bert", True), ("bert-cased", False)):
        made[name] = work / name
        made[name].mkdir()
        (made[name] / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
        (made[name] / "tokenizer_config.json").write_text(
            json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": lower})
        )
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"]
    for name, tokenizer_class in (
        ("gpt2", "GPT2Tokenizer"),
        ("roberta", "RobertaTokenizer"),
        ("qwen", "Qwen2Tokenizer"),
    ):
        bpe = Tokenizer(models.BPE())
        bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        bpe.train_from_iterator(
            corpus,
            trainers.BpeTrainer(
                vocab_size=1000, special_tokens=special, initial_alphabet=ALPHABET, show_progress=False
            ),
        )
        made[name] = work / name
        made[name].mkdir()
        bpe.model.save(str(made[name]))
        (made[name] / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": tokenizer_class}))
    return made


def is_tie(pieces, ids, expected, shift):
    """The same pieces in another order, as 77 + 7 and 7 + 77: the scores' sums are equal, and SentencePiece's choice
    follows from how float32 rounds them over the whole text. Transformers' does not."""
    def texts(of):
        return [pieces.id_to_piece(i - shift) for i in of if 0 <= i - shift < pieces.get_piece_size()]

    ours, theirs = texts(ids), texts(expected)
    return sorted(ours) == sorted(theirs) and "".join(ours) == "".join(theirs)


def compare_directories(suite_of, tally, work, corpus, seed):
    """Ids of every directory against transformers, those of pieces on real texts against sentencepiece too."""
    import transformers

    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    generator = random.Random(seed)
    texts = WRITTEN + [drawn(generator) for _ in range(60)] + corpus[:40]
    # SentencePiece knows no special tokens in texts, and puts a space before one that is there.
    plain_texts = [text.strip() for text in corpus if "<" not in text]
    for name, directory in made_directories(work, corpus).items():
        ours = suite_of(directory)("encode", "--json-lines", lines=texts)
        plain = suite_of(directory)("encode", "--json-lines", "--no-special-tokens", lines=plain_texts)
        if name != "mbart":  # whose tokenizer in transformers 5 leaves the character map out
            theirs = transformers.AutoTokenizer.from_pretrained(str(directory))
            for text, one in zip(texts, ours, strict=True):
                expected = theirs(text)["input_ids"]
                tally.check(one["ids"] == expected, name, repr(text)[:200], one["ids"], "expected", expected)
        model = [file for file in directory.iterdir() if file.suffix == ".model"]
        if not model or name == "gemma":  # where transformers and SentencePiece treat user-defined pieces differently
            continue
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(model[0]))
        shift = {"xlm-r": FAIRSEQ_OFFSET, "mbart": FAIRSEQ_OFFSET, "pegasus": 103}.get(name, 0)
        for text, one in zip(plain_texts, plain, strict=True):
            expected = [
                3 if shift == FAIRSEQ_OFFSET and i == pieces.unk_id() else i + shift for i in pieces.encode(text)
            ]
            same = one["ids"] == expected or is_tie(pieces, one["ids"], expected, shift)
            tally.check(same, name, "sentencepiece", repr(text)[:300], one["ids"], "expected", expected)
