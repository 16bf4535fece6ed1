"""Headway's attention on tensors of PyTorch's on a GPU, through bench/cuda_attention_interface.cpp."""

import ctypes
import math

import c_interface
import torch

DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}  # as headway::DType counts


class TensorView(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("shape", ctypes.c_int64 * 4),
        ("strides", ctypes.c_int64 * 4),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
    ]


class Numbers(ctypes.Structure):
    _fields_ = [("values", ctypes.POINTER(ctypes.c_int64)), ("count", ctypes.c_int64)]


class Call(ctypes.Structure):
    _fields_ = [
        *((name, TensorView) for name in ("query", "key", "value", "d_output", "bias")),
        ("key_lengths", Numbers),
        ("cu_lengths", Numbers),
        ("stream", ctypes.c_void_p),
        ("causal", ctypes.c_int64),
        ("weights", ctypes.c_int64),
        ("dropout", ctypes.c_double),
        ("deterministic", ctypes.c_int64),
    ]


def view_of(tensor):
    if tensor is None:
        return TensorView()
    shape, strides = (ctypes.c_int64 * 4)(*tensor.shape), (ctypes.c_int64 * 4)(*tensor.stride())
    return TensorView(tensor.data_ptr(), shape, strides, tensor.dim(), DTYPES[tensor.dtype])


def numbers_of(values):
    if values is None:
        return Numbers()
    return Numbers((ctypes.c_int64 * len(values))(*values), len(values))


def load_library(path):
    library = c_interface.load_library(path, "cuda_attention", ("create", "forward", "backward", "destroy"))
    library.cuda_attention_read.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    return library


class Attention:
    """One problem of Headway's on tensors of PyTorch's."""

    library = None

    def __init__(self, query, key, value, d_output=None, bias=None, **options):
        self.tensors = (query, key, value, d_output, bias)  # their memory is read in place
        self.call = Call(*map(view_of, self.tensors))
        self.call.key_lengths = numbers_of(options.get("key_lengths"))
        self.call.cu_lengths = numbers_of(options.get("cu_lengths"))
        self.call.stream = torch.cuda.current_stream().cuda_stream
        self.call.causal = int(options.get("causal", False))
        self.call.weights = int(options.get("weights", False))
        self.call.dropout = options.get("dropout", 0.0)
        self.call.deterministic = int(options.get("deterministic", True))
        self.handle = self.library.cuda_attention_create(ctypes.byref(self.call))
        if not self.handle:
            raise self.error()

    def __del__(self):
        if getattr(self, "handle", None):
            self.library.cuda_attention_destroy(self.handle)

    def error(self):
        return RuntimeError("Headway: " + self.library.cuda_attention_error().decode())

    def forward(self):
        if self.library.cuda_attention_forward(self.handle) != 0:
            raise self.error()

    def backward(self):
        if self.library.cuda_attention_backward(self.handle) != 0:
            raise self.error()

    def read(self, part, like):
        """A copy of a result: 0 output, 3, 4, 5 the gradients of query, key, value."""
        target = torch.full(like.shape, math.nan, dtype=like.dtype, device="cuda")
        if self.library.cuda_attention_read(self.handle, part, ctypes.byref(view_of(target))) != 0:
            raise self.error()
        return target

    def output(self):
        query, _, value = self.tensors[:3]
        return self.read(0, query.new_empty(*query.shape[:3], value.shape[3]))

    def gradients(self):
        return [self.read(3 + n, self.tensors[n]) for n in range(3)]
