#!/usr/bin/env python3
"""examples/digits by Transformers' ViTForImageClassification: same sizes, data, order of batches and steps.

python bench/digits_torch.py DATA [--seeds 3] [--steps 3500]
"""

import argparse
import pathlib
import time

import numpy
import torch
import transformers

import draws

BATCH, SIDE = 64, 8
CONFIG = dict(image_size=8, patch_size=2, num_channels=1, hidden_size=64, num_hidden_layers=4, num_attention_heads=4,
              intermediate_size=192, hidden_dropout_prob=0.1, layer_norm_eps=1e-6, initializer_range=0.06,
              num_labels=10)


def changed(pictures, seed, index):
    """[batch, 8, 8] of ink, moved, turned and scaled as examples/digits/digits.h does it, from -1 to 1."""
    batch = len(pictures)
    numbers = draws.numbers(seed + 1, index, numpy.arange(batch), 4 + SIDE * SIDE)
    right, down = draws.uniform(numbers[:, 0], -0.7, 0.7), draws.uniform(numbers[:, 1], -0.7, 0.7)
    angle = draws.uniform(numbers[:, 2], -8, 8) * numpy.pi / 180
    scale = draws.uniform(numbers[:, 3], 0.95, 1.05)
    cosine, sine = (numpy.cos(angle) / scale)[:, None, None], (numpy.sin(angle) / scale)[:, None, None]
    centre = 0.5 * (SIDE - 1)
    y = numpy.arange(SIDE)[None, :, None] - centre - down[:, None, None]
    x = numpy.arange(SIDE)[None, None, :] - centre - right[:, None, None]
    y, x = cosine * y - sine * x + centre, sine * y + cosine * x + centre
    top, left = numpy.floor(y), numpy.floor(x)
    padded = numpy.pad(pictures, ((0, 0), (SIDE, SIDE), (SIDE, SIDE)))
    ink = numpy.zeros_like(y)
    which = numpy.arange(batch)[:, None, None]
    for corner in range(4):
        row, column = top + corner // 2, left + corner % 2
        weight = (1 - abs(y - row)) * (1 - abs(x - column))
        ink += weight * padded[which, row.astype(int) + SIDE, column.astype(int) + SIDE]
    noise = draws.uniform(numbers[:, 4:], -0.04, 0.04).reshape(batch, SIDE, SIDE)
    return torch.tensor(2 * numpy.clip(ink + noise, 0, 1) - 1, dtype=torch.float32)[:, None]


def train(pictures, labels, seed, steps):
    torch.manual_seed(seed)
    training = numpy.flatnonzero(numpy.arange(len(labels)) % 5 != 4)
    test = numpy.flatnonzero(numpy.arange(len(labels)) % 5 == 4)
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**CONFIG))
    optimizer = torch.optim.AdamW(draws.groups(model, 0.05), betas=(0.9, 0.98))
    per_epoch = len(training) // BATCH
    for index in range(steps):
        order = draws.shuffled(len(training), seed, index // per_epoch, 0)
        rows = training[order[index % per_epoch * BATCH:][:BATCH]]
        logits = model(changed(pictures[rows], seed, index)).logits
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(labels[rows]), label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = draws.learning_rate(index + 1, steps, 2e-3)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        answers = model(torch.tensor(2 * pictures[test] - 1, dtype=torch.float32)[:, None]).logits.argmax(1).numpy()
    return (answers == labels[test]).mean()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("data", type=pathlib.Path)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--steps", type=int, default=3500)
    options = arguments.parse_args()
    table = numpy.loadtxt(options.data / "digits.csv", delimiter=",", dtype=int)
    pictures, labels = table[:, :-1].reshape(-1, SIDE, SIDE) / 16.0, table[:, -1]
    for seed in range(1, options.seeds + 1):
        start = time.process_time()
        accuracy = train(pictures, labels, seed, options.steps)
        print(f"seed {seed}: {100 * accuracy:.2f}%, {time.process_time() - start:.0f} s", flush=True)


main()
