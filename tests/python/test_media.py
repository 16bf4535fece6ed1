"""Sounds and pictures: arrays in and out, files, what is refused, and a package without the library."""

import pathlib
import subprocess
import sys

import headway
import numpy as np
import pytest
from test_package import names_in

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import small_media

pytest.importorskip("headway._media")
from headway import _perception


def test_names_and_stubs():
    folder = pathlib.Path(headway.__file__).parent
    public = {name for name in dir(headway._media) if not name.startswith("_")}
    assert public <= names_in(folder / "_media.pyi")
    assert headway._MEDIA_NAMES <= names_in(folder / "__init__.pyi")
    assert headway._MEDIA_NAMES == set(_perception.__all__) <= set(dir(headway))
    for name in headway._MEDIA_NAMES:
        assert getattr(headway, name).__doc__, name


def test_a_sound(tmp_path):
    small_media.write_sound(tmp_path / "a.wav", rate=8000, seconds=0.25)
    sound = headway.read_sound(tmp_path / "a.wav")
    assert isinstance(sound, headway.Sound) and sound.rate == 8000 and sound.seconds == 0.25
    assert isinstance(sound.samples, np.ndarray) and sound.samples.shape == (2000,)
    assert sound.samples.dtype == np.float32 and sound.notes == "mixed from 2 channels"
    same = headway.parse_sound((tmp_path / "a.wav").read_bytes(), rate=16000)
    assert same.notes == "mixed from 2 channels; resampled from 8000 Hz"
    assert np.array_equal(same.samples, headway.resample(sound.samples, 8000, 16000))
    headway.write_wav(tmp_path / "b.wav", sound.samples, 8000)
    np.testing.assert_allclose(headway.read_sound(str(tmp_path / "b.wav")).samples, sound.samples, atol=1 / 32768)


def test_the_spectrogram(tmp_path):
    samples = np.random.default_rng(0).standard_normal(3200).astype(np.float32)
    features = headway.log_mel(samples)
    assert features.shape == (80, 20) and features.dtype == np.float32
    options = headway.LogMelOptions(rate=8000, window=200, hop=80, bins=40, length=8000)
    assert headway.log_mel(samples, options).shape == (40, 100)
    options.save(tmp_path)
    assert headway.LogMelOptions.load(tmp_path).bins == 40
    kept = headway.log_mel(headway.tensor(samples))
    assert isinstance(kept, headway.Tensor) and np.array_equal(kept.numpy(), features)
    assert headway.spectrogram_picture(features).shape == (80, 20, 3)


def test_a_picture(tmp_path):
    small_media.write_picture(tmp_path / "a.png", 20, 10)
    picture = headway.read_picture(tmp_path / "a.png")
    assert isinstance(picture, headway.Picture) and picture.pixels.shape == (10, 20, 3)
    assert picture.notes == "alpha over white"
    rgba = headway.parse_picture((tmp_path / "a.png").read_bytes(), 4).pixels
    assert rgba.shape == (10, 20, 4) and rgba.dtype == np.float32
    again = headway.parse_picture(headway.encode_png(rgba), 4).pixels
    np.testing.assert_allclose(again, rgba, atol=1e-6)
    assert headway.resize(rgba, 5, 7, "bicubic").shape == (5, 7, 4)
    given = headway.PictureInput()
    given.height, given.width, given.resampling = 8, 12, "nearest"
    assert headway.picture_tensor(picture, given).shape == (3, 8, 12)
    assert np.array_equal(headway.picture_tensor(picture.pixels, given), headway.picture_tensor(picture, given))
    given.save(tmp_path)
    assert headway.PictureInput.load(tmp_path).resampling == "nearest"


def test_what_is_refused(tmp_path):
    (tmp_path / "text.wav").write_text("a letter")
    with pytest.raises(ValueError, match=r"text.wav: not a sound: it is text, \"a letter\""):
        headway.read_sound(tmp_path / "text.wav")
    with pytest.raises(ValueError, match="not a picture"):
        headway.read_picture(tmp_path / "text.wav")
    with pytest.raises(FileNotFoundError):
        headway.read_picture(tmp_path / "none.png")
    with pytest.raises(TypeError, match="read_sound: file is of type int, expected a path"):
        headway.read_sound(3)
    with pytest.raises(TypeError, match="log_mel: samples is of type str, expected an array"):
        headway.log_mel("sound")
    with pytest.raises(ValueError, match="resize: resampling"):
        headway.resize(np.zeros((2, 2, 3), np.float32), 1, 1, "lanczos")
    with pytest.raises(ValueError, match="bins is 0"):
        headway.log_mel(np.zeros(999, np.float32), headway.LogMelOptions(bins=0))


def test_a_package_without_the_library_says_so():
    code = """
import sys
sys.modules["headway._media"] = None
import headway
try:
    headway.read_sound
except ImportError as error:
    print(error)
"""
    text = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "headway.read_sound needs the media library, libheadway_media" in text
