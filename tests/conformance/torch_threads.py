"""Headway on PyTorch's threads, each case in a process of its own: the same bits as on Headway's own threads, the number
of threads that PyTorch has, forks, and several threads that call at the same time."""

import hashlib
import os
import subprocess
import sys
import threading

import numpy as np
import torch

import headway
import headway.torch as ht
from torch_suite import Suite

suite = Suite("headway.torch, threads")
TIMEOUT = 120  # seconds; only a process that hangs takes so long


def in_process(role, *words, **environment):
    """What the role prints in a fresh process. OMP_NUM_THREADS and choices of threads are only those given."""
    left_out = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "HEADWAY_NUM_THREADS", "HEADWAY_THREADS")
    clean = {name: value for name, value in os.environ.items() if name not in left_out}
    done = subprocess.run([sys.executable, __file__, role, *map(str, words)], env=clean | environment, text=True,
                          capture_output=True, timeout=TIMEOUT)
    assert done.returncode == 0, f"{role} {words} {environment}: status {done.returncode}\n{done.stderr}"
    return done.stdout.split()


# ---- what the processes do ----


def digest_of(tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def attention_results():
    """Outputs and gradients of attention and of a layer whose work is cut into many tasks."""
    results = []
    for dtype, shape, kv_heads, options in (
        (torch.float32, (1, 1, 700, 64), 1, {}),
        (torch.float32, (2, 8, 256, 64), 8, dict(is_causal=True)),
        (torch.bfloat16, (2, 8, 300, 32), 2, dict(is_causal=True, enable_gqa=True)),
        (torch.float64, (3, 2, 130, 40), 2, {}),
        (torch.float32, (1, 8, 1, 64), 8, {}),
    ):
        batch, _, length, size = shape
        query = torch.randn(shape).to(dtype).requires_grad_()
        keys = 900 if length == 1 else length
        key, value = (torch.randn(batch, kv_heads, keys, size).to(dtype).requires_grad_() for _ in range(2))
        output = ht.scaled_dot_product_attention(query, key, value, **options)
        results += [output, *torch.autograd.grad(output, (query, key, value), torch.randn(output.shape).to(dtype))]
    layer = ht.MultiheadAttention(256, 8, batch_first=True)
    x = torch.randn(4, 100, 256, requires_grad=True)
    output, weights = layer(x, x, x)
    return results + [output, weights, *torch.autograd.grad(output.sum(), [x, *layer.parameters()])]


def tasks():
    """The number of threads of this process."""
    return len(os.listdir("/proc/self/task"))


def compute_digest(threads):
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    print(digest_of(attention_results()))


def count_threads():
    """How many threads Headway adds to those that PyTorch has started for itself."""
    torch.set_num_threads(3)
    torch.randn(500, 500) @ torch.randn(500, 500)
    torch.rand(1000000).exp_()
    before = tasks()
    ht.scaled_dot_product_attention(*torch.randn(3, 1, 8, 512, 64))
    print(tasks() - before, headway.num_threads())


def headway_first():
    """The same where headway has computed before torch is there."""
    code = (
        "import os, numpy as np, headway\n"
        "x = np.ones((1, 8, 512, 64), np.float32)\n"
        "headway.attention(x, x, x)\n"
        "import torch\n"
        "torch.set_num_threads(5)\n"
        "torch.rand(10000000).exp_()\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "headway.attention(x, x, x)\n"
        "print(len(os.listdir('/proc/self/task')) - before, headway.num_threads())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def number_of_threads(own):
    torch.set_num_threads(3)
    numbers = [headway.num_threads()]
    # In another thread, where the OpenMP runtime has its own number until PyTorch tells it.
    other = threading.Thread(target=lambda: numbers.append(headway.num_threads()))
    other.start()
    other.join()
    torch.set_num_threads(1)
    numbers.append(headway.num_threads())
    if int(own):
        headway.set_num_threads(int(own))
    torch.set_num_threads(4)
    print(*numbers, headway.num_threads(), torch.get_num_threads())


def fork_after_use():
    torch.set_num_threads(3)
    x = np.random.default_rng(1).standard_normal((1, 8, 512, 64), np.float32)
    torch.rand(1000000).exp_()
    expected = headway.attention(x, x, x)
    child = os.fork()
    if child == 0:
        torch.set_num_threads(2)
        same = np.array_equal(headway.attention(x, x, x), expected) and headway.num_threads() == 2
        os._exit(0 if same else 1)
    _, status = os.waitpid(child, 0)
    again = np.array_equal(headway.attention(x, x, x), expected)
    print(os.waitstatus_to_exitcode(status), int(again))


def several_callers():
    """Four threads, each with attention of Headway's and products of PyTorch's in turn."""
    torch.set_num_threads(2)
    torch.manual_seed(0)
    inputs = [torch.randn(3, 1, 8, 256, 64) for _ in range(4)]
    expected = [ht.scaled_dot_product_attention(*each) for each in inputs]
    wrong = []

    def call(mine, wanted):
        for _ in range(30):
            if not torch.equal(ht.scaled_dot_product_attention(*mine), wanted):
                wrong.append(1)
            mine[0][0, 0] @ mine[1][0, 0].T

    callers = [threading.Thread(target=call, args=pair) for pair in zip(inputs, expected)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    print(len(wrong))


ROLES = (compute_digest, count_threads, headway_first, number_of_threads, fork_after_use, several_callers)


# ---- the cases ----


def chosen(choice):
    return dict(HEADWAY_THREADS=choice) if choice else {}


@suite.case(computes=False, threads=[1, 2, 3])
def same_bits(threads):
    own = in_process("compute_digest", threads, HEADWAY_THREADS="own")
    assert in_process("compute_digest", threads) == own
    assert in_process("compute_digest", threads, HEADWAY_THREADS="openmp") == own


@suite.case(computes=False)
def no_threads_beside_pytorchs():
    assert in_process("count_threads", HEADWAY_THREADS="openmp") == ["0", "3"]
    assert in_process("count_threads", HEADWAY_THREADS="own") == ["2", "3"]


@suite.case(computes=False)
def torch_after_headway():
    assert in_process("headway_first", HEADWAY_THREADS="openmp") == ["0", "5"]
    assert in_process("headway_first")[1] == "5"


@suite.case(computes=False)
def number_is_pytorchs_unless_set():
    assert in_process("number_of_threads", 0) == ["3", "3", "1", "4", "4"]
    assert in_process("number_of_threads", 2) == ["3", "3", "1", "2", "4"]
    assert in_process("number_of_threads", 0, HEADWAY_NUM_THREADS="2") == ["2", "2", "2", "2", "4"]
    assert in_process("number_of_threads", 0, HEADWAY_THREADS="own") == ["3", "3", "1", "4", "4"]


@suite.case(computes=False, choice=["", "own", "openmp"])
def child_after_fork(choice):
    assert in_process("fork_after_use", **chosen(choice)) == ["0", "1"]


@suite.case(computes=False, choice=["", "own", "openmp"])
def callers_at_the_same_time(choice):
    assert in_process("several_callers", **chosen(choice)) == ["0"]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {role.__name__: role for role in ROLES}[sys.argv[1]](*sys.argv[2:])
    else:
        sys.exit(suite.run())
