"""Arithmetic and comparisons on headway.Tensor by their signs, gradients included."""

from numbers import Real

from headway import _core
from headway._core import Tensor


def _tensors(compute):
    """The operation for two tensors; anything else is left to the other operand."""
    return lambda a, b: compute(a, b) if isinstance(b, Tensor) else NotImplemented


def _either(compute):
    """The operation for a tensor and a tensor or a number."""

    def operator(a, b):
        if isinstance(b, Tensor):
            return compute(a, b)
        return compute(a, float(b)) if isinstance(b, Real) else NotImplemented

    return operator


def _reversed(compute):
    """The operation for a number on the left of a tensor."""
    return lambda a, b: compute(float(b), a) if isinstance(b, Real) else NotImplemented


def _multiply(a, b):
    return _core.scale(a, float(b)) if isinstance(b, Real) else _tensors(_core.mul)(a, b)


Tensor.__add__ = Tensor.__radd__ = _either(_core.add)
Tensor.__sub__ = _either(_core.sub)
Tensor.__rsub__ = _reversed(_core.sub)
Tensor.__mul__ = Tensor.__rmul__ = _multiply
Tensor.__truediv__ = _either(_core.div)
Tensor.__rtruediv__ = _reversed(_core.div)
Tensor.__pow__ = lambda a, b: _core.pow(a, float(b)) if isinstance(b, Real) else NotImplemented
Tensor.__neg__ = lambda a: _core.neg(a)
Tensor.__matmul__ = _tensors(_core.matmul)
Tensor.__eq__ = _either(_core.eq)
Tensor.__ne__ = _either(_core.ne)
Tensor.__lt__ = _either(_core.lt)
Tensor.__le__ = _either(_core.le)
Tensor.__gt__ = _either(_core.gt)
Tensor.__ge__ = _either(_core.ge)
Tensor.__hash__ = object.__hash__  # a tensor is a key by what it is, not by its elements
Tensor.__and__ = _tensors(_core.logical_and)
Tensor.__or__ = _tensors(_core.logical_or)
Tensor.__invert__ = lambda a: _core.logical_not(a)
