"""torch tensors go in and out of headway.attention; skipped where torch is not installed."""

import headway
import numpy
import pytest
from headway._convert import from_core, to_core

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "bool"])
def test_memory_is_shared(name):
    array = torch.arange(24).reshape(2, 3, 4).to(getattr(torch, name)).transpose(0, 1)
    tensor, kind = to_core(array)
    assert kind == "torch" and tensor.dtype == name and tensor.data_ptr == array.data_ptr()
    assert tensor.shape == tuple(array.shape) and tensor.strides == array.stride()
    back = from_core(tensor, kind)
    assert back.dtype == array.dtype and back.data_ptr() == array.data_ptr() and torch.equal(back, array)


@pytest.mark.parametrize("dtype, bound", [(torch.float64, 1e-14), (torch.float32, 2e-6), (torch.bfloat16, 2e-2)])
def test_attention(dtype, bound):
    query, key, value = (torch.randn(2, 5, 4, 8, dtype=dtype).transpose(1, 2) for _ in range(3))
    output, weights = headway.attention(query, key, value, causal="top_left", return_weights=True)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    assert output.dtype == dtype and weights.dtype == dtype and isinstance(weights, torch.Tensor)
    torch.testing.assert_close(output, expected, rtol=0, atol=bound)


def test_gradients():
    query, key, value = (torch.randn(2, 4, 5, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    d_output = torch.randn_like(expected)
    expected.backward(d_output)
    with torch.no_grad():
        output, logsumexp = headway.attention(query, key, value, return_logsumexp=True)
        gradients = headway.attention_backward(d_output, query, key, value, output, logsumexp)
    for gradient, leaf in zip(gradients, (query, key, value)):
        torch.testing.assert_close(gradient, leaf.grad, rtol=0, atol=1e-13)


def test_kinds_may_be_mixed():
    query = torch.ones(1, 2, 3, 4)
    mask = torch.ones(3, 3, dtype=torch.bool).numpy()
    output = headway.attention(query, query.numpy(), query, keep_mask=mask, key_lengths=torch.tensor([2]))
    assert isinstance(output, torch.Tensor) and torch.equal(output, query)


def test_what_is_refused():
    query = torch.ones(1, 2, 3, 4)
    with pytest.raises(ValueError, match="attention: key requires a gradient"):
        headway.attention(query, query.clone().requires_grad_(), query)
    with pytest.raises(ValueError, match="attention: query is on device meta"):
        headway.attention(query.to("meta"), query, query)
    with pytest.raises(TypeError, match="attention: value has a dtype that Headway has not"):
        headway.attention(query, query, query.to(torch.complex64))
    with pytest.raises(TypeError, match="attention: query is of type Tensor"):
        headway.attention(query.to_sparse(), query, query)
    with pytest.raises(TypeError, match="attention: query is of type dtype"):
        headway.attention(torch.float32, query, query)


def test_empty():
    query = torch.empty(0, 2, 3, 4)
    assert headway.attention(query, query, query).shape == query.shape


def test_masks_of_numpy_are_refused():
    import headway.torch

    mask = numpy.ones((4, 4), bool)
    x = torch.randn(1, 2, 4, 8)
    for name in ("keep_mask", "drop_mask", "bias", "alibi_slopes", "sinks"):
        with pytest.raises(TypeError, match=f"attention: {name} is of type ndarray, expected a torch.Tensor"):
            headway.torch.attention(x, x, x, **{name: mask})
    with pytest.raises(TypeError, match="attn_mask"):
        headway.torch.scaled_dot_product_attention(x, x, x, attn_mask=mask)
    layer = headway.torch.MultiheadAttention(8, 2, batch_first=True)
    for name in ("attn_mask", "key_padding_mask"):
        with pytest.raises(TypeError, match=f"{name} is of type ndarray, expected a torch.Tensor"):
            layer(x[0], x[0], x[0], **{name: mask})
