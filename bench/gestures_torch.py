#!/usr/bin/env python3
"""The gestures example's model in plain PyTorch: the same rows, augmentation, steps and rates; own random numbers.

    gestures_torch.py DATA [--steps N] [--seeds 1,2,3]

Prints the share of right answers on both splits: at random as published, and by blocks.
"""

import argparse
import math
import pathlib
import time

import numpy
import torch
from torch import nn

WIDTH, HEADS, LAYERS, HIDDEN, BATCH = 48, 4, 2, 96, 64


class Model(nn.Module):
    """A class token and 16 points."""

    def __init__(self):
        super().__init__()
        self.points, self.output = nn.Linear(2, WIDTH), nn.Linear(WIDTH, 4)
        self.class_token = nn.Parameter(0.1 * torch.randn(1, WIDTH))
        self.positions = nn.Parameter(torch.randn(17, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.0, activation="gelu", batch_first=True,
                                           norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, norm=nn.LayerNorm(WIDTH), enable_nested_tensor=False)

    def forward(self, points):
        """points: (batch, 16, 2)"""
        first = self.class_token.expand(points.size(0), 1, WIDTH)
        x = torch.cat([first, self.points(10 * points)], 1) + self.positions
        return self.output(self.encoder(x)[:, 0])


def random_split(labels):
    """train_test_split(train_size=0.75, random_state=42)"""
    order = numpy.random.RandomState(42).permutation(len(labels))
    count = len(labels) - len(labels) * 3 // 4
    return order[count:], order[:count]


def block_split(labels):
    """Every fourth block of 64 rows of a class; rows within 16 rows of it are in neither part."""
    place = numpy.concatenate([numpy.arange((labels == c).sum()) % 256 for c in range(4)])
    return numpy.nonzero((place >= 16) & (place < 176))[0], numpy.nonzero(place >= 192)[0]


def vary(points, random):
    """Turns by up to 20 degrees, sizes from 0.75 to 1.35."""
    angle = random.uniform(-20, 20, len(points)) * math.pi / 180
    size = random.uniform(0.75, 1.35, len(points))
    cosine, sine = size * numpy.cos(angle), size * numpy.sin(angle)
    turn = numpy.stack([numpy.stack([cosine, sine], -1), numpy.stack([-sine, cosine], -1)], 1)
    return torch.from_numpy((points @ turn).astype(numpy.float32))


def train(points, labels, options, seed):
    """A model of these rows, and the seconds of a step."""
    torch.manual_seed(seed)
    random = numpy.random.default_rng(seed)
    model = Model()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}],
                                  lr=options.learning_rate, betas=(0.9, 0.98), fused=True)
    warm = options.steps // 20
    begin = time.process_time()
    for step in range(1, options.steps + 1):
        share = (step - warm) / max(options.steps - warm, 1)
        rate = step / warm if step <= warm else 0.5 * (1 + math.cos(math.pi * share))
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * rate
        rows = random.integers(0, len(points), BATCH)
        loss = nn.functional.cross_entropy(model(vary(points[rows], random)), torch.from_numpy(labels[rows]))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model, (time.process_time() - begin) / options.steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--seeds", default="1,2,3")
    options = parser.parse_args()
    rows = numpy.loadtxt(options.data / "point_history.csv", delimiter=",")
    labels, points = rows[:, 0].astype(numpy.int64), rows[:, 1:].reshape(-1, 16, 2)
    for name, (training, test) in {"random": random_split(labels), "blocks": block_split(labels)}.items():
        for seed in map(int, options.seeds.split(",")):
            model, seconds = train(points[training], labels[training], options, seed)
            model.eval()
            with torch.no_grad():
                answers = model(torch.from_numpy(points[test].astype(numpy.float32))).argmax(1).numpy()
            print(f"{name}, seed {seed}: {sum(p.numel() for p in model.parameters())} parameters, {len(training)} + "
                  f"{len(test)} rows, {1000 * seconds:.2f} ms a step; right {100 * (answers == labels[test]).mean():.2f} %",
                  flush=True)


if __name__ == "__main__":
    main()
