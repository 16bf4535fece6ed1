"""headway.attention against attention written out in NumPy."""

import headway
import numpy as np
import pytest
import reference


def draw(seed, batch=2, heads=4, kv_heads=4, query_length=5, key_length=7, head_dim=8, value_dim=8, dtype=np.float32):
    random = np.random.default_rng(seed)
    query = random.standard_normal((batch, heads, query_length, head_dim))
    key = random.standard_normal((batch, kv_heads, key_length, head_dim))
    value = random.standard_normal((batch, kv_heads, key_length, value_dim))
    return query.astype(dtype), key.astype(dtype), value.astype(dtype)


RANDOM = np.random.default_rng(0)
OPTIONS = {
    "plain": {},
    "top_left": dict(causal="top_left"),
    "bottom_right": dict(causal="bottom_right"),
    "offset": dict(causal="top_left", query_offset=2),
    "offsets": dict(causal="top_left", query_offset=[1, 3]),
    "keep": dict(keep_mask=RANDOM.random((2, 4, 5, 7)) < 0.6),
    "drop": dict(drop_mask=RANDOM.random((5, 7)) < 0.4),
    "bias": dict(bias=RANDOM.standard_normal((1, 4, 5, 7)).astype(np.float32)),
    "bias_masks": dict(bias=np.where(RANDOM.random((5, 7)) < 0.4, -np.inf, 0).astype(np.float32)),
    "scale": dict(scale=0.3),
    "window": dict(window=(2, 1)),
    "window_left": dict(window=(1, None), causal="bottom_right"),
    "lengths": dict(key_lengths=np.array([3, 0])),
    "length": dict(key_lengths=4),
    "softcap": dict(softcap=1.5),
    "alibi": dict(alibi_slopes=np.array([0.5, 0.25, 0.125, 0.1], np.float32), causal="bottom_right"),
    "sinks": dict(sinks=np.array([0.1, -1.0, 2.0, 0.0], np.float32)),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name):
    query, key, value = draw(1)
    options = OPTIONS[name]
    output, weights, logsumexp = headway.attention(
        query, key, value, return_weights=True, return_logsumexp=True, **options
    )
    expected = reference.attention(query, key, value, **options)
    assert output.dtype == np.float32 and logsumexp.dtype == np.float32
    np.testing.assert_allclose(output, expected[0], rtol=0, atol=2e-6)
    np.testing.assert_allclose(weights, expected[1], rtol=0, atol=2e-6)
    np.testing.assert_allclose(logsumexp, expected[2], rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("dtype, bound", [(np.float64, 1e-14), (np.float32, 2e-6), (np.float16, 2e-3)])
def test_dtypes(dtype, bound):
    query, key, value = draw(2, kv_heads=2, value_dim=12, dtype=dtype)
    output = headway.attention(query, key, value)
    assert output.dtype == dtype and output.shape == (2, 4, 5, 12)
    np.testing.assert_allclose(output, reference.attention(query, key, value)[0], rtol=0, atol=bound)


def test_bfloat16():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    query, key, value = (array.astype(bfloat16) for array in draw(3))
    output = headway.attention(query, key, value)
    assert output.dtype == bfloat16
    expected = reference.attention(query, key, value)[0]
    np.testing.assert_allclose(output.astype(np.float64), expected, rtol=0, atol=2e-2)


def test_what_is_returned():
    query, key, value = draw(4)
    expected = reference.attention(query, key, value)
    assert isinstance(headway.attention(query, key, value), np.ndarray)
    output, mean = headway.attention(query, key, value, return_weights="mean")
    np.testing.assert_allclose(mean, expected[1].mean(1), atol=2e-6)
    output, logsumexp = headway.attention(query, key, value, return_logsumexp=True)
    assert logsumexp.shape == (2, 4, 5)
    _, scores = headway.attention(query, key, value, return_weights=True, weights_of="scores", causal="top_left")
    np.testing.assert_allclose(scores, query @ key.swapaxes(-1, -2) / np.sqrt(8), atol=2e-6)
    _, masked = headway.attention(query, key, value, return_weights=True, weights_of="masked", causal="top_left")
    assert np.isneginf(masked[0, 0, 0, 1:]).all() and np.isfinite(masked[0, 0, 0, 0])


def test_packed_sequences():
    query, key, value = draw(5, batch=1, query_length=9, key_length=9)
    bounds = [0, 4, 9]
    output = headway.attention(
        query, key, value, cu_query_lengths=bounds, cu_key_lengths=np.array(bounds, np.int32), causal="top_left"
    )
    for begin, end in zip(bounds, bounds[1:]):
        part = slice(begin, end)
        alone = headway.attention(query[:, :, part], key[:, :, part], value[:, :, part], causal="top_left")
        np.testing.assert_allclose(output[:, :, part], alone, atol=1e-6)


def test_dropout_follows_the_seed():
    query, key, value = draw(6)
    first = headway.attention(query, key, value, dropout=0.5, seed=11)
    assert np.array_equal(first, headway.attention(query, key, value, dropout=0.5, seed=11))
    assert not np.array_equal(first, headway.attention(query, key, value, dropout=0.5, seed=12))
    headway.set_random_seed(7)
    drawn = [headway.attention(query, key, value, dropout=0.5) for _ in range(2)]
    headway.set_random_seed(7)
    again = [headway.attention(query, key, value, dropout=0.5) for _ in range(2)]
    assert np.array_equal(drawn, again) and not np.array_equal(drawn[0], drawn[1])


def test_fully_masked_rows_are_zero():
    query, key, value = draw(7)
    value[:, :, 3:] = np.nan
    output = headway.attention(query, key, value, key_lengths=[3, 0])
    assert np.isfinite(output).all() and not output[1].any() and output[0].any()


def test_threads_do_not_change_a_bit():
    query, key, value = draw(8, query_length=130, key_length=150, head_dim=32, value_dim=32)
    before = headway.num_threads()
    try:
        results = []
        for count in (1, 2, 3):
            headway.set_num_threads(count)
            assert headway.num_threads() == count
            results.append(headway.attention(query, key, value))
    finally:
        headway.set_num_threads(before)
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])


# ---- gradients ----


def slope(function, array, direction, step=1e-5):
    return (function(array + step * direction) - function(array - step * direction)) / (2 * step)


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(causal="bottom_right"),
        dict(key_lengths=[5, 2], scale=0.7),
        dict(softcap=2.0),
        dict(dropout=0.3, seed=5),
        dict(window=(2, 2)),
    ],
    ids=str,
)
def test_gradients_are_slopes(options):
    random = np.random.default_rng(9)
    query, key, value = draw(9, kv_heads=2, dtype=np.float64)
    extra = dict(bias=random.standard_normal((1, 4, 5, 7)), sinks=random.standard_normal(4))
    d_output = random.standard_normal((2, 4, 5, 8))
    arrays = dict(query=query, key=key, value=value, **extra)

    def loss(**changed):
        return float((headway.attention(**{**arrays, **changed}, **options) * d_output).sum())

    output, logsumexp = headway.attention(**arrays, **options, return_logsumexp=True)
    gradients = headway.attention_backward(d_output, query, key, value, output, logsumexp, **extra, **options)
    for name, array in arrays.items():
        direction = random.standard_normal(array.shape)
        gradient = getattr(gradients, name)
        assert gradient.shape == array.shape
        measured = slope(lambda moved: loss(**{name: moved}), array, direction)
        assert float((gradient * direction).sum()) == pytest.approx(measured, rel=1e-6, abs=1e-7), name


def test_gradients_of_weights_and_logsumexp():
    random = np.random.default_rng(10)
    query, key, value = draw(10, dtype=np.float64)
    d_weights, d_logsumexp = random.standard_normal((2, 4, 5, 7)), random.standard_normal((2, 4, 5))

    def loss(moved):
        _, weights, logsumexp = headway.attention(moved, key, value, return_weights=True, return_logsumexp=True)
        return float((weights * d_weights).sum() + (logsumexp * d_logsumexp).sum())

    output, logsumexp = headway.attention(query, key, value, return_logsumexp=True)
    gradients = headway.attention_backward(
        None, query, key, value, output, logsumexp, d_weights=d_weights, d_logsumexp=d_logsumexp, return_weights=True
    )
    assert gradients.bias is None and gradients.sinks is None
    direction = random.standard_normal(query.shape)
    assert float((gradients.query * direction).sum()) == pytest.approx(slope(loss, query, direction), rel=1e-6)


def test_bias_gradient_can_be_left_out():
    query, key, value = draw(11)
    bias = np.zeros((5, 7), np.float32)
    output, logsumexp = headway.attention(query, key, value, bias=bias, return_logsumexp=True)
    given = (output, query, key, value, output, logsumexp)
    assert headway.attention_backward(*given, bias=bias).bias.shape == (5, 7)
    assert headway.attention_backward(*given, bias=bias, bias_gradient=False).bias is None


def test_tensors_record_gradients():
    query, key, value = (headway.tensor(array) for array in draw(12, dtype=np.float64))
    query.requires_grad = True
    output, logsumexp = headway.attention(query, key, value, return_logsumexp=True)
    assert isinstance(output, headway.Tensor) and output.requires_grad
    d_output = headway.Tensor.full(output.shape, 1.0, "float64")
    output.backward(d_output)
    plain = [tensor.detach() for tensor in (query, key, value, output, logsumexp)]
    expected = headway.attention_backward(d_output, *plain).query
    assert np.array_equal(query.grad.numpy(), expected.numpy())
    with headway.no_grad():
        assert not headway.attention(query, key, value).requires_grad
