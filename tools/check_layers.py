#!/usr/bin/env python3
"""Checks every #include against the folders' rules: who may know whom (see docs/architecture.md)."""

import argparse
import pathlib
import re
import sys

# Folder -> the folders whose headers it may include, besides its own and the public ones.
BASE = {"base"}
CORE = BASE | {"core"}
BACKEND = CORE | {"backend"}
OPS = BACKEND | {"ops"}
NN = OPS | {"dist", "nn"}
MODELS = NN | {"io", "text", "models"}
GENERATE = MODELS | {"generate"}
FOLDERS = {
    "base": set(),
    "core": BASE,
    "backend": CORE,
    "cpu": BACKEND,
    "cuda": BACKEND,
    "io": CORE,
    "ops": BACKEND,
    "dist": OPS,
    "nn": OPS | {"dist"},
    "train": NN | {"io"},
    "mpi": BASE,  # a library of its own: an engine of the communicators
    # The text library.
    "text": BASE,
    "models": MODELS,
    "generate": GENERATE,
    "training": GENERATE | {"train"},
    "translation": GENERATE | {"train", "training"},
    "report": BASE | {"text", "training", "translation"},  # text: the names of languages
    "tasks": GENERATE | {"train", "training", "translation", "report"},
    "explain": GENERATE | {"tasks"},
    # The media library.
    "media": CORE,
    "perception": GENERATE | {"media", "tasks", "explain"},
}
# Tests and benchmarks, which use internals.
UNRESTRICTED = ("tests/", "bench/")
# Users: the public headers alone.
PUBLIC_ONLY = ("cli/", "examples/", "python/", "tests/consumer/")
# What the program may use besides: files, text, the terminal.
PROGRAM_FOLDERS = BASE

# Third-party headers -> where they may appear.
THIRD_PARTY = {
    "hwy/": ("src/cpu/kernels/",),
    "cuda": ("src/cuda/",),
    "cublas": ("src/cuda/",),
    "mpi.h": ("src/mpi/",),
    "nanobind/": ("python/",),
    "nlohmann/": ("src/base/",),
    "sentencepiece": ("src/text/train_pieces.cpp", "tests/text_sentence_pieces_test.cpp"),  # training; the reference
    "zip.h": ("src/text/",),
    "pcre2": ("src/text/",),
    "utf8proc": ("src/text/",),
    "sndfile": ("src/media/",),
    "kissfft/": ("src/media/",),
    "png.h": ("src/media/",),
    "jpeglib.h": ("src/media/",),
    "CLI/": ("cli/",),
    "gtest/": ("tests/",),
    "immintrin.h": ("src/cpu/", "src/core/spin.h"),  # spin.h: the pause instruction
    "arm_neon.h": ("src/cpu/",),
}

SOURCE_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folder_of(path):
    """The folder that a repository path lies in: "core" for src/core/x.cpp, None outside src/."""
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def third_party_error(path, header):
    for prefix, homes in THIRD_PARTY.items():
        if header.startswith(prefix) and not path.startswith(homes + UNRESTRICTED):
            return f"<{header}> may only be used in {', '.join(homes)}"
    return None


def error_of(path, quote, header, root):
    """What is wrong with one include, or None."""
    included_folder = header.split("/")[0] if "/" in header else None
    is_public = included_folder == "headway"
    if path.startswith(PUBLIC_ONLY):
        if path.startswith("cli/") and included_folder in PROGRAM_FOLDERS:
            return None
        if included_folder in FOLDERS:
            return f'"{header}" is internal: only headway/ may be used here'
        return third_party_error(path, header)
    if path.startswith(UNRESTRICTED):
        return None
    if path.startswith("include/"):
        if quote == "<" and ("/" in header or header.endswith(".h")):
            return f"<{header}>: a public header includes only headway/ and the C++ standard library"
        if quote == '"' and not is_public:
            return f'"{header}": a public header includes only headway/ and the C++ standard library'
        return None
    if is_public or header.startswith(tuple(THIRD_PARTY)) or quote == "<" and included_folder not in FOLDERS:
        return third_party_error(path, header)

    folder = folder_of(path)
    if included_folder not in FOLDERS:
        return f'"{header}": name internal headers from src/ on, as in "{folder}/..."'
    if not (root / "src" / header).is_file():
        return f'"{header}" is not a file under src/'
    allowed = {folder} | FOLDERS.get(folder, set())
    if included_folder not in allowed:
        return f'"{header}": {folder} may not know {included_folder} (only {", ".join(sorted(allowed))})'
    return None


def check(root):
    """All violations under `root`, as "path:line: message"."""
    errors = []
    for top in ("include", "src", "cli", "python", "examples", "tests", "bench"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in SOURCE_SUFFIXES:
                continue
            path = file.relative_to(root).as_posix()
            folder = folder_of(path)
            if folder is not None and folder not in FOLDERS:
                errors.append(f"{path}:1: src/{folder} is not a folder of docs/architecture.md")
                continue
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                error = match and error_of(path, match[1], match[2], root)
                if error:
                    errors.append(f"{path}:{number}: {error}")
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    errors = check(parser.parse_args().root)
    for error in errors:
        print(error)
    print(f"layers: {len(errors)} violation{'' if len(errors) == 1 else 's'}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
