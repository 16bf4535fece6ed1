"""The examples run from their first line to their last."""

import json
import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"


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
