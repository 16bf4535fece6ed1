"""The masks that transformers' models pass to Headway."""

from typing import NamedTuple

import torch
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function, sdpa_mask

_ATTRIBUTE = "_headway_pattern"


class MaskPattern(NamedTuple):
    """A mask in short form: keys past an entry's length are padding, and with `causal` later keys are hidden."""

    causal: bool
    key_lengths: torch.Tensor  # [batch]
    version: int  # of the mask; one that was written to since then says something else


def attention_mask(
    batch_size,
    q_length,
    kv_length,
    q_offset=0,
    kv_offset=0,
    mask_function=causal_mask_function,
    attention_mask=None,
    **options,
):
    """A boolean mask [batch, 1, query_length, key_length], True may be looked at, or None where none is needed.

    None means what it means for "sdpa": a causal module sees keys up to its own position, and any other sees all.
    """
    options.update(
        batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=q_offset, kv_offset=kv_offset,
        mask_function=mask_function, attention_mask=attention_mask,
    )
    is_known = mask_function is bidirectional_mask_function or mask_function is causal_mask_function
    lengths = _key_lengths(attention_mask, kv_length) if is_known and _starts_at_zero(q_offset, kv_offset) else None
    if lengths is None:
        return sdpa_mask(**options)
    with torch.inference_mode(False):  # else the mask would have no version
        if mask_function is causal_mask_function:
            mask = sdpa_mask(**options)
        else:
            # One row for all queries; sdpa_mask() would write it query_length times.
            mask = attention_mask.clone()[:, None, None, :].expand(batch_size, 1, q_length, kv_length)
        if mask is not None:
            setattr(mask, _ATTRIBUTE, MaskPattern(mask_function is causal_mask_function, lengths, mask._version))
    return mask


def pattern_of(mask, batch, query_length, key_length):
    """The pattern of a mask that attention_mask() made for these lengths and that is unchanged, else None."""
    pattern = getattr(mask, _ATTRIBUTE, None)
    if pattern is None or pattern.version != mask._version or mask.shape != (batch, 1, query_length, key_length):
        return None
    return pattern


def _starts_at_zero(q_offset, kv_offset):
    """Whether positions are indices. Static caches have the offset as a tensor, whose value is not read."""
    return isinstance(q_offset, int) and q_offset == 0 and kv_offset == 0


def _key_lengths(padding, key_length):
    """How many keys each entry has [batch], where `padding` [batch, key_length] has all that is false at the end."""
    if padding is None or padding.shape[-1] != key_length or padding.ndim != 2 or torch.compiler.is_compiling():
        return None
    lengths = padding.sum(-1)
    if bool(lengths.min() == key_length):
        return None
    is_at_end = torch.arange(key_length, device=padding.device) < lengths[:, None]
    return lengths if torch.equal(is_at_end, padding) else None
