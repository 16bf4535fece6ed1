"""The attention function that transformers' models call."""

import torch
import transformers

import headway.torch
from headway.transformers._mask import pattern_of

try:
    from transformers.utils.output_capturing import _active_collector
except ImportError as error:
    raise ImportError(
        f"headway.transformers: transformers is {transformers.__version__}, expected 5.x with transformers.utils."
        "output_capturing, by which an attention function knows whether its weights are needed"
    ) from error

# What other implementations take from a model and this one cannot do.
_REFUSED = ("cache", "block_table", "indices", "block_indices", "head_mask")


def attention_forward(
    module,
    query,
    key,
    value,
    attention_mask=None,
    dropout=0.0,
    scaling=None,
    is_causal=None,
    sliding_window=None,
    softcap=None,
    s_aux=None,
    position_bias=None,
    **kwargs,
):
    """softmax(scaling * Q K^T + position_bias + mask) V, as a function of transformers' attention interface.

    Weights are returned where the model was asked for them, before dropout. A query that may look at nothing, such as
    padding on the left, gives zeros. Dropout is seeded from torch's generator and drops nothing outside of training.

    query: [batch, heads, query_length, head_dim]
    key, value: [batch, kv_heads, key_length, head_dim or value_dim]
    attention_mask: boolean (True may be looked at) or added to the scores, broadcasts to [batch, heads, query_length,
        key_length]; where it is None, a causal module sees keys up to its own position
    is_causal: default: what the module says, and False for one that does not say
    sliding_window: used without a mask; a mask includes it already
    s_aux: [heads], the sinks
    position_bias: added to the scores, broadcasts like the mask
    cu_seq_lens_q, cu_seq_lens_k: where sequences begin in a packed batch, and the end

    Returns the output [batch, query_length, heads, value_dim], and weights [batch, heads, query_length, key_length] or
    None.
    """
    for name in _REFUSED:
        if kwargs.get(name) is not None:
            raise ValueError(f"headway: the model passes {name} to its attention, which this implementation cannot do")
    options = _mask_options(query, key, attention_mask)
    if position_bias is not None:
        options["bias"] = position_bias + options["bias"] if "bias" in options else position_bias
    if attention_mask is None:
        is_causal = getattr(module, "is_causal", False) if is_causal is None else is_causal
        options.update(_unmasked_options(query, key, is_causal, sliding_window))
    if kwargs.get("cu_seq_lens_q") is not None:
        _pack(options, query, key, kwargs["cu_seq_lens_q"], kwargs.get("cu_seq_lens_k"))
    if isinstance(scaling, torch.Tensor):
        query, scaling = query * scaling, 1.0
    if dropout and getattr(module, "training", True):
        options["dropout"] = dropout
    wants_weights = _wants_weights(kwargs)
    result = headway.torch.attention(
        query, key, value, scale=scaling, softcap=softcap, sinks=s_aux, return_weights=wants_weights, **options
    )
    output, weights = result if wants_weights else (result, None)
    return output.transpose(1, 2).contiguous(), weights


def _wants_weights(kwargs):
    """Whether the weights are needed: the caller requests them, or transformers records this forward's attentions."""
    if kwargs.get("output_attentions"):
        return True
    recorded = _active_collector.get()
    return bool(recorded) and any(name.endswith("attentions") for name in recorded)


def _mask_options(query, key, mask):
    """The mask as Headway's options."""
    if mask is None:
        return {}
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"headway: attention_mask is of type {type(mask).__name__}, expected a tensor or None")
    if mask.dtype == torch.bool:
        pattern = pattern_of(mask, query.shape[0], query.shape[2], key.shape[2])
        if pattern is None:
            return {"keep_mask": mask}
        return {"key_lengths": pattern.key_lengths, "causal": "top_left" if pattern.causal else None}
    if mask.is_floating_point():
        return {"bias": mask}
    raise TypeError(f"headway: attention_mask has dtype {mask.dtype}, expected bool or a floating dtype")


def _unmasked_options(query, key, is_causal, sliding_window):
    """What a missing mask means. One query stands after all keys of the cache; several begin where the keys do."""
    query_length, key_length = query.shape[2], key.shape[2]
    if not is_causal:
        if sliding_window is None or sliding_window >= key_length:
            return {}
        return {"window": (sliding_window - 1, sliding_window - 1)}
    alignment = "bottom_right" if query_length == 1 else "top_left"
    if sliding_window is not None and sliding_window < key_length:
        return {"causal": alignment, "window": (sliding_window - 1, None)}
    return {} if query_length == 1 else {"causal": alignment}


def _pack(options, query, key, cu_query_lengths, cu_key_lengths):
    """Keeps the sequences of a packed batch apart, beside what the mask says."""
    cu_key_lengths = cu_query_lengths if cu_key_lengths is None else cu_key_lengths
    if "keep_mask" not in options and "bias" not in options and "key_lengths" not in options and query.shape[0] == 1:
        options.update(cu_query_lengths=cu_query_lengths, cu_key_lengths=cu_key_lengths)
        return
    query_sequence = _sequence_of(cu_query_lengths, query.shape[2])
    key_sequence = _sequence_of(cu_key_lengths, key.shape[2])
    together = query_sequence[:, None] == key_sequence  # [query_length, key_length]
    options["keep_mask"] = together & options["keep_mask"] if "keep_mask" in options else together


def _sequence_of(cu_lengths, length):
    """The number of the sequence that each position of a packed batch belongs to, [length]."""
    positions = torch.arange(length, device=cu_lengths.device, dtype=cu_lengths.dtype)
    return torch.bucketize(positions, cu_lengths[1:], right=True)
