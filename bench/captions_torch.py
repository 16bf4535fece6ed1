#!/usr/bin/env python3
"""The captions example in PyTorch: Transformers' VisionEncoderDecoderModel with the same config, split, order of the data,
augmentation, steps and optimizer as `example_captions train`.

    captions_torch.py DATA START --output DIR [--steps N] [--seed N]

START is a directory that `example_captions train --steps 0` wrote: config, tokenizer, preprocessor and initial weights.
"""
import argparse
import collections
import csv
import math
import pathlib
import re
import time

import numpy
import torch
from PIL import Image
from torch.nn import functional
from transformers import PreTrainedTokenizerFast, VisionEncoderDecoderModel

SIDE = 72
GENDERS = {"man", "woman", "men", "women", "person", "people"}


def mix(x):
    """SplitMix64's output function, on arrays of uint64."""
    x = numpy.asarray(x, dtype=numpy.uint64)
    with numpy.errstate(over="ignore"):
        x = x + numpy.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return x ^ (x >> numpy.uint64(31))


def name_hash(text):
    """FNV-1a, 64 bits."""
    result = 0xCBF29CE484222325
    for byte in text.encode():
        result = ((result ^ byte) * 0x100000001B3) % 2**64
    return int(mix(result))


def values_of(row):
    """The values that a caption of a person combines: gender, activity, then skin tones, hair, members."""
    head, _, rest = row["caption"].partition(": ")
    words = head.split(" ")
    gender = " ".join(word for word in words if word in GENDERS)
    activity = " ".join(word for word in words if word not in GENDERS)
    values = ["gender " + gender] * bool(gender) + ["activity " + activity] * bool(activity)
    return values + [value for value in rest.split(", ") if value]


def split_of(rows):
    """The part of each row: "train", "combination" or "kind"."""
    parts, candidates, seen = {}, [], set()
    for row in rows:
        name, values = row["file"], values_of(row) if row["kind"] == "person" else []
        if len(values) < 2:
            parts[name] = "kind" if name_hash(name) % 10 == 0 else "train"
            if row["kind"] == "person" and parts[name] == "train":
                seen.update(values)
        elif name_hash(name) % 7 == 5:
            candidates.append((name, values))
        else:
            parts[name] = "train"
            seen.update(values)
    for name, values in candidates:
        parts[name] = "combination" if seen.issuperset(values) else "train"
        seen.update(values)
    return [parts[row["file"]] for row in rows]


def read_rows(data):
    with open(data / "captions.tsv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def read_pixels(data, rows):
    """Premultiplied RGBA, [n, 4, 72, 72], 0 to 1."""
    pixels = torch.empty(len(rows), 4, SIDE, SIDE)
    for i, row in enumerate(rows):
        picture = numpy.asarray(Image.open(data / "72x72" / row["file"]).convert("RGBA"), dtype=numpy.float32) / 255
        pixels[i] = torch.from_numpy(picture).permute(2, 0, 1)
    pixels[:, :3] *= pixels[:, 3:]
    return pixels


def draws(seed, position, count=12):
    """Numbers in [0, 1) of one example of the run."""
    base = mix(numpy.uint64(seed)) ^ mix(numpy.arange(count, dtype=numpy.uint64) + numpy.uint64(position * 16))
    return (mix(base) >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53


def order(seed, epoch, count):
    keys = mix(mix(numpy.uint64(seed * 1000003 + epoch)) ^ mix(numpy.arange(count, dtype=numpy.uint64)))
    return numpy.argsort(keys, kind="stable")


def augment(pixels, u):
    """pixels [b, 4, 72, 72] premultiplied, u [b, 12]: scaled, shifted, sometimes blurred, over a background."""
    u = torch.from_numpy(u).float()
    scale, shift_x, shift_y = 0.85 + 0.25 * u[:, 0], 6 * u[:, 1] - 3, 6 * u[:, 2] - 3
    centres = torch.arange(SIDE) + 0.5
    x = (centres[None] - SIDE / 2 - shift_x[:, None]) / scale[:, None] / (SIDE / 2)
    y = (centres[None] - SIDE / 2 - shift_y[:, None]) / scale[:, None] / (SIDE / 2)
    grid = torch.stack([x[:, None, :].expand(-1, SIDE, -1), y[:, :, None].expand(-1, -1, SIDE)], dim=3)
    result = torch.empty_like(pixels)
    coarse = u[:, 3] < 0.2
    for chosen, source in ((coarse, functional.avg_pool2d(pixels, 2)), (~coarse, pixels)):
        result[chosen] = functional.grid_sample(source[chosen], grid[chosen], align_corners=False)
    background = torch.where(u[:, 4:5] < 0.85, u[:, 5:6].expand(-1, 3), u[:, 5:8])
    background = torch.where(u[:, 4:5] < 0.7, torch.ones(1, 3), background)
    colours = result[:, :3] + (1 - result[:, 3:]) * background[:, :, None, None]
    return ((0.92 + 0.16 * u[:, 8, None, None, None]) * colours).clamp(0, 1) * 2 - 1


def over_white(pixels):
    return (pixels[:, :3] + 1 - pixels[:, 3:]) * 2 - 1


def word_f1(expected, found):
    words = re.compile(r"[0-9A-Za-z_\x80-\U0010ffff]+|[^\s]")
    a, b = (collections.Counter(words.findall(text)) for text in (expected, found))
    return 2 * sum((a & b).values()) / max(1, sum(a.values()) + sum(b.values()))


@torch.no_grad()
def evaluate(model, tokenizer, pixels, captions, beams):
    model.eval()
    texts = []
    for start in range(0, len(captions), 64):
        ids = model.generate(over_white(pixels[start:start + 64]), num_beams=beams, max_new_tokens=40, do_sample=False)
        texts += tokenizer.batch_decode(ids, skip_special_tokens=True)
    exact = sum(a == b for a, b in zip(captions, texts)) / len(captions)
    return exact, sum(map(word_f1, captions, texts)) / len(captions)


def rate(step, steps, peak):
    """The learning rate of a step, counted from 1."""
    warmup = steps // 20
    if step <= warmup:
        return peak * step / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


class Batches:
    """The batches of a run: each follows from its number and the seed alone, as in the C++ program."""

    def __init__(self, pixels, sequences, size, seed):
        self.pixels, self.sequences, self.size, self.seed = pixels, sequences, size, seed

    def at(self, index, start_id):
        places = range(index * self.size, (index + 1) * self.size)
        count = len(self.sequences)
        orders = {epoch: order(self.seed, epoch, count) for epoch in {place // count for place in places}}
        items = [int(orders[place // count][place % count]) for place in places]
        inputs = augment(self.pixels[items], numpy.stack([draws(self.seed, place) for place in places]))
        labels = torch.full((self.size, max(len(self.sequences[i]) for i in items)), -100)
        for row, i in enumerate(items):
            labels[row, :len(self.sequences[i])] = torch.tensor(self.sequences[i])
        read = torch.cat([torch.full((self.size, 1), start_id), labels[:, :-1].clamp(min=0)], dim=1)
        return inputs, read, labels


def train(model, batches, options, report):
    """The recipe of the examples: AdamW, a cosine schedule, clipping at 1. Seconds of the processor."""
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": options.weight_decay},
                                   {"params": others, "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.98))
    started = time.process_time()
    for step in range(1, options.steps + 1):
        model.train()
        inputs, read, labels = batches.at(step - 1, model.config.decoder_start_token_id)
        logits = model(pixel_values=inputs, decoder_input_ids=read).logits
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate(step, options.steps, options.learning_rate)
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f} {time.process_time() - started:.0f} s", flush=True)
        if options.every and step % options.every == 0:
            report(beams=[1])
    return time.process_time() - started


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("start", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=24000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--weight-decay", type=float, default=0.05)
    parser.add_argument("--every", type=int, default=0, help="evaluate every so many steps")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)

    rows = read_rows(options.data)
    pixels, parts = read_pixels(options.data, rows), split_of(rows)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(options.start)
    model = VisionEncoderDecoderModel.from_pretrained(options.start, dtype=torch.float32, attn_implementation="sdpa")
    items = {name: [i for i, part in enumerate(parts) if part == name] for name in ("train", "combination", "kind")}
    captions = {name: [rows[i]["caption"] for i in numbers] for name, numbers in items.items()}
    print({name: len(numbers) for name, numbers in items.items()},
          sum(p.numel() for p in model.parameters()), "parameters")

    def report(beams):
        for name in ("combination", "kind"):
            for width in beams:
                exact, f1 = evaluate(model, tokenizer, pixels[items[name]], captions[name], width)
                print(f"{name}, beams {width}: exact {exact:.4f}, word F1 {f1:.4f}", flush=True)

    end = [model.config.eos_token_id]
    sequences = [tokenizer.encode(caption, add_special_tokens=False) + end for caption in captions["train"]]
    seconds = train(model, Batches(pixels[items["train"]], sequences, options.batch, options.seed), options, report)
    model.save_pretrained(options.output)
    print(f"{options.steps} steps, seed {options.seed}: {seconds:.0f} s of one processor")
    report(beams=[1, 4])


if __name__ == "__main__":
    main()
