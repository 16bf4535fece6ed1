#!/usr/bin/env python3
"""The video example's model in plain PyTorch: the same clips, steps and rates.

    video_torch.py DATA [--program build/release/examples/video/example_video] [--steps N] [--seeds 1,2,3]
                         [--device cuda]

The clips come from `example_video clips`, so both sides learn from the same pixels. Prints the shares of the test clips
whose action and digit are right, whose action is right, whose digit is right.
"""

import argparse
import math
import subprocess

import numpy
import torch
from torch import nn

import device

FRAMES, SIDE, TUBELET, PATCH, STRIDE = 16, 24, 2, 12, 6
STEM, WIDTH, HEADS, LAYERS, HIDDEN = 192, 96, 4, 3, 288
TIMES, COLUMNS = FRAMES // TUBELET, (SIDE - PATCH) // STRIDE + 1
PLACES = COLUMNS * COLUMNS


class Layer(nn.Module):
    """Attention over space, attention over time, a feed-forward network."""

    def __init__(self):
        super().__init__()
        self.space_norm, self.time_norm, self.feed_forward_norm = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.space, self.time = (nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(2))
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, WIDTH))

    def forward(self, x):
        """x: (batch, times, places, width)"""
        batch = x.size(0)
        x = x.reshape(batch * TIMES, PLACES, WIDTH)
        y = self.space_norm(x)
        x = (x + self.space(y, y, y, need_weights=False)[0]).reshape(batch, TIMES, PLACES, WIDTH)
        x = x.transpose(1, 2).reshape(batch * PLACES, TIMES, WIDTH)
        y = self.time_norm(x)
        x = (x + self.time(y, y, y, need_weights=False)[0]).reshape(batch, PLACES, TIMES, WIDTH).transpose(1, 2)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Model(nn.Module):
    """Blocks of pixels, divided attention, two questions."""

    def __init__(self):
        super().__init__()
        self.patches, self.tokens = nn.Linear(TUBELET * PATCH * PATCH, STEM), nn.Linear(STEM, WIDTH)
        self.space_positions = nn.Parameter(0.1 * torch.randn(PLACES, WIDTH))
        self.time_positions = nn.Parameter(0.1 * torch.randn(TIMES, WIDTH))
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.answer_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.questions = nn.Parameter(0.1 * torch.randn(2, WIDTH))
        self.answer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.action, self.digit = nn.Linear(WIDTH, 9), nn.Linear(WIDTH, 10)

    def forward(self, clips):
        """clips: (batch, frames, side, side), 0 to 255"""
        batch = clips.size(0)
        x = (clips / 255).reshape(batch, TIMES, TUBELET, SIDE, SIDE).unfold(3, PATCH, STRIDE).unfold(4, PATCH, STRIDE)
        x = x.permute(0, 1, 3, 4, 2, 5, 6).reshape(batch, TIMES, PLACES, -1)
        x = self.tokens(nn.functional.gelu(self.patches((x - 0.25) * 4)))
        x = x + self.space_positions + self.time_positions[:, None]
        for layer in self.layers:
            x = layer(x)
        memory = self.norm(x.reshape(batch, TIMES * PLACES, WIDTH))
        questions = self.questions.expand(batch, 2, WIDTH)
        answers = self.answer_norm(self.answer(questions, memory, memory, need_weights=False)[0])
        return self.action(answers[:, 0]), self.digit(answers[:, 1])


def clips_of(command, batch):
    """Batches that the program writes: each clip is its action, its digit and its pixels, as bytes."""
    size = 2 + FRAMES * SIDE * SIDE
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        while read := program.stdout.read(size * batch):
            rows = numpy.frombuffer(read, numpy.uint8).reshape(-1, size)
            pixels = torch.from_numpy(rows[:, 2:].copy()).reshape(-1, FRAMES, SIDE, SIDE)
            labels = torch.from_numpy(rows[:, :2].astype(numpy.int64))
            yield pixels, labels[:, 0], labels[:, 1]
    if program.returncode:
        raise SystemExit(program.returncode)


def train(options, seed):
    """A model of the seed's clips, and the seconds of a step."""
    torch.manual_seed(seed)
    model = Model().to(options.device)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}],
                                  lr=options.learning_rate, betas=(0.9, 0.98), fused=True)
    warm = options.steps // 20
    command = [options.program, "clips", options.data, "--steps", str(options.steps), "--batch", str(options.batch),
               "--seed", str(seed)]
    begin = device.clock(options.device)
    batches = device.on_device(clips_of(command, options.batch), options.device)
    for index, (clips, actions, digits) in enumerate(batches):
        step = index + 1
        share = (step - warm) / max(options.steps - warm, 1)
        rate = step / warm if step <= warm else 0.5 * (1 + math.cos(math.pi * share))
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * rate
        action_logits, digit_logits = model(clips)
        loss = nn.functional.cross_entropy(action_logits, actions) + nn.functional.cross_entropy(digit_logits, digits)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 500 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    return model, (device.clock(options.device) - begin) / options.steps


def evaluate(options, model):
    """Percent: both right, the action, the digit."""
    model.eval()
    right = []
    command = [options.program, "clips", options.data, "--test", "--seed", "1"]
    with torch.no_grad():
        for clips, actions, digits in device.on_device(clips_of(command, 64), options.device):
            action_logits, digit_logits = model(clips)
            right.append(torch.stack([action_logits.argmax(1) == actions, digit_logits.argmax(1) == digits]))
    right = torch.cat(right, 1)
    return [100 * share.float().mean().item() for share in (right.all(0), right[0], right[1])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--program", default="build/release/examples/video/example_video")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--seeds", default="1")
    device.add_option(parser)
    options = parser.parse_args()
    for seed in map(int, options.seeds.split(",")):
        model, seconds = train(options, seed)
        both, action, digit = evaluate(options, model)
        print(f"seed {seed}: {sum(p.numel() for p in model.parameters())} parameters, {1000 * seconds:.1f} ms a step; "
              f"both {both:.2f} %, action {action:.2f} %, digit {digit:.2f} %", flush=True)


if __name__ == "__main__":
    main()
