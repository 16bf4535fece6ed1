#!/usr/bin/env python3
"""The first run of examples/speech by Transformers' WhisperForConditionalGeneration: the same initial weights, batches,
steps and rates.

    speech_torch.py DATA START --output DIR [--seed N] [--steps 5000] [--device cuda]

START is a directory that `example_speech train DATA --output START --steps 0 --seed N` wrote. The batches come from
`example_speech batches`, so both sides learn from the same features; `example_speech evaluate DATA DIR` counts errors.
"""

import argparse
import pathlib
import shutil
import subprocess

import numpy
import torch
import transformers

import device
import draws

BINS, LENGTH = 48, 11


def batches_of(options):
    """The batches that the program writes: tokens to read, tokens to write, features."""
    command = [options.program, "batches", options.data, "--steps", str(options.steps), "--seed", str(options.seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:

        def read(kind, *shape):
            data = program.stdout.read(int(numpy.prod(shape)) * numpy.dtype(kind).itemsize)
            return torch.from_numpy(numpy.frombuffer(bytearray(data), kind).reshape(shape))

        for _ in range(options.steps):
            batch, frames = read(numpy.int32, 2).tolist()
            yield (read(numpy.int64, batch, LENGTH), read(numpy.int64, batch, LENGTH),
                   read(numpy.float32, batch, BINS, frames))
    if program.returncode:
        raise SystemExit(program.returncode)


class Shortened:
    """Whisper's encoder takes sounds of one length alone; here it learns from short ones first."""

    def __init__(self, model):
        self.model, self.encoder = model, model.get_encoder()
        self.positions = self.encoder.embed_positions.weight.detach().clone()

    def set(self, frames):
        count = frames // 2
        if self.encoder.embed_positions.num_embeddings != count:
            self.encoder.embed_positions = torch.nn.Embedding.from_pretrained(self.positions[:count], freeze=True)
            self.encoder.config.max_source_positions = count
            self.model.config.max_source_positions = count


def train(model, options):
    optimizer = torch.optim.AdamW(draws.groups(model, 0.05), betas=(0.9, 0.98), fused=options.device != "cpu")
    lengths = Shortened(model)
    model.train()
    for index, (read, written, features) in enumerate(device.on_device(batches_of(options), options.device)):
        lengths.set(features.size(2))
        logits = model(input_features=features, decoder_input_ids=read).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), written.flatten(), label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.grad is not None], 1.0)
        for group in optimizer.param_groups:
            group["lr"] = draws.learning_rate(index + 1, options.steps, 1.5e-3)
        optimizer.step()
        if index % 250 == 249:
            print(f"step {index + 1}: loss {loss.item():.4f}", flush=True)
    lengths.set(2 * len(lengths.positions))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("start", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--program", default="build/release/examples/speech/example_speech")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    device.add_option(parser)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    model = transformers.WhisperForConditionalGeneration.from_pretrained(options.start, dtype=torch.float32)
    model = model.to(options.device)
    print(sum(p.numel() for p in model.parameters()), "parameters", flush=True)
    begin = device.clock(options.device)
    train(model, options)
    seconds = device.clock(options.device) - begin
    print(f"{options.steps} steps, seed {options.seed}: {seconds:.0f} s on {options.device}", flush=True)
    model.half().save_pretrained(options.output)
    for name in ("generation_config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(options.start / name, options.output / name)


if __name__ == "__main__":
    main()
