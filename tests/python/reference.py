"""Attention written out in NumPy with float64, for comparison."""

import numpy as np


def positions(batch, query_length, key_length, causal, query_offset, key_lengths):
    """The keys' positions less the queries', and which keys are there: both [batch, 1, query_length, key_length]."""
    lengths = np.full(batch, key_length) if key_lengths is None else np.broadcast_to(key_lengths, batch)
    if query_offset is not None:
        offsets = np.broadcast_to(query_offset, batch)
    else:
        offsets = lengths - query_length if causal == "bottom_right" else np.zeros(batch, int)
    rows = offsets[:, None, None, None] + np.arange(query_length)[None, None, :, None]
    columns = np.arange(key_length)[None, None, None, :]
    return columns - rows, columns < lengths[:, None, None, None]


def attention(
    query, key, value, *, causal=None, query_offset=None, keep_mask=None, drop_mask=None, bias=None, scale=None,
    window=None, key_lengths=None, softcap=None, alibi_slopes=None, sinks=None,
):
    """(output, weights, logsumexp) in float64."""
    query, key, value = (np.asarray(array, np.float64) for array in (query, key, value))
    groups = query.shape[1] // key.shape[1]
    key, value = np.repeat(key, groups, 1), np.repeat(value, groups, 1)
    batch, heads, query_length, head_dim = query.shape
    scores = query @ key.swapaxes(-1, -2) * (head_dim**-0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    distance, keep = positions(batch, query_length, key.shape[2], causal, query_offset, key_lengths)
    if alibi_slopes is not None:
        scores = scores - np.asarray(alibi_slopes, np.float64)[..., :, None, None] * abs(distance)
    if bias is not None:
        scores = scores + np.asarray(bias, np.float64)
    left, right = window or (None, None)
    keep = keep & (distance <= (0 if causal else np.inf if right is None else right))
    keep = keep & (-distance <= (np.inf if left is None else left))
    keep = keep if keep_mask is None else keep & keep_mask
    keep = keep if drop_mask is None else keep & ~np.asarray(drop_mask)
    scores = np.where(keep, scores, -np.inf)
    if sinks is not None:
        column = np.broadcast_to(np.asarray(sinks, np.float64)[None, :, None, None], (batch, heads, query_length, 1))
        scores = np.concatenate([scores, column], -1)
    largest = np.max(scores, -1, keepdims=True, initial=-np.inf)
    exponentials = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    total = exponentials.sum(-1, keepdims=True)
    weights = exponentials / np.where(total == 0, 1, total)
    with np.errstate(divide="ignore"):
        logsumexp = (np.log(total) + np.where(np.isfinite(largest), largest, 0))[..., 0]
    weights = weights[..., : key.shape[2]]
    return weights @ value, weights, logsumexp
