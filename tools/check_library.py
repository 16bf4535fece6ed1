#!/usr/bin/env python3
"""Checks what libheadway.so shows and weighs: only headway's versioned names, and of the internal ones those that are
marked HEADWAY_INTERNAL_API for the libraries of one build; at most 5 MB when stripped."""

import pathlib
import re
import subprocess
import sys
import tempfile

MAX_BYTES = 5_000_000
SOURCES = pathlib.Path(__file__).resolve().parent.parent / "src"
# "class HEADWAY_INTERNAL_API Name", or the name of a function before its arguments.
MARKED = re.compile(r"(?:class|struct)\s+HEADWAY_INTERNAL_API\s+(\w+)|HEADWAY_INTERNAL_API\s+[^;{}()]*?(\w+)\s*\(")
INTERNAL = re.compile(r"headway::v0::internal::(\w+)")


def marked_names():
    """The internal classes and functions that libraries of one build share."""
    return {
        class_name or function_name
        for header in SOURCES.rglob("*.h")
        for class_name, function_name in MARKED.findall(header.read_text(encoding="utf-8"))
    }


def foreign_symbols(library):
    """Defined dynamic symbols that are neither part of headway::v0 nor the standard library's, which are shared."""
    listing = subprocess.run(["nm", "--dynamic", "--defined-only", "--demangle", library],
                             check=True, capture_output=True, text=True).stdout
    names = [line.split(maxsplit=2)[2] for line in listing.splitlines()]
    shared = marked_names()
    foreign = []
    for name in names:
        internal = INTERNAL.search(name)
        if internal and internal[1] not in shared or "headway::v0::" not in name and "std::" not in name:
            foreign.append(name)
    return foreign


def stripped_bytes(library):
    with tempfile.TemporaryDirectory() as directory:
        copy = pathlib.Path(directory) / "stripped"
        subprocess.run(["strip", "-o", copy, library], check=True)
        return copy.stat().st_size


def main():
    library = sys.argv[1]
    foreign = foreign_symbols(library)
    for name in foreign:
        print(f"visible, but not public: {name}")
    size = stripped_bytes(library)
    print(f"library: {len(foreign)} foreign symbols, {size / 1e6:.2f} MB stripped (at most {MAX_BYTES / 1e6:.0f})")
    return 1 if foreign or size > MAX_BYTES else 0


if __name__ == "__main__":
    sys.exit(main())
