#!/usr/bin/env python3
"""Training a translator with Headway beside PyTorch in one process: the same model, weights, batches and optimizer, the
same threads, blocks of steps that take turns. Python drives both, as it drives PyTorch for its users."""

import argparse
import ctypes
import datetime
import gc
import json
import pathlib
import random
import statistics
import sys
import time

from layer_bench import DOUBTFUL_LOAD, OtherLoad, cpu_name, quantile, round_number, wait_until_quiet

MODEL = dict(vocabulary=8003, width=256, heads=8, layers=4, feed_forward=1024)
OPTIMIZATION = dict(learning_rate=1e-4, weight_decay=0.01, label_smoothing=0.1, clip_norm=1.0)
DROPOUT = 0.15
SENTENCES = 300000  # the pool that batches are cut from
LOSS_TOLERANCE = 1e-2  # of the losses' fall
CHECKED_STEPS = 4


# ---- batches ----


def sentence_lengths(generator):
    """Tokens of a source and its target, as short sentences have them."""
    source = 4 + min(60, int(generator.gammavariate(2.6, 2.9)))
    target = max(2, round(source * generator.uniform(0.75, 1.25)) - 1)
    return source, target


def cut_into_batches(lengths, batch_tokens):
    """Neighbours in length together, as many as fit: (rows' lengths) per batch."""
    batches, rows, longest = [], [], (0, 0)
    for pair in sorted(lengths, key=lambda pair: (pair[0], pair[1] if pair[0] % 2 == 0 else -pair[1])):
        joined = max(longest[0], pair[0]), max(longest[1], pair[1])
        if rows and (len(rows) + 1) * sum(joined) > batch_tokens:
            batches.append(rows)
            rows, joined = [], pair
        rows.append(pair)
        longest = joined
    return batches + [rows]


class Batch:
    """Random ids in the tensors that both sides read."""

    def __init__(self, torch, lengths, generator):
        pad, end = MODEL["vocabulary"] - 1, 0
        rows = len(lengths)
        self.lengths = torch.tensor([source for source, _ in lengths])
        self.target_lengths = torch.tensor([target for _, target in lengths])
        self.source = torch.randint(1, pad, (rows, int(self.lengths.max())), generator=generator)
        self.labels = torch.randint(1, pad, (rows, int(self.target_lengths.max())), generator=generator)
        for ids, counts in ((self.source, self.lengths), (self.labels, self.target_lengths)):
            places = torch.arange(ids.shape[1])
            ids[places >= counts[:, None]] = pad
            ids[places == counts[:, None] - 1] = end
        start = torch.full((rows, 1), pad)
        # The decoder reads the start token, then the labels but the last; padding and </s> behind are never looked at.
        self.target = torch.cat([start, self.labels[:, :-1]], 1).contiguous()
        self.padding = torch.arange(self.source.shape[1]) >= self.lengths[:, None]
        self.tokens = int(self.target_lengths.sum())
        self.padded_tokens = self.source.numel() + self.labels.numel()


def make_batches(torch, count, batch_tokens):
    generator = random.Random(3)
    pool = cut_into_batches([sentence_lengths(generator) for _ in range(SENTENCES)], batch_tokens)
    generator.shuffle(pool)
    ids = torch.Generator().manual_seed(4)
    return [Batch(torch, lengths, ids) for lengths in pool[:count]]


# ---- PyTorch ----


def sinusoids(torch, length, width):
    """Sines in the first half, cosines in the second."""
    angles = torch.arange(length)[:, None] * 10000 ** (-torch.arange(0, width, 2) / width)
    return torch.cat([angles.sin(), angles.cos()], 1)


def make_torch_model(torch, dropout):
    """The model as a user of torch.nn writes it; dropout on embeddings and outputs of sublayers, as in Marian."""
    nn = torch.nn

    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            width, pad = MODEL["width"], MODEL["vocabulary"] - 1
            sizes = dict(nhead=MODEL["heads"], dim_feedforward=MODEL["feed_forward"], dropout=dropout, batch_first=True)
            self.shared = nn.Embedding(MODEL["vocabulary"], width, padding_idx=pad)
            self.encoder = nn.TransformerEncoder(
                nn.TransformerEncoderLayer(width, **sizes), MODEL["layers"], enable_nested_tensor=False
            )
            self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(width, **sizes), MODEL["layers"])
            self.dropout = nn.Dropout(dropout)
            self.register_buffer("positions", sinusoids(torch, 512, width), persistent=False)
            self.scale = width**0.5
            for layer in [*self.encoder.layers, *self.decoder.layers]:
                layer.dropout = nn.Identity()
                layer.self_attn.dropout = 0.0
                if hasattr(layer, "multihead_attn"):
                    layer.multihead_attn.dropout = 0.0
            for name, parameter in self.named_parameters():
                if name == "shared.weight":
                    nn.init.normal_(parameter, std=width**-0.5)
                    nn.init.zeros_(parameter[pad])
                elif parameter.dim() > 1:
                    nn.init.xavier_uniform_(parameter)

        def embed(self, ids):
            return self.dropout(self.shared(ids) * self.scale + self.positions[: ids.shape[1]])

        def forward(self, batch):
            mask = nn.Transformer.generate_square_subsequent_mask(batch.target.shape[1])
            padding = batch.padding if batch.padding.any() else None
            memory = self.encoder(self.embed(batch.source), src_key_padding_mask=padding)
            hidden = self.decoder(
                self.embed(batch.target), memory, tgt_mask=mask, tgt_is_causal=True, memory_key_padding_mask=padding
            )
            return nn.functional.linear(hidden, self.shared.weight)

    torch.manual_seed(5)
    return Translator()


class TorchSide:
    """Eager, AdamW(fused=True)."""

    name = "PyTorch"

    def __init__(self, torch, dropout):
        self.torch = torch
        self.model = make_torch_model(torch, dropout).train()
        parameters = list(self.model.parameters())
        groups = [
            {"params": [one for one in parameters if one.dim() > 1], "weight_decay": OPTIMIZATION["weight_decay"]},
            {"params": [one for one in parameters if one.dim() == 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(
            groups, lr=OPTIMIZATION["learning_rate"], betas=(0.9, 0.98), eps=1e-9, fused=True
        )
        self.last = None

    def run(self, batch):
        self.optimizer.zero_grad()
        logits = self.model(batch)
        loss = self.torch.nn.functional.cross_entropy(
            logits.view(-1, MODEL["vocabulary"]),
            batch.labels.view(-1),
            ignore_index=MODEL["vocabulary"] - 1,
            label_smoothing=OPTIMIZATION["label_smoothing"],
        )
        loss.backward()
        # The row of <pad> stays zero on both sides.
        self.model.shared.weight.grad[MODEL["vocabulary"] - 1].zero_()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), OPTIMIZATION["clip_norm"])
        self.optimizer.step()
        self.last = loss.item()

    def loss(self):
        return self.last


# ---- Headway ----


class Config(ctypes.Structure):
    """TranslationStepsConfig of translation_steps.cpp."""

    _fields_ = [(name, ctypes.c_int64) for name in ("vocabulary", "width", "heads", "layers", "feed_forward")] + [
        (name, ctypes.c_double)
        for name in ("dropout", "learning_rate", "weight_decay", "label_smoothing", "clip_norm")
    ]


class BatchPointers(ctypes.Structure):
    """TranslationStepsBatch of translation_steps.cpp."""

    _fields_ = [(name, ctypes.c_int64) for name in ("rows", "source_length", "target_length", "tokens")] + [
        (name, ctypes.c_void_p) for name in ("source", "lengths", "target", "labels")
    ]


class HeadwayLibrary:
    """The functions of translation_steps.cpp."""

    def __init__(self, path):
        self.library = library = ctypes.CDLL(path)
        pointer = ctypes.c_void_p
        library.translation_steps_create.restype = pointer
        library.translation_steps_create.argtypes = [ctypes.POINTER(Config)]
        library.translation_steps_destroy.restype = None
        library.translation_steps_destroy.argtypes = [pointer]
        library.translation_steps_run.argtypes = [pointer, ctypes.POINTER(BatchPointers)]
        library.translation_steps_loss.restype = ctypes.c_double
        library.translation_steps_loss.argtypes = [pointer]
        library.translation_steps_load.argtypes = [pointer, ctypes.c_char_p, pointer, ctypes.c_int64]
        library.translation_steps_error.restype = ctypes.c_char_p

    def check(self, status):
        if status != 0:
            raise RuntimeError("Headway: " + self.library.translation_steps_error().decode())

    def set_threads(self, count):
        self.check(self.library.translation_steps_set_threads(count))


class HeadwaySide:
    name = "Headway"

    def __init__(self, headway, dropout, state):
        """`state` are torch's initial weights, whose names are ours."""
        self.headway, self.library = headway, headway.library
        self.steps = self.library.translation_steps_create(Config(**MODEL, dropout=dropout, **OPTIMIZATION))
        if not self.steps:
            headway.check(-1)
        for name, tensor in state.items():
            values = tensor.detach().contiguous()
            headway.check(
                self.library.translation_steps_load(self.steps, name.encode(), values.data_ptr(), values.numel())
            )

    def run(self, batch):
        pointers = BatchPointers(
            *(batch.source.shape[0], batch.source.shape[1], batch.target.shape[1], batch.tokens),
            *(one.data_ptr() for one in (batch.source, batch.lengths, batch.target, batch.labels)),
        )
        self.headway.check(self.library.translation_steps_run(self.steps, pointers))

    def loss(self):
        return self.library.translation_steps_loss(self.steps)

    def close(self):
        self.library.translation_steps_destroy(self.steps)


def make_sides(torch, headway, dropout):
    torch_side = TorchSide(torch, dropout)
    return HeadwaySide(headway, dropout, torch_side.model.state_dict()), torch_side


# ---- measuring ----


def check_losses(torch, headway, batch):
    """Both sides learn one batch without dropout: their losses fall alike. Returns the difference."""
    headway_side, torch_side = make_sides(torch, headway, 0.0)
    losses = []
    for _ in range(CHECKED_STEPS):
        for side in (headway_side, torch_side):
            side.run(batch)
        losses.append((headway_side.loss(), torch_side.loss()))
    headway_side.close()
    fall = losses[0][1] - losses[-1][1]
    difference = max(abs(one - other) for one, other in losses) / abs(fall)
    if not (fall > 0 and difference <= LOSS_TOLERANCE):
        raise RuntimeError(f"wrong result: losses of Headway and PyTorch are {losses}")
    return difference


def measure(sides, batches, threads, flags):
    """Target tokens per second of each side in each round; who begins takes turns."""
    clock = time.process_time if flags.processor_time else time.perf_counter
    tokens = sum(batch.tokens for batch in batches)
    for side in sides:
        for batch in batches:
            side.run(batch)
    samples = {side.name: [] for side in sides}
    gc.collect()
    gc.disable()
    try:
        for turn in range(flags.rounds):
            for side in sides if turn % 2 == 0 else reversed(sides):
                if threads > 1:
                    wait_until_quiet()
                begin = clock()
                for batch in batches:
                    side.run(batch)
                samples[side.name].append(tokens / (clock() - begin))
            gc.collect()
    finally:
        gc.enable()
    return samples


def row_of(samples, threads):
    row = {"threads": threads, "rounds": len(samples["Headway"])}
    for name, values in samples.items():
        middle = statistics.median(values)
        row[name.lower()] = middle
        row[name.lower() + "_spread"] = (quantile(values, 0.75) - quantile(values, 0.25)) / middle
    row["ratio"] = row["headway"] / row["pytorch"]
    return row


def parse_flags():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True, help="libtranslation_steps.so")
    parser.add_argument("--threads", default="both", choices=["1", "all", "both"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--block", type=int, default=4, metavar="STEPS", help="steps of a side before the other's turn")
    parser.add_argument("--batch-tokens", type=int, default=12000)
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="time the processor instead of the wall: for one thread while others use the machine",
    )
    parser.add_argument("--json", metavar="PATH", help="write the results there")
    return parser.parse_args()


def main():
    flags = parse_flags()
    import torch

    headway = HeadwayLibrary(flags.library)
    batches = make_batches(torch, flags.block, flags.batch_tokens)
    cpus = torch.get_num_threads()
    real = sum(int(batch.lengths.sum()) + batch.tokens for batch in batches)
    result = {
        "kind": "translation training",
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "cpu": cpu_name(),
        "torch": torch.__version__.split("+")[0],
        "batch_tokens": flags.batch_tokens,
        "padding": 1.0 - real / sum(batch.padded_tokens for batch in batches),
        "loss_difference": check_losses(torch, headway, batches[0]),
    }
    print(
        f"{result['date']}  {result['cpu']}, PyTorch {result['torch']}\n"
        f"256/8, 4 + 4 layers, 8,003 ids; batches of {flags.batch_tokens} tokens, {100 * result['padding']:.1f}% "
        f"padding; dropout {DROPOUT}; blocks of {flags.block} steps take turns\n"
        f"{'threads':>7} {'Headway tokens/s':>20} {'PyTorch tokens/s':>20} {'ratio':>6}"
    )
    load = OtherLoad()
    result["rows"] = []
    for threads in {"1": [1], "all": [cpus], "both": sorted({1, cpus})}[flags.threads]:
        headway.set_threads(threads)
        torch.set_num_threads(threads)
        headway_side, torch_side = sides = make_sides(torch, headway, DROPOUT)
        row = row_of(measure(sides, batches, threads, flags), threads)
        headway_side.close()
        result["rows"].append(row)
        print(
            f"{threads:>7} {row['headway']:>13.0f} +-{100 * row['headway_spread']:>3.0f}%"
            f" {row['pytorch']:>13.0f} +-{100 * row['pytorch_spread']:>3.0f}% {row['ratio']:>6.2f}",
            flush=True,
        )
    result["other_load"] = load.share()
    if result["other_load"] >= DOUBTFUL_LOAD:
        share = 100 * result["other_load"]
        print(f"Other programs took {share:.0f}% of the machine's time: do not trust these figures.")
    if flags.json:
        rounded = {key: round_number(value) for key, value in result.items()}
        rounded["rows"] = [{key: round_number(value) for key, value in row.items()} for row in result["rows"]]
        pathlib.Path(flags.json).write_text(json.dumps(rounded, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception as error:
        print(f"translation_training_bench: {error}", file=sys.stderr)
        sys.exit(2)
