"""Runs the ONNX Attention cases (operator versions 23 to 25) through headway.attention.

onnx_attention.py [DIR...]: every folder test_attention_* under the directories, else those of the onnx package.
What a case asks for follows from its node's attributes, inputs and outputs alone.
"""

import sys

import numpy

import headway
import onnx_cases

ATTRIBUTES = ("is_causal", "kv_num_heads", "left_window_size", "q_num_heads", "qk_matmul_output_mode",
              "right_window_size", "scale", "softcap", "softmax_precision")

# qk_matmul_output_mode -> which step's scores headway.attention returns
WEIGHTS_OF = {0: "scores", 1: "softcapped", 2: "masked", 3: "softmax"}

# Headway takes a bias from -1e30 down as masked. ONNX masks by -infinity alone: a row of -3.4e38 is a mean of all keys.
LOWEST_BIAS = numpy.float64(-1e29)


def split_heads(x, heads):
    """[batch, length, heads * dim] -> [batch, heads, length, dim], a view; four dimensions stay as they are."""
    if x.ndim == 4:
        return x
    batch, length, hidden = x.shape
    if not heads or hidden % heads:
        raise ValueError(f"an input has shape {x.shape}, which {heads} heads do not divide")
    return x.reshape(batch, length, heads, hidden // heads).transpose(0, 2, 1, 3)


def join_heads(x):
    """[batch, heads, length, dim] -> [batch, length, heads * dim]"""
    batch, heads, length, dim = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * dim)


def common_dtype(dtypes):
    """Values may have another type than queries and keys; headway.attention takes one."""
    if len(set(dtypes)) == 1:
        return dtypes[0]
    return numpy.dtype(numpy.float64 if numpy.dtype(numpy.float64) in dtypes else numpy.float32)


def mask_options(mask, key_length):
    """keep_mask for a boolean mask and bias for numbers. A mask that ends early hides the keys past its end."""
    if mask is None:
        return {}
    if mask.dtype != numpy.bool_ and mask.dtype.kind in "iu":
        mask = mask.astype(numpy.float32)
    missing = key_length - mask.shape[-1]
    if missing > 0:
        fill = numpy.full(mask.shape[:-1] + (missing,), False if mask.dtype == numpy.bool_ else -numpy.inf, mask.dtype)
        mask = numpy.concatenate([mask, fill], axis=-1)
    if mask.ndim == 3:  # [heads, query_length, key_length]
        mask = mask[None]
    return {"keep_mask": mask} if mask.dtype == numpy.bool_ else {"bias": mask}


def raise_bias(options):
    """Lifts finite numbers that Headway would take as masked. Gives where, and what was there, for the scores."""
    bias = options.get("bias")
    if bias is None:
        return None
    low = numpy.isfinite(bias) & (bias < LOWEST_BIAS)
    if not low.any():
        return None
    options["bias"] = numpy.where(low, numpy.asarray(LOWEST_BIAS, bias.dtype), bias)
    return low, bias


def position_options(call, query_length):
    """Causal and window masks: both count from the place of the first query among the keys."""
    options = {}
    past_key, key_lengths = call.input(4), call.input(6)
    if key_lengths is not None:
        options["key_lengths"] = key_lengths.reshape(-1)
    left, right = (call.attributes.get(f"{side}_window_size", -1) for side in ("left", "right"))
    if min(left, right) < -1:
        raise ValueError(f"a window of ({left}, {right}), expected -1 or more")
    if left >= 0 or right >= 0:
        options["window"] = (left if left >= 0 else None, right if right >= 0 else None)
    if call.attributes.get("is_causal", 0):
        options["causal"] = "top_left"
    if past_key is not None:
        options["query_offset"] = past_key.shape[2]
    elif key_lengths is not None:
        options["query_offset"] = key_lengths.reshape(-1) - query_length
    return options


def number_options(call):
    options = {}
    if "scale" in call.attributes:
        options["scale"] = call.attributes["scale"]
    if call.attributes.get("softcap", 0.0) > 0:
        options["softcap"] = call.attributes["softcap"]
    return options


def attend(call, query, key, value, options):
    """headway.attention -> (output, scores or None), where the scores are those that the node's mode asks for."""
    lifted = raise_bias(options)
    dtype = common_dtype([query.dtype, key.dtype, value.dtype])
    arrays = [x.astype(dtype, copy=False) for x in (query, key, value)]
    if not call.wants(3):
        return headway.attention(*arrays, **options), None
    mode = call.attributes.get("qk_matmul_output_mode", 0)
    output, scores = headway.attention(*arrays, **options, return_weights=True, weights_of=WEIGHTS_OF[mode])
    if mode == 2 and lifted is not None:
        low, bias = (numpy.broadcast_to(x, scores.shape) for x in lifted)
        scores = numpy.where(low & numpy.isfinite(scores), bias, scores)  # beside such a number a score is nothing
    return output, scores


def attention(call):
    """One Attention node: [Y, present_key, present_value, qk_matmul_output], None where an output has no name."""
    call.check_known(ATTRIBUTES, input_count=7, output_count=4)
    query, key, value, mask, past_key, past_value = (call.input(i) for i in range(6))
    if (past_key is None) != (past_value is None):
        raise ValueError("past_key and past_value go together, but only one of them was given")
    joined = query.ndim == 3
    query = split_heads(query, call.attributes.get("q_num_heads"))
    key, value = (split_heads(x, call.attributes.get("kv_num_heads")) for x in (key, value))
    if past_key is not None:
        key = numpy.concatenate([past_key, key], axis=2)
        value = numpy.concatenate([past_value, value], axis=2)

    options = {**mask_options(mask, key.shape[2]), **position_options(call, query.shape[2]), **number_options(call)}
    output, scores = attend(call, query, key, value, options)
    output = (join_heads(output) if joined else output).astype(query.dtype, copy=False)
    if scores is not None:
        scores = scores.astype(query.dtype, copy=False)
    return [output, key if call.wants(1) else None, value if call.wants(2) else None, scores]


SUITE = onnx_cases.Suite(name="attention", operator="Attention", folders="test_attention_*", compute=attention)

if __name__ == "__main__":
    sys.exit(onnx_cases.main([SUITE]))
