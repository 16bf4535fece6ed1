"""`headway generate` and `headway summarize` against Hugging Face's generate(): the same tokens for every family.

hf_generate.py [--program FILE] [--seed N | --seed random] [--draws N] [--steps N] [--only FAMILY]: small random models,
written by save_pretrained() with a generation_config.json that is drawn too; greedy search, beams and the rules that
change scores; prompts of different lengths, which Hugging Face pads on the left.
"""

import argparse
import json
import os
import pathlib
import random
import sys
import tempfile

import torch
import transformers

import headway_program

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Draw:
    """Random sizes and options of one model."""

    def __init__(self, seed, family, number):
        self.random = random.Random(f"{seed} {family} {number}")
        torch.manual_seed(self.random.getrandbits(48))
        self.layers = self.random.randint(1, 3)
        self.kv_heads = self.random.choice([1, 2, 3])
        self.heads = self.kv_heads * self.random.choice([1, 2, 4])
        self.head_dim = self.random.choice([4, 8, 12, 16, 20])
        self.width = self.heads * self.head_dim
        self.vocabulary = self.random.randint(30, 99)

    def flag(self):
        return self.random.random() < 0.5

    def ids(self, length):
        return [self.random.randrange(5, self.vocabulary) for _ in range(length)]

    def llama(self, **more):
        return dict(
            hidden_size=self.width, num_attention_heads=self.heads, num_key_value_heads=self.kv_heads,
            num_hidden_layers=self.layers, intermediate_size=self.random.choice([24, 40, 56]),
            vocab_size=self.vocabulary, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0,
            initializer_range=0.5, tie_word_embeddings=self.flag(), **more,
        )

    def bart(self, **more):
        return dict(
            d_model=self.width, encoder_layers=self.layers, decoder_layers=self.random.randint(1, 3), encoder_ffn_dim=32,
            decoder_ffn_dim=40, encoder_attention_heads=self.heads, decoder_attention_heads=self.heads,
            vocab_size=self.vocabulary, max_position_embeddings=256, decoder_start_token_id=2, bos_token_id=1,
            eos_token_id=2, pad_token_id=0, init_std=0.5, scale_embedding=self.flag(), forced_eos_token_id=None, **more,
        )


def gpt2(draw):
    return transformers.GPT2Config(
        n_embd=draw.width, n_head=draw.heads, n_layer=draw.layers, n_inner=32, vocab_size=draw.vocabulary,
        n_positions=256, bos_token_id=1, eos_token_id=2, pad_token_id=0, initializer_range=0.5,
        scale_attn_by_inverse_layer_idx=draw.flag(),
    )


def llama(draw):
    scaling = draw.random.choice([None, "llama3", "linear", "yarn"])
    more = {}
    if scaling:
        more["rope_scaling"] = dict(rope_type=scaling, factor=draw.random.choice([2.0, 4.0]))
        if scaling == "llama3":
            more["rope_scaling"].update(low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
        if scaling == "yarn":
            more["rope_scaling"].update(original_max_position_embeddings=64)
    return transformers.LlamaConfig(**draw.llama(attention_bias=draw.flag(), mlp_bias=draw.flag(), **more))


def mistral(draw):
    return transformers.MistralConfig(
        **draw.llama(head_dim=draw.head_dim, sliding_window=draw.random.choice([None, 5, 30])))


def qwen2(draw):
    return transformers.Qwen2Config(**draw.llama())


def qwen3(draw):
    return transformers.Qwen3Config(**draw.llama(head_dim=draw.head_dim + 4))


def gemma2(draw):
    return transformers.Gemma2Config(
        **draw.llama(head_dim=draw.head_dim, sliding_window=draw.random.randint(2, 30), query_pre_attn_scalar=16,
                     attn_logit_softcapping=draw.random.choice([None, 5.0]),
                     final_logit_softcapping=draw.random.choice([None, 8.0])))


def gemma3_text(draw):
    return transformers.Gemma3TextConfig(
        **draw.llama(head_dim=draw.head_dim, sliding_window=draw.random.randint(2, 30), query_pre_attn_scalar=16))


def phi3(draw):
    return transformers.Phi3Config(**draw.llama())


def t5(draw):
    return transformers.T5Config(
        d_model=draw.width, num_heads=draw.heads, d_kv=draw.head_dim, num_layers=draw.layers,
        num_decoder_layers=draw.layers, d_ff=40, vocab_size=draw.vocabulary,
        feed_forward_proj=draw.random.choice(["relu", "gated-gelu"]), relative_attention_num_buckets=8,
        relative_attention_max_distance=20, tie_word_embeddings=draw.flag(), decoder_start_token_id=0, eos_token_id=1,
        pad_token_id=0, initializer_factor=3.0,
    )


def bart(draw):
    return transformers.BartConfig(**draw.bart())


def mbart(draw):
    return transformers.MBartConfig(**draw.bart())


def pegasus(draw):
    return transformers.PegasusConfig(**draw.bart())


FAMILIES = [gpt2, llama, mistral, qwen2, qwen3, gemma2, gemma3_text, phi3, t5, bart, mbart, pegasus]


def generation_options(draw, is_encoder_decoder):
    """Greedy search or beams, and some of the rules."""
    options = {}
    if draw.flag():
        options.update(num_beams=draw.random.randint(2, 4), length_penalty=draw.random.choice([1.0, 0.6, 2.0, -1.0]),
                       early_stopping=draw.random.choice([True, False, "never"]))
    if draw.random.random() < 0.3:
        options["repetition_penalty"] = draw.random.choice([1.2, 1.5])
    if draw.random.random() < 0.3:
        options["no_repeat_ngram_size"] = draw.random.choice([2, 3])
    if draw.random.random() < 0.3:
        options["min_new_tokens"] = draw.random.randint(1, 30)
    if draw.random.random() < 0.3:
        options["bad_words_ids"] = [draw.ids(1), draw.ids(2)]
    if draw.random.random() < 0.2:
        options["suppress_tokens"] = draw.ids(3)
    if draw.random.random() < 0.2:
        options["forced_eos_token_id"] = 2 if not is_encoder_decoder else 1
    if is_encoder_decoder and draw.random.random() < 0.3:
        options["forced_bos_token_id"] = draw.ids(1)[0]
    return options


def their_tokens(model, prompts, options, steps, is_encoder_decoder):
    """New tokens of each prompt, up to and with the end token."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    if is_encoder_decoder:
        ids = torch.tensor([prompt + [0] * (longest - len(prompt)) for prompt in prompts])
        mask = torch.tensor([[1] * len(prompt) + [0] * (longest - len(prompt)) for prompt in prompts])
    with torch.no_grad():
        found = model.generate(ids, attention_mask=mask, max_new_tokens=steps, do_sample=False, **options)
    end = model.config.eos_token_id
    results = []
    for row in found[:, 1 if is_encoder_decoder else longest:].tolist():
        results.append(row[: row.index(end) + 1] if end in row else row)
    return results


def compare(family, draw, arguments, tally):
    config = family(draw)
    is_encoder_decoder = config.is_encoder_decoder
    auto = transformers.AutoModelForSeq2SeqLM if is_encoder_decoder else transformers.AutoModelForCausalLM
    model = auto.from_config(config, attn_implementation="eager").eval()
    options = generation_options(draw, is_encoder_decoder)
    # A batch of one where Hugging Face's rules would see the padding.
    sees_padding = any(name in options for name in ("repetition_penalty", "no_repeat_ngram_size", "bad_words_ids"))
    count = 1 if sees_padding and not is_encoder_decoder else draw.random.randint(1, 3)
    prompts = [draw.ids(draw.random.randint(1, 12)) for _ in range(count)]
    with tempfile.TemporaryDirectory() as directory:
        model.generation_config = transformers.GenerationConfig(
            bos_token_id=getattr(config, "bos_token_id", None), eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id,
            decoder_start_token_id=getattr(config, "decoder_start_token_id", None))
        model.save_pretrained(directory)
        path = pathlib.Path(directory, "generation_config.json")
        path.write_text(json.dumps({**json.loads(path.read_text()), **options}))
        output = headway_program.call(
            arguments.program, "summarize" if is_encoder_decoder else "generate", "--model", directory, "--tokens", "--json",
            "--max-new-tokens", arguments.steps, *(["--lines"] if is_encoder_decoder else []),
            data="".join(" ".join(map(str, prompt)) + "\n" for prompt in prompts).encode())
    ours = [json.loads(line)["texts"][0]["tokens"] for line in output.splitlines()]
    theirs = their_tokens(model, prompts, options, arguments.steps, is_encoder_decoder)
    for our, their, prompt in zip(ours, theirs, prompts):
        tally.check(our == their, draw_name(family, draw), options, prompt, our, their)


def draw_name(family, draw):
    return f"{family.__name__} {draw.number}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    build = pathlib.Path(os.environ.get("HEADWAY_CONFORMANCE_BUILD", ROOT / "build" / "release"))
    parser.add_argument("--program", type=pathlib.Path, default=os.environ.get("HEADWAY_PROGRAM", build / "headway"))
    parser.add_argument("--seed", default="1")
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--only")
    arguments = parser.parse_args()
    seed = random.randrange(10**6) if arguments.seed == "random" else arguments.seed
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    code = 0
    for family in FAMILIES:
        if arguments.only and family.__name__ != arguments.only:
            continue
        tally = headway_program.Tally(f"generate {family.__name__}, seed {seed}")
        for number in range(arguments.draws):
            draw = Draw(seed, family.__name__, number)
            draw.number = number
            compare(family, draw, arguments, tally)
        code = max(code, tally.finish())
    return code


if __name__ == "__main__":
    sys.exit(main())
