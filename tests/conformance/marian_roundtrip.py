"""Marian model directories between Headway, transformers and CTranslate2: logits, greedy and beam-search tokens.

Prints one line, `marian: N passed, N failed, N skipped`, after a line for every failure and every skip.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

transformers.utils.logging.disable_progress_bar()

EOS, PAD = 0, 59
SHAPE = dict(
    vocab_size=60, d_model=32, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=2,
    encoder_ffn_dim=48, decoder_ffn_dim=64, max_position_embeddings=64, eos_token_id=EOS, pad_token_id=PAD,
    decoder_start_token_id=PAD, forced_eos_token_id=None, init_std=0.3,
)
VARIANTS = {
    "relu_scaled": dict(activation_function="relu", scale_embedding=True),
    "gelu_plain": dict(activation_function="gelu", scale_embedding=False),
    "swish_scaled": dict(activation_function="swish", scale_embedding=True),
}
MAX_LENGTH = 20


class Headway:
    """A model directory in a process of its own, asked by lines of JSON."""

    def __init__(self, program, directory):
        self.process = subprocess.Popen(
            [str(program), str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"translate_tokens ended with {self.process.wait()}"
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def random_model(variant, seed=0, **changes):
    """A model whose choices differ from step to step, and that ends a sentence now and then."""
    torch.manual_seed(seed)
    model = transformers.MarianMTModel(transformers.MarianConfig(**(SHAPE | VARIANTS[variant] | changes))).eval()
    with torch.no_grad():
        model.final_logits_bias[0, : PAD] = torch.randn(PAD)
        model.final_logits_bias[0, EOS] = 2.0
    model.generation_config = transformers.GenerationConfig(
        bad_words_ids=[[PAD]], eos_token_id=EOS, pad_token_id=PAD, decoder_start_token_id=PAD
    )
    return model


def random_sources(count=24, seed=1):
    generator = np.random.default_rng(seed)
    return [generator.integers(1, PAD, generator.integers(1, 14)).tolist() + [EOS] for _ in range(count)]


def padded(rows):
    longest = max(map(len, rows))
    ids = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    return ids, torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])


def generate(model, sources, beams, best=1):
    """What transformers generates: for each source a list of `best` token lists and their scores."""
    results = []
    for source in sources:  # one by one: padding changes rounding
        ids, mask = padded([source])
        output = model.generate(
            input_ids=ids,
            attention_mask=mask,
            num_beams=beams,
            num_return_sequences=best,
            max_new_tokens=MAX_LENGTH,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
        )
        rows = []
        for row in output.sequences.tolist():
            tokens = row[1:]
            if EOS in tokens:
                tokens = tokens[: tokens.index(EOS) + 1]
            rows.append([token for token in tokens if token != PAD])
        scores = output.sequences_scores.tolist() if beams > 1 else [None] * best
        results.append(list(zip(rows, scores)))
    return results


def logits_of(model, sources, targets):
    ids, mask = padded(sources)
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=mask, decoder_input_ids=torch.tensor(targets)).logits.numpy()


def headway_logits(headway, sources, targets):
    ids, mask = padded(sources)
    answer = headway.ask(source=ids.tolist(), lengths=mask.sum(1).tolist(), target=targets)
    return np.array(answer["logits"]).reshape(len(sources), len(targets[0]), -1)


def some_targets(sources, seed=2):
    generator = np.random.default_rng(seed)
    return [[PAD] + generator.integers(1, PAD, 6).tolist() for _ in sources]


def compare_logits(model, headway, tolerance=1e-4):
    sources = random_sources()
    targets = some_targets(sources)
    ours, theirs = headway_logits(headway, sources, targets), logits_of(model, sources, targets)
    difference = np.abs(ours - theirs).max()
    assert difference <= tolerance, f"logits differ by {difference}"


def compare_search(model, headway, beams, best=1):
    sources = random_sources()
    theirs = generate(model, sources, beams, best)
    answer = headway.ask(sources=sources, beam=beams, num_best=best, max_length=MAX_LENGTH, batch_size=7)
    for source, hypotheses, wanted in zip(sources, answer["hypotheses"], theirs):
        for hypothesis, (tokens, score) in zip(hypotheses, wanted, strict=True):
            assert hypothesis["tokens"] == tokens, f"{source}: {hypothesis['tokens']}, transformers {tokens}"
            assert score is None or abs(hypothesis["score"] - score) < 1e-4, (hypothesis["score"], score)


def ctranslate2_translations(directory, work, sources, beams):
    """What CTranslate2 gives for ids, by way of the names of the tokens."""
    import ctranslate2

    target = pathlib.Path(work) / "ctranslate2"
    ctranslate2.converters.TransformersConverter(str(directory)).convert(str(target), force=True)
    translator = ctranslate2.Translator(str(target), compute_type="float32", intra_threads=1)
    vocabulary = json.loads((pathlib.Path(directory) / "vocab.json").read_text())
    names = {number: name for name, number in vocabulary.items()}
    results = translator.translate_batch(
        [[names[number] for number in source] for source in sources], beam_size=beams, max_decoding_length=MAX_LENGTH
    )
    return [[vocabulary[name] for name in result.hypotheses[0]] for result in results]


def write_tokenizer(directory, work):
    """A tokenizer whose vocabulary is as large as the models'."""
    import sentencepiece

    words = ["".join(chr(97 + (i * 7 + j * j) % 11) for j in range(1 + i % 5)) for i in range(400)]
    lines = [" ".join(words[(i * 13 + j * 5) % 400] for j in range(8)) for i in range(300)]
    prefix = pathlib.Path(work) / "pieces"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(prefix), vocab_size=40, hard_vocab_limit=False, minloglevel=2
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(prefix) + ".model")
    names = ["</s>", "<unk>"] + [pieces.id_to_piece(i) for i in range(3, len(pieces))]
    names += [f">>filler{i}<<" for i in range(PAD - len(names))] + ["<pad>"]
    vocab = pathlib.Path(work) / "vocab.json"
    vocab.write_text(json.dumps({name: i for i, name in enumerate(names)}))
    tokenizer = transformers.MarianTokenizer(
        source_spm=str(prefix) + ".model",
        target_spm=str(prefix) + ".model",
        vocab=str(vocab),
        source_lang="x",
        target_lang="y",
    )
    tokenizer.save_pretrained(directory)


def case_read(variant):
    def run(program, work):
        model = random_model(variant)
        model.save_pretrained(work)
        with Headway(program, work) as headway:
            compare_logits(model, headway)
            compare_search(model, headway, beams=1)
            compare_search(model, headway, beams=4, best=4)

    return run


def case_written(dtype):
    def run(program, work):
        given, made = pathlib.Path(work) / "given", pathlib.Path(work) / "made"
        random_model("relu_scaled").save_pretrained(given)
        with Headway(program, given) as headway:
            headway.ask(save=str(made), dtype=dtype)
        model = transformers.MarianMTModel.from_pretrained(made).eval()
        assert model.dtype == torch.float32, model.dtype
        assert model.generation_config.bad_words_ids == [[PAD]]
        assert model.lm_head.weight.data_ptr() == model.model.shared.weight.data_ptr()
        if dtype == "float32":
            original = load_file(given / "model.safetensors")
            for name, tensor in load_file(made / "model.safetensors").items():
                assert torch.equal(tensor, original[name]), name
        with Headway(program, made) as headway:
            compare_logits(model, headway)
            compare_search(model, headway, beams=1)
            compare_search(model, headway, beams=4)

    return run


def case_half_precision(dtype):
    def run(program, work):
        random_model("gelu_plain").to(dtype).save_pretrained(work)
        assert load_file(pathlib.Path(work) / "model.safetensors")["model.shared.weight"].dtype == dtype
        with Headway(program, work) as headway:
            compare_logits(transformers.MarianMTModel.from_pretrained(work, dtype=torch.float32).eval(), headway)

    return run


def case_stored_copies(program, work):
    model = random_model("relu_scaled")
    model.save_pretrained(work)
    file = pathlib.Path(work) / "model.safetensors"
    tensors = load_file(file)
    for name in ("lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"):
        tensors[name] = tensors["model.shared.weight"].clone()
    tensors["model.encoder.embed_positions.weight"] = model.model.encoder.embed_positions.weight.detach().clone()
    tensors["model.decoder.embed_positions.weight"] = model.model.decoder.embed_positions.weight.detach().clone()
    save_file(tensors, file, {"format": "pt"})
    with Headway(program, work) as headway:
        compare_logits(model, headway)


def case_ctranslate2(program, work):
    given, made = pathlib.Path(work) / "given", pathlib.Path(work) / "made"
    # CTranslate2 takes one number of heads for encoder and decoder.
    random_model("relu_scaled", seed=5, decoder_attention_heads=4).save_pretrained(given)
    with Headway(program, given) as headway:
        headway.ask(save=str(made))
    write_tokenizer(made, work)
    sources = random_sources(60)
    with Headway(program, made) as headway:
        greedy = headway.ask(sources=sources, max_length=MAX_LENGTH)["hypotheses"]
    theirs = ctranslate2_translations(made, work, sources, beams=1)
    for source, ours, tokens in zip(sources, greedy, theirs):
        mine = [token for token in ours[0]["tokens"] if token != EOS]
        assert mine == tokens, f"{source}: {mine}, CTranslate2 {tokens}"


CASES = {f"read_{variant}": case_read(variant) for variant in VARIANTS}
CASES |= {f"written_{dtype}": case_written(dtype) for dtype in ("float32", "float16", "bfloat16")}
CASES |= {f"read_{str(dtype)[6:]}": case_half_precision(dtype) for dtype in (torch.float16, torch.bfloat16)}
CASES |= {"read_stored_copies": case_stored_copies, "ctranslate2": case_ctranslate2}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=pathlib.Path, help="the built translate_tokens")
    parser.add_argument("--only", help="run the cases whose name has this in it")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    passed = failed = skipped = 0
    for name, case in CASES.items():
        if arguments.only and arguments.only not in name:
            continue
        with tempfile.TemporaryDirectory() as work:
            try:
                case(arguments.program, work)
                passed += 1
            except ImportError as error:
                skipped += 1
                print(f"skipped {name}: {error}")
            except Exception:
                failed += 1
                print(f"FAILED {name}")
                traceback.print_exc(file=sys.stdout)
    print(f"marian: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
