#!/usr/bin/env python3
"""Transcriber against transformers: small random Whisper directories and drawn sounds, greedy and with beams, by tokens,
times of tokens and language. Prints `transcribe: N passed, N failed, 0 skipped`."""

import json
import random
import tempfile
import warnings
import pathlib

import numpy as np
import soundfile
import torch
import transformers

from headway_program import Tally, call, parser

ADDED = ["<|startoftranscript|>", "<|endoftext|>", "<|en|>", "<|de|>", "<|transcribe|>", "<|translate|>",
         "<|notimestamps|>"]
WORDS = "zero one two three four five six seven eight nine".split()
START, END, ENGLISH, GERMAN, TRANSCRIBE, TRANSLATE, NO_TIMES = range(10, 17)


def drawn(generator, many):
    """A config and a generation config; `many`: of a model of several languages and tasks."""
    width = generator.choice([16, 24, 32])
    rate, hop = generator.choice([(8000, 160), (16000, 320), (8000, 100)])
    frames = 2 * rate // hop
    config = transformers.WhisperConfig(
        vocab_size=17, num_mel_bins=generator.choice([20, 40]), d_model=width, encoder_layers=generator.choice([1, 2]),
        decoder_layers=generator.choice([1, 2, 3]), encoder_attention_heads=2, decoder_attention_heads=4,
        encoder_ffn_dim=32, decoder_ffn_dim=48, max_source_positions=frames // 2, max_target_positions=24,
        init_std=0.35, bos_token_id=START, decoder_start_token_id=START, eos_token_id=END, pad_token_id=END,
        median_filter_width=generator.choice([3, 5, 7]), begin_suppress_tokens=None, suppress_tokens=None)
    options = {"decoder_start_token_id": START, "bos_token_id": START, "eos_token_id": END, "pad_token_id": END,
               "max_length": 20, "is_multilingual": many,
               "alignment_heads": [[generator.randrange(config.decoder_layers), head] for head in (0, 2)],
               "begin_suppress_tokens": [END], "suppress_tokens": [generator.randrange(10)],
               "no_timestamps_token_id": NO_TIMES}
    if many:
        options["lang_to_id"] = {"<|en|>": ENGLISH, "<|de|>": GERMAN}
        options["task_to_id"] = {"transcribe": TRANSCRIBE, "translate": TRANSLATE}
        options["suppress_tokens"] += [START, ENGLISH, GERMAN, TRANSCRIBE, TRANSLATE, NO_TIMES]
    return config, transformers.GenerationConfig(**options), rate, hop


def write_tokenizer(directory):
    """One word for each id below 10, and the special tokens."""
    added = [{"id": 10 + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, text in enumerate(ADDED)]
    vocabulary = {word: i for i, word in enumerate(WORDS + ADDED)}
    (directory / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "unk_token": "<|endoftext|>", "vocab": vocabulary}}))


def sound_of(generator, rate, seconds):
    """Tones that change, and noise."""
    time = np.arange(int(seconds * rate)) / rate
    pitch = np.interp(time, np.linspace(0, seconds, 8), [generator.uniform(100, 2500) for _ in range(8)])
    level = np.interp(time, np.linspace(0, seconds, 9), [generator.uniform(0, 0.5) for _ in range(9)])
    noise = np.random.default_rng(generator.randrange(1 << 30)).normal(0, 0.01, time.shape)
    return (level * np.sin(2 * np.pi * np.cumsum(pitch) / rate) + noise).astype(np.float32)


def theirs(model, features, seconds_of, beams, options):
    """Tokens behind the prompt, and when each begins."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = model.generate(features, num_beams=beams, do_sample=False, return_dict_in_generate=True,
                                output_attentions=True, force_unique_generate_call=True, **options)
    tokens = result.sequences[0].tolist()
    prompt = next(i for i, token in enumerate(tokens) if token == NO_TIMES) + 1
    new = tokens[prompt:]
    if END in new:
        new = new[: new.index(END) + 1]
    with torch.no_grad():  # what each token looked at, in one pass
        ids = torch.tensor([tokens[:prompt] + new[:-1]])
        cross = model(features, decoder_input_ids=ids, output_attentions=True).cross_attentions
    class Outputs(dict):
        """What _extract_token_timestamps reads."""
        cross_attentions = [cross]
        sequences = ids
    seconds, frames = seconds_of
    times = model._extract_token_timestamps(Outputs(), model.generation_config.alignment_heads, time_precision=seconds,
                                            num_frames=frames, num_input_ids=prompt - 1)[0].tolist()
    return tokens[:prompt], new, times[prompt - 1: prompt - 1 + len(new)]


def main():
    arguments = parser(__doc__).parse_args()
    transformers.logging.set_verbosity_error()
    count = min(arguments.count, 8)
    tally = Tally("transcribe")
    with tempfile.TemporaryDirectory() as name:
        for number in range(count):
            generator = random.Random(1000 * arguments.seed + number)
            torch.manual_seed(number)
            directory = pathlib.Path(name) / str(number)
            config, generation, rate, hop = drawn(generator, many=number % 2 == 1)
            model = transformers.WhisperForConditionalGeneration._from_config(
                config, attn_implementation="eager").eval()
            model.generation_config = generation
            model.save_pretrained(directory)
            extractor = transformers.WhisperFeatureExtractor(feature_size=config.num_mel_bins, sampling_rate=rate,
                                                             hop_length=hop, chunk_length=2, n_fft=240)
            extractor.save_pretrained(directory)
            write_tokenizer(directory)
            sound = sound_of(generator, rate, generator.uniform(0.4, 2.0))
            file = directory / "sound.wav"
            soundfile.write(file, sound, rate, subtype="FLOAT")
            features = extractor(sound, sampling_rate=rate, return_tensors="pt").input_features
            languages = [{}]
            if number % 2 == 1:
                languages = [{"language": "de"}, {"language": "en", "task": "translate"}, {"task": "transcribe"}]
            for options in languages:
                for beams in (1, 3):
                    frames = -(-len(sound) // hop)
                    prompt, tokens, times = theirs(model, features, (2 * hop / rate, frames), beams, options)
                    flags = [part for key, value in options.items() for part in (f"--{key}", value)]
                    line = call(arguments.program, "transcribe", "--json", "--model", directory, "--beams", beams,
                                *flags, file)
                    ours = json.loads(line)
                    tally.check(ours["tokens"] == tokens, number, options, beams, ours["tokens"], tokens)
                    words = [token for token in tokens if token < 10]
                    starts = [time for token, time in zip(tokens, times) if token < 10]
                    close = len(words) == len(ours["words"]) and np.allclose(
                        [word["start"] for word in ours["words"]], starts, atol=1e-3)
                    tally.check(close, number, options, beams, ours["words"], starts)
                    if len(prompt) > 2:
                        language = {ENGLISH: "en", GERMAN: "de"}[prompt[1]]
                        tally.check(ours["language"] == language, number, options, ours["language"], language)
    return tally.finish()


if __name__ == "__main__":
    raise SystemExit(main())
