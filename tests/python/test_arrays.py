"""Arrays go in and out of Headway without a copy, whatever their strides."""

import gc

import headway
import numpy as np
import pytest
import reference
from headway._convert import from_core, to_core


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.int32, np.int64, np.bool_])
def test_numpy_memory_is_shared(dtype):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    tensor, kind = to_core(array)
    assert kind == "numpy" and tensor.shape == (2, 3, 4) and tensor.strides == (12, 4, 1)
    assert tensor.dtype == array.dtype.name and tensor.data_ptr == array.ctypes.data
    back = from_core(tensor, kind)
    assert back.ctypes.data == array.ctypes.data and back.dtype == array.dtype
    assert np.array_equal(back, array)


def test_bfloat16_memory_is_shared():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    array = np.arange(6).reshape(2, 3).astype(bfloat16)
    tensor, kind = to_core(array)
    assert tensor.dtype == "bfloat16" and tensor.data_ptr == array.ctypes.data
    back = from_core(tensor, kind)
    assert back.dtype == bfloat16 and np.array_equal(back, array)


def test_strides_are_kept():
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(1, 0, 2)[:, :, ::2]
    tensor = to_core(array)[0]
    assert tensor.strides == (4, 12, 2) and tensor.data_ptr == array.ctypes.data
    assert np.array_equal(tensor.numpy(), array)


@pytest.mark.parametrize("make", [lambda a: a[::-1], lambda a: a.astype(">f4"), lambda a: misaligned(a)])
def test_odd_memory_is_copied(make):
    array = make(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert np.array_equal(headway.tensor(array).numpy(), array)


def misaligned(array):
    memory = np.zeros(array.nbytes + 1, np.uint8)
    view = memory[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def test_read_only_arrays_are_read():
    array = np.ones((1, 2, 3, 4), np.float32)
    array.flags.writeable = False
    assert to_core(array)[0].data_ptr == array.ctypes.data
    assert headway.attention(array, array, array).sum() == 24


def test_heads_behind_lengths():
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((2, 5, 4, 8)).astype(np.float32).transpose(0, 2, 1, 3) for _ in range(3)]
    output = headway.attention(*arrays)
    np.testing.assert_allclose(output, reference.attention(*arrays)[0], atol=2e-6)
    assert output.strides == arrays[0].strides


def test_last_dimension_with_gaps():
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((2, 4, 5, 16)).astype(np.float32)[..., ::2] for _ in range(3)]
    np.testing.assert_allclose(headway.attention(*arrays), reference.attention(*arrays)[0], atol=2e-6)


def test_memory_lives_as_long_as_it_is_seen():
    array = np.arange(1000.0)
    tensor = to_core(array)[0]
    copy = array.copy()
    del array
    gc.collect()
    view = tensor.numpy()
    del tensor
    gc.collect()
    assert np.array_equal(view, copy)


def test_dlpack_both_ways():
    tensor = headway.Tensor.randn([2, 3], seed=1)
    array = np.from_dlpack(tensor)
    assert array.ctypes.data == tensor.data_ptr and np.array_equal(array, tensor.numpy())
    assert tensor.__dlpack_device__() == (1, 0)
    assert headway.Tensor.from_dlpack(tensor).data_ptr == tensor.data_ptr
    assert np.array_equal(np.asarray(tensor), array) and np.asarray(tensor, np.float64).dtype == np.float64


def test_tensor_that_requires_a_gradient_stays_inside():
    tensor = headway.Tensor.randn([2, 3], seed=1)
    tensor.requires_grad = True
    with pytest.raises(ValueError, match="requires a gradient"):
        tensor.numpy()
    with pytest.raises(BufferError, match="requires a gradient"):
        tensor.__dlpack__()
    assert tensor.detach().numpy().shape == (2, 3)


class OnlyDLPack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_unknown_arrays_give_tensors():
    array = OnlyDLPack(np.ones((1, 2, 3, 4), np.float32))
    output = headway.attention(array, array, array)
    assert isinstance(output, headway.Tensor) and output.shape == (1, 2, 3, 4)


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4)])
def test_empty(shape):
    array = np.ones(shape, np.float32)
    output, weights = headway.attention(array, array, array, return_weights=True)
    assert output.shape == shape and weights.shape == shape[:3] + (shape[2],)


def test_tensors():
    tensor = headway.Tensor.full([2, 3], 1.5)
    assert repr(tensor) == "headway.Tensor(float32[2, 3])" and len(tensor) == 2 and tensor.size == 6
    assert tensor.transpose(0, 1).shape == (3, 2) and not tensor.transpose(0, 1).is_contiguous
    assert tensor.reshape([-1]).shape == (6,) and tensor.to("float64").dtype == "float64"
    assert headway.Tensor.zeros([], "int64").item() == 0
