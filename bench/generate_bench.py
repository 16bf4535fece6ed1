#!/usr/bin/env python3
"""Tokens per second of a decoder of GPT-2's size: Headway, llama.cpp and transformers with the same weights and threads.

The model is a Llama of random weights, written once as a Hugging Face directory and once as GGUF. Rounds of all sides
alternate, the figure of each is the median of its rounds, and the tokens of greedy search are compared. Decoding reads
every weight once per token, so that the share of the read bandwidth, which a sum over as many bytes measures in the same
run, stands beside it.
"""

import argparse
import json
import os
import pathlib
import statistics
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np

SHAPE = dict(
    vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
    num_key_value_heads=12, max_position_embeddings=2048, rms_norm_eps=1e-5, tie_word_embeddings=False,
    bos_token_id=1, eos_token_id=2,
)
FORMATS = ("float32", "bfloat16")


def write_model(directory, dtype):
    """A random Llama as a Hugging Face directory."""
    import torch
    import transformers

    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE, initializer_range=0.05))
    model.to(getattr(torch, dtype)).save_pretrained(directory)


def write_gguf(directory, path, dtype):
    """The same weights as llama.cpp reads them: rows of queries and keys pair neighbours, not halves."""
    import gguf
    import torch
    from safetensors.torch import load_file

    tensors = load_file(directory / "model.safetensors")
    heads, layers = SHAPE["num_attention_heads"], SHAPE["num_hidden_layers"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(SHAPE["max_position_embeddings"])
    writer.add_embedding_length(SHAPE["hidden_size"])
    writer.add_block_count(layers)
    writer.add_feed_forward_length(SHAPE["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(SHAPE["rms_norm_eps"])
    writer.add_rope_dimension_count(SHAPE["hidden_size"] // heads)
    writer.add_vocab_size(SHAPE["vocab_size"])
    writer.add_tokenizer_model("llama")
    names = [f"t{i}".encode() for i in range(SHAPE["vocab_size"])]
    names[:3] = [b"<unk>", b"<s>", b"</s>"]
    writer.add_token_list(names)
    writer.add_token_scores([0.0] * len(names))
    writer.add_token_types([2, 3, 3] + [1] * (len(names) - 3))

    def add(name, tensor):
        if tensor.ndim == 2 and dtype == "bfloat16":
            raw = tensor.to(torch.bfloat16).contiguous().view(torch.int16).numpy().view(np.uint8)
            writer.add_tensor(name, raw, raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(name, tensor.float().numpy())

    def rotated(tensor):
        rows, columns = tensor.shape
        return tensor.view(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns)

    add("token_embd.weight", tensors["model.embed_tokens.weight"])
    add("output_norm.weight", tensors["model.norm.weight"])
    add("output.weight", tensors["lm_head.weight"])
    for layer in range(layers):
        source, target = f"model.layers.{layer}.", f"blk.{layer}."
        add(target + "attn_q.weight", rotated(tensors[source + "self_attn.q_proj.weight"]))
        add(target + "attn_k.weight", rotated(tensors[source + "self_attn.k_proj.weight"]))
        for theirs, ours in (("self_attn.v_proj", "attn_v"), ("self_attn.o_proj", "attn_output"),
                             ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"),
                             ("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm")):
            add(f"{target}{ours}.weight", tensors[f"{source}{theirs}.weight"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Headway:
    name = "Headway"

    def __init__(self, directory, threads):
        import headway

        headway.set_num_threads(threads)
        self.generator = headway.TextGenerator(directory)

    def run(self, prompt, count):
        """Seconds of the prompt with its first token, seconds of the other tokens, all tokens."""
        times = []
        start = time.perf_counter()

        def on_token(_token, _log_probability):
            times.append(time.perf_counter())
            return True

        result = self.generator.generate(
            prompt, max_new_tokens=count, temperature=0.0, ignore_end=True, on_token=on_token
        )
        return times[0] - start, times[-1] - times[0], list(result.tokens)


class LlamaCpp:
    name = "llama.cpp"

    def __init__(self, path, threads):
        import llama_cpp

        self.model = llama_cpp.Llama(
            str(path), n_ctx=SHAPE["max_position_embeddings"], n_threads=threads, n_threads_batch=threads, n_batch=512,
            verbose=False, logits_all=False,
        )

    def run(self, prompt, count):
        self.model.reset()
        start = time.perf_counter()
        self.model.eval(prompt)
        tokens = [self._best()]
        first = time.perf_counter()
        while len(tokens) < count:
            self.model.eval([tokens[-1]])
            tokens.append(self._best())
        return first - start, time.perf_counter() - first, tokens

    def _best(self):
        import llama_cpp

        logits = llama_cpp.llama_get_logits_ith(self.model.ctx, -1)
        return int(np.ctypeslib.as_array(logits, (SHAPE["vocab_size"],)).argmax())


class Transformers:
    name = "transformers"

    def __init__(self, directory, threads, dtype):
        import torch
        import transformers

        torch.set_num_threads(threads)
        self.torch = torch
        self.model = transformers.LlamaForCausalLM.from_pretrained(directory, dtype=getattr(torch, dtype)).eval()

    def run(self, prompt, count):
        with self.torch.inference_mode():
            start = time.perf_counter()
            out = self.model(self.torch.tensor([prompt]), use_cache=True, logits_to_keep=1)
            tokens = [int(out.logits[0, -1].argmax())]
            first = time.perf_counter()
            while len(tokens) < count:
                out = self.model(
                    self.torch.tensor([[tokens[-1]]]), past_key_values=out.past_key_values, use_cache=True
                )
                tokens.append(int(out.logits[0, -1].argmax()))
            return first - start, time.perf_counter() - first, tokens


def read_bandwidth(threads):
    """Bytes per second of a sum over half a gigabyte, by as many threads: the best of several."""
    import torch

    torch.set_num_threads(threads)
    data = torch.ones(1 << 27)
    best = 0.0
    for _ in range(8):
        start = time.perf_counter()
        data.sum()
        best = max(best, data.numel() * 4 / (time.perf_counter() - start))
    return best


def weight_bytes(dtype):
    """What one token reads: every matrix but the embedding."""
    width, hidden, layers = SHAPE["hidden_size"], SHAPE["intermediate_size"], SHAPE["num_hidden_layers"]
    values = layers * (4 * width * width + 3 * width * hidden) + SHAPE["vocab_size"] * width
    return values * (4 if dtype == "float32" else 2)


def measure(arguments, dtype, threads, work):
    """One table: rounds of every side in turn."""
    directory = work / dtype
    if not directory.exists():
        write_model(directory, dtype)
        write_gguf(directory, work / f"{dtype}.gguf", dtype)
    makers = {
        "headway": lambda: Headway(directory, threads),
        "llama.cpp": lambda: LlamaCpp(work / f"{dtype}.gguf", threads),
        "transformers": lambda: Transformers(directory, threads, dtype),
    }
    sides = [makers[name]() for name in arguments.sides]
    prompt = np.random.default_rng(3).integers(3, SHAPE["vocab_size"], arguments.prompt).tolist()
    seconds = {side.name: [] for side in sides}
    tokens = {}
    for round_ in range(arguments.rounds + 1):
        for side in sides:
            first, rest, tokens[side.name] = side.run(prompt, arguments.tokens)
            if round_ > 0:
                seconds[side.name].append((first, rest))
    bandwidth = read_bandwidth(threads)
    reference = tokens[sides[-1].name]
    rows = []
    for side in sides:
        same = sum(a == b for a, b in zip(tokens[side.name], reference))
        prompt_rate = arguments.prompt / statistics.median(first for first, _ in seconds[side.name])
        rate = (arguments.tokens - 1) / statistics.median(rest for _, rest in seconds[side.name])
        share = rate * weight_bytes(dtype) / bandwidth
        rows.append(dict(side=side.name, dtype=dtype, threads=threads, prompt=prompt_rate, tokens=rate, share=share))
        print(f"{dtype:9} {threads} threads  {side.name:13} prompt {prompt_rate:7.0f} tokens/s   one stream {rate:6.1f} "
              f"tokens/s, {100 * share:3.0f}% of {bandwidth / 1e9:.1f} GB/s   {same} of {len(reference)} tokens as "
              f"{sides[-1].name}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--dtypes", nargs="+", default=["float32"], choices=FORMATS)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sides", nargs="+", default=["headway", "llama.cpp", "transformers"])
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        rows = [row for dtype in arguments.dtypes for threads in arguments.threads
                for row in measure(arguments, dtype, threads, pathlib.Path(work))]
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
