"""Daemon threads that are inside Headway when the interpreter ends: it exits with its own status, without an abort."""

import subprocess
import sys

import pytest

_START = """
import sys, threading, time
import numpy as np
import headway

def forever(work):
    def run():
        while True:
            work()
    for _ in range(3):
        threading.Thread(target=run, daemon=True).start()

x = np.random.default_rng(0).standard_normal((1, 64, 64)).astype(np.float32)
heads = x.reshape(1, 4, 64, 16)
"""

_WORK = {
    "attention": "forever(lambda: headway.attention(heads, heads, heads, causal='top_left'))",
    "layer": """
layer = headway.MultiHeadAttention(64, 4)
layer.eval()
forever(lambda: layer(x))
""",
    "backward": """
layer = headway.Linear(64, 64)
forever(lambda: headway.ops.sum(layer(headway.tensor(x))).backward())
""",
    "train": """
def train():
    layer = headway.Linear(64, 64)
    loss_of = lambda step, part, index: headway.ops.sum(layer(headway.tensor(x)))
    headway.train(layer, headway.Sgd(layer), lambda step: 1e-9, loss_of, steps=10**9)
forever(train)
""",
    "callback that sleeps": """
def train():
    layer = headway.Linear(64, 64)
    def loss_of(step, part, index):
        time.sleep(0.001)
        return headway.ops.sum(layer(headway.tensor(x)))
    headway.train(layer, headway.Sgd(layer), lambda step: 1e-9, loss_of, steps=10**9)
forever(train)
""",
}

_TEXT_WORK = {
    "generate": """
config = dict(model_type="gpt2", vocab_size=50, n_positions=64, n_embd=32, n_layer=1, n_head=2)
model = headway.TransformerModel.from_config(config)
model.eval()
writer = headway.TextGenerator(model)
def on_token(token, log_probability):
    time.sleep(0)
forever(lambda: writer.generate([1, 2, 3], max_new_tokens=40, ignore_end=True, on_token=on_token))
forever(lambda: model(np.zeros((2, 8), np.int64)))
""",
}


def run_to_the_end(work, rounds=3):
    script = _START + work + "\ntime.sleep(0.2)\nsys.exit(7)\n"
    for _ in range(rounds):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (7, "")


@pytest.mark.parametrize("name", _WORK)
def test_daemon_threads(name):
    run_to_the_end(_WORK[name])


@pytest.mark.parametrize("name", _TEXT_WORK)
def test_daemon_threads_with_text(name):
    pytest.importorskip("headway._text")
    run_to_the_end(_TEXT_WORK[name])
