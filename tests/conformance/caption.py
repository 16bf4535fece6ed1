"""`headway caption` against Transformers: VisionEncoderDecoderModel of drawn sizes, from the file to the tokens.

caption.py [--program FILE] [--seed N] [--count N]: pictures of drawn sizes and kinds go through ViTImageProcessor and
generate(), and through the program, by greedy search and with beams. Tokens and scores are equal where the picture has the
model's size. Where it is resized or has transparency, Pillow rounds to 8 bits on the way and Headway does not: then
Transformers has to find our tokens as likely as its own, but for what such a rounding changes.
"""

import json
import random
import sys
import tempfile
import pathlib

import numpy
import torch
import transformers
from PIL import Image
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import headway_program

TOLERANCE = 1e-4  # of the log-probability of a token, on average
ROUNDED = 0.06    # the same after Pillow's rounding
NEW_TOKENS = 12


class Draw:
    """One model with its processor, and some pictures."""

    def __init__(self, seed, number):
        self.random = random.Random(f"{seed} {number}")
        torch.manual_seed(self.random.getrandbits(40))

    def flag(self):
        return self.random.random() < 0.5

    def processor(self):
        patch = (self.random.randint(2, 6), self.random.randint(2, 6)) if self.flag() else (self.random.randint(2, 8),) * 2
        size = tuple(side * self.random.randint(1, 5) for side in patch)
        channels = 3
        means = [round(self.random.uniform(0.2, 0.7), 3) for _ in range(channels)]
        deviations = [round(self.random.uniform(0.1, 0.6), 3) for _ in range(channels)]
        normalized = {"image_mean": means, "image_std": deviations} if self.flag() else {}
        return patch, size, ViTImageProcessorPil(
            size={"height": size[0], "width": size[1]}, resample=self.random.choice([0, 2, 3]),
            do_normalize=self.random.random() < 0.8, **normalized)

    def model(self, patch, size):
        heads, decoder_heads = self.random.randint(1, 4), self.random.randint(1, 4)
        width = heads * self.random.choice([4, 8, 12])
        decoder_width = width if self.flag() and width % decoder_heads == 0 else decoder_heads * self.random.choice([4, 8])
        encoder = transformers.ViTConfig(
            hidden_size=width, num_attention_heads=heads, num_hidden_layers=self.random.randint(1, 3),
            intermediate_size=self.random.choice([12, 20]), image_size=size, patch_size=patch, initializer_range=0.4,
            hidden_act=self.random.choice(["gelu", "relu", "gelu_new"]), qkv_bias=self.flag(),
            layer_norm_eps=self.random.choice([1e-12, 1e-5]))
        decoder = transformers.GPT2Config(
            n_embd=decoder_width, n_head=decoder_heads, n_layer=self.random.randint(1, 3), n_inner=16,
            vocab_size=self.random.randint(20, 60), n_positions=32, bos_token_id=1, eos_token_id=2, pad_token_id=0,
            initializer_range=0.5, add_cross_attention=True, is_decoder=True)
        config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
        model = transformers.VisionEncoderDecoderModel(config).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.dim() == 1 or "cls_token" in name or "position" in name:
                    parameter.add_(0.3 * torch.randn_like(parameter))
        for part in (model.config, model.generation_config):
            part.decoder_start_token_id, part.bos_token_id, part.eos_token_id, part.pad_token_id = 1, 1, 2, 0
        model.generation_config.max_new_tokens = NEW_TOKENS
        return model

    def picture(self, path, size):
        """Writes a picture, of a drawn size without one, and returns it as Transformers shall see it."""
        height, width = size or (self.random.randint(1, 60), self.random.randint(1, 60))
        noise = numpy.random.default_rng(self.random.getrandbits(32))
        pixels = noise.integers(0, 256, (height, width, 4), dtype=numpy.uint8)
        kind = self.random.choice(["RGB", "L", "P"] if size else ["RGB", "RGBA", "L", "P"])
        picture = Image.fromarray(pixels).convert("RGB") if kind != "RGBA" else Image.fromarray(pixels)
        if kind == "P":
            picture = picture.quantize(self.random.choice([2, 7, 200]))
        elif kind == "L":
            picture = picture.convert("L")
        picture.save(path)
        if kind == "RGBA":
            white = Image.new("RGBA", picture.size, (255, 255, 255, 255))
            return Image.alpha_composite(white, picture).convert("RGB")
        return picture.convert("RGB")


def score_of(model, features, tokens):
    """The mean log-probability of a text, and by how much a token was less likely than the likeliest, at most."""
    given = torch.tensor([[1] + tokens])
    with torch.no_grad():
        steps = model(pixel_values=features, decoder_input_ids=given[:, :-1]).logits[0].log_softmax(-1)
    chosen = steps.gather(1, given[0, 1:, None])[:, 0]
    return chosen.mean().item(), (steps.max(1).values - chosen).max().item()


def compare(program, tally, seed, number, work):
    """One drawn model."""
    draw = Draw(seed, number)
    patch, size, processor = draw.processor()
    model = draw.model(patch, size)
    directory = work / str(number)
    model.save_pretrained(directory)
    processor.save_pretrained(directory)
    names = [work / f"{number}-{i}.png" for i in range(4)]
    features = [processor(draw.picture(name, size if i < 2 else None), return_tensors="pt")["pixel_values"]
                for i, name in enumerate(names)]
    for beams in (1, 3):
        output = headway_program.call(program, "caption", "--model", directory, "--beams", beams, "--json",
                                      "--max-new-tokens", NEW_TOKENS, *names)
        for i, line in enumerate(output.splitlines()):
            ours = json.loads(line)
            with torch.no_grad():
                theirs = model.generate(features[i], num_beams=beams, do_sample=False)[0, 1:].tolist()
            score, worst = score_of(model, features[i], ours["tokens"])
            if i < 2:
                good = ours["tokens"] == theirs and abs(ours["score"] - score) < TOLERANCE
            else:
                lost = worst if beams == 1 else score_of(model, features[i], theirs)[0] - score
                good = abs(ours["score"] - score) < ROUNDED and lost < ROUNDED
            tally.check(good, number, names[i].name, f"beams {beams}", ours["tokens"], theirs, ours["score"], score)


def main():
    """Compares as many drawn models as are asked for."""
    parser = headway_program.parser(__doc__.splitlines()[0])
    parser.set_defaults(count=12)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    tally = headway_program.Tally("caption")
    with tempfile.TemporaryDirectory() as work:
        for number in range(options.count):
            compare(options.program, tally, options.seed, number, pathlib.Path(work))
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
