#!/usr/bin/env python3
"""Says what is in sound files: each word, when it was said, and where its attention is greatest.

    examples/speech/speech.py examples/speech/samples/three-digits.wav
"""

import argparse
import pathlib

import headway

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models" / "spoken-digits"


def main():
    """Transcribes each file of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, default=MODEL, help="a directory of Whisper's layout")
    parser.add_argument("--beams", type=int)
    arguments = parser.parse_args()

    transcriber = headway.Transcriber(arguments.model)
    for file in arguments.files:
        heard = transcriber.transcribe(file, beams=arguments.beams, attention=True)
        print(f"{file}: {heard.text}" + (f"  ({heard.notes})" if heard.notes else ""))
        if len(heard.attention) != 1:
            continue  # silence, or several windows
        # The last layer's cross-attention, over its heads: [tokens, positions], a token of this model is a word.
        weights = heard.attention[0][-1].mean(axis=0)[-len(heard.tokens) :]
        seconds = heard.seconds / weights.shape[1]
        for word, row in zip(heard.words, weights):
            peak = row.argmax()
            print(f"  {word.text:<6} {word.start:5.2f} to {word.end:5.2f} s, looks most at {peak * seconds:.2f} s")


if __name__ == "__main__":
    main()
