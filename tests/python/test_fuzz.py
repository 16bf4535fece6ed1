"""Whatever comes as an argument, headway.attention gives numbers, a ValueError or a TypeError, and never crashes."""

import headway
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

SIZE = st.integers(0, 4)
DTYPE = st.sampled_from([np.float32, np.float64, np.float16, np.int32, np.int64, np.bool_, np.int8, np.complex64])
FLOATS = st.sampled_from([np.float32, np.float64, np.float16])
NUMBER = st.one_of(st.none(), st.floats(), st.integers(-5, 5), st.text(max_size=2))
INTEGER = st.integers(-3, 8)


@st.composite
def arrays(draw, shape=None, dtype=None):
    """An array of any shape, dtype and strides."""
    shape = draw(st.lists(SIZE, max_size=5)) if shape is None else shape
    dtype = draw(DTYPE if dtype is None else dtype)
    values = np.random.default_rng(draw(st.integers(0, 9))).standard_normal([2 * size for size in shape])
    array = values.astype(dtype)
    step = draw(st.sampled_from([1, 2, -1]))
    array = np.asarray(array)[(..., *(slice(None, None, step) for _ in shape))]
    array = array[(..., *(slice(0, size) for size in shape))]
    if draw(st.booleans()):
        array.flags.writeable = False
    return array


@st.composite
def inputs(draw):
    """Query, key and value that mostly fit together."""
    batch, kv_heads, groups, queries, keys, value_dim = (draw(st.integers(0, 3)) for _ in range(6))
    dim = draw(st.integers(0, 9))
    dtype = st.just(draw(FLOATS))
    query = draw(arrays((batch, kv_heads * groups, queries, dim), dtype))
    key = draw(arrays((batch, kv_heads, keys, dim), dtype))
    value = draw(arrays((batch, kv_heads, keys, value_dim), dtype))
    given_arrays = [query, key, value]
    if draw(st.integers(0, 4)) == 0:
        given_arrays[draw(st.integers(0, 2))] = draw(st.one_of(arrays(), st.none(), st.lists(st.floats(), max_size=2)))
    return given_arrays


PER_ENTRY = st.one_of(INTEGER, st.lists(INTEGER, max_size=4), arrays(dtype=st.sampled_from([np.int32, np.int64])))
# Sizes of 1 fit whatever the inputs are.
ONES = st.integers(0, 4).map(lambda rank: (1,) * rank)
MASK = st.one_of(ONES.flatmap(lambda shape: arrays(shape, st.just(np.bool_))), arrays())
BIAS = st.one_of(ONES.flatmap(lambda shape: arrays(shape, FLOATS)), arrays())
CHOICES = dict(
    causal=st.sampled_from([None, "top_left", "bottom_right", "left", True]),
    query_offset=PER_ENTRY,
    keep_mask=MASK,
    drop_mask=MASK,
    bias=BIAS,
    scale=NUMBER,
    window=st.one_of(st.none(), st.tuples(st.one_of(st.none(), INTEGER), st.one_of(st.none(), INTEGER)), INTEGER),
    key_lengths=PER_ENTRY,
    cu_query_lengths=PER_ENTRY,
    cu_key_lengths=PER_ENTRY,
    softcap=NUMBER,
    alibi_slopes=BIAS,
    sinks=BIAS,
    dropout=st.one_of(st.floats(), st.just(0.5)),
    seed=st.one_of(st.none(), st.integers()),
    return_weights=st.sampled_from([False, True, "mean", "none", 2]),
    weights_of=st.sampled_from(["softmax", "scores", "softcapped", "masked", ""]),
    return_logsumexp=st.booleans(),
)
# A few at a time: each wrong one ends the call, and then the others say nothing.
OPTIONS = st.lists(st.sampled_from(sorted(CHOICES)), max_size=4, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: CHOICES[name] for name in names})
)


@settings(max_examples=600, deadline=None, derandomize=True)
@given(inputs(), OPTIONS)
def test_attention(given_arrays, options):
    try:
        result = headway.attention(*given_arrays, **options)
    except (ValueError, TypeError) as error:
        assert str(error)
        return
    output = result[0] if isinstance(result, tuple) else result
    query, _, value = given_arrays
    assert output.shape == query.shape[:3] + value.shape[3:] and output.dtype == query.dtype
