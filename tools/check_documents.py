#!/usr/bin/env python3
"""Compiles and runs every C++ snippet of the documents that are for users, checks that their translations have the same
shape and code, and that the numbers which the walkthrough shows are those that its program prints."""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = ["README", "docs/multi_head_attention", "docs/training"]  # each .md and .zh-CN.md
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENTS = {"cpp": "//.*", "sh": "#.*", "cmake": "#.*", "text": "$^"}


def blocks(text):
    """(language, code) of every fenced block."""
    return BLOCK.findall(text)


def headings(text):
    """The levels of all headings outside of code: [1, 2, 2, ...]."""
    return [len(marks) for marks in re.findall(r"^(#+) ", BLOCK.sub("", text), re.MULTILINE)]


def bare_blocks(text):
    """All fenced blocks without their comments, which are translated."""
    return [(language, [re.sub(COMMENTS[language], "", line).rstrip() for line in code.splitlines()])
            for language, code in blocks(text)]


def as_program(code):
    """A snippet without main() gets one: its includes stay on top, the rest becomes the body."""
    if "int main(" in code:
        return code
    lines = code.splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    body = [line for line in lines if not line.startswith("#include")]
    return "\n".join(includes + ["int main() {"] + body + ["}", ""])


def compile_and_run(code, name, options):
    """Builds one snippet against the library's public headers and runs it; raises when either fails."""
    source = options.work / f"{name}.cpp"
    program = options.work.resolve() / name
    source.write_text(as_program(code), encoding="utf-8")
    library = options.library.resolve()
    subprocess.run([options.compiler, "-std=c++20", "-Wall", "-Wextra", "-Wno-unused-variable", "-Werror",
                    f"-I{ROOT / 'include'}", str(source), str(library), f"-Wl,-rpath,{library.parent}",
                    "-o", str(program)], check=True)
    subprocess.run([str(program)], check=True, cwd=options.work)


def check_document(name, options, walkthrough):
    """Checks one document and its translation; gives the number of snippets that ran."""
    first, second = [(ROOT / f"{name}{ending}").read_text(encoding="utf-8") for ending in (".md", ".zh-CN.md")]
    if headings(first) != headings(second):
        raise SystemExit(f"{name}: the translation has other headings: {headings(first)} and {headings(second)}")
    if bare_blocks(first) != bare_blocks(second):
        raise SystemExit(f"{name}: the translation has other code blocks")
    snippets = [code for language, code in blocks(first) if language == "cpp"]
    for number, code in enumerate(snippets, 1):
        compile_and_run(code, f"{pathlib.Path(name).name}_{number}", options)
    for language, code in blocks(first):
        if language == "text" and code not in walkthrough:
            raise SystemExit(f"{name}: the walkthrough does not print\n{code}")
    return len(snippets)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--library", required=True, type=pathlib.Path)
    parser.add_argument("--walkthrough", required=True, type=pathlib.Path, help="the program examples/walkthrough.cpp")
    parser.add_argument("--work", required=True, type=pathlib.Path, help="directory for what is built")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    walkthrough = subprocess.run([str(options.walkthrough)], check=True, capture_output=True, text=True).stdout
    count = sum(check_document(name, options, walkthrough) for name in DOCUMENTS)
    print(f"documents: {count} snippets compiled and ran")
    return 0 if count else "no document has a C++ snippet"


if __name__ == "__main__":
    sys.exit(main())
