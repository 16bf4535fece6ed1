#!/usr/bin/env python3
"""The captions example in PyTorch: Transformers' VisionEncoderDecoderModel with the same config, split, order of the data,
augmentation, steps and optimizer as `example_captions train`.

    captions_torch.py DATA START --output DIR [--steps N] [--seed N] [--device cuda]

START is a directory that `example_captions train --steps 0` wrote: config, tokenizer, preprocessor and initial weights.
"""
import argparse
import collections
import csv
import functools
import math
import pathlib
import re

import numpy
import torch
from PIL import Image
from torch.nn import functional
from transformers import PreTrainedTokenizerFast, VisionEncoderDecoderModel

import device

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


def draws(seed, places, count=12):
    """Numbers in [0, 1) of examples of the run: [places, count]."""
    streams = numpy.asarray(places, dtype=numpy.uint64)[:, None] * numpy.uint64(16)
    base = mix(numpy.uint64(seed)) ^ mix(numpy.arange(count, dtype=numpy.uint64) + streams)
    return (mix(base) >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53


def order(seed, epoch, count):
    keys = mix(mix(numpy.uint64(seed * 1000003 + epoch)) ^ mix(numpy.arange(count, dtype=numpy.uint64)))
    return numpy.argsort(keys, kind="stable")


def augment(pixels, u):
    """pixels [b, 4, 72, 72] premultiplied, u [b, 12]: scaled, shifted, sometimes blurred, over a background."""
    scale, shift_x, shift_y = 0.85 + 0.25 * u[:, 0], 6 * u[:, 1] - 3, 6 * u[:, 2] - 3
    centres = torch.arange(SIDE, device=u.device) + 0.5
    x = (centres[None] - SIDE / 2 - shift_x[:, None]) / scale[:, None] / (SIDE / 2)
    y = (centres[None] - SIDE / 2 - shift_y[:, None]) / scale[:, None] / (SIDE / 2)
    grid = torch.stack([x[:, None, :].expand(-1, SIDE, -1), y[:, :, None].expand(-1, -1, SIDE)], dim=3)
    fine = functional.grid_sample(pixels, grid, align_corners=False)
    coarse = functional.grid_sample(functional.avg_pool2d(pixels, 2), grid, align_corners=False)
    result = torch.where(u[:, 3, None, None, None] < 0.2, coarse, fine)
    background = torch.where(u[:, 4:5] < 0.85, u[:, 5:6].expand(-1, 3), u[:, 5:8])
    background = torch.where(u[:, 4:5] < 0.7, torch.ones(1, 3, device=u.device), background)
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
    for start in range(0, len(captions), 128):
        ids = model.generate(over_white(pixels[start:start + 128]), num_beams=beams, max_new_tokens=40, do_sample=False)
        texts += tokenizer.batch_decode(ids.tolist(), skip_special_tokens=True)
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

    def __init__(self, sequences, size, seed, start_id):
        self.size, self.seed, self.start_id = size, seed, start_id
        self.lengths = torch.tensor([len(sequence) for sequence in sequences])
        self.labels = torch.full((len(sequences), int(self.lengths.max())), -100)
        for row, sequence in enumerate(sequences):
            self.labels[row, :len(sequence)] = torch.tensor(sequence)
        self.order = functools.lru_cache(2)(lambda epoch: order(seed, epoch, len(sequences)))

    def at(self, index):
        """The pictures' numbers, the numbers of their changes, the tokens to read and to write."""
        places, count = range(index * self.size, (index + 1) * self.size), len(self.labels)
        items = torch.tensor([int(self.order(place // count)[place % count]) for place in places])
        labels = self.labels[items, :int(self.lengths[items].max())]
        read = torch.cat([torch.full((self.size, 1), self.start_id), labels[:, :-1].clamp(min=0)], dim=1)
        return items, torch.from_numpy(draws(self.seed, places)).float(), read, labels


def train(model, pixels, batches, options, report):
    """The recipe of the examples: AdamW, a cosine schedule, clipping at 1. The seconds that it took."""
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": options.weight_decay},
                                   {"params": others, "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.98),
                                  fused=options.device != "cpu")
    started = device.clock(options.device)
    ahead = device.on_device(map(batches.at, range(options.steps)), options.device)
    for step, (items, u, read, labels) in enumerate(ahead, 1):
        model.train()
        logits = model(pixel_values=augment(pixels[items], u), decoder_input_ids=read).logits
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate(step, options.steps, options.learning_rate)
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f} {device.clock(options.device) - started:.0f} s", flush=True)
        if options.every and step % options.every == 0:
            report(beams=[1])
    return device.clock(options.device) - started


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
    device.add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)

    rows = read_rows(options.data)
    pixels, parts = read_pixels(options.data, rows), split_of(rows)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(options.start)
    model = VisionEncoderDecoderModel.from_pretrained(options.start, dtype=torch.float32, attn_implementation="sdpa")
    model, pixels = model.to(options.device), pixels.to(options.device)
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
    batches = Batches(sequences, options.batch, options.seed, model.config.decoder_start_token_id)
    seconds = train(model, pixels[items["train"]], batches, options, report)
    model.save_pretrained(options.output)
    print(f"{options.steps} steps, seed {options.seed}: {seconds:.0f} s on {options.device}")
    report(beams=[1, 4])


if __name__ == "__main__":
    main()
