#!/usr/bin/env python3
"""The emoji of examples/clip by Transformers' CLIPModel: same sizes, data, order of batches and steps.

python bench/clip_torch.py DATA MODEL [--seeds 1,2,3] [--steps N] [--device cuda]

MODEL is the directory with the tokenizer and config.
"""

import argparse
import json
import pathlib

import numpy
import torch
import transformers
from PIL import Image
from torch.nn.functional import cross_entropy

import device
import draws

BATCH, SIDE = 128, 72


def read(folder):
    lines = (folder / "captions.tsv").read_text(encoding="utf-8").split("\n")[1:]
    rows = [line.split("\t") for line in lines if line]
    pictures = [numpy.asarray(Image.open(folder / "72x72" / row[0]).convert("RGBA")) for row in rows]
    return [row[0] for row in rows], [row[1] for row in rows], numpy.stack(pictures)


def name_hash(name):
    """FNV-1a."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def split(files, captions):
    """Training and test, as examples/clip/emoji.h says."""
    training, test, toned, others = [], [], 0, 0
    for i in sorted(range(len(files)), key=lambda i: name_hash(files[i])):
        if "skin tone" in captions[i]:
            place, tested, validated, toned = toned, 180, 240, toned + 1
        else:
            place, tested, validated, others = others, 20, 40, others + 1
        if place < tested:
            test.append(i)
        elif place >= validated:
            training.append(i)
    return training, test


def family_of(caption):
    name = caption
    colon = name.find(": ")
    if colon >= 0 and "skin tone" in name[colon:]:
        name = name[:colon]
    for word in ("man ", "woman ", "person ", "men ", "women ", "people "):
        if name.startswith(word):
            return name[len(word):]
    return name


def epoch_order(families, seed, epoch):
    """Pictures by fours beside others of their family, as Batches does it."""
    fours = []
    for number, members in enumerate(families):
        order = draws.shuffled(len(members), seed, epoch, number + 1)
        fours += [[members[i] for i in order[begin:begin + 4]] for begin in range(0, len(order), 4)]
    return [i for four in draws.shuffled(len(fours), seed, epoch, 0) for i in fours[four]]


def plain(pictures):
    """[batch, 72, 72, 4] over white: [batch, 3, 72, 72] from -1 to 1."""
    values = pictures.astype(numpy.float32) / 255
    colours = values[..., :3] * values[..., 3:] + 1 - values[..., 3:]
    return torch.tensor(2 * colours - 1).permute(0, 3, 1, 2).contiguous()


def changes(batch, seed, index):
    """The changes of a batch, as emoji::random_change says: matrices, colours behind, light."""
    numbers = draws.numbers(seed + 1, index, numpy.arange(batch), 8)
    scale, right = draws.uniform(numbers[:, 0], 0.85, 1.1), draws.uniform(numbers[:, 1], -4, 4)
    down, brightness = draws.uniform(numbers[:, 2], -4, 4), draws.uniform(numbers[:, 3], 0.85, 1.15)
    white = draws.uniform(numbers[:, 4], 0, 1) < 0.5
    background = numpy.where(white[:, None], 1.0, draws.uniform(numbers[:, 5:8], 0.4, 1.0))
    # Pixel i of the result is pixel (i - centre - shift) / scale + centre of the picture.
    matrix = torch.zeros(batch, 2, 3)
    matrix[:, 0, 0] = matrix[:, 1, 1] = torch.tensor(1 / scale)
    matrix[:, 0, 2] = torch.tensor(-right * 2 / SIDE / scale)
    matrix[:, 1, 2] = torch.tensor(-down * 2 / SIDE / scale)
    behind = torch.tensor(background, dtype=torch.float32)[:, :, None, None]
    light = torch.tensor(brightness, dtype=torch.float32)[:, None, None, None]
    return matrix, behind, light


def changed(pictures, matrix, behind, light):
    """plain(), each picture changed."""
    values = (pictures / 255).permute(0, 3, 1, 2)
    values = torch.cat([values[:, :3] * values[:, 3:], values[:, 3:]], 1)  # opacity times colour
    grid = torch.nn.functional.affine_grid(matrix, [len(values), 4, SIDE, SIDE], align_corners=False)
    values = torch.nn.functional.grid_sample(values, grid, align_corners=False)
    colours = light * (values[:, :3] + (1 - values[:, 3:]) * behind)
    return 2 * colours.clamp(0, 1) - 1


def normalised(x):
    return x / x.norm(dim=-1, keepdim=True)


def features(model, pixels, tokens):
    pictures = model.visual_projection(model.vision_model(pixels).pooler_output)
    texts = model.text_projection(model.text_model(tokens).pooler_output)
    return normalised(pictures), normalised(texts)


def train(data, tokenizer, config, seed, options):
    files, captions, pictures = data
    training, test = split(files, captions)
    groups = {}
    for i in training:
        groups.setdefault(family_of(captions[i]), []).append(i)
    families = [groups[name] for name in sorted(groups, key=lambda name: name.encode())]
    torch.manual_seed(seed)
    model = transformers.CLIPModel(config).to(options.device)
    optimizer = torch.optim.AdamW(draws.groups(model, 0.05), betas=(0.9, 0.98), fused=options.device != "cpu")

    def tokens_of(rows):
        return tokenizer([captions[i] for i in rows], return_tensors="pt", padding=True).input_ids

    def batches():
        per_epoch = len(training) // BATCH
        for index in range(options.steps):
            if index % per_epoch == 0:
                order = epoch_order(families, seed, index // per_epoch)
            rows = order[index % per_epoch * BATCH:][:BATCH]
            yield tokens_of(rows), torch.from_numpy(pictures[rows]), *changes(BATCH, seed, index)

    target = torch.arange(BATCH, device=options.device)
    for index, (tokens, *seen) in enumerate(device.on_device(batches(), options.device)):
        with torch.no_grad():
            model.logit_scale.clamp_(max=numpy.log(100))
        seen, read = features(model, changed(*seen), tokens)
        scores = model.logit_scale.exp() * seen @ read.T
        loss = (cross_entropy(scores, target) + cross_entropy(scores.T, target)) / 2
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = draws.learning_rate(index + 1, options.steps, 1e-3)
        optimizer.step()
        if index % 100 == 99:
            print(f"step {index + 1} loss {loss.item():.4f}", flush=True)
    model.eval()
    with torch.no_grad():
        seen, read = features(model, plain(pictures[test]).to(options.device), tokens_of(test).to(options.device))
        scores = (seen @ read.T).cpu()
    numbers = torch.arange(len(test))
    return [(scores.argmax(dim) == numbers).double().mean().item() for dim in (1, 0)]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("data", type=pathlib.Path)
    arguments.add_argument("model", type=pathlib.Path)
    arguments.add_argument("--seeds", default="1")
    arguments.add_argument("--steps", type=int, default=2400)
    device.add_option(arguments)
    options = arguments.parse_args()
    words = str(options.model / "tokenizer.json")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=words, pad_token="<pad>")
    config = transformers.CLIPConfig(**json.loads((options.model / "config.json").read_text()))
    data = read(options.data)
    for seed in map(int, options.seeds.split(",")):
        start = device.clock(options.device)
        to_text, to_picture = train(data, tokenizer, config, seed, options)
        print(f"seed {seed}: picture to text {100 * to_text:.1f}%, text to picture {100 * to_picture:.1f}%, "
              f"{device.clock(options.device) - start:.0f} s on {options.device}", flush=True)


main()
