"""Memory that is read-only stays so on its way through a tensor to NumPy, to DLPack and back."""

import headway
import numpy as np
import pytest


def constants():
    """A bytes object that holds four floats, and an array on its memory."""
    memory = np.arange(4, dtype=np.float32).tobytes()
    return memory, np.frombuffer(memory, np.float32)


def test_numpy_cannot_write_to_bytes():
    memory, array = constants()
    tensor = headway.tensor(array)
    assert tensor.is_read_only and tensor.data_ptr == array.ctypes.data
    back = tensor.numpy()
    assert not back.flags.writeable and back.ctypes.data == array.ctypes.data
    with pytest.raises(ValueError, match="read-only"):
        back[0] = 1
    with pytest.raises(ValueError):
        back.flags.writeable = True
    assert memory == np.arange(4, dtype=np.float32).tobytes()


def test_views_are_read_only():
    tensor = headway.tensor(constants()[1])
    for view in (tensor.reshape([2, 2]), tensor.reshape([2, 2]).transpose(0, 1), tensor[1], tensor.detach()):
        assert view.is_read_only and not view.numpy().flags.writeable
        assert not np.asarray(view).flags.writeable
    assert tensor.contiguous().is_read_only and tensor.to("float32").is_read_only


def test_copies_and_results_are_writable():
    tensor = headway.tensor(constants()[1])
    for copy in (tensor.clone(), tensor.to("float64"), tensor + tensor, headway.ops.softmax(tensor)):
        assert not copy.is_read_only and copy.numpy().flags.writeable
    array = constants()[1].reshape(1, 1, 2, 2)
    assert headway.attention(array, array, array).flags.writeable


def test_writable_arrays_stay_writable():
    array = np.zeros(3, np.float32)
    tensor = headway.tensor(array)
    assert not tensor.is_read_only
    tensor.numpy()[1] = 5
    assert array[1] == 5


def test_read_only_memmap(tmp_path):
    np.arange(6, dtype=np.float32).tofile(tmp_path / "x")
    mapped = np.memmap(tmp_path / "x", np.float32, "r")
    back = headway.tensor(mapped).numpy()
    with pytest.raises(ValueError, match="read-only"):
        back[0] = 1


def test_bfloat16_is_read_only():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    array = np.arange(4).astype(bfloat16)
    array.flags.writeable = False
    assert not headway.tensor(array).numpy().flags.writeable


def test_buffers_are_read_only():
    memory = constants()[0]
    assert headway.Tensor.from_array(memoryview(memory).cast("f")).is_read_only
    assert not headway.Tensor.from_array(memoryview(bytearray(memory)).cast("f")).is_read_only


def test_dlpack_has_the_flag():
    tensor = headway.tensor(constants()[1])
    back = np.from_dlpack(tensor)
    assert not back.flags.writeable and back.ctypes.data == tensor.data_ptr
    assert headway.Tensor.from_dlpack(tensor).is_read_only
    assert headway.tensor(tensor.numpy()).is_read_only


@pytest.mark.parametrize("options", [{}, {"max_version": None}, {"max_version": (0, 8)}])
def test_dlpack_without_the_flag_is_refused(options):
    tensor = headway.tensor(constants()[1])
    with pytest.raises(BufferError, match=r"float32\[4\], is read-only"):
        tensor.__dlpack__(**options)
    tensor.clone().__dlpack__(**options)


def test_dlpack_copies_on_request():
    tensor = headway.tensor(constants()[1])
    copy = headway.Tensor.from_array(tensor.__dlpack__(copy=True))
    assert not copy.is_read_only and copy.data_ptr != tensor.data_ptr
    assert np.array_equal(copy.numpy(), tensor.numpy())


def test_optimizers_name_what_they_may_not_change(tmp_path):
    layer = headway.Linear(2, 2)
    headway.save_safetensors(tmp_path / "x", layer.state_dict())
    file = headway.SafeTensors.open(tmp_path / "x")
    weight = file.get("weight")
    assert weight.is_read_only and not weight.numpy().flags.writeable
    assert not headway.load_safetensors(tmp_path / "x")["weight"].is_read_only
    layer.load_state_dict({name: file.get(name) for name in file.names()})  # copies
    assert layer.state_dict()["weight"].numpy().flags.writeable


def test_gradients_do_not_change_a_read_only_one():
    memory, array = constants()
    leaf = headway.Tensor.zeros([4])
    leaf.requires_grad = True
    for _ in range(2):
        (leaf * 1.0).backward(headway.tensor(array))
        leaf.backward(headway.tensor(array))
    assert np.array_equal(leaf.grad.numpy(), 4 * np.arange(4))
    assert memory == np.arange(4, dtype=np.float32).tobytes()


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    tensor = headway.tensor(torch.zeros(3))
    assert not tensor.is_read_only and torch.from_dlpack(tensor).data_ptr() == tensor.data_ptr
