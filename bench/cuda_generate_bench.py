#!/usr/bin/env python3
"""Generating with a Llama of 1.1 billion random parameters in bfloat16 on a GPU: Headway beside transformers with a
static cache and torch.compile(mode="reduce-overhead"), in one process, taking turns. Both continue the same prompts
with the most likely tokens; how many of them agree is printed, since rounding decides between close ones.

Tokens per second are those of steps: (long - short run) tokens / (long - short run) time, which leaves the prompt out.
The share of the bandwidth is the weights' bytes, once per step, over the step's time, beside a copy measured here.

transformers is called in two ways, and the better one counts: its own generate(cache_implementation="static"), which
compiles by itself, and a loop of one's own around the compiled model.

  cuda_generate_bench.py --interface libcuda_generate_interface.so [--batch 1 32] [--tokens 256] [--peers loop]"""

import argparse
import ctypes
import pathlib
import statistics
import sys
import tempfile
import time

import torch
from c_interface import load_library
from cuda_sides import first_runs, print_table

SHORT = 32  # tokens of the short runs


class Request(ctypes.Structure):
    _fields_ = [
        ("prompts", ctypes.c_void_p),
        ("batch", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("new_tokens", ctypes.c_int64),
        ("tokens", ctypes.c_void_p),
    ]


class HeadwaySide:
    name = "Headway"

    def __init__(self, library, directory):
        self.library = load_library(library, "cuda_generate", ["destroy"])
        self.generate = self.library.cuda_generate_create(str(directory).encode())
        if not self.generate:
            sys.exit(f"Headway: {self.library.cuda_generate_error().decode()}")

    def prepare(self):
        pass

    def run(self, prompts, new_tokens):
        prompts = prompts.contiguous()
        result = torch.empty(prompts.shape[0], new_tokens, dtype=torch.int64)
        request = Request(prompts.data_ptr(), prompts.shape[0], prompts.shape[1], new_tokens, result.data_ptr())
        if self.library.cuda_generate_run(ctypes.c_void_p(self.generate), ctypes.byref(request)) != 0:
            sys.exit(f"Headway: {self.library.cuda_generate_error().decode()}")
        return result


class TransformersSide:
    """generate() with a static cache: it compiles the model by itself."""

    name = "transformers generate()"

    def __init__(self, model):
        self.model = model

    def prepare(self):
        pass

    @torch.no_grad()
    def run(self, prompts, new_tokens):
        ids = prompts.cuda()
        result = self.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=new_tokens,
            min_new_tokens=new_tokens,
            do_sample=False,
            cache_implementation="static",
            pad_token_id=0,
        )
        torch.cuda.synchronize()
        return result[:, ids.shape[1] :].cpu()


class CompiledSide:
    """A greedy loop around the compiled model, which keeps its tokens on the GPU."""

    name = "transformers compiled loop"

    def __init__(self, model, most_tokens):
        from transformers import StaticCache

        self.model = model
        self.make_cache = lambda: StaticCache(config=model.config, max_cache_len=most_tokens)
        self.prepare()

    def prepare(self):
        self.cache = None
        self.compiled = torch.compile(self.model, mode="reduce-overhead", fullgraph=True, dynamic=False)

    @torch.no_grad()
    def run(self, prompts, new_tokens):
        ids = prompts.cuda()
        batch, length = ids.shape
        if self.cache is None:
            self.cache = self.make_cache()
        cache = self.cache
        cache.reset()
        logits = self.model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        token = logits[:, -1].argmax(-1, keepdim=True)
        result = [token]
        for step in range(1, new_tokens):
            torch.compiler.cudagraph_mark_step_begin()
            positions = torch.full((batch, 1), length + step - 1, device="cuda")
            logits = self.compiled(token, position_ids=positions, past_key_values=cache, use_cache=True).logits
            token = logits[:, -1].argmax(-1, keepdim=True)
            result.append(token)
        torch.cuda.synchronize()
        return torch.cat(result, 1).cpu()


def measure_bandwidth():
    """Bytes per second that a copy on the GPU reads and writes: the best of several."""
    source = torch.empty(1 << 30, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    target.copy_(source)
    best = 0.0
    for _ in range(5):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(5):
            target.copy_(source)
        end.record()
        torch.cuda.synchronize()
        best = max(best, 5 * 2 * source.nbytes / (begin.elapsed_time(end) / 1e3))
    return best


def make_model(config, directory):
    """A model with random weights on the GPU, written to the directory."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    torch.set_default_device("cuda")
    torch.set_default_dtype(torch.bfloat16)
    model = LlamaForCausalLM(LlamaConfig(**config)).eval()
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
    model.save_pretrained(directory)
    return model


def timed(side, prompts, new_tokens):
    begin = time.perf_counter()
    tokens = side.run(prompts, new_tokens)
    return time.perf_counter() - begin, tokens


def agreement(a, b):
    """The mean number of tokens up to the first one that differs."""
    counts = [(a[i] != b[i]).nonzero() for i in range(a.shape[0])]
    return statistics.mean(int(c[0]) if len(c) else a.shape[1] for c in counts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interface", type=pathlib.Path, required=True, help="the library of the interface")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=22)
    parser.add_argument("--peers", nargs="*", default=["generate", "loop"], help="ways of calling transformers")
    parser.add_argument("--profile", action="store_true", help="print the kernels of each side's short run")
    arguments = parser.parse_args()
    config = dict(
        vocab_size=32000,
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=arguments.layers,
        num_attention_heads=32,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
    )
    directory = pathlib.Path(tempfile.mkdtemp(prefix="llama-"))
    begin = time.perf_counter()
    model = make_model(config, directory)
    print(f"model made and written in {time.perf_counter() - begin:.1f} s", flush=True)
    weight_bytes = sum(p.nbytes for name, p in model.named_parameters() if "embed_tokens" not in name)
    begin = time.perf_counter()
    sides = [HeadwaySide(arguments.interface, directory)]
    print(f"Headway read it in {time.perf_counter() - begin:.1f} s", flush=True)
    if "generate" in arguments.peers:
        sides.append(TransformersSide(model))
    if "loop" in arguments.peers:
        sides.append(CompiledSide(model, arguments.prompt + arguments.tokens))
    bandwidth = measure_bandwidth()
    print(f"a copy reads and writes {bandwidth / 1e12:.2f} TB/s; weights of a step {weight_bytes / 1e9:.2f} GB")

    for batch in arguments.batch:
        prompts = torch.randint(0, 32000, (batch, arguments.prompt), generator=torch.Generator().manual_seed(batch))
        times, tokens, rates = {}, {}, {}
        torch._dynamo.reset()  # so that another batch size does not make the compiled model a general one

        def first(side):
            side.prepare()
            tokens[side.name] = side.run(prompts, arguments.tokens)
            side.run(prompts, SHORT)
            times[side.name] = []
            return "first runs"

        def row_of(side):
            long = statistics.median(t[0] for t in times[side.name])
            step = statistics.median((t[0] - t[1]) / (arguments.tokens - SHORT) for t in times[side.name])
            rates[side.name] = batch / step
            return {
                "batch": batch,
                "step_us": round(step * 1e6, 1),
                "tokens_per_s": round(batch / step),
                "tokens_per_s_with_prompt": round(batch * arguments.tokens / long),
                "share_of_copy": round(weight_bytes / step / bandwidth, 3),
                "share_of_4.8TB": round(weight_bytes / step / 4.8e12, 3),
                "agrees_with_headway": agreement(tokens[side.name], tokens["Headway"]),
            }

        first_runs(sides, first)
        for _ in range(arguments.rounds):
            for side in sides:
                long, result = timed(side, prompts, arguments.tokens)
                short, _ = timed(side, prompts, SHORT)
                times[side.name].append((long, short))
                if not torch.equal(result, tokens[side.name]):
                    print(f"  {side.name}: other tokens than in the run before")
        print_table(sides, row_of, (lambda side: side.run(prompts, SHORT)) if arguments.profile else None)
        others = [rate for name, rate in rates.items() if name != "Headway"]
        if others:
            print(f"batch {batch}: Headway is {rates['Headway'] / max(others):.2f} x the better of transformers")


if __name__ == "__main__":
    main()
