"""headway.torch.scaled_dot_product_attention under torch.compile, torch.export and torch.func, and the operator that is
registered for them."""

import shutil
import sys
import warnings

import torch
from torch.nn import functional
from torch_suite import Suite, assert_close, gradients, raises

import headway.torch as ht
from headway.torch import _operator

suite = Suite("torch transforms")


def randn(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape, dtype=dtype).requires_grad_(grad)


# ---- the operator ----

OPERATOR_OPTIONS = [
    {},
    dict(causal="top_left", scale=0.5, return_weights=True),
    dict(causal="bottom_right", window=(2, None), softcap=3.0, return_weights="mean"),
    dict(dropout=0.3, seed=2**63 + 5),
    dict(key_lengths=[3, 5], query_offset=1),
    dict(bias=True, sinks=True, return_weights=True),
    dict(keep_mask=True, alibi_slopes=True),
]


def operator_case(options, dtype=torch.float64):
    q, k, v = (randn(2, 4, n, 8, dtype=dtype, grad=True) for n in (3, 5, 5))
    made = dict(
        bias=lambda: randn(1, 4, 1, 5, dtype=dtype, grad=True), sinks=lambda: randn(4, dtype=dtype, grad=True),
        keep_mask=lambda: torch.rand(2, 1, 3, 5) < 0.8, alibi_slopes=lambda: torch.rand(4),
    )
    return (q, k, v), {name: made[name]() if name in made else option for name, option in options.items()}


@suite.case(options=OPERATOR_OPTIONS)
def opcheck(options):
    (q, k, v), options = operator_case(options)
    results = torch.library.opcheck(_operator._attention, (q, k, v, *_operator._flatten(options, q)))
    assert set(results.values()) == {"SUCCESS"}, results
    transposed = q.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
    results = torch.library.opcheck(_operator._attention, (transposed, k, v, *_operator._flatten(options, q)))
    assert set(results.values()) == {"SUCCESS"}, results


@suite.case(options=OPERATOR_OPTIONS)
def operator_gives_what_the_straight_call_gives(options):
    (q, k, v), options = operator_case(options)
    inputs = [q, k, v, *(options[name] for name in ("bias", "sinks") if name in options)]
    from headway.torch._attention import attend

    wanted = [x for x in attend(q, k, v, options) if x is not None]
    got = [x for x in _operator.attend(q, k, v, options) if x is not None]
    for g, w in zip(got, wanted, strict=True):
        assert torch.equal(g, w)
    for g, w in zip(gradients(got, inputs), gradients(wanted, inputs)):
        assert torch.equal(g, w)


# ---- torch.compile, torch.export ----


def compile_backends():
    compilers = any(shutil.which(name) for name in ("g++", "clang++"))
    return ["eager", "aot_eager"] + (["inductor"] if compilers else [])


@suite.case(backend=compile_backends())
def compiled(backend):
    torch._dynamo.reset()
    mask = torch.rand(2, 1, 5, 5) < 0.8

    def step(q, k, v, bias):
        first = ht.scaled_dot_product_attention(q, k, v, is_causal=True)
        second = ht.scaled_dot_product_attention(first, k, v, attn_mask=mask, scale=0.4)
        third = ht.scaled_dot_product_attention(second[0], k[0], v[0], attn_mask=bias)
        return third.sum() + second.square().mean() + first.mean()

    inputs = [randn(2, 3, 5, 8, grad=True) for _ in range(3)] + [randn(5, 5, grad=True)]
    run = torch.compile(step, backend=backend, fullgraph=True)
    got, wanted = run(*inputs), step(*inputs)
    assert_close(got, wanted)
    for g, w in zip(torch.autograd.grad(got, inputs), torch.autograd.grad(wanted, inputs)):
        assert_close(g, w)
    with torch.no_grad():
        assert_close(run(*inputs), wanted.detach())


@suite.case(backend=["eager", "aot_eager"])
def compiled_with_dropout(backend):
    torch._dynamo.reset()

    def attend(x):
        return ht.scaled_dot_product_attention(x, x, x, dropout_p=0.5)

    run = torch.compile(attend, backend=backend, fullgraph=True)
    x = randn(1, 2, 8, 4)
    torch.manual_seed(1)
    first, second = run(x), run(x)
    torch.manual_seed(1)
    assert torch.equal(first, run(x)) and not torch.equal(first, second)


@suite.case
def compiled_with_dynamic_shapes():
    torch._dynamo.reset()
    run = torch.compile(ht.scaled_dot_product_attention, backend="aot_eager", fullgraph=True, dynamic=True)
    for length in (3, 7, 12):
        x = randn(2, 2, length, 4)
        assert_close(run(x, x, x, is_causal=True), ht.scaled_dot_product_attention(x, x, x, is_causal=True))


@suite.case
def exported():
    class Attends(torch.nn.Module):
        def forward(self, q, k, v):
            return ht.scaled_dot_product_attention(q, k, v, is_causal=True)

    inputs = tuple(randn(1, 2, 3, 4) for _ in range(3))
    program = torch.export.export(Attends(), inputs)
    assert_close(program.module()(*inputs), Attends()(*inputs))


# ---- torch.func ----

VMAPS = {
    "all": ((0, 0, 0), {}),
    "query": ((0, None, None), {}),
    "another dimension": ((1, 0, 2), {}),
    "causal": ((0, 0, 0), dict(is_causal=True)),
    "mask": ((0, 0, 0), dict(attn_mask=torch.rand(2, 1, 4, 4) < 0.8)),
    "bias": ((0, 0, 0), dict(attn_mask=torch.randn(4, 4, dtype=torch.float64))),
}


@suite.case(name=list(VMAPS))
def vmap(name):
    dims, options = VMAPS[name]
    inputs = []
    for dim in dims:
        x = randn(3, 2, 2, 4, 8, dtype=torch.float64)
        inputs.append(x[0] if dim is None else x.movedim(0, dim))

    def with_options(function):
        return lambda *x: function(*x, **options)

    run = with_options(ht.scaled_dot_product_attention)
    reference = with_options(functional.scaled_dot_product_attention)
    assert_close(torch.func.vmap(run, dims)(*inputs), torch.func.vmap(reference, dims)(*inputs))

    def gradient(function):
        return torch.func.grad(lambda *x: function(*x).square().sum(), argnums=(0, 1, 2))

    for g, w in zip(torch.func.vmap(gradient(run), dims)(*inputs), torch.func.vmap(gradient(reference), dims)(*inputs)):
        assert_close(g, w)


@suite.case
def vmap_over_masks():
    q, k, v = (randn(2, 2, 4, 8, dtype=torch.float64) for _ in range(3))
    for masks in (torch.rand(3, 4, 4) < 0.8, randn(3, 2, 1, 4, 4, dtype=torch.float64)):
        got = torch.func.vmap(lambda mask: ht.scaled_dot_product_attention(q, k, v, attn_mask=mask))(masks)
        wanted = torch.stack([functional.scaled_dot_product_attention(q, k, v, attn_mask=mask) for mask in masks])
        assert_close(got, wanted)
    biases = randn(3, 2, 1, 4, 4, dtype=torch.float64)

    def gradient(function):
        return torch.func.grad(lambda bias: function(q, k, v, attn_mask=bias).square().sum())

    got = torch.func.vmap(gradient(ht.scaled_dot_product_attention))(biases)
    wanted = [gradient(functional.scaled_dot_product_attention)(bias) for bias in biases]
    assert_close(got, torch.stack(wanted))


@suite.case
def vmap_with_dropout():
    x = randn(3, 1, 2, 16, 4)

    def attend(q):
        return ht.scaled_dot_product_attention(q, q, q, dropout_p=0.5)

    with raises(RuntimeError, "randomness"):
        torch.func.vmap(attend)(x)
    same = x[:1].expand(3, -1, -1, -1, -1)
    outputs = torch.func.vmap(attend, randomness="same")(same)
    assert torch.equal(outputs[0], outputs[1])
    outputs = torch.func.vmap(attend, randomness="different")(same)
    assert not torch.equal(outputs[0], outputs[1])


@suite.case
def functional_gradients():
    q, k, v = (randn(2, 2, 4, 8, dtype=torch.float64) for _ in range(3))
    got = torch.func.jacrev(ht.scaled_dot_product_attention)(q, k, v)
    wanted = torch.func.jacrev(functional.scaled_dot_product_attention)(q, k, v)
    assert_close(got, wanted)
    _, pull = torch.func.vjp(ht.scaled_dot_product_attention, q, k, v)
    _, wanted_pull = torch.func.vjp(functional.scaled_dot_product_attention, q, k, v)
    for g, w in zip(pull(q), wanted_pull(q)):
        assert_close(g, w)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="There is a performance drop")
    sys.exit(suite.run())
