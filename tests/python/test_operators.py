"""Arithmetic, comparisons, choices and extremes, by their signs and by name."""

import headway
import numpy as np
import pytest
from headway import ops

random = np.random.default_rng(0)
A = random.standard_normal((3, 4)).astype(np.float32)
B = np.abs(random.standard_normal(4)).astype(np.float32) + 0.5


def test_signs():
    a, b = headway.tensor(A), headway.tensor(B)
    cases = [
        (a + b, A + B),
        (a + 1, A + 1),
        (2.5 + a, 2.5 + A),
        (a - b, A - B),
        (a - 1, A - 1),
        (1 - a, 1 - A),
        (a * 2, A * 2),
        (a / b, A / B),
        (a / 3, A / 3),
        (2 / b, 2 / B),
        (-a, -A),
        (b**2, B**2),
        (a == a, A == A),
        (a != b, A != B),
        (a < b, A < B),
        (a <= 0.5, A <= 0.5),
        (0.5 < a, 0.5 < A),
        (a >= b, A >= B),
        (~(a > 0) | (a > 1), ~(A > 0) | (A > 1)),
        ((a > 0) & (a < 1), (A > 0) & (A < 1)),
        (a[1], A[1]),
        (a[-1][0], A[-1][0]),
    ]
    for ours, expected in cases:
        assert ours.numpy().dtype == expected.dtype
        np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (ops.exp, np.exp),
        (ops.log, lambda x: np.log(x)),
        (ops.sqrt, np.sqrt),
        (ops.neg, np.negative),
        (ops.max, np.max),
        (ops.min, np.min),
        (ops.argmax, np.argmax),
        (ops.argmin, np.argmin),
        (lambda x: ops.max(x, 1), lambda x: x.max(1)),
        (lambda x: ops.min(x, 0, keep_dims=True), lambda x: x.min(0, keepdims=True)),
        (lambda x: ops.argmax(x, -1), lambda x: x.argmax(-1)),
        (lambda x: ops.pow(x, 1.5), lambda x: x**1.5),
        (lambda x: ops.div(x, B), lambda x: x / B),
        (lambda x: ops.maximum(x, B), lambda x: np.maximum(x, B)),
        (lambda x: ops.minimum(x, B), lambda x: np.minimum(x, B)),
        (lambda x: ops.sub(1, x), lambda x: 1 - x),
        (lambda x: ops.lt(1, x), lambda x: 1 < x),
        (lambda x: ops.where(x > 1, x, 0), lambda x: np.where(x > 1, x, np.float32(0))),
        (lambda x: ops.where(x > 1, 2.5, x), lambda x: np.where(x > 1, np.float32(2.5), x)),
        (lambda x: ops.stack([x, x], 1), lambda x: np.stack([x, x], 1)),
    ],
)
def test_functions_of_numpy_arrays(ours, theirs):
    x = np.abs(A) + 0.1
    result, expected = ours(x), theirs(x)
    assert isinstance(result, np.ndarray) and result.dtype == expected.dtype and result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_gradients():
    x = headway.tensor(np.array([1.0, 4.0]))
    x.requires_grad = True
    ops.sum(ops.where(x > 2, ops.sqrt(x), 3 / x) + ops.exp(x) / 2).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.array([-3, 0.25]) + np.exp([1.0, 4.0]) / 2)


def test_tensors_are_keys_and_have_no_common_truth():
    a, b = headway.tensor(A), headway.tensor(A)
    assert {a: 1, b: 2}[a] == 1
    assert bool(headway.tensor(np.array([2.0]))) and not bool(headway.tensor(np.array(0)))
    with pytest.raises(ValueError, match="expected one element"):
        bool(a == b)


def test_indices():
    a = headway.tensor(A)
    assert [row.shape for row in a] == [(4,)] * 3
    with pytest.raises(IndexError, match="3 is out of range for size 3"):
        a[3]
    with pytest.raises(TypeError):
        a["x"]


def test_values_are_printed():
    assert str(headway.tensor(np.array([[1, 2], [3, 4]]))) == "[[1, 2],\n [3, 4]] int64[2, 2]"
    assert "..." in str(headway.Tensor.zeros((2000,)))


def test_random_values():
    assert headway.Tensor.uniform((100,), 2, 3, seed=1).numpy().min() >= 2
    with pytest.raises(ValueError):
        headway.Tensor.randn((2,), 1, device="tpu")


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="div: a is float32"):
        headway.tensor(A) / headway.tensor(np.zeros(5, np.float32))
    with pytest.raises(TypeError):
        headway.tensor(A) + "1"
