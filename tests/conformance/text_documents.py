"""Runs the Python snippet of docs/translation.md: Transformers, CTranslate2 and Headway translate alike.

Prints one line, `text_documents: N passed, N failed, 0 skipped`.
"""

import ast
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from headway_program import ROOT, Tally, call, parser

sys.path.insert(0, str(ROOT / "tests" / "support"))
import small_translator

SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main():
    """Trains the small translator and moves it there and back."""
    options = parser(__doc__).parse_args()
    program = pathlib.Path(options.program).resolve()
    snippet, = SNIPPET.findall((ROOT / "docs" / "translation.md").read_text(encoding="utf-8"))
    texts = ast.literal_eval(re.search(r"^texts = (.*)$", snippet, re.MULTILINE)[1])
    tally = Tally("text_documents")
    with tempfile.TemporaryDirectory() as work:
        directory = pathlib.Path(work)
        small_translator.train(program, directory)
        done = subprocess.run([sys.executable, "-c", snippet], cwd=directory, check=False, capture_output=True,
                              text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
        tally.check(done.returncode == 0, done.stderr)
        if done.returncode == 0:
            transformers, *ctranslate2 = done.stdout.splitlines()
            transformers = ast.literal_eval(transformers)
            tally.check(ctranslate2 == transformers, "CTranslate2", ctranslate2, "Transformers", transformers)
            for model in ("model", "copy"):
                ours = call(program, "translate", "--model", directory / model, "--beam", 1, *texts).splitlines()
                tally.check(ours == transformers, model, "Headway", ours, "Transformers", transformers)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
