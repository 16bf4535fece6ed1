#!/usr/bin/env python3
"""Compiles and runs every C++ snippet of the documents that are for users, checks that their translations have the same
shape and code, that links lead to files, and that the numbers of the walkthrough are those that its program prints."""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests" / "support"))
import small_bert
import small_families
import small_media
import small_translator

# Each .md and .zh-CN.md.
DOCUMENTS = ["README", "docs/multi_head_attention", "docs/training", "docs/translation", "docs/fine_tuning",
             "docs/generation", "docs/models", "docs/media", "docs/gpu", "docs/distributed"]
# Pages that are translated too, but whose code is looked at alone: the examples build their own programs.
ILLUSTRATED = ["docs/gallery"]
# Headers of libheadway_text; their snippets find the directory "model", which is "opus-mt-en-de" too, the training config
# "run.json", and what small_bert.write_all() and small_families.write_all() write.
TEXT_HEADERS = re.compile(r"#include <headway/(token\w+|text\w*|transl\w+|transformer_model|attention_view|"
                          r"question_answerer|mask_filler|fine_tuning|quantization|rouge)\.h>")
# Headers of libheadway_media; their snippets find what small_media.write_all() writes.
MEDIA_HEADERS = re.compile(r"#include <headway/(audio|image|image_captioner|media|picture_classifier|transcriber)\.h>")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)[^)]*\)")
COMMENTS = {"cpp": "//.*", "sh": "#.*", "cmake": "#.*", "python": "#.*", "json": "//.*", "text": "$^"}


def blocks(text):
    """(language, code) of every fenced block."""
    return BLOCK.findall(text)


def headings(text):
    """The levels of all headings outside of code: [1, 2, 2, ...]."""
    return [len(marks) for marks in re.findall(r"^(#+) ", BLOCK.sub("", text), re.MULTILINE)]


def bare_blocks(text):
    """All fenced blocks without their comments, which are translated."""
    return [(language, [re.sub(COMMENTS.get(language, "$^"), "", line).rstrip() for line in code.splitlines()])
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
    """Builds one snippet against the libraries' public headers and runs it; raises when either fails."""
    source = options.work / f"{name}.cpp"
    program = options.work.resolve() / name
    source.write_text(as_program(code), encoding="utf-8")
    libraries = [options.library.resolve()]
    if TEXT_HEADERS.search(code) or MEDIA_HEADERS.search(code):
        libraries.insert(0, options.text_library.resolve())
    if MEDIA_HEADERS.search(code):
        libraries.insert(0, options.media_library.resolve())
    links = [text for library in libraries for text in (str(library), f"-Wl,-rpath,{library.parent}")]
    subprocess.run([options.compiler, "-std=c++20", "-Wall", "-Wextra", "-Wno-unused-variable", "-Werror",
                    f"-I{ROOT / 'include'}", str(source), *links, "-o", str(program)], check=True)
    subprocess.run([str(program)], check=True, cwd=options.run_directory)


def check_translation(name):
    """Checks that a document and its translation have the same headings and code; returns the document's text."""
    for ending in (".md", ".zh-CN.md"):
        if not (ROOT / f"{name}{ending}").exists():
            raise SystemExit(f"{name}: there is no {name}{ending}")
    first, second = [(ROOT / f"{name}{ending}").read_text(encoding="utf-8") for ending in (".md", ".zh-CN.md")]
    if headings(first) != headings(second):
        raise SystemExit(f"{name}: the translation has other headings: {headings(first)} and {headings(second)}")
    if bare_blocks(first) != bare_blocks(second):
        raise SystemExit(f"{name}: the translation has other code blocks")
    return first


def check_links(path):
    """Checks that every relative link of a page leads to a file."""
    prose = re.sub("`[^`\n]*`", "", BLOCK.sub("", path.read_text(encoding="utf-8")))
    for target in LINK.findall(prose):
        if not (path.parent / target).exists():
            raise SystemExit(f"{path.relative_to(ROOT)}: there is no {target}, which it links to")


def check_texts():
    """What needs nothing built: translations and links."""
    examples = sorted({str(page.parent.relative_to(ROOT) / "README") for page in ROOT.glob("examples/*/README*.md")})
    names = [*DOCUMENTS, *ILLUSTRATED, *examples]
    for name in names:
        check_translation(name)
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md"), *ROOT.glob("models/*/*.md")]
    for page in pages:
        check_links(page)
    print(f"documents: {len(names)} translations have the same shape, the links of {len(pages)} pages lead somewhere")


def check_document(name, options, walkthrough):
    """Checks one document and its translation; returns the numbers of snippets that ran and that could not."""
    first = check_translation(name)
    snippets = [code for language, code in blocks(first) if language == "cpp"]
    skipped = 0
    for number, code in enumerate(snippets, 1):
        if (TEXT_HEADERS.search(code) and not options.text_library
                or MEDIA_HEADERS.search(code) and not options.media_library):
            skipped += 1
        else:
            compile_and_run(code, f"{pathlib.Path(name).name}_{number}", options)
    for language, code in blocks(first):
        if language == "text" and code not in walkthrough:
            raise SystemExit(f"{name}: the walkthrough does not print\n{code}")
    return len(snippets) - skipped, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", action="store_true", help="look at translations and links alone; needs nothing built")
    parser.add_argument("--compiler")
    parser.add_argument("--library", type=pathlib.Path)
    parser.add_argument("--text-library", type=pathlib.Path, help="libheadway_text; else its snippets are left out")
    parser.add_argument("--media-library", type=pathlib.Path, help="libheadway_media, needs --text-library")
    parser.add_argument("--program", type=pathlib.Path, help="the headway program; default: beside --text-library")
    parser.add_argument("--walkthrough", type=pathlib.Path, help="the program examples/walkthrough.cpp")
    parser.add_argument("--work", type=pathlib.Path, help="directory for what is built")
    options = parser.parse_args()
    check_texts()
    if options.texts:
        return 0
    if None in (options.compiler, options.library, options.walkthrough, options.work):
        parser.error("--compiler, --library, --walkthrough and --work are needed, or --texts")
    options.work.mkdir(parents=True, exist_ok=True)
    walkthrough = subprocess.run([str(options.walkthrough)], check=True, capture_output=True, text=True).stdout
    with tempfile.TemporaryDirectory() as run_directory:
        options.run_directory = pathlib.Path(run_directory)
        if options.text_library:
            program = options.program or options.text_library.parent / "headway"
            small_translator.train(program.resolve(), options.run_directory)
            (options.run_directory / "opus-mt-en-de").symlink_to("model")
            small_bert.write_all(options.run_directory)
            small_families.write_all(program.resolve(), options.run_directory)
        small_media.write_all(options.run_directory)
        counts = [check_document(name, options, walkthrough) for name in DOCUMENTS]
    ran, skipped = map(sum, zip(*counts))
    print(f"documents: {ran} snippets compiled and ran, {skipped} left out")
    return 0 if ran else "no document has a C++ snippet"


if __name__ == "__main__":
    sys.exit(main())
