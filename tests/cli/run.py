#!/usr/bin/env python3
"""Tests the program: run.py PROGRAM [names of tests, as model_test.Translate]."""

import pathlib
import sys
import tempfile
import unittest

import program_test


def main():
    """Runs all tests, or those that are named."""
    program_test.program = str(pathlib.Path(sys.argv[1]).resolve())
    loader = unittest.TestLoader()
    here = str(pathlib.Path(__file__).resolve().parent)
    tests = loader.loadTestsFromNames(sys.argv[2:]) if sys.argv[2:] else loader.discover(here, "*_test.py")
    with tempfile.TemporaryDirectory() as shared:
        program_test.shared = pathlib.Path(shared)
        return 0 if unittest.TextTestRunner(verbosity=2).run(tests).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
