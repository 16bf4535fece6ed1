"""A small GPT that writes plays, character by character: what it writes, what its first layer looks at, and how well it
predicts a text.

language_model.py [PROMPT] [--model models/shakespeare] [--text input.txt]   (--text: the loss on the last tenth of it)
"""

import argparse
import pathlib

import headway

ROOT = pathlib.Path(__file__).resolve().parents[2]


def looks_back(model, ids):
    """For each head of the first layer how far back it looks, and with which mean weight."""
    weights = model.forward(ids, return_weights=True).decoder_weights[0][0]  # (heads, length, length)
    length = weights.shape[1]
    for head, rows in enumerate(weights, 1):
        means = [rows[range(8, length), range(8 - back, length - back)].mean() for back in range(8)]
        best = max(range(8), key=means.__getitem__)
        print(f"layer 1, head {head}: {best} back, weight {means[best]:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt", nargs="?", default="ROMEO:")
    parser.add_argument("--model", default=ROOT / "models" / "shakespeare")
    parser.add_argument("--text", type=pathlib.Path)
    arguments = parser.parse_args()
    generator = headway.TextGenerator(arguments.model)
    written = generator.generate(arguments.prompt, max_new_tokens=200)
    print(arguments.prompt + written.text)
    looks_back(generator.model, generator.encode("But soft, what light through yonder window breaks?"))
    if arguments.text:
        text = arguments.text.read_text(encoding="ascii")
        score = generator.score(text[-(len(text) // 10) :], window=256, stride=128)
        mean = -score.log_probability / len(score.log_probabilities)
        print(f"{mean:.4f} nats per character, each after 128 to 255 others")


if __name__ == "__main__":
    main()
