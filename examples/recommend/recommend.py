"""The next items of a history, which past ones they came from, and whether leaving those out changes the answer.

recommend.py [ITEM,ITEM,...] [--model models/video-games] [--count 10]
"""

import argparse
import pathlib

import headway

ROOT = pathlib.Path(__file__).resolve().parents[2]


def items_of(text):
    return [int(item) for item in text.replace(",", " ").split()]


def without(history, place):
    return history[:place] + history[place + 1 :]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("history", nargs="?", default="17,4,902", type=items_of)
    parser.add_argument("--model", default=ROOT / "models" / "video-games")
    parser.add_argument("--count", type=int, default=10)
    arguments = parser.parse_args()
    recommender = headway.SequenceRecommender(arguments.model)
    found = recommender.recommend(arguments.history, count=arguments.count)
    if found.note:
        print(found.note)
    for item in found.items:
        sources = sorted(zip(item.shares, found.read, strict=True), reverse=True)[:3]
        print(item.item, f"{item.probability:.4f}", *(f"{share:.0%} {source}" for share, source in sources), sep="\t")
    if len(found.read) < 2:
        return
    # The score of the best item where each of the past ones is left out.
    best = found.items[0]
    shorter = recommender.scores([without(found.read, place) for place in range(len(found.read))])[:, best.item]
    print(f"score of {best.item}: {best.score:.2f}")
    for source, share, score in zip(found.read, best.shares, shorter, strict=True):
        print(f"without {source} (share {share:.0%}): {score:.2f}")


if __name__ == "__main__":
    main()
