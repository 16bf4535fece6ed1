"""attention() and attention_backward() on arrays of any library."""

from typing import NamedTuple

from headway import _core
from headway._convert import from_core, to_core

_ARRAYS = ("keep_mask", "drop_mask", "bias", "alibi_slopes", "sinks")
_PER_ENTRY = ("query_offset", "key_lengths", "cu_query_lengths", "cu_key_lengths")


def _core_options(function, options):
    """The options that were given, arrays among them as tensors."""
    given = {name: value for name, value in options.items() if value is not None}
    for name in _ARRAYS:
        if name in given:
            given[name] = to_core(given[name], f"{function}: {name}")[0]
    for name in _PER_ENTRY:
        if hasattr(given.get(name), "__dlpack__") and given[name].ndim > 0:
            given[name] = to_core(given[name], f"{function}: {name}")[0]
    return given


def attention(
    query,
    key,
    value,
    *,
    causal=None,
    query_offset=None,
    keep_mask=None,
    drop_mask=None,
    bias=None,
    scale=None,
    window=None,
    key_lengths=None,
    cu_query_lengths=None,
    cu_key_lengths=None,
    softcap=None,
    alibi_slopes=None,
    sinks=None,
    dropout=0.0,
    seed=None,
    return_weights=False,
    weights_of="softmax",
    return_logsumexp=False,
):
    """softmax(scale * Q K^T + mask) V for many heads at once.

    Arrays are NumPy's, torch's or any that speak DLPack; what comes out is of the query's kind. A query whose keys are
    all masked gives zeros, never NaN.

    query: [batch, heads, query_length, head_dim]
    key, value: [batch, kv_heads, key_length, head_dim or value_dim]; kv_heads divides heads
    causal: "top_left" (PyTorch's) or "bottom_right" (FlashAttention's)
    query_offset: the first query's position among the keys, one integer or one per batch entry
    keep_mask, drop_mask: boolean, True may or must not be looked at; [query_length, key_length], or four dimensions
        that broadcast to [batch, heads, query_length, key_length]. One of them at most
    bias: added to the scores; shaped like the mask; -inf is masked
    scale: default 1 / sqrt(head_dim)
    window: (left, right), how far a query sees from its own position; None means no limit
    key_lengths: keys at and past this count are padding; one integer or one per batch entry
    cu_query_lengths, cu_key_lengths: where sequences begin in a packed batch of 1, and the end: [sequences + 1]
    softcap: scores become softcap * tanh(scores / softcap), before bias and mask
    alibi_slopes: [heads] or [batch, heads], adds -slope * |query position - key position|
    sinks: [heads], one more score in each softmax, with no value behind it
    dropout: on the probabilities, in [0, 1)
    seed: of the dropout; default: the next of headway.set_random_seed()'s stream
    return_weights: True for [batch, heads, query_length, key_length], "mean" for their mean over heads
    weights_of: "softmax", "scores", "softcapped" or "masked"
    return_logsumexp: also return [batch, heads, query_length]

    Returns the output [batch, heads, query_length, value_dim], or a tuple (output, weights, logsumexp) of what was
    asked for.
    """
    if seed is None and dropout:
        seed = _core.next_random_seed()
    core_query, kind = to_core(query, "attention: query")
    output, logsumexp, weights = _core.attention(
        core_query,
        to_core(key, "attention: key")[0],
        to_core(value, "attention: value")[0],
        **_core_options(
            "attention",
            dict(
                causal=causal, query_offset=query_offset, keep_mask=keep_mask, drop_mask=drop_mask, bias=bias,
                scale=scale, window=window, key_lengths=key_lengths, cu_query_lengths=cu_query_lengths,
                cu_key_lengths=cu_key_lengths, softcap=softcap, alibi_slopes=alibi_slopes, sinks=sinks,
                dropout=dropout, seed=seed, return_weights=return_weights, weights_of=weights_of,
            ),
        ),
    )
    results = [from_core(output, kind)]
    if weights is not None:
        results.append(from_core(weights, kind))
    if return_logsumexp:
        results.append(from_core(logsumexp, kind))
    return results[0] if len(results) == 1 else tuple(results)


class AttentionGradients(NamedTuple):
    """The gradients of attention() with respect to its inputs; bias and sinks are None where none were given."""

    query: object
    key: object
    value: object
    bias: object
    sinks: object


def attention_backward(
    d_output,
    query,
    key,
    value,
    output,
    logsumexp,
    *,
    d_weights=None,
    d_logsumexp=None,
    bias_gradient=True,
    causal=None,
    query_offset=None,
    keep_mask=None,
    drop_mask=None,
    bias=None,
    scale=None,
    window=None,
    key_lengths=None,
    cu_query_lengths=None,
    cu_key_lengths=None,
    softcap=None,
    alibi_slopes=None,
    sinks=None,
    dropout=0.0,
    seed=None,
    return_weights=False,
    weights_of="softmax",
):
    """The gradients of attention(), from its inputs, its output and log-sum-exp, and the same options.

    d_output: the output's gradient; None is zero
    d_weights, d_logsumexp: gradients of the weights (with the forward's return_weights) and of the log-sum-exp
    bias_gradient: False leaves out the gradient of a bias that is only a mask
    seed: the forward's, which must be given with dropout
    """
    function = "attention_backward"
    if seed is None and dropout:
        raise ValueError(f"{function}: dropout is {dropout} and seed is not given, expected the seed of attention()")
    arrays = dict(
        query=query, key=key, value=value, output=output, logsumexp=logsumexp, d_output=d_output, d_weights=d_weights,
        d_logsumexp=d_logsumexp,
    )
    kind = to_core(query, f"{function}: query")[1]
    tensors = {
        name: to_core(array, f"{function}: {name}")[0] for name, array in arrays.items() if array is not None
    }
    options = _core_options(
        function,
        dict(
            causal=causal, query_offset=query_offset, keep_mask=keep_mask, drop_mask=drop_mask, bias=bias, scale=scale,
            window=window, key_lengths=key_lengths, cu_query_lengths=cu_query_lengths, cu_key_lengths=cu_key_lengths,
            softcap=softcap, alibi_slopes=alibi_slopes, sinks=sinks, dropout=dropout, seed=seed,
            return_weights=return_weights, weights_of=weights_of,
        ),
    )
    gradients = _core.attention_backward(**tensors, bias_gradient=bool(bias_gradient), **options)
    return AttentionGradients(*(from_core(gradient, kind) for gradient in gradients))
