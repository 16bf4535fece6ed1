#!/usr/bin/env python3
"""Builds two small libraries that share symbols, and runs check_library over them."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import check_library

LIBRARY = """
namespace headway::inline v0 {
namespace internal {
[[gnu::visibility("default")]] void imported() {}
[[gnu::visibility("default")]] void forgotten() {}
void hidden() {}
}
[[gnu::visibility("default")]] void offered() { internal::hidden(); }
}
[[gnu::visibility("default")]] void foreign() {}
"""
SIBLING = """
namespace headway::inline v0::internal { void imported(); }
void use() { headway::internal::imported(); }
"""


class CheckLibraryTest(unittest.TestCase):
    def build(self, name, text, *options):
        source = self.directory / (name + ".cpp")
        source.write_text(text, encoding="utf-8")
        library = self.directory / (name + ".so")
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-shared", "-fPIC", "-fvisibility=hidden", source,
                        "-o", library, *options], check=True)
        return library

    def test_internal_symbols_are_for_siblings(self):
        with tempfile.TemporaryDirectory() as directory:
            self.directory = pathlib.Path(directory)
            library = self.build("library", LIBRARY)
            sibling = self.build("sibling", SIBLING, library)
            both = ["internal and visible, but no library of the build imports it: headway::v0::internal::forgotten()",
                    "visible, but not public: foreign()"]
            self.assertEqual(sorted(check_library.wrong_symbols(library, [sibling])), both)
            self.assertEqual(len(check_library.wrong_symbols(library, [])), 3)

    def test_libraries_stay_loaded(self):
        with tempfile.TemporaryDirectory() as directory:
            self.directory = pathlib.Path(directory)
            self.assertTrue(check_library.can_be_unloaded(self.build("plain", LIBRARY)))
            self.assertFalse(check_library.can_be_unloaded(self.build("kept", LIBRARY, "-Wl,-z,nodelete")))


if __name__ == "__main__":
    unittest.main()
