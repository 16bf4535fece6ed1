"""Runs every Python snippet of the README, of docs/models.md and of docs/media.md, each in a process of its own; those for
torch where it is installed."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import headway
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import small_bert
import small_families
import small_media


def snippets(document):
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / document).read_text(encoding="utf-8"), re.M | re.S)


def run(code, directory):
    subprocess.run([sys.executable, "-c", code], check=True, cwd=directory, timeout=300)


def test_the_documents_have_snippets():
    assert len(snippets("README.md")) >= 3
    assert len(snippets("docs/models.md")) >= 4


@pytest.mark.parametrize("code", snippets("README.md"))
def test_snippet_runs(code, tmp_path):
    for package in ("transformers", "torch"):
        if re.search(rf"^(import|from) {package}\b", code, re.M) and importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    run(code, tmp_path)


@pytest.mark.parametrize("code", snippets("docs/models.md"))
def test_snippet_of_a_family_runs(code, tmp_path):
    small_bert.write_all(tmp_path)
    small_families.write_with_package(headway, tmp_path, [name for name in small_families.FAMILIES if name in code])
    small_families.write_features_with_package(
        headway, tmp_path, [name for name in small_families.FEATURES if name in code])
    run(code, tmp_path)


@pytest.mark.parametrize("code", snippets("docs/media.md"))
def test_snippet_of_media_runs(code, tmp_path):
    pytest.importorskip("headway._media")
    small_media.write_all(tmp_path)
    run(code, tmp_path)


def test_the_small_families_are_all_families():
    ours = {"bert", "marian", "gemma3"} | {family for family, *_ in small_families.FAMILIES.values()}
    ours |= {family for family, *_ in small_families.FEATURES.values()} - {"clip"}
    assert ours == set(headway.TransformerModel.families())
