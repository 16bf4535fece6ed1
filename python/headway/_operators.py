"""Arithmetic on headway.Tensor by its signs, gradients included."""

from numbers import Real

from headway import _core
from headway._core import Tensor


def _both(compute):
    """The operation for two tensors; anything else is left to the other operand."""
    return lambda a, b: compute(a, b) if isinstance(b, Tensor) else NotImplemented


def _multiply(a, b):
    return _core.scale(a, float(b)) if isinstance(b, Real) else _both(_core.mul)(a, b)


def _divide(a, b):
    return _core.scale(a, 1.0 / float(b)) if isinstance(b, Real) else NotImplemented


Tensor.__add__ = _both(_core.add)
Tensor.__sub__ = _both(_core.sub)
Tensor.__mul__ = Tensor.__rmul__ = _multiply
Tensor.__truediv__ = _divide
Tensor.__neg__ = lambda a: _core.scale(a, -1.0)
Tensor.__matmul__ = _both(_core.matmul)
