"""Runs every Python snippet of the README, each in a process of its own; those for torch where it is installed."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)


def test_the_readme_has_snippets():
    assert len(SNIPPETS) >= 3


@pytest.mark.parametrize("code", SNIPPETS)
def test_snippet_runs(code, tmp_path):
    for package in ("transformers", "torch"):
        if re.search(rf"^(import|from) {package}\b", code, re.M) and importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, timeout=300)
