"""Arrays of other libraries as tensors and back. What goes in decides what comes out; no other library is imported."""

import sys

import numpy

from headway._core import Tensor

# NumPy's letters for float32, float64, float16, int8, int32, int64 (which has two) and bool.
_NUMPY_CHARACTERS = frozenset("fdebilq?")


def library_of(array):
    """The name of the library that an array's type belongs to: "torch", "jax", or None."""
    for base in type(array).__mro__:
        module = base.__module__
        if module == "torch" or module.startswith("torch."):
            return "torch"
        if module.startswith("jax"):
            return "jax"
    return None


def from_numpy(array, name):
    """A NumPy array as a tensor, without a copy unless its bytes lie in a way that tensors do not know."""
    dtype = array.dtype
    is_known = dtype.char in _NUMPY_CHARACTERS
    is_bfloat16 = not is_known and dtype.name == "bfloat16"
    if not is_known and not is_bfloat16:
        raise TypeError(
            f"{name} has dtype {dtype}, expected float32, float64, bfloat16, float16, int8, int32, int64 or bool"
        )
    if not dtype.isnative:
        array = array.astype(dtype.newbyteorder("="))
    flags = array.flags
    if not flags.aligned or not flags.c_contiguous and any(s < 0 or s % array.itemsize for s in array.strides):
        array = array.copy(order="C")
    if is_bfloat16:
        return Tensor.from_array(array.view(numpy.uint16), name, True)
    return Tensor.from_array(array, name)


def from_torch(array, name):
    """A torch tensor as a tensor, without a copy."""
    if array.device.type not in ("cpu", "cuda"):
        raise ValueError(f"{name} is on device {array.device}, expected the CPU or CUDA")
    if array.requires_grad:
        if sys.modules["torch"].is_grad_enabled():
            raise ValueError(
                f"{name} requires a gradient, which would be lost here: use headway.torch, torch.no_grad() or detach()"
            )
        array = array.detach()
    return _from_capsule(array.__dlpack__, name, array)


def from_dlpack(array, name):
    """Any other array as a tensor, without a copy, read-only where the array says that it is."""

    def export():
        try:
            return array.__dlpack__(max_version=(1, 0))
        except TypeError:  # from before DLPack 1.0, which has no mark of read-only memory
            return array.__dlpack__()

    return _from_capsule(export, name, array)


def _from_capsule(export, name, array):
    """The tensor of DLPack's capsule; Python's part of the exchange is done here, and not inside C++."""
    try:
        capsule = export()
    except (BufferError, RuntimeError) as error:
        raise TypeError(
            f"{name} is of type {type(array).__name__}, expected an array with dense memory of its own: {error}"
        ) from error
    return Tensor.from_array(capsule, name)


def to_core(array, name="array"):
    """(tensor, kind) of an array; kind is "numpy", "torch", "jax" or "headway". `name` says in errors what it is."""
    if isinstance(array, Tensor):
        return array, "headway"
    if isinstance(array, numpy.ndarray):
        return from_numpy(array, name), "numpy"
    library = library_of(array)
    if library == "torch" and hasattr(array, "requires_grad"):
        return from_torch(array, name), "torch"
    if hasattr(array, "__dlpack__"):
        return from_dlpack(array, name), library or "headway"
    raise TypeError(
        f"{name} is of type {type(array).__name__}, expected an array: NumPy, PyTorch or any other that speaks DLPack"
    )


def tokens_of_lists(lists, name):
    """Lists of token ids as a NumPy array [batch, length]; a flat list is a batch of one."""
    try:
        array = numpy.asarray(lists)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths, expected one length: pad them and give lengths")
    if array.ndim not in (1, 2) or array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} is a list of other things, expected integers or lists of integers")
    return numpy.atleast_2d(array.astype(numpy.int64))


def tensor(array):
    """The array as a headway.Tensor, which records gradients; on the same memory wherever its strides allow it."""
    return to_core(array, "tensor: array")[0]


def from_core(tensor, kind):
    """The tensor as an array of the library that `kind` names, on the same memory; None stays None."""
    if tensor is None or kind == "headway":
        return tensor
    if kind == "numpy":
        return tensor.numpy()
    if kind == "torch":
        return sys.modules["torch"].from_dlpack(tensor)
    if kind == "jax":
        return sys.modules["jax"].dlpack.from_dlpack(tensor)
    raise ValueError(f'from_core: kind is "{kind}", expected "numpy", "torch", "jax" or "headway"')
