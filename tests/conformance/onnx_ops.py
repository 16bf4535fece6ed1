"""Runs the ONNX cases of LayerNormalization, RMSNormalization and RotaryEmbedding through Headway's operations.

onnx_ops.py [DIR...]: every folder of these operators under the directories, else those of the onnx package.
"""

import math
import sys

import numpy

from headway import ops
import onnx_cases
from onnx_attention import join_heads, split_heads


class Rows:
    """What is normalized together lies in one row: x [..., *normalized] as [rows, features]."""

    def __init__(self, call, x):
        axis = call.attributes.get("axis", -1)
        self.axis = axis + x.ndim if axis < 0 else axis
        if call.attributes.get("stash_type", 1) != 1:
            raise onnx_cases.Skip(f"stash_type is {call.attributes['stash_type']}; Headway's sums are float32")
        self.epsilon = call.attributes.get("epsilon", 1e-5)
        self.normalized = x.shape[self.axis:]
        self.features = math.prod(self.normalized)
        self.matrix = x.reshape(-1, self.features)

    def weight(self, array):
        """A factor or summand as [features] of x's type; None stays None."""
        if array is None:
            return None
        if array.ndim > len(self.normalized):
            raise onnx_cases.Skip(f"a weight has shape {array.shape}, more dimensions than are normalized")
        return numpy.broadcast_to(array, self.normalized).reshape(-1).astype(self.matrix.dtype, copy=False)

    def mean(self, matrix):
        """The mean of each row -> [rows, 1]"""
        return ops.matmul(matrix, numpy.full((self.features, 1), 1 / self.features, matrix.dtype))


def layer_normalization(call):
    """[Y, Mean, InvStdDev], None where an output has no name."""
    call.check_known(("axis", "epsilon", "stash_type"), input_count=3, output_count=3)
    x = call.input(0)
    rows = Rows(call, x)
    scale, bias = (rows.weight(call.input(i)) for i in (1, 2))
    results = [ops.layer_norm(rows.matrix, scale, bias, epsilon=rows.epsilon).reshape(x.shape), None, None]
    if call.wants(1) or call.wants(2):
        wide = rows.matrix.astype(numpy.float32, copy=False)
        mean = rows.mean(wide)
        centred = ops.sub(wide, mean)
        deviation = numpy.sqrt(rows.mean(ops.mul(centred, centred)) + numpy.float32(rows.epsilon))
        shape = x.shape[:rows.axis] + (1,) * len(rows.normalized)
        results[1:] = [mean.reshape(shape), numpy.reciprocal(deviation).reshape(shape)]
    return results


def rms_normalization(call):
    """[Y], of the scale's type."""
    call.check_known(("axis", "epsilon", "stash_type"), input_count=2, output_count=1)
    x, scale = call.input(0), call.input(1)
    rows = Rows(call, x)
    result = ops.rms_norm(rows.matrix, rows.weight(scale), epsilon=rows.epsilon)
    return [result.reshape(x.shape).astype(scale.dtype, copy=False)]


def rotary_embedding(call):
    """[Y]. The cosines and sines come in tables of any numbers, so this is products and sums, not ops.rotary."""
    call.check_known(("interleaved", "num_heads", "rotary_embedding_dim"), input_count=4, output_count=1)
    given, cosines, sines, positions = (call.input(i) for i in range(4))
    x = split_heads(given, call.attributes.get("num_heads"))  # [batch, heads, length, dim]
    if positions is not None:
        cosines, sines = (ops.embedding(table, positions) for table in (cosines, sines))
    cosines, sines = cosines[:, None], sines[:, None]  # [batch, 1, length, rotated / 2]

    rotated = call.attributes.get("rotary_embedding_dim", 0) or x.shape[3]
    half = rotated // 2
    if call.attributes.get("interleaved", 0):
        first, second = slice(0, rotated, 2), slice(1, rotated, 2)
    else:
        first, second = slice(0, half), slice(half, rotated)
    a, b = x[..., first], x[..., second]
    result = x.copy()
    result[..., first] = ops.sub(ops.mul(a, cosines), ops.mul(b, sines))
    result[..., second] = ops.add(ops.mul(a, sines), ops.mul(b, cosines))
    return [join_heads(result) if given.ndim == 3 else result]


SUITES = [
    onnx_cases.Suite(name="layer normalization", operator="LayerNormalization", folders="test_layer_normalization_*",
                     compute=layer_normalization),
    onnx_cases.Suite(name="rms normalization", operator="RMSNormalization", folders="test_rms_normalization_*",
                     compute=rms_normalization),
    onnx_cases.Suite(name="rotary embedding", operator="RotaryEmbedding", folders="test_rotary_embedding*",
                     compute=rotary_embedding),
]

if __name__ == "__main__":
    sys.exit(onnx_cases.main(SUITES))
