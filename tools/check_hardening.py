#!/usr/bin/env python3
"""Checks by readelf that libraries and programs were linked and compiled with the flags of cmake/hardening.cmake."""

import argparse
import pathlib
import re
import subprocess
import sys


def readelf(file, *options):
    return subprocess.run(["readelf", "--wide", *options, file], check=True, capture_output=True, text=True,
                          errors="replace").stdout


def missing_protections(file, reads_files=True):
    """What a file lacks, in words; `reads_files`: also the checks of what reads files and texts of strangers."""
    segments, dynamic = readelf(file, "--segments"), readelf(file, "--dynamic")
    symbols = {line.split()[7].split("@")[0] for line in readelf(file, "--dyn-syms").splitlines()
               if len(line.split()) > 7 and line.split()[6] == "UND"}
    missing = []
    if "GNU_RELRO" not in segments:
        missing.append("no read-only relocations (GNU_RELRO)")
    if not re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW|\(BIND_NOW\)", dynamic):
        missing.append("symbols are bound when they are used (no BIND_NOW)")
    stack = re.search(r"GNU_STACK(?:\s+0x[0-9a-f]+)+\s+([RWE ]+?)\s+0x", segments)
    if not stack or "E" in stack[1]:
        missing.append("the stack may be executed (GNU_STACK)")
    if re.search(r"^\s*LOAD(?:\s+0x[0-9a-f]+)+\s+RWE", segments, re.MULTILINE):
        missing.append("a segment may be written and executed")
    if "INTERP" in segments and "DYN" not in readelf(file, "--file-header"):
        missing.append("a program at a fixed address (no PIE)")
    if "__stack_chk_fail" not in symbols:
        missing.append("no stack protector (__stack_chk_fail)")
    if reads_files and not any(re.fullmatch(r"__\w+_chk", symbol) for symbol in symbols):
        missing.append("no checked calls of the C library (_FORTIFY_SOURCE)")
    if reads_files and not any("__glibcxx_assert_fail" in symbol for symbol in symbols):
        missing.append("no checked indices (_GLIBCXX_ASSERTIONS)")
    return missing


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="libraries and programs")
    parser.add_argument("--kernels", action="append", default=[], type=pathlib.Path,
                        help="a library that computes or forwards, in which no call and no index need be checked")
    arguments = parser.parse_args()
    failed = 0
    for file in arguments.files + arguments.kernels:
        missing = missing_protections(file, reads_files=file not in arguments.kernels)
        failed += bool(missing)
        print(f"{file.name}: {'; '.join(missing) or 'hardened'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
