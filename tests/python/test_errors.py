"""Bad arguments raise ValueError or TypeError with a message that names them."""

import headway
import numpy as np
import pytest

GOOD = np.ones((1, 2, 3, 4), np.float32)


@pytest.mark.parametrize(
    "changed, error, message",
    [
        (dict(query=[[1.0]]), TypeError, "attention: query is of type list, expected an array"),
        (dict(key=None), TypeError, "attention: key is of type NoneType"),
        (dict(query=GOOD[0]), ValueError, r"attention: query has shape \[2, 3, 4\], expected \[batch, heads"),
        (dict(key=GOOD.astype(np.float64)), ValueError, "attention: key has dtype float64, expected the query's"),
        (dict(value=GOOD.astype(np.uint8)), TypeError, "attention: value has dtype uint8, expected float32"),
        (dict(value=GOOD.astype(np.int8)), ValueError, "attention: value has dtype int8, expected float32"),
        (dict(value=GOOD.astype(np.int32)), ValueError, "attention: value has dtype int32"),
        (dict(query=GOOD.astype(complex)), TypeError, "attention: query has dtype complex128"),
        (dict(query=np.array([["a"]])), TypeError, "attention: query has dtype <U1"),
        (dict(key=np.ones((2, 2, 3, 4), np.float32)), ValueError, "attention: key has batch 2, expected the query's 1"),
        (dict(query=np.ones((1,) * 9, np.float32)), ValueError, "more than 8 dimensions"),
        (dict(keep_mask=np.ones((3, 4), bool)), ValueError, r"attention: mask has shape \[3, 4\]"),
        (dict(keep_mask=np.ones((1, 3, 3), bool)), ValueError, "four dimensions"),
        (dict(bias=np.ones((1, 3, 3), np.float32)), ValueError, "four dimensions"),
        (dict(cu_query_lengths=3, cu_key_lengths=3), TypeError, "cu_query_lengths is of type int, expected a sequence"),
        (dict(keep_mask=np.ones((3, 3), np.float32)), ValueError, "attention: mask has dtype float32"),
        (dict(keep_mask=[[True]]), TypeError, "attention: keep_mask is of type list"),
        (
            dict(keep_mask=np.ones((3, 3), bool), drop_mask=np.ones((3, 3), bool)),
            ValueError,
            "mask of the other polarity",
        ),
        (dict(bias=np.ones((3, 3), bool)), ValueError, "attention: bias has dtype bool"),
        (dict(causal=True), TypeError, 'attention: causal is of type bool, expected "top_left", "bottom_right"'),
        (dict(causal="left"), ValueError, 'attention: causal is "left", expected "top_left", "bottom_right"'),
        (dict(scale="big"), TypeError, "attention: scale is of type str, expected a number"),
        (dict(scale=float("nan")), ValueError, "attention: scale is nan"),
        (dict(window=3), TypeError, r"attention: window is of type int, expected a pair \(left, right\)"),
        (dict(window=(-1, 0)), ValueError, "attention: window.left is -1"),
        (dict(window=(1.5, 0)), TypeError, r"attention: window\[0\] is of type float, expected an integer"),
        (dict(key_lengths=[1, 2]), ValueError, "attention: key_lengths has shape"),
        (dict(key_lengths=["1"]), TypeError, r"attention: key_lengths\[0\] is of type str"),
        (dict(key_lengths=2**70), ValueError, "attention: key_lengths does not fit into 64 bits"),
        (dict(key_lengths=5), ValueError, r"attention: key_lengths\[0\] is 5, expected 0 to 3"),
        (dict(cu_query_lengths=[0, 3]), ValueError, "go together"),
        (dict(softcap=0), ValueError, "attention: softcap is 0"),
        (dict(sinks=np.ones(3, np.float32)), ValueError, "attention: sinks has shape"),
        (dict(dropout=1.0, seed=1), ValueError, "attention: dropout is 1, expected"),
        (dict(dropout=0.5, seed=-1), ValueError, "attention: seed is out of range"),
        (dict(return_weights="all"), ValueError, 'attention: return_weights is "all", expected "mean"'),
        (dict(return_weights=1), TypeError, "attention: return_weights is of type int"),
        (dict(weights_of="logits"), ValueError, 'attention: weights_of is "logits"'),
    ],
)
def test_attention(changed, error, message):
    with pytest.raises(error, match=message):
        headway.attention(**{**dict(query=GOOD, key=GOOD, value=GOOD), **changed})


def test_unknown_option():
    with pytest.raises(TypeError, match="is_causal"):
        headway.attention(GOOD, GOOD, GOOD, is_causal=True)
    tensor = headway.Tensor.from_array(GOOD)
    with pytest.raises(TypeError, match="attention: there is no option is_causal"):
        headway._core.attention(tensor, tensor, tensor, is_causal=True)


def test_attention_backward():
    output, logsumexp = headway.attention(GOOD, GOOD, GOOD, return_logsumexp=True)
    with pytest.raises(ValueError, match="attention_backward: forward.logsumexp has shape"):
        headway.attention_backward(output, GOOD, GOOD, GOOD, output, logsumexp[:, :1])
    with pytest.raises(ValueError, match="attention_backward: d_output has dtype float64"):
        headway.attention_backward(output.astype(np.float64), GOOD, GOOD, GOOD, output, logsumexp)
    with pytest.raises(ValueError, match="seed is not given"):
        headway.attention_backward(output, GOOD, GOOD, GOOD, output, logsumexp, dropout=0.5)
    with pytest.raises(TypeError, match="attention_backward: output is of type list"):
        headway.attention_backward(output, GOOD, GOOD, GOOD, [output], logsumexp)


def test_settings():
    for count, error in ((0, ValueError), (-3, ValueError), (2**40, ValueError), (1.5, TypeError), ("2", TypeError)):
        with pytest.raises(error, match="set_num_threads"):
            headway.set_num_threads(count)
    with pytest.raises(ValueError, match="set_random_seed: seed is out of range"):
        headway.set_random_seed(-1)


def test_tensors():
    with pytest.raises(ValueError, match='zeros: dtype is "uint8"'):
        headway.Tensor.zeros([2], "uint8")
    with pytest.raises(ValueError, match="negative"):
        headway.Tensor.zeros([-2])
    with pytest.raises(ValueError):
        headway.Tensor.zeros([2, 3]).reshape([5])
    with pytest.raises(TypeError, match="no dimensions"):
        len(headway.Tensor.zeros([]))
