#!/usr/bin/env python3
"""Checks what libheadway.so shows and weighs: headway's versioned public names, of its internal ones only those that a
library of the same build imports, and at most 6 MB when stripped; and that no library of the build can be unloaded."""

import argparse
import pathlib
import subprocess
import sys
import tempfile

# Each kernel is there once per instruction set. The Transformer block of all families took it past 5 MB, work over ranks
# past 5.5.
MAX_BYTES = 6_000_000


def dynamic_symbols(library, which):
    """The mangled dynamic symbols of a library that nm's option --defined-only or --undefined-only names."""
    listing = subprocess.run(["nm", "--dynamic", which, library], check=True, capture_output=True, text=True).stdout
    return [line.split()[-1].split("@")[0] for line in listing.splitlines()]


def readable(symbols):
    return subprocess.run(["c++filt"], input="\n".join(symbols), check=True, capture_output=True,
                          text=True).stdout.splitlines()


def wrong_symbols(library, siblings):
    """What is wrong with the visible symbols of a library, in words; the standard library's are shared by all."""
    imported = {symbol for sibling in siblings for symbol in dynamic_symbols(sibling, "--undefined-only")}
    symbols = dynamic_symbols(library, "--defined-only")
    wrong = []
    for symbol, name in zip(symbols, readable(symbols)):
        if "headway::v0::internal" in name:
            if symbol not in imported:
                wrong.append(f"internal and visible, but no library of the build imports it: {name}")
        elif "headway::v0::" not in name and "std::" not in name:
            wrong.append(f"visible, but not public: {name}")
    return wrong


def can_be_unloaded(library):
    """Whether dlclose() takes the library out of memory, in which threads of the pool may still run."""
    flags = subprocess.run(["readelf", "--dynamic", "--wide", library], check=True, capture_output=True,
                           text=True).stdout
    return not any("(FLAGS_1)" in line and "NODELETE" in line for line in flags.splitlines())


def stripped_bytes(library):
    with tempfile.TemporaryDirectory() as directory:
        copy = pathlib.Path(directory) / "stripped"
        subprocess.run(["strip", "-o", copy, library], check=True)
        return copy.stat().st_size


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", help="libheadway.so")
    parser.add_argument("--sibling", action="append", default=[], help="a library of the same build that links to it")
    arguments = parser.parse_args()
    siblings = [sibling for sibling in arguments.sibling if pathlib.Path(sibling).exists()]
    wrong = wrong_symbols(arguments.library, siblings)
    for line in wrong:
        print(line)
    unloadable = [library for library in [arguments.library, *siblings] if can_be_unloaded(library)]
    for library in unloadable:
        print(f"{library}: lacks NODELETE")
    size = stripped_bytes(arguments.library)
    print(f"library: {len(wrong)} wrong symbols, {size / 1e6:.2f} MB stripped (at most {MAX_BYTES / 1e6:.1f})")
    return 1 if wrong or unloadable or size > MAX_BYTES else 0


if __name__ == "__main__":
    sys.exit(main())
