"""Operations with gradients, on arrays of any library; what comes out is of the first array's kind.

Only headway.Tensor records gradients: other arrays are computed with and given back as they are.
"""

from headway._core import (
    activate,
    add,
    concat,
    cross_entropy,
    dropout,
    embedding,
    layer_norm,
    linear,
    log_softmax,
    matmul,
    mean,
    mul,
    rms_norm,
    rotary,
    scale,
    sinusoidal_positions,
    softmax,
    split,
    sub,
    sum,
)

__all__ = [
    "activate",
    "add",
    "concat",
    "cross_entropy",
    "dropout",
    "embedding",
    "layer_norm",
    "linear",
    "log_softmax",
    "matmul",
    "mean",
    "mul",
    "rms_norm",
    "rotary",
    "scale",
    "sinusoidal_positions",
    "softmax",
    "split",
    "sub",
    "sum",
]
