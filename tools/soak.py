#!/usr/bin/env python3
"""Gives random work to Headway for a long time and watches the memory of the process that does it.

    tools/soak.py                                     # the Python package, 20 minutes
    tools/soak.py --program build/release/headway     # the program's translations
    tools/soak.py --seconds 180 --seed 1

With the Python package each round is one kind of work with random shapes and options: attention with its gradients,
layers, training with checkpoints, safetensors, errors, and, with the text library, a tokenizer, translations of token
ids and titles of texts; results are checked.

In the first half of the time the heap grows to the largest shapes. In the second half the resident memory is sampled
every second, and a line is fitted to the samples. The exit status is 1 where the line rises by more than --bound MiB
per minute, and by more than --noise MiB in all, by which memory goes up and down in a short run. Headway's cache of
freed blocks, which fills up to 64 MB, is off unless HEADWAY_CACHE_MB is set.
"""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
SENTENCES = (
    "The weather is nice today.", "We are going home.", "I have two brothers and a sister.", "Where is the station?",
    "She reads a book in the garden.", "The price of bread has risen by ten percent.", "Thank you for your help.",
)


def resident_mebibytes(process="self"):
    with open(f"/proc/{process}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class PackageSoak:
    """Work for the Python package: one kind of it per method whose name begins with work_ or text_."""

    process = "self"

    def __init__(self, seed, directory):
        global headway
        import headway

        self.random = random.Random(seed)
        self.arrays = np.random.default_rng(seed)
        self.directory = pathlib.Path(directory)
        self.expected = {}  # what was written so far: the same input must give the same text again
        self.counts = {}
        prefixes = ("work_",)
        try:
            self.translator = headway.TextToText(ROOT / "models/en-de")
            self.writer = headway.TextToText(ROOT / "models/titles")
            prefixes += ("text_",)
        except ImportError as error:
            print(f"soak: without the text library: {error}")
        self.kinds = [name for name in dir(self) if name.startswith(prefixes)]

    def round(self):
        name = self.random.choice(self.kinds)
        getattr(self, name)()
        self.counts[name[5:]] = self.counts.get(name[5:], 0) + 1

    def normal(self, *shape, dtype=np.float32):
        return self.arrays.standard_normal(shape, dtype=np.float32).astype(dtype)

    def attention_options(self, batch, heads, queries, keys):
        pick = self.random.random
        options = {}
        if pick() < 0.4:
            options["causal"] = self.random.choice(["top_left", "bottom_right"])
        if pick() < 0.3:
            options["keep_mask"] = self.arrays.random((queries, keys)) < 0.8
        if pick() < 0.3:
            options["bias"] = self.normal(1, heads, queries, keys)
        if pick() < 0.3:
            options["key_lengths"] = [self.random.randint(0, keys) for _ in range(batch)]
        if pick() < 0.2:
            options["window"] = (self.random.randint(0, keys), None)
        if pick() < 0.2:
            options["softcap"] = 20.0
        if pick() < 0.2:
            options["sinks"] = self.normal(heads)
        if pick() < 0.2:
            options.update(dropout=0.1, seed=self.random.randint(0, 2**32))
        return options

    def work_attention(self):
        batch, kv_heads, groups = (self.random.randint(1, 4) for _ in range(3))
        queries, keys = self.random.randint(1, 150), self.random.randint(1, 150)
        dim, value_dim = self.random.randint(1, 80), self.random.randint(1, 80)
        heads = kv_heads * groups
        query = self.normal(batch, heads, queries, dim)
        key = self.normal(batch, kv_heads, keys, dim)
        value = self.normal(batch, kv_heads, keys, value_dim)
        options = self.attention_options(batch, heads, queries, keys)
        results = headway.attention(
            query, key, value, return_logsumexp=True, return_weights=self.random.choice([False, True, "mean"]),
            **options,
        )
        output, logsumexp = results[0], results[-1]
        assert np.isfinite(output).all()
        d_output = self.normal(*output.shape)
        gradients = headway.attention_backward(d_output, query, key, value, output, logsumexp, **options)
        assert all(np.isfinite(gradient).all() for gradient in gradients if gradient is not None)

    def work_layers(self):
        heads = self.random.choice([1, 2, 4])
        width = heads * self.random.randint(2, 24)
        options = dict(d_model=width, nhead=heads, dim_feedforward=self.random.randint(4, 150), dropout=0.1)
        encoder = headway.TransformerEncoder(num_layers=self.random.randint(1, 2), **options)
        optimizer = headway.AdamW(encoder)
        x = headway.tensor(self.normal(self.random.randint(1, 4), self.random.randint(1, 60), width))
        headway.ops.mean(encoder(x, causal=self.random.choice([None, "top_left"]))).backward()
        optimizer.step()
        assert np.isfinite(encoder.parameters()[0].detach().numpy()).all()

    def work_training(self):
        layer = headway.Linear(self.random.randint(1, 40), self.random.randint(1, 40))
        width = layer.state_dict()["weight"].shape[1]
        x = self.normal(self.random.randint(1, 40), width)
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            report = headway.train(
                layer, headway.Sgd(layer), lambda step: 1e-3,
                lambda *position: headway.ops.mean(layer(headway.tensor(x))), steps=3, directory=directory,
            )
        assert report["last_step"] == 3

    def work_files(self):
        dtypes = [np.float32, np.float64, np.float16, np.int32, np.int64, np.bool_]
        arrays = {}
        for i in range(self.random.randint(0, 8)):
            shape = [self.random.randint(0, 50) for _ in range(self.random.randint(0, 3))]
            arrays[f"{i}." + "x" * self.random.randint(0, 40)] = self.normal(*shape, dtype=self.random.choice(dtypes))
        path = self.directory / "arrays.safetensors"
        headway.save_safetensors(path, arrays, {"round": str(self.counts)})
        loaded = headway.load_safetensors(path)
        file = headway.SafeTensors.open(path)
        assert set(loaded) == set(arrays) == set(file.names())
        for name, array in arrays.items():
            assert np.array_equal(loaded[name].numpy(), array) and np.array_equal(file.get(name).numpy(), array)

    def work_errors(self):
        x = self.normal(1, 2, 3, 4)
        for call in (
            lambda: headway.attention(x, x[:, :, :, :2], x),
            lambda: headway.load_safetensors(self.directory / "missing"),
            lambda: headway.attention(x, x, x, causal=3),
        ):
            try:
                call()
            except (ValueError, TypeError, OSError):
                continue
            raise AssertionError("an error was expected")

    def text_tokens(self):
        text = " ".join(self.random.choices(SENTENCES, k=self.random.randint(1, 20)))
        tokenizer = self.writer.tokenizer
        ids = tokenizer.encode(text)
        assert ids == tokenizer.encode([text, text])[1]
        assert tokenizer.encode(tokenizer.decode(ids)) == ids

    def check_written(self, writer, inputs, **options):
        # A text may differ in its last bits with the others of its batch, and so may nearly equal choices.
        tokens = [result.tokens for result in writer.run(inputs, max_new_tokens=30, **options)]
        assert self.expected.setdefault((str(inputs), str(options)), tokens) == tokens

    def text_translation(self):
        end = 0
        first = self.random.randint(100, 110)
        starts = range(first, first + self.random.randint(1, 6))
        inputs = [[*range(start, start + 3 * (start % 7 + 1), 3), end] for start in starts]
        self.check_written(self.translator, inputs, beams=self.random.choice([1, 4]))

    def text_titles(self):
        first = self.random.randint(0, len(SENTENCES) - 1)
        inputs = list(SENTENCES[first : first + self.random.randint(1, 6)])
        self.check_written(self.writer, inputs, beams=self.random.choice([1, 3]))

    def close(self):
        pass


class ProgramSoak:
    """Lines of text through `headway translate`, one at a time or many at once."""

    def __init__(self, seed, program):
        self.random = random.Random(seed)
        self.child = subprocess.Popen(
            [program, "translate", "--model", ROOT / "models/en-de", "--to", "de", "--threads", "1"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        self.process = self.child.pid
        self.expected = {}
        self.counts = {"lines": 0}

    def round(self):
        lines = self.random.choices(SENTENCES, k=self.random.choice([1, 2, 40]))
        for _ in range(self.random.choice([0, 0, 1])):
            lines.append(" ".join(self.random.choices(SENTENCES, k=self.random.randint(2, 12))))
        self.child.stdin.write("".join(line + "\n" for line in lines))
        self.child.stdin.flush()
        for line in lines:
            result = self.child.stdout.readline()
            assert result and (len(line) > 60 or self.expected.setdefault(line, result) == result), (line, result)
        self.counts["lines"] += len(lines)

    def close(self):
        self.child.stdin.close()
        if self.child.wait(60) != 0:
            raise SystemExit(f"soak: the program ended with status {self.child.returncode}")


def growth_per_minute(samples):
    """The slope of the line through (seconds, MiB), in MiB per minute."""
    seconds, mebibytes = np.array(samples).T
    return float(np.polyfit(seconds, mebibytes, 1)[0] * 60)


def measure(soak, seconds):
    """(seconds, MiB) of the second half, about once a second."""
    warm_up = max(30.0, seconds / 2)
    samples = []
    start = printed = time.monotonic()
    while (now := time.monotonic() - start) < seconds:
        soak.round()
        if now > warm_up and (not samples or now - samples[-1][0] >= 1):
            samples.append((now, resident_mebibytes(soak.process)))
        if time.monotonic() - printed >= 60:
            printed = time.monotonic()
            growth = f"{growth_per_minute(samples):+.2f} MiB per minute" if len(samples) > 9 else "warming up"
            print(f"{now:6.0f} s: {resident_mebibytes(soak.process):.1f} MiB, {growth}; {soak.counts}", flush=True)
    if len(samples) < 10:
        raise SystemExit(f"soak: {len(samples)} samples after {warm_up:.0f} s of warm-up, expected 10: more --seconds")
    return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--program", type=pathlib.Path, help="the program, for its translations")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bound", type=float, default=1.0, help="growth in MiB per minute")
    parser.add_argument("--noise", type=float, default=8.0, help="growth in MiB that is no growth, in a short run")
    options = parser.parse_args()
    os.environ.setdefault("HEADWAY_CACHE_MB", "0")
    with tempfile.TemporaryDirectory() as directory:
        program = options.program
        soak = ProgramSoak(options.seed, program) if program else PackageSoak(options.seed, directory)
        samples = measure(soak, options.seconds)
        soak.close()
    growth = growth_per_minute(samples)
    minutes = (samples[-1][0] - samples[0][0]) / 60
    is_good = growth <= options.bound or growth * minutes <= options.noise
    print(
        f"soak: {soak.counts}; {samples[-1][1]:.1f} MiB, {growth:+.2f} MiB per minute for {minutes:.1f} minutes, "
        f"expected at most {options.bound} per minute or {options.noise} in all: {'good' if is_good else 'TOO MUCH'}"
    )
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
