"""A small English-German translator for the documents' snippets: its sentence pairs, and settings to train it with."""

import itertools
import json
import subprocess

ANIMALS = [("animal", "Tier"), ("horse", "Pferd"), ("child", "Kind"), ("lamb", "Lamm"), ("chicken", "Huhn")]
PLACES = [("street", "die Straße"), ("bridge", "die Brücke"), ("river", "den Fluss"), ("square", "den Platz")]
REASONS = [("tired", "müde"), ("old", "alt"), ("small", "klein"), ("young", "jung"), ("ill", "krank"),
           ("slow", "langsam")]

# In place of a document's own settings: a model that learns the pairs in seconds.
SMALL = {"vocab_size": 350, "width": 32, "heads": 4, "encoder_layers": 2, "decoder_layers": 2, "feed_forward": 64,
         "batch_tokens": 1500, "learning_rate": 1e-2, "warmup_steps": 30, "dropout": 0.0, "epochs": 1000,
         "max_steps": 120, "validate_every": 60, "checkpoint_every": 60, "validate_sentences": 10}


def pairs():
    """All pairs, English first."""
    result = [("Good morning!", "Guten Morgen!"), ("Good night.", "Gute Nacht."),
              ("How are you?", "Wie geht es dir?"), ("Where are you?", "Wo bist du?")]
    for (animal, tier), (reason, weil) in itertools.product(ANIMALS, REASONS):
        result.append((f"The {animal} was too {reason}.", f"Das {tier} war zu {weil}."))
        for place, ort in PLACES:
            result.append((f"The {animal} didn't cross the {place} because it was too {reason}.",
                           f"Das {tier} überquerte {ort} nicht, weil es zu {weil} war."))
    return result


def write_pairs(file):
    """Writes the pairs as a tab-separated file."""
    file.write_text("".join(f"{english}\t{german}\n" for english, german in pairs()), encoding="utf-8")


def write_config(file):
    """Writes the settings of a short run."""
    file.write_text(json.dumps({"data": "pairs.tsv", "output": "model", **SMALL}), encoding="utf-8")


def train(program, directory):
    """Trains directory/model from directory/pairs.tsv by directory/run.json."""
    write_pairs(directory / "pairs.tsv")
    write_config(directory / "run.json")
    subprocess.run([str(program), "train", "--config", "run.json", "--quiet"], check=True, cwd=directory,
                   stdout=subprocess.DEVNULL)
