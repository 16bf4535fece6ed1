"""headway.torch.scaled_dot_product_attention and headway.torch.attention beside PyTorch: semantics, errors, gradients,
autocast, subclasses."""

import itertools
import sys
import warnings

import torch
from torch.nn import functional
from torch_suite import Suite, assert_close, assert_same_error, gradients, raises

import headway.torch as ht
from headway.torch import _kernel

suite = Suite("torch attention")
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
INF = float("inf")


def randn(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape, dtype=dtype).requires_grad_(grad)


def both(*tensors, **options):
    """(Headway's, torch's) outputs for the same call."""
    got = ht.scaled_dot_product_attention(*tensors, **options)
    return got, functional.scaled_dot_product_attention(*tensors, **options)


def compare(*tensors, **options):
    got, wanted = both(*tensors, **options)
    assert_close(got, wanted)


# ---- shapes and dtypes ----


@suite.case(dtype=DTYPES)
def dtypes(dtype):
    q, k, v = randn(2, 3, 5, 8, dtype=dtype), randn(2, 3, 7, 8, dtype=dtype), randn(2, 3, 7, 6, dtype=dtype)
    compare(q, k, v)
    compare(q, k, v, is_causal=True, scale=0.3)
    compare(q, k, v, attn_mask=torch.rand(2, 1, 5, 7) < 0.7)
    compare(q, k, v, attn_mask=randn(3, 5, 7, dtype=dtype))
    compare(q, k, v, attn_mask=randn(5, 7))


SHAPES = [
    ((4, 8), (5, 8), (5, 6)),
    ((3, 4, 8), (3, 5, 8), (3, 5, 6)),
    ((2, 3, 4, 8), (2, 3, 5, 8), (2, 3, 5, 6)),
    ((2, 2, 3, 4, 8), (2, 2, 3, 5, 8), (2, 2, 3, 5, 6)),
    ((2, 1, 2, 3, 4, 8), (2, 2, 2, 3, 5, 8), (1, 1, 1, 1, 5, 6)),
    ((2, 3, 4, 8), (1, 3, 5, 8), (2, 1, 5, 6)),
    ((1, 1, 4, 8), (2, 3, 5, 8), (2, 3, 5, 6)),
    ((2, 3, 4, 8), (3, 5, 8), (5, 6)),
    ((4, 8), (2, 3, 5, 8), (3, 5, 6)),
    ((0, 3, 4, 8), (0, 3, 5, 8), (0, 3, 5, 6)),
    ((2, 3, 0, 8), (2, 3, 5, 8), (2, 3, 5, 6)),
    ((2, 3, 4, 8), (2, 3, 0, 8), (2, 3, 0, 6)),
    ((2, 3, 4, 0), (2, 3, 5, 0), (2, 3, 5, 6)),
    ((2, 3, 4, 8), (2, 3, 5, 8), (2, 3, 5, 0)),
    ((2, 0, 4, 8), (2, 0, 5, 8), (2, 0, 5, 6)),
]


@suite.case(shapes=SHAPES)
def shapes_and_gradients(shapes):
    inputs = [randn(*shape, dtype=torch.float64, grad=True) for shape in shapes]
    for options in ({}, dict(is_causal=True), dict(attn_mask=torch.rand(shapes[0][-2], shapes[1][-2]) < 0.8)):
        got, wanted = both(*inputs, **options)
        assert_close(got, wanted)
        for g, w in zip(gradients([got], inputs), gradients([wanted], inputs)):
            assert_close(g, w)


@suite.case(shape=[(4, 5), (1, 5), (3, 4, 5), (2, 1, 4, 5), (1, 3, 1, 5), (2, 3, 4, 1), (1, 1)])
def mask_shapes(shape):
    inputs = [randn(2, 3, n, 8, dtype=torch.float64, grad=True) for n in (4, 5, 5)]
    keep = torch.rand(shape) < 0.8
    compare(*inputs, attn_mask=keep)
    bias = randn(*shape, dtype=torch.float64, grad=True)
    got, wanted = both(*inputs, attn_mask=bias)
    assert_close(got, wanted)
    for g, w in zip(gradients([got], [*inputs, bias]), gradients([wanted], [*inputs, bias])):
        assert_close(g, w)


@suite.case(shape=[(4, 5), (3, 4, 5), (2, 3, 4, 5), (2, 1, 3, 4, 5), (2, 2, 3, 1, 5), (1, 1, 1, 4, 5)])
def masks_of_five_dimensions(shape):
    inputs = [randn(2, 2, 3, n, 8, dtype=torch.float64) for n in (4, 5, 5)]
    compare(*inputs, attn_mask=torch.rand(shape) < 0.8)
    compare(*inputs, attn_mask=randn(*shape, dtype=torch.float64))


LAYOUTS = {
    "heads inside": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "columns first": lambda x: x.mT.contiguous().mT,
    "every other": lambda x: torch.stack([x, x], dim=-1)[..., 0],
    "expanded batch": lambda x: x[:1].expand(2, -1, -1, -1),
    "expanded row": lambda x: x[:, :, :1].expand(-1, -1, 6, -1),
    "expanded column": lambda x: x[..., :1].expand(-1, -1, -1, 8),
    "one number": lambda x: x[:1, :1, :1, :1].expand(2, 3, 6, 8),
    "offset": lambda x: torch.cat([x, x])[2:],
}


@suite.case(layout=list(LAYOUTS))
def layouts(layout):
    base = [randn(2, 3, 6, 8, dtype=torch.float64, grad=True) for _ in range(3)]
    inputs = [LAYOUTS[layout](x) for x in base]
    bias = LAYOUTS[layout](randn(2, 3, 6, 8, dtype=torch.float64))[..., :6]
    for options in ({}, dict(attn_mask=bias), dict(attn_mask=bias > 0, scale=0.2)):
        got, wanted = both(*inputs, **options)
        assert_close(got, wanted)
        for g, w in zip(gradients([got], base), gradients([wanted], base)):
            assert_close(g, w)
        # A gradient of one repeated number, as sum() gives it.
        for g, w in zip(*(torch.autograd.grad(x.sum(), base, retain_graph=True) for x in (got, wanted))):
            assert_close(g, w)


@suite.case(heads=[(4, 2, 2), (4, 1, 1), (6, 3, 3), (4, 4, 4), (4, 2, 4), (4, 2, 1)])
def grouped_queries(heads):
    for lead in ((), (2,), (2, 3)):
        inputs = [
            randn(*lead, h, n, 8, dtype=torch.float64, grad=True) for h, n in zip(heads, (4, 5, 5))
        ]
        got, wanted = both(*inputs, enable_gqa=True, is_causal=True)
        assert_close(got, wanted)
        for g, w in zip(gradients([got], inputs), gradients([wanted], inputs)):
            assert_close(g, w)


# ---- masked rows, weights, dropout ----


@suite.case
def fully_masked_rows_give_zeros():
    q, k, v = (randn(1, 2, 3, 4, grad=True) for _ in range(3))
    keep = torch.tensor([[True, True, False], [False, False, False], [True, False, False]])
    for mask in (keep, torch.zeros(3, 3).masked_fill(~keep, -INF)):
        got, wanted = both(q, k, v, attn_mask=mask)
        assert_close(got, wanted)
        assert not got[:, :, 1].any()
        for g, w in zip(gradients([got], (q, k, v)), gradients([wanted], (q, k, v))):
            assert_close(g, w)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        q, k, v = (randn(1, 2, 3, 4, dtype=dtype) for _ in range(3))
        low = torch.full((3, 3), torch.finfo(dtype).min, dtype=dtype)
        compare(q, k, v, attn_mask=low)  # finite, so a mean
        low[0] = -INF
        compare(q, k, v, attn_mask=low)


@suite.case
def weights():
    q, k, v = (randn(2, 3, 5, 8, dtype=torch.float64, grad=True) for _ in range(3))
    for lead, mask in itertools.product((slice(None), 0), (None, torch.rand(5, 5) < 0.8)):
        output, weights = ht.scaled_dot_product_attention(q[lead], k[lead], v[lead], mask, return_weights=True)
        scores = q[lead] @ k[lead].mT / 8**0.5
        wanted = (scores if mask is None else scores.masked_fill(~mask, -INF)).softmax(-1).nan_to_num()
        assert_close(weights, wanted)
        assert_close(output, wanted @ v[lead])
        for g, w in zip(gradients([output, weights], (q, k, v)), gradients([wanted @ v[lead], wanted], (q, k, v))):
            assert_close(g, w)


@suite.case
def dropout():
    q, k = randn(2, 2, 64, 8, grad=True), randn(2, 2, 64, 8, grad=True)
    v = torch.eye(64).expand(2, 2, 64, 64)
    torch.manual_seed(5)
    first = ht.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
    torch.manual_seed(5)
    again = ht.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
    other = ht.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
    assert torch.equal(first, again) and not torch.equal(first, other)
    clean = ht.scaled_dot_product_attention(q, k, v)
    kept = first != 0
    assert abs(kept.double().mean().item() - 0.75) < 0.03
    assert_close(first[kept], (clean / 0.75)[kept])
    for g, w in zip(gradients([first], (q, k)), gradients([clean * kept / 0.75], (q, k))):
        assert_close(g, w)
    assert not ht.scaled_dot_product_attention(q, k, v, dropout_p=1.0).any()
    assert not gradients([ht.scaled_dot_product_attention(q, k, v, dropout_p=1.0)], [q])[0].any()


@suite.case
def no_graph_where_none_is_needed():
    q, k, v = (randn(1, 2, 3, 4, grad=True) for _ in range(3))
    with torch.no_grad():
        assert not ht.scaled_dot_product_attention(q, k, v).requires_grad
    with torch.inference_mode():
        assert not ht.scaled_dot_product_attention(q, k, v).requires_grad
    assert ht.scaled_dot_product_attention(q, k, v).requires_grad
    assert not ht.scaled_dot_product_attention(q.detach(), k.detach(), v.detach()).requires_grad
    assert ht.scaled_dot_product_attention(q.detach(), k.detach(), v).requires_grad


@suite.case(options=[{}, dict(is_causal=True), dict(enable_gqa=True)])
def gradcheck(options):
    q, k, v = (randn(2, 2, n, 3, dtype=torch.float64, grad=True) for n in (3, 4, 4))
    torch.autograd.gradcheck(lambda *x: ht.scaled_dot_product_attention(*x, **options), (q, k, v))
    bias = randn(2, 1, 4, dtype=torch.float64, grad=True)
    torch.autograd.gradcheck(lambda *x: ht.scaled_dot_product_attention(*x[:3], attn_mask=x[3]), (q, k, v, bias))


@suite.case
def all_results_of_attention_have_gradients():
    q, k, v = (randn(2, 4, n, 3, dtype=torch.float64, grad=True) for n in (3, 5, 5))
    bias, sinks = randn(4, 1, 5, dtype=torch.float64, grad=True), randn(4, dtype=torch.float64, grad=True)

    def attend(q, k, v, bias, sinks):
        return ht.attention(
            q, k, v, bias=bias, sinks=sinks, causal="bottom_right", softcap=5.0, return_weights="mean",
            return_logsumexp=True, dropout=0.3, seed=7, window=(3, None), key_lengths=[5, 4],
        )

    torch.autograd.gradcheck(attend, (q, k, v, bias, sinks))


@suite.case
def second_gradients_are_refused():
    q, k, v = (randn(1, 2, 3, 4, grad=True) for _ in range(3))
    for run in (ht.scaled_dot_product_attention, torch.compile(ht.scaled_dot_product_attention, backend="eager")):
        gradient, = torch.autograd.grad(run(q, k, v).sum(), q, create_graph=True)
        with raises(NotImplementedError, "second gradient"):
            gradient.sum().backward()


@suite.case
def changed_inputs_are_noticed():
    q, k, v = (randn(1, 2, 3, 4, grad=True) for _ in range(3))
    mask = torch.ones(3, 3, dtype=torch.bool)
    output = ht.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    mask[0, 0] = False
    with raises(RuntimeError, "modified by an inplace operation"):
        output.sum().backward()


@suite.case
def accumulates_where_one_tensor_is_all_three():
    x = randn(2, 2, 5, 4, dtype=torch.float64, grad=True)
    got, wanted = both(x, x, x)
    assert_close(gradients([got], [x])[0], gradients([wanted], [x])[0])


# ---- errors ----

Q = torch.randn(2, 3, 4, 8)
NARROW, HALVES = torch.randn(2, 3, 4, 7), torch.randn(2, 2, 4, 8)
ERRORS = {
    "one dimension": (Q[0, 0, 0], Q, Q),
    "key of one dimension": (Q, Q[0, 0, 0], Q),
    "key in double": (Q, Q.double(), Q),
    "value in half": (Q, Q, Q.half()),
    "key elsewhere": (Q, Q.to("meta"), Q),
    "integers": (Q.int(), Q.int(), Q.int()),
    "booleans": (Q.bool(), Q.bool(), Q.bool()),
    "complex": (Q.to(torch.complex64),) * 3,
    "sparse": (Q.to_sparse(), Q, Q),
    "no tensor": ([1], Q, Q),
    "None": (None, Q, Q),
    "head_dim": (Q, NARROW, Q),
    "batch": (Q, torch.randn(3, 3, 4, 8), torch.randn(3, 3, 4, 8)),
    "heads": (Q, HALVES, HALVES),
    "groups": (Q, HALVES, HALVES, dict(enable_gqa=True)),
    "groups of two dimensions": (Q[0, 0], Q[0, 0], Q[0, 0], dict(enable_gqa=True)),
    "mask of integers": (Q, Q, Q, dict(attn_mask=torch.ones(4, 4, dtype=torch.int))),
    "mask of bytes": (Q, Q, Q, dict(attn_mask=torch.ones(4, 4, dtype=torch.uint8))),
    "mask in double": (Q, Q, Q, dict(attn_mask=torch.ones(4, 4, dtype=torch.double))),
    "mask of one dimension": (Q, Q, Q, dict(attn_mask=torch.ones(4, dtype=torch.bool))),
    "mask too long": (Q, Q, Q, dict(attn_mask=torch.ones(5, 4, dtype=torch.bool))),
    "mask of five dimensions": (Q, Q, Q, dict(attn_mask=torch.ones(1, 1, 1, 4, 4, dtype=torch.bool))),
    "mask with a batch": (Q[:1], Q[:1], Q[:1], dict(attn_mask=torch.ones(2, 1, 4, 4, dtype=torch.bool))),
    "mask with heads": (Q[0, 0], Q[0, 0], Q[0, 0], dict(attn_mask=torch.ones(3, 4, 4))),
    "a list as mask": (Q, Q, Q, dict(attn_mask=[[1]])),
    "dropout above 1": (Q, Q, Q, dict(dropout_p=1.5)),
    "dropout below 0": (Q, Q, Q, dict(dropout_p=-0.5)),
    "a word as scale": (Q, Q, Q, dict(scale="a")),
    "a number as is_causal": (Q, Q, Q, dict(is_causal=1)),
    "an unknown name": (Q, Q, Q, dict(causal=True)),
}


@suite.case(computes=False, name=list(ERRORS))
def errors(name):
    *tensors, options = ERRORS[name] if isinstance(ERRORS[name][-1], dict) else (*ERRORS[name], {})
    assert_same_error(
        lambda: ht.scaled_dot_product_attention(*tensors, **options),
        lambda: functional.scaled_dot_product_attention(*tensors, **options),
    )


@suite.case(computes=False)
def scale_goes_by_name():
    wrong = (Q, Q, Q, None, 0.0, False, 0.5)
    assert_same_error(
        lambda: ht.scaled_dot_product_attention(*wrong), lambda: functional.scaled_dot_product_attention(*wrong), False
    )


@suite.case(rank=[3, 4])
def mask_beside_is_causal(rank):
    q, k, v = (randn(*(2, 3, 4, 8)[4 - rank :]) for _ in range(3))
    mask = torch.rand(4, 4) < 0.8
    if rank == 4:
        compare(q, k, v, attn_mask=mask, is_causal=True)
        return
    compare(q, k, v, attn_mask=mask)
    assert_same_error(
        lambda: ht.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=True),
        lambda: functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=True), False,
    )


@suite.case(computes=False)
def nested_tensors_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([torch.randn(2, 3, 4), torch.randn(2, 5, 4)])
    with raises(NotImplementedError, "nested"):
        ht.scaled_dot_product_attention(nested, nested, nested)


# ---- autocast, subclasses, modes ----


@suite.case(dtype=DTYPES)
def autocast(dtype):
    q, k, v = (randn(2, 2, 4, 8, dtype=dtype, grad=True) for _ in range(3))
    bias = randn(4, 4, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        for options in ({}, dict(attn_mask=bias), dict(is_causal=True)):
            got, wanted = both(q, k, v, **options)
            assert_close(got, wanted)
            for g, w in zip(gradients([got], (q, k, v)), gradients([wanted], (q, k, v))):
                torch.testing.assert_close(g, w, rtol=5e-2, atol=5e-2)


@suite.case
def subclasses_and_modes():
    class Named(torch.Tensor):
        pass

    q, k, v = (randn(1, 2, 3, 4) for _ in range(3))
    wanted = functional.scaled_dot_product_attention(q, k, v)
    got = ht.scaled_dot_product_attention(q.as_subclass(Named), k, v)
    assert type(got) is Named
    assert_close(got.as_subclass(torch.Tensor), wanted)
    parameter = torch.nn.Parameter(q)
    assert_close(ht.scaled_dot_product_attention(parameter, k, v), wanted)

    from torch.utils._python_dispatch import TorchDispatchMode

    class Counts(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.seen += "headway" in str(function)
            return function(*args, **(kwargs or {}))

    with Counts() as mode:
        assert_close(ht.scaled_dot_product_attention(q, k, v), wanted)
    assert mode.seen == 1
    with torch.device("cpu"):
        assert_close(ht.scaled_dot_product_attention(q, k, v), wanted)


@suite.case(computes=False)
def fake_and_meta_tensors():
    from torch._subclasses import FakeTensorMode

    q, k, v = (torch.empty(2, 4, n, 8, device="meta") for n in (3, 5, 5))
    assert ht.scaled_dot_product_attention(q, k, v).shape == (2, 4, 3, 8)
    with FakeTensorMode():
        q, k, v = (torch.empty(2, 4, n, 8) for n in (3, 5, 5))
        output, weights = ht.scaled_dot_product_attention(q, k, v, is_causal=True, return_weights=True)
        assert output.shape == (2, 4, 3, 8) and weights.shape == (2, 4, 3, 5)


@suite.case
def without_the_exchange_api():
    q, k, v = (randn(1, 2, 3, 4) for _ in range(3))
    bias = randn(3, 3)
    wanted = _kernel.forward(q, k, v, bias=bias, return_weights=True)
    got = _kernel.dlpack_forward(q, k, v, bias=bias, return_weights=True)
    for g, w in zip(got, wanted):
        assert torch.equal(g, w)
    arguments = (q, k, v, *wanted[:2], torch.ones_like(q))
    for g, w in zip(_kernel.dlpack_backward(*arguments, bias=bias), _kernel.backward(*arguments, bias=bias)):
        assert (g is None and w is None) or torch.equal(g, w)


@suite.case
def activation_checkpoints():
    from torch.utils.checkpoint import checkpoint

    q, k, v = (randn(2, 2, 4, 8, dtype=torch.float64, grad=True) for _ in range(3))
    got = checkpoint(ht.scaled_dot_product_attention, q, k, v, None, 0.5, use_reentrant=False)
    for g in gradients([got], (q, k, v)):
        assert g.isfinite().all()


@suite.case
def many_threads_of_python():
    import threading

    x = randn(2, 4, 64, 32)
    wanted = ht.scaled_dot_product_attention(x, x, x)
    wrong = []

    def work():
        for _ in range(20):
            if not torch.equal(ht.scaled_dot_product_attention(x, x, x), wanted):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


if __name__ == "__main__":
    sys.exit(suite.run())
