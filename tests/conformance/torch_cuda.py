"""headway and headway.torch on tensors of PyTorch's on a GPU, beside PyTorch: dtypes, masks, gradients, streams."""

import sys

import torch
from torch.nn import functional
from torch_suite import Suite, assert_close, gradients

import headway
import headway.torch as ht

suite = Suite("torch on CUDA")
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def randn(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape, dtype=dtype, device="cuda").requires_grad_(grad)


def in_float64(function, tensors, *arguments, **options):
    """What torch computes from the same numbers in float64, and the gradients, in the tensors' dtype."""
    dtype = tensors[0].dtype
    doubles = [t.detach().double().requires_grad_(True) for t in tensors]
    output = function(*doubles, *arguments, **options)
    return output.to(dtype), [g.to(dtype) for g in gradients([output], doubles)]


def compare(inputs, **options):
    got = ht.scaled_dot_product_attention(*inputs, **options)
    assert got.is_cuda and got.dtype == inputs[0].dtype
    got_gradients = gradients([got], inputs)
    wanted, wanted_gradients = in_float64(functional.scaled_dot_product_attention, inputs, **options)
    assert_close(got, wanted)
    for one, other in zip(got_gradients, wanted_gradients):
        assert_close(one, other)


@suite.case(dtype=DTYPES)
def output_and_gradients(dtype):
    for dim in (16, 40, 64, 128):
        inputs = [randn(2, 4, length, dim, dtype=dtype, grad=True) for length in (130, 77, 77)]
        keep = torch.rand(2, 1, 130, 77, device="cuda") < 0.7
        keep[..., 0] = True
        for options in ({}, dict(is_causal=True), dict(attn_mask=keep)):
            compare(inputs, **options)
        bias = randn(130, 77, dtype=dtype)
        got = ht.scaled_dot_product_attention(*inputs, attn_mask=bias)
        assert_close(got, in_float64(functional.scaled_dot_product_attention, inputs, attn_mask=bias.double())[0])


@suite.case
def grouped_heads():
    query, key, value = randn(2, 8, 33, 64, grad=True), randn(2, 2, 65, 64, grad=True), randn(2, 2, 65, 64, grad=True)
    compare([query, key, value], enable_gqa=True)


@suite.case
def weights_come_from_the_same_call():
    query, key, value = (randn(2, 4, 50, 64, dtype=torch.bfloat16) for _ in range(3))
    output, weights = ht.scaled_dot_product_attention(query, key, value, return_weights=True)
    wanted = torch.softmax(query.double() @ key.double().transpose(-1, -2) / 8, -1)
    assert_close(weights.double(), wanted, rtol=3e-2, atol=3e-2)
    assert_close(output, ht.scaled_dot_product_attention(query, key, value))


@suite.case
def follows_the_current_stream():
    # What is read is written by the same side stream just before, behind work that takes a while.
    slow = randn(4096, 4096)
    stream = torch.cuda.Stream()
    for _ in range(5):
        target = torch.zeros(1, 4, 512, 64, device="cuda")
        values = randn(1, 4, 512, 64)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for _ in range(10):
                slow @ slow
            target.copy_(values)
            got = ht.scaled_dot_product_attention(target, target, target)
            doubled = got * 2  # and torch goes on with the result on that stream
        stream.synchronize()
        assert_close(doubled, 2 * functional.scaled_dot_product_attention(values, values, values))


@suite.case
def arrays_without_gradients():
    query, key, value = (randn(2, 3, 20, 16) for _ in range(3))
    got, weights, logsumexp = headway.attention(
        query, key, value, key_lengths=[20, 7], causal="top_left", return_weights=True, return_logsumexp=True
    )
    assert got.is_cuda and weights.is_cuda and logsumexp.is_cuda
    on_cpu = headway.attention(
        query.cpu(), key.cpu(), value.cpu(), key_lengths=[20, 7], causal="top_left", return_weights=True,
        return_logsumexp=True,
    )
    for one, other in zip((got, weights, logsumexp), on_cpu):
        assert_close(one.cpu(), other)
    d = headway.attention_backward(torch.ones_like(got), query, key, value, got, logsumexp, key_lengths=[20, 7],
                                   causal="top_left")
    d_cpu = headway.attention_backward(torch.ones_like(on_cpu[0]), query.cpu(), key.cpu(), value.cpu(), on_cpu[0],
                                       on_cpu[2], key_lengths=[20, 7], causal="top_left")
    for one, other in zip(d[:3], d_cpu[:3]):
        assert one.is_cuda
        assert_close(one.cpu(), other)


@suite.case
def dropout_is_that_of_the_cpu():
    query, key, value = (randn(2, 3, 70, 64) for _ in range(3))
    got = headway.attention(query, key, value, dropout=0.3, seed=5)
    assert_close(got.cpu(), headway.attention(query.cpu(), key.cpu(), value.cpu(), dropout=0.3, seed=5))


@suite.case(dtype=[torch.float32, torch.bfloat16])
def layer(dtype):
    torch_layer = torch.nn.MultiheadAttention(64, 4, batch_first=True, device="cuda", dtype=dtype)
    own = ht.MultiheadAttention(64, 4, batch_first=True, device="cuda", dtype=dtype)
    own.load_state_dict(torch_layer.state_dict())
    x, padding = randn(3, 21, 64, dtype=dtype), torch.zeros(3, 21, dtype=torch.bool, device="cuda")
    padding[1, 15:] = True
    for options in (dict(need_weights=False), dict(), dict(average_attn_weights=False)):
        got, got_weights = own(x, x, x, key_padding_mask=padding, **options)
        wanted, wanted_weights = torch_layer(x, x, x, key_padding_mask=padding, **options)
        assert_close(got, wanted)
        if wanted_weights is not None:
            assert_close(got_weights, wanted_weights)
    got.float().square().sum().backward()
    wanted.float().square().sum().backward()
    for one, other in zip(own.parameters(), torch_layer.parameters()):
        scale = other.grad.abs().max().item()
        assert_close(one.grad / scale, other.grad / scale)


@suite.case
def compiled():
    query, key, value = (randn(2, 4, 64, 64, grad=True) for _ in range(3))

    def function(q, k, v):
        return ht.scaled_dot_product_attention(q * 2, k, v, is_causal=True).sin()

    got = torch.compile(function, backend="aot_eager")(query, key, value)
    wanted = function(query, key, value)
    assert_close(got, wanted)
    for one, other in zip(gradients([got], [query, key, value]), gradients([wanted], [query, key, value])):
        assert_close(one, other)


@suite.case
def autocast():
    query, key, value = (randn(2, 4, 64, 64) for _ in range(3))
    with torch.autocast("cuda", dtype=torch.bfloat16):
        got = ht.scaled_dot_product_attention(query, key, value)
        wanted = functional.scaled_dot_product_attention(query, key, value)
    assert got.dtype == wanted.dtype == torch.bfloat16
    assert_close(got, wanted)


@suite.case(computes=False)
def devices_do_not_mix():
    query = randn(1, 2, 3, 8)
    for call in (lambda: headway.attention(query, query.cpu(), query),
                 lambda: ht.attention(query, query, query.cpu())):
        try:
            call()
        except (ValueError, RuntimeError) as error:
            assert "cpu" in str(error).lower() and "cuda" in str(error).lower(), error
        else:
            raise AssertionError("nothing was raised")


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print(f"{suite.name}: 0 passed, 0 failed, {len(suite.cases)} skipped: torch finds no GPU")
        sys.exit(0)
    sys.exit(suite.run())
