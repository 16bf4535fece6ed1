"""The package as a whole: what importing it costs and brings, threads, forks, its version."""

import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

import headway
import numpy as np
import pytest


def run(code):
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_importing_brings_no_other_library():
    loaded = run("import sys, headway; print(sorted({'torch', 'jax', 'ml_dtypes', 'transformers'} & set(sys.modules)))")
    assert loaded == "[]"


def test_importing_is_quick():
    code = (
        "import time, numpy; begin = time.perf_counter(); import headway; print((time.perf_counter() - begin) * 1e3)"
    )
    assert min(float(run(code)) for _ in range(5)) < 20


def test_info():
    info = headway.info()
    assert info["version"] == headway.__version__
    assert info["instruction_set"] in info["instruction_sets"] and info["num_threads"] == headway.num_threads() >= 1


def test_version_is_the_librarys():
    cmake = pathlib.Path(__file__).parents[2] / "CMakeLists.txt"
    assert re.search(r"project\(headway VERSION ([0-9.]+)", cmake.read_text())[1] == headway.__version__


def test_everything_public_is_documented():
    for name in headway.__all__:
        assert getattr(headway, name).__doc__, name


def names_in(path):
    """The names that a stub declares."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def test_stubs_know_every_name():
    folder = pathlib.Path(headway.__file__).parent
    assert (folder / "py.typed").exists()
    assert set(headway.__all__) <= names_in(folder / "__init__.pyi")
    public = {name for name in dir(headway._core) if not name.startswith("_")}
    assert public <= names_in(folder / "_core.pyi")


def test_calls_are_counted():
    array = np.ones((1, 1, 2, 2), np.float32)
    before = headway.call_count()
    headway.attention(array, array, array)
    assert headway.call_count() == before + 1


def test_other_threads_run_meanwhile():
    array = np.ones((1, 8, 2048, 64), np.float32)
    ticks = []
    done = threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.perf_counter()
    headway.attention(array, array, array)
    end = time.perf_counter()
    done.set()
    thread.join()
    assert sum(begin < tick < end for tick in ticks) >= 3


def test_calls_from_many_threads():
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((2, 4, 33, 16)).astype(np.float32) for _ in range(3)]
    expected = headway.attention(*arrays)
    equal = []
    threads = [
        threading.Thread(target=lambda: equal.append(np.array_equal(headway.attention(*arrays), expected)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert equal == [True] * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_children_compute():
    code = """
import os, numpy, headway
array = numpy.ones((2, 4, 64, 16), numpy.float32)
headway.attention(array, array, array)
child = os.fork()
if child == 0:
    os._exit(0 if headway.attention(array, array, array).sum() == array.sum() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run(code) == "0"


def test_modules_are_hardened():
    """The extension modules carry the flags of cmake/hardening.cmake, where the checkout and readelf are there."""
    check = pathlib.Path(__file__).parents[2] / "tools" / "check_hardening.py"
    modules = sorted(pathlib.Path(headway.__file__).parent.glob("_*.so"))
    if not check.exists() or not shutil.which("readelf") or not modules:
        pytest.skip("no checkout, no readelf or no modules beside the package")
    # What the modules forward to reads files; in them no call of the C library may be left to check.
    arguments = [f"--kernels={module}" for module in modules]
    result = subprocess.run([sys.executable, check, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
