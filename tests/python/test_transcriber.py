"""Transcriber, with the model that comes with Headway: files, sounds, lists, attention, what is refused."""

import pathlib

import headway
import numpy as np
import pytest

pytest.importorskip("headway._media")

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "spoken-digits"
FILE = ROOT / "examples" / "speech" / "samples" / "three-digits.wav"


@pytest.fixture(scope="module")
def transcriber():
    return headway.Transcriber(MODEL)


def test_a_file_and_a_sound(transcriber):
    heard = transcriber.transcribe(FILE)
    assert isinstance(heard, headway.Transcript) and heard.text == "seven zero four"
    assert [word.text for word in heard.words] == heard.text.split()
    assert all(word.start < word.end for word in heard.words) and heard.score < 0
    assert transcriber.rate == 8000 and transcriber.window_seconds == 7 and transcriber.languages == []
    sound = headway.read_sound(FILE)
    assert transcriber.transcribe(sound, beams=3).text == heard.text
    silence = headway.Sound(np.zeros(8000, np.float32), 8000, "")
    both = transcriber.transcribe([str(FILE), silence], words=False)
    assert [(one.text, one.notes, one.words) for one in both] == [(heard.text, "", []), ("", "silence", [])]


def test_attention(transcriber):
    heard = transcriber.transcribe(FILE, attention=True)
    (layers,) = heard.attention
    assert len(layers) == 2 and layers[0].shape[:2] == (4, len(heard.tokens))
    # Each word looks later than the one before.
    peaks = layers[-1].mean(0).argmax(-1)[:3]
    assert (np.diff(peaks) > 0).all()


def test_what_is_refused(transcriber, tmp_path):
    (tmp_path / "text.wav").write_text("no sound")
    with pytest.raises(ValueError, match="text.wav"):
        transcriber.transcribe(tmp_path / "text.wav")
    with pytest.raises(TypeError, match="no file's name and no headway.Sound"):
        transcriber.transcribe(3)
    with pytest.raises(ValueError, match="knows one alone"):
        transcriber.transcribe(FILE, language="en")
    with pytest.raises(FileNotFoundError):
        headway.Transcriber(tmp_path / "none")
