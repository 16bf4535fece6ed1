#!/usr/bin/env python3
"""Builds a small program with and without protections, and runs check_hardening over it."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import check_hardening

PROGRAM = """
#include <cstring>
#include <vector>
int main(int count, char** arguments) {
  char text[64];
  std::strcpy(text, arguments[count - 1]);
  std::vector<int> numbers(static_cast<unsigned>(count));
  return numbers[static_cast<unsigned>(text[0])];
}
"""
COMPILED = ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-D_GLIBCXX_ASSERTIONS"]
LINKED = ["-fPIE", "-pie", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"]


class CheckHardeningTest(unittest.TestCase):
    def missing(self, options):
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder) / "program.cpp", pathlib.Path(folder) / "program"
            source.write_text(PROGRAM, encoding="utf-8")
            subprocess.run([os.environ.get("CXX", "c++"), "-O2", *options, source, "-o", program], check=True)
            return " ".join(check_hardening.missing_protections(program))

    def test_all_of_them(self):
        self.assertEqual(self.missing(COMPILED + LINKED), "")

    def test_none_of_them(self):
        missing = self.missing(["-fno-stack-protector", "-U_FORTIFY_SOURCE", "-no-pie", "-Wl,-z,norelro", "-Wl,-z,lazy",
                                "-Wl,-z,execstack"])
        for name in ("GNU_RELRO", "BIND_NOW", "GNU_STACK", "PIE", "__stack_chk_fail", "_FORTIFY_SOURCE",
                     "_GLIBCXX_ASSERTIONS"):
            self.assertIn(name, missing)


if __name__ == "__main__":
    unittest.main()
