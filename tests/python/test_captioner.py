"""ImageCaptioner of the package, with the model that comes with Headway."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

import headway

pytest.importorskip("headway._media")
ROOT = pathlib.Path(__file__).resolve().parents[2]
COOK = ROOT / "examples" / "captions" / "samples" / "woman-cook.png"


@pytest.fixture(scope="module")
def captioner():
    return headway.ImageCaptioner(ROOT / "models" / "emoji-captions")


def test_files_pictures_and_pixels(captioner):
    caption = captioner.caption(COOK)
    assert caption.text == "woman cook: medium skin tone" and caption.notes == "alpha over white"
    picture = headway.read_picture(COOK)
    assert captioner.caption([picture, picture.pixels]) == [caption, caption._replace(notes="")]
    assert captioner.caption([]) == []
    assert captioner.caption(picture, beams=4).score >= caption.score - 1e-4  # in float16
    assert captioner.caption(picture, max_new_tokens=1).tokens == caption.tokens[:1]


def test_attention(captioner):
    caption = captioner.caption(COOK)
    layers = captioner.attention(COOK, caption)
    assert [layer.shape for layer in layers] == [(4, len(caption.tokens), 37)] * 2
    assert np.allclose(layers[0].sum(-1), 1, atol=2e-3)  # in float16


def test_the_example():
    script = ROOT / "examples" / "captions" / "captions.py"
    lines = subprocess.run([sys.executable, script, ROOT / "models" / "emoji-captions", COOK], capture_output=True,
                           text=True, check=True).stdout.splitlines()
    assert lines[0] == f"{COOK}: woman cook: medium skin tone"
    assert [line.split()[0] for line in lines[1:]] == "woman cook medium skin tone".split()


def test_wrong_arguments(captioner):
    with pytest.raises(FileNotFoundError, match="missing.png"):
        captioner.caption("missing.png")
    with pytest.raises(ValueError, match="pixels \\[height, width, 3\\]"):
        captioner.caption(np.zeros((4, 4), dtype=np.float32))
    with pytest.raises(TypeError, match="picture"):
        captioner.caption(3)
    with pytest.raises(FileNotFoundError, match="preprocessor_config.json"):
        headway.ImageCaptioner(ROOT / "models" / "titles")
