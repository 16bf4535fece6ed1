#!/usr/bin/env python3
"""Plants includes that must and must not pass into a small tree, and runs check_layers over it."""

import pathlib
import tempfile
import unittest

import check_layers

HEADERS = ["base/check.h", "backend/backend.h", "cpu/backend.h", "cuda/backend.h", "ops/attention.h",
           "dist/engines.h", "nn/linear.h", "io/safetensors.h"]


def violations(path, include):
    """How many violations `path` has when it holds the one line `#include <include>`."""
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        for header in HEADERS:
            (root / "src" / header).parent.mkdir(parents=True, exist_ok=True)
            (root / "src" / header).touch()
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"#include {include}\n", encoding="utf-8")
        return len(check_layers.check(root))


class CheckLayersTest(unittest.TestCase):
    def test_allowed(self):
        for path, include in [
            ("include/headway/x.h", "<vector>"),
            ("include/headway/x.h", '"headway/tensor.h"'),
            ("src/core/x.cpp", "<sys/mman.h>"),
            ("src/cpu/x.cpp", '"base/check.h"'),
            ("src/cpu/x.cpp", '"cpu/backend.h"'),
            ("src/cpu/kernels/x-inl.h", '"hwy/highway.h"'),
            ("src/cpu/kernels/x.cpp", "<hwy/highway.h>"),
            ("src/cpu/x.cpp", '"backend/backend.h"'),
            ("src/ops/x.cpp", '"backend/backend.h"'),
            ("src/nn/x.cpp", '"ops/attention.h"'),
            ("src/train/x.cpp", '"io/safetensors.h"'),
            ("src/models/x.cpp", '"nn/linear.h"'),
            ("cli/x.cpp", '"base/check.h"'),
            ("src/dist/x.cpp", '"ops/attention.h"'),
            ("src/nn/x.cpp", '"dist/engines.h"'),
            ("src/mpi/x.cpp", "<mpi.h>"),
            ("tests/x_test.cpp", '"base/check.h"'),
            ("examples/x.cpp", "<headway/headway.h>"),
        ]:
            with self.subTest(path=path, include=include):
                self.assertEqual(violations(path, include), 0)

    def test_forbidden(self):
        for path, include in [
            ("include/headway/x.h", '"base/check.h"'),
            ("include/headway/x.h", "<hwy/highway.h>"),
            ("include/headway/x.h", "<immintrin.h>"),
            ("src/core/x.cpp", '"cpu/backend.h"'),
            ("src/core/x.cpp", '"ops/attention.h"'),
            ("src/core/x.cpp", '"backend/backend.h"'),
            ("src/backend/x.cpp", '"cpu/backend.h"'),
            ("src/ops/x.cpp", '"cpu/backend.h"'),
            ("src/cpu/x.cpp", '"cuda/backend.h"'),
            ("src/cpu/x.cpp", '"ops/attention.h"'),
            ("src/cpu/x.cpp", "<hwy/highway.h>"),
            ("src/cpu/x.cpp", '"attention.h"'),
            ("src/cpu/x.cpp", '"core/missing.h"'),
            ("src/ops/x.cpp", "<immintrin.h>"),
            ("src/ops/x.cpp", '"nn/linear.h"'),
            ("src/io/x.cpp", '"ops/attention.h"'),
            ("src/text/x.cpp", '"nn/linear.h"'),
            ("src/base/x.cpp", '"nn/linear.h"'),
            ("src/dist/x.cpp", '"nn/linear.h"'),
            ("src/dist/x.cpp", "<mpi.h>"),
            ("src/attic/x.cpp", "<vector>"),
            ("examples/x.cpp", '"base/check.h"'),
            ("tests/consumer/x.cpp", '"base/check.h"'),
        ]:
            with self.subTest(path=path, include=include):
                self.assertEqual(violations(path, include), 1)


if __name__ == "__main__":
    unittest.main()
