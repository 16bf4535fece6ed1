"""Files that are missing, forbidden or of another kind raise Python's own errors, with errno and filename."""

import errno
import importlib.util
import os
import subprocess
import sys

import headway
import numpy as np
import pytest

ARRAYS = {"a": np.zeros((4, 4), np.float32)}


def fails(error, code, path, call):
    with pytest.raises(error) as info:
        call()
    assert info.value.errno == code and info.value.filename == str(path) and str(path) in info.value.strerror


def test_missing_files(tmp_path):
    missing = tmp_path / "missing"
    fails(FileNotFoundError, errno.ENOENT, missing, lambda: headway.load_safetensors(missing))
    fails(FileNotFoundError, errno.ENOENT, missing, lambda: headway.SafeTensors.open(missing))
    inside = missing / "x"
    fails(FileNotFoundError, errno.ENOENT, inside, lambda: headway.save_safetensors(inside, ARRAYS))


def test_directories_are_not_files(tmp_path):
    fails(IsADirectoryError, errno.EISDIR, tmp_path, lambda: headway.load_safetensors(tmp_path))
    fails(IsADirectoryError, errno.EISDIR, tmp_path, lambda: headway.save_safetensors(tmp_path, ARRAYS))


def test_text_directories(tmp_path):
    pytest.importorskip("headway._text")
    missing = tmp_path / "missing"
    file = tmp_path / "file"
    file.write_text("x")
    makers = (headway.load_model, headway.TextTokenizer, headway.TextEncoder, headway.TextClassifier,
              headway.TextGenerator, headway.TextToText, headway.MaskFiller, headway.SequenceRecommender)
    for make in makers:
        with pytest.raises(FileNotFoundError) as info:
            make(missing)
        assert info.value.filename in (str(missing), str(missing / "config.json"))
        with pytest.raises(NotADirectoryError) as info:
            make(file)
        assert info.value.filename in (str(file), str(file / "config.json"))
    fails(FileNotFoundError, errno.ENOENT, tmp_path / "config.json", lambda: headway.load_model(tmp_path))
    fails(FileNotFoundError, errno.ENOENT, tmp_path, lambda: headway.TextTokenizer(tmp_path))
    model = headway.TransformerModel.from_config(
        dict(model_type="gpt2", vocab_size=9, n_positions=8, n_embd=4, n_layer=1, n_head=2)
    )
    model.save(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    fails(FileNotFoundError, errno.ENOENT, tmp_path, lambda: headway.load_model(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="everything is permitted to root")
def test_forbidden_files(tmp_path):
    headway.save_safetensors(tmp_path / "x", ARRAYS)
    (tmp_path / "x").chmod(0)
    fails(PermissionError, errno.EACCES, tmp_path / "x", lambda: headway.load_safetensors(tmp_path / "x"))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    if importlib.util.find_spec("headway._text"):
        fails(PermissionError, errno.EACCES, closed, lambda: headway.TextTokenizer(closed))
        fails(PermissionError, errno.EACCES, closed, lambda: headway.load_model(closed))
    tmp_path.chmod(0o500)
    fails(PermissionError, errno.EACCES, tmp_path / "y", lambda: headway.save_safetensors(tmp_path / "y", ARRAYS))
    tmp_path.chmod(0o700)


def test_the_old_file_stays_where_the_disk_is_full(tmp_path):
    path = tmp_path / "x"
    headway.save_safetensors(path, ARRAYS)
    script = f"""
import resource, signal, headway, numpy
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    headway.save_safetensors({str(path)!r}, {{"a": numpy.zeros(10000, numpy.float32)}})
except OSError as error:
    print(error.errno, error.filename)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (f"{errno.EFBIG} {path}\n", "")
    assert headway.load_safetensors(path)["a"].shape == (4, 4) and os.listdir(tmp_path) == ["x"]


def test_paths_need_not_be_text(tmp_path):
    pytest.importorskip("headway._text")
    path = os.fsencode(tmp_path) + b"/\xff"
    with pytest.raises(FileNotFoundError) as info:
        headway.load_model(os.fsdecode(path))
    assert os.fsencode(info.value.filename) == path


def test_too_little_memory():
    with pytest.raises(MemoryError, match="memory: cannot allocate 4611686018427387904 bytes"):
        headway.Tensor.zeros([1 << 60])


def test_too_little_memory_in_a_computation():
    script = """
import resource, headway, numpy
x = numpy.zeros((1, 1, 30000, 4), numpy.float32)
limit = 1 << 30
headway.attention(x[:, :, :100], x[:, :, :100], x[:, :, :100])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    headway.attention(x, x, x, return_weights=True)
except MemoryError:
    print("MemoryError")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, OPENBLAS_NUM_THREADS="1"))
    assert (done.stdout, done.stderr) == ("MemoryError\n", "")


def test_bad_contents_are_value_errors(tmp_path):
    (tmp_path / "x").write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match="safetensors"):
        headway.load_safetensors(tmp_path / "x")
