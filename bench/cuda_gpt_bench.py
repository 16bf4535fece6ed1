#!/usr/bin/env python3
"""Training a character-level GPT of nanoGPT's sizes (6 layers, 6 heads, 384, context 256, batch 64, dropout 0.2) on a
GPU: Headway's TransformerModel in bfloat16 with float32 weights in the optimizer, by train(), beside the same model in
PyTorch, as nanoGPT has it: float32 parameters, bfloat16 autocast, torch.compile, fused AdamW, clipping. In one process,
taking turns, from the same weights; the losses before any step are compared.

PyTorch is timed twice: torch.compile as it is by default, which is what nanoGPT calls, and with
mode="reduce-overhead", which replays CUDA graphs.

  cuda_gpt_bench.py --interface libcuda_gpt_interface.so [--steps 40] [--rounds 5]"""

import argparse
import ctypes
import json
import math
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from c_interface import load_library
from cuda_sides import first_runs, print_table

VOCABULARY, LENGTH, BATCH, BATCHES = 65, 256, 64, 8
LAYERS, HEADS, WIDTH, DROPOUT = 6, 6, 384, 0.2
RATE, DECAY, CLIP = 1e-3, 0.1, 1.0


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = torch.nn.LayerNorm(WIDTH)
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)
        self.ln_2 = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = torch.nn.Dropout(DROPOUT)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.ln_1(x)).split(WIDTH, dim=2)
        heads = [t.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2) for t in (q, k, v)]
        y = F.scaled_dot_product_attention(*heads, dropout_p=DROPOUT if self.training else 0.0, is_causal=True)
        x = x + self.dropout(self.out(y.transpose(1, 2).reshape(batch, length, WIDTH)))
        return x + self.dropout(self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh")))


class Gpt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.wpe = torch.nn.Embedding(LENGTH, WIDTH)
        self.dropout = torch.nn.Dropout(DROPOUT)
        self.h = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = torch.nn.LayerNorm(WIDTH)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                scale = math.sqrt(2 * LAYERS) if name.endswith(("out.weight", "down.weight")) else 1.0
                torch.nn.init.normal_(parameter, std=0.02 / scale)

    def forward(self, tokens, targets):
        x = self.dropout(self.wte(tokens) + self.wpe.weight[: tokens.shape[1]])
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


class TorchSide:
    def __init__(self, model, batches, mode):
        self.name = f"PyTorch compiled{f' ({mode})' if mode else ''}"
        self.model = model
        self.compiled = torch.compile(model, mode=mode) if mode else torch.compile(model)
        decayed = [p for p in model.parameters() if p.dim() > 1]
        others = [p for p in model.parameters() if p.dim() <= 1]
        groups = [{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.99), fused=True)
        self.batches = batches.pin_memory()
        self.graphs = mode is not None

    def loss(self, index, call):
        batch = self.batches[index % BATCHES].to("cuda", non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return call(batch[:, :-1].contiguous(), batch[:, 1:].contiguous())

    def evaluate(self):
        self.model.eval()
        with torch.no_grad():
            loss = self.loss(0, self.model).item()
        self.model.train()
        return loss

    def train(self, steps):
        for step in range(steps):
            if self.graphs:
                torch.compiler.cudagraph_mark_step_begin()
            loss = self.loss(step, self.compiled)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        return loss.item()


class Config(ctypes.Structure):
    _fields_ = [
        ("config", ctypes.c_char_p),
        ("batch", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("learning_rate", ctypes.c_double),
        ("weight_decay", ctypes.c_double),
        ("clip_norm", ctypes.c_double),
    ]


class Steps(ctypes.Structure):
    _fields_ = [
        ("tokens", ctypes.c_void_p),
        ("batches", ctypes.c_int64),
        ("steps", ctypes.c_int64),
        ("loss", ctypes.c_double),
    ]


class HeadwaySide:
    name = "Headway"

    def __init__(self, library, batches):
        self.library = load_library(library, "cuda_gpt", ["destroy"], ["load"])
        self.batches = batches.contiguous()
        config = {
            "model_type": "gpt2",
            "architectures": ["GPT2LMHeadModel"],
            "vocab_size": VOCABULARY,
            "n_positions": LENGTH,
            "n_embd": WIDTH,
            "n_layer": LAYERS,
            "n_head": HEADS,
            "activation_function": "gelu_new",
            "resid_pdrop": DROPOUT,
            "embd_pdrop": DROPOUT,
            "attn_pdrop": DROPOUT,
            "bos_token_id": 0,
            "eos_token_id": 0,
        }
        made = Config(json.dumps(config).encode(), BATCH, LENGTH, RATE, DECAY, CLIP)
        self.gpt = self.library.cuda_gpt_create(ctypes.byref(made))
        if not self.gpt:
            self.fail()

    def fail(self):
        sys.exit(f"Headway: {self.library.cuda_gpt_error().decode()}")

    def load(self, model):
        """Takes PyTorch's weights over."""
        parts = {"ln_1": "attention_norm", "qkv": "attention.qkv", "out": "attention.output"}
        parts |= {"ln_2": "feed_forward_norm", "up": "feed_forward.up", "down": "feed_forward.down"}
        for name, parameter in model.named_parameters():
            words = name.split(".")
            if words[0] == "h":
                own = f"decoder.layers.{words[1]}.{parts[words[2]]}.{words[3]}"
            else:
                table = {"wte": "embedding", "wpe": "decoder.positions", "ln_f": "decoder.norm"}
                own = f"{table[words[0]]}.{words[1]}"
            values = parameter.detach().float().cpu().contiguous()
            if self.library.cuda_gpt_load(self.gpt, own.encode(), values.data_ptr()) != 0:
                self.fail()

    def evaluate(self):
        loss = ctypes.c_double()
        pointer = ctypes.c_void_p(self.batches.data_ptr())
        if self.library.cuda_gpt_evaluate(ctypes.c_void_p(self.gpt), pointer, ctypes.byref(loss)) != 0:
            self.fail()
        return loss.value

    def train(self, steps):
        request = Steps(self.batches.data_ptr(), BATCHES, steps, 0.0)
        if self.library.cuda_gpt_train(ctypes.c_void_p(self.gpt), ctypes.byref(request)) != 0:
            self.fail()
        return request.loss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interface", type=pathlib.Path, required=True, help="the library of the interface")
    parser.add_argument("--steps", type=int, default=40, help="of a turn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--modes", nargs="+", default=["default", "reduce-overhead"])
    parser.add_argument("--profile", action="store_true", help="print the kernels of four steps of each side")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    # A text with something to learn: each token follows from the one before, most of the time.
    generator = torch.Generator().manual_seed(2)
    batches = torch.randint(0, VOCABULARY, (BATCHES, BATCH, LENGTH + 1), generator=generator)
    for i in range(1, LENGTH + 1):
        follows = torch.rand((BATCHES, BATCH), generator=generator) < 0.8
        batches[:, :, i] = torch.where(follows, (batches[:, :, i - 1] * 7 + 3) % VOCABULARY, batches[:, :, i])

    headway = HeadwaySide(arguments.interface, batches)
    sides = [headway]
    for mode in arguments.modes:
        torch.manual_seed(1)
        sides.append(TorchSide(Gpt().cuda(), batches, None if mode == "default" else mode))
    headway.load(sides[1].model)
    print("losses before training:", {side.name: round(side.evaluate(), 4) for side in sides}, flush=True)
    first_runs(sides, lambda side: f"loss {side.train(arguments.steps):.3f} after {arguments.steps} steps")
    times = {side.name: [] for side in sides}
    for _ in range(arguments.rounds):
        for side in sides:
            torch.cuda.synchronize()
            begin = time.perf_counter()
            side.train(arguments.steps)
            times[side.name].append((time.perf_counter() - begin) / arguments.steps)

    def row_of(side):
        step = statistics.median(times[side.name])
        return {
            "step_ms": round(step * 1e3, 2),
            "million_tokens_per_s": round(BATCH * LENGTH / step / 1e6, 2),
            "headway_is_faster_by": round(step / statistics.median(times["Headway"]), 2),
        }

    print_table(sides, row_of, (lambda side: side.train(4)) if arguments.profile else None)


if __name__ == "__main__":
    main()
