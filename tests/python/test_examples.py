"""The examples run from their first line to their last."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "python"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_script(path):
    result = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert result.returncode == 0 and result.stdout, result.stderr


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_notebook(path):
    names = {}
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}: {cell['id']}", "exec"), names)
    assert names


def run_with_model(name, model, samples):
    script = ROOT / "examples" / name / f"{name}.py"
    files = sorted((ROOT / "examples" / name / "samples").glob(samples))
    result = subprocess.run([sys.executable, script, ROOT / "models" / model, *files], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return [line.split(": ")[1] for line in result.stdout.splitlines()]


def test_gestures():
    assert run_with_model("gestures", "gestures", "*.csv") == ["clockwise", "counter clockwise", "move", "stop"]


def test_video():
    pytest.importorskip("headway._media")
    assert run_with_model("video", "video-digits", "*.png") == ["digit 3 grows", "digit 2 turns clockwise"]


def test_digits():
    pytest.importorskip("headway._media")
    script, folder = ROOT / "examples" / "digits" / "digits.py", ROOT / "examples" / "digits" / "samples"
    names = {"two": "2", "five": "5", "eight": "8"}
    files = [folder / f"{name}.png" for name in names]
    result = subprocess.run([sys.executable, script, ROOT / "models" / "digits", *files], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line.split()[1] for line in lines[:3]] == list(names.values())
    assert lines[3] == "(8, 8, 1) -> (1, 8, 8) from -1.0 to 1.0"


def test_recommend():
    script = ROOT / "examples" / "recommend" / "recommend.py"
    result = subprocess.run([sys.executable, script, "104,205,5197", "--count", "3"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 7 and lines[0].split("\t")[1:2] and lines[4].startswith("without 104 (share ")


def test_recommend_remarkable():
    script = ROOT / "examples" / "recommend" / "recommend.py"
    for history, note in (("", "the history is empty"), ("999999", "item 999999 was ignored")):
        result = subprocess.run([sys.executable, script, history, "--count", "2"], capture_output=True, text=True)
        assert result.returncode == 0 and result.stdout.startswith(note), result
        assert len(result.stdout.splitlines()) == 3
    result = subprocess.run([sys.executable, script, "17,abc"], capture_output=True, text=True)
    assert result.returncode == 2 and "'17,abc'" in result.stderr


def test_video():
    folder = ROOT / "examples" / "video"
    command = [sys.executable, folder / "video.py", ROOT / "models" / "video-digits"]
    result = subprocess.run([*command, folder / "samples" / "turns.png"], capture_output=True, text=True)
    assert result.returncode == 0 and result.stdout.endswith(": digit 2 turns clockwise\n"), result.stderr
    picture = ROOT / "examples" / "digits" / "samples" / "three.png"
    result = subprocess.run([*command, picture], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr == f"{picture}: 8 x 8 pixels, expected 16 frames of 24 x 24\n"


def test_gestures(tmp_path):
    folder, rows = ROOT / "examples" / "gestures", tmp_path / "rows.csv"
    command = [sys.executable, folder / "gestures.py", ROOT / "models" / "gestures"]
    result = subprocess.run([*command, folder / "samples" / "rows.csv"], capture_output=True, text=True)
    assert result.returncode == 0 and result.stdout.startswith("row 1: clockwise\n"), result.stderr
    rows.write_text("1,2,3\n")
    result = subprocess.run([*command, rows], capture_output=True, text=True)
    assert result.returncode == 1 and "rows.csv: rows of 3 numbers, expected x and y of 16 points" in result.stderr


def test_language_model():
    script = ROOT / "examples" / "language_model" / "language_model.py"
    result = subprocess.run([sys.executable, script, "ROMEO:"], capture_output=True, text=True)
    assert result.returncode == 0 and result.stdout.startswith("ROMEO:"), result.stderr
    assert "layer 1, head 3: 1 back, weight 1.00" in result.stdout
