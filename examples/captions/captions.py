"""Captions of pictures, and where each word looked: captions.py [--beams N] models/emoji-captions PICTURE..."""

import argparse

import headway

SIDE = 6  # patches in a row


def words_of(tokenizer, tokens):
    """The tokens of each word of a caption: several where it is spelled."""
    words = []
    for place, token in enumerate(tokens[:-1]):
        piece = tokenizer.token(token)
        if piece.startswith("\u2581") or not piece.isalnum() or not words:
            words.append([piece.lstrip("\u2581"), [place]])
        else:
            words[-1][0] += piece
            words[-1][1].append(place)
    return words


def brightest(layers, places):
    """Row and column of the patch that a word looked at most, over all layers and heads; both from 1."""
    weights = sum(layer[:, places, 1:].mean(axis=(0, 1)) for layer in layers)
    row, column = divmod(int(weights.argmax()), SIDE)
    return row + 1, column + 1


def main():
    """Captions every picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("pictures", nargs="+", metavar="PICTURE")
    parser.add_argument("--beams", type=int, default=4)
    options = parser.parse_args()

    captioner = headway.ImageCaptioner(options.model)
    for name, caption in zip(options.pictures, captioner.caption(options.pictures, beams=options.beams)):
        print(f"{name}: {caption.text}")
        layers = captioner.attention(name, caption)
        for word, places in words_of(captioner.tokenizer, caption.tokens):
            if word.isalnum():
                print("    {:12} row {} column {}".format(word, *brightest(layers, places)))


if __name__ == "__main__":
    main()
