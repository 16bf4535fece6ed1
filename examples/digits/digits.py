"""Digits by the Python package: digits.py MODEL PICTURE..., as digits.py models/digits examples/digits/samples/*.png"""

import sys

import headway


def main():
    """Labels every picture, and shows what the model sees of the first one."""
    model, *files = sys.argv[1:]
    classifier = headway.PictureClassifier(model, dtype="float32")
    for file, labels in zip(files, classifier.classify(files, most=2)):
        print(file, ", ".join(f"{label.label} {100 * label.score:.1f}%" for label in labels))
    picture = headway.read_picture(files[0], channels=1)
    pixels = headway.picture_tensor(picture, classifier.input)  # [1, 8, 8]
    print(picture.pixels.shape, "->", pixels.shape, f"from {pixels.min():.1f} to {pixels.max():.1f}")


if __name__ == "__main__":
    main()
