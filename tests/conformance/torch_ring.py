"""headway.torch.ring_attention() in gloo groups of 2 and 4 processes, beside headway.torch.attention() on one."""

import os
import sys
import tempfile
import traceback

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch_suite import TOLERANCES

import headway
import headway.torch as ht

LENGTH = 37  # which no number of processes divides


def randn(*shape, seed, dtype):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def cases():
    """(name, options of both calls, how masks and the rest are cut to rows)."""
    keep = torch.rand(2, 1, LENGTH, LENGTH, generator=torch.Generator().manual_seed(5)) < 0.7
    bias = randn(1, 4, LENGTH, LENGTH, seed=6, dtype=torch.float32)
    yield "plain", {}
    yield "causal", dict(causal="top_left")
    yield "bottom_right", dict(causal="bottom_right")
    yield "window", dict(window=(7, 3))
    yield "mask", dict(keep_mask=keep)
    yield "causal mask", dict(drop_mask=~keep, causal="top_left")
    yield "bias", dict(bias=bias)
    yield "alibi", dict(alibi_slopes=torch.tensor([0.5, 0.25, 0.125, 0.06]), causal="top_left")
    yield "softcap", dict(softcap=5.0)
    yield "sinks", dict(sinks=torch.tensor([0.5, -1.0, 2.0, 0.0]))
    yield "lengths", dict(key_lengths=[30, 11])
    yield "dropout", dict(dropout=0.3, seed=17)
    yield "causal dropout", dict(dropout=0.2, seed=3, causal="top_left")
    yield "weights", dict(return_weights=True, return_logsumexp=True)
    yield "mean weights", dict(return_weights="mean", causal="top_left")
    yield "scores", dict(return_weights=True, weights_of="masked", causal="top_left")


def rows(option, positions):
    """This rank's rows of a mask or a bias; anything else as it is."""
    is_mask = isinstance(option, torch.Tensor) and option.dim() == 4
    return option.index_select(2, positions) if is_mask and option.size(2) > 1 else option


def compare(options, layout, method, dtype):
    query, key, value = (randn(2, heads, LENGTH, 8, seed=seed, dtype=dtype) for seed, heads in ((1, 4), (2, 2), (3, 2)))
    options = {
        name: option.to(dtype if name == "bias" else option.dtype, copy=True) if isinstance(option, torch.Tensor) else option
        for name, option in options.items()
    }
    whole = [tensor.clone().requires_grad_() for tensor in (query, key, value)]
    learnt = [name for name in ("bias", "sinks") if name in options]
    for name in learnt:
        options[name].requires_grad_()
    positions = ht.sequence_positions(LENGTH, layout=layout)
    share = [tensor.index_select(2, positions).requires_grad_() for tensor in (query, key, value)]
    own = {name: rows(option.detach() if name in learnt else option, positions) if isinstance(option, torch.Tensor)
           else option for name, option in options.items()}
    for name in learnt:
        own[name] = own[name].clone().requires_grad_()

    wanted = ht.attention(*whole, **options)
    got = ht.ring_attention(*share, layout=layout, method=method, **own)
    wanted, got = ([result] if isinstance(result, torch.Tensor) else list(result) for result in (wanted, got))
    # Of outputs and weights [batch, heads, length, ...] and mean weights [batch, length, keys] the rows of this rank.
    mine = [result.index_select(1 if result.dim() == 3 and options.get("return_weights") == "mean" else 2, positions)
            for result in wanted]
    tolerance = TOLERANCES[dtype]
    finite = [torch.nan_to_num(result.float(), neginf=-1e4) for result in mine]
    for one, other in zip(got, finite, strict=True):
        torch.testing.assert_close(torch.nan_to_num(one.float(), neginf=-1e4), other, **tolerance)
    if options.get("weights_of") == "masked":
        return
    d_wanted = [randn(*result.shape, seed=9, dtype=torch.float32).to(result.dtype) for result in wanted]
    d_got = [gradient.index_select(1 if gradient.dim() == 3 and options.get("return_weights") == "mean" else 2, positions)
             for gradient in d_wanted]
    torch.autograd.backward(wanted, d_wanted)
    torch.autograd.backward(got, d_got)
    for one, other in zip(share, whole):
        torch.testing.assert_close(one.grad, other.grad.index_select(2, positions), **tolerance)
    for name in learnt:
        if name == "bias":
            torch.testing.assert_close(own[name].grad, options[name].grad.index_select(2, positions), **tolerance)
        else:
            total = own[name].grad.clone()
            dist.all_reduce(total)
            torch.testing.assert_close(total, options[name].grad, **tolerance)


def different_shapes_are_told():
    query = torch.ones(1, 2, 4, 8 if dist.get_rank() else 16)
    try:
        ht.ring_attention(query, query, query)
    except ValueError as error:
        assert "rank 1" in str(error), error
    else:
        raise AssertionError("different head sizes were accepted")


def groups_of_some():
    """Two groups side by side, each with a sequence of its own."""
    half = dist.get_world_size() // 2
    groups = [dist.new_group(list(range(half))), dist.new_group(list(range(half, 2 * half)))]
    group = groups[dist.get_rank() // half]
    x = randn(1, 2, 12, 4, seed=dist.get_rank() // half, dtype=torch.float32)
    positions = ht.sequence_positions(12, group, "zigzag")
    got = ht.ring_attention(*3 * [x.index_select(2, positions)], is_causal=True, group=group, layout="zigzag")
    torch.testing.assert_close(got, ht.attention(x, x, x, causal="top_left").index_select(2, positions))


def ranks_of_an_engine():
    """The operations of a Communicator over gloo."""
    ranks = ht.communicator()
    values = headway.tensor(torch.full((5,), float(ranks.rank + 1)))
    ranks.all_reduce(values)
    total = ranks.size * (ranks.size + 1) / 2
    assert torch.from_dlpack(values).tolist() == [total] * 5
    part = ranks.split(ranks.rank % 2)
    assert part.size == ranks.size // 2


def run(rank, size, file, results):
    """All cases as one process of a group; puts (name, problem or None) of each."""
    torch.set_num_threads(1)
    headway.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=size)
    work = [
        (f"{name}, {layout}, {method}, {dtype}", compare, (options, layout, method, dtype))
        for name, options in cases()
        for layout in ("contiguous", "zigzag")
        for method in ("ring", "ulysses")
        for dtype in ((torch.float32, torch.bfloat16, torch.float64) if name in ("causal", "mask") else (torch.float32,))
        if method == "ring" or size == 2  # two heads of keys
    ]
    work += [("groups of some", groups_of_some, ()), ("ranks of an engine", ranks_of_an_engine, ())]
    work += [("different shapes", different_shapes_are_told, ())]  # the last: ranks have failed
    for name, function, arguments in work:
        problem = None
        try:
            function(*arguments)
        except Exception:
            problem = traceback.format_exc()
        results.put((name, problem))
        dist.barrier()
    dist.destroy_process_group()


def main():
    passed, failures = 0, []
    for size in (2, 4):
        with tempfile.TemporaryDirectory() as directory:
            results = processes.get_context("spawn").SimpleQueue()
            context = processes.spawn(
                run, (size, os.path.join(directory, "group"), results), nprocs=size, join=False, start_method="spawn"
            )
            problems = {}
            done = False
            while not done or not results.empty():
                done = done or context.join(timeout=0.2)
                while not results.empty():
                    name, problem = results.get()
                    problems[name] = problems.get(name) or problem
        passed += sum(problem is None for problem in problems.values())
        failures += [f"{size} processes, {name}: {problem}" for name, problem in problems.items() if problem]
    for failure in failures:
        print(f"torch ring: FAILED: {failure}", file=sys.stderr)
    print(f"torch ring: {passed} passed, {len(failures)} failed, 0 skipped")
    return 1 if failures or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
