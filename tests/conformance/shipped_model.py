"""The model that comes with Headway, in Headway, transformers and CTranslate2: the same translations, greedy and beam 4.

Prints one line, `shipped model: N passed, N failed, N skipped`, after a line for every difference. Greedy translations
that differ pass where their scores are a tie; those of beam search also where ours is the better one, since programs end
their searches at different moments. Other sentences: --sentences FILE --to de.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import ctranslate2
import torch
import transformers

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models" / "en-de"
MARKS = {"de": ">>deu<<", "en": ">>eng<<"}
TIE = 1e-4  # of a score: the mean log-probability of a token
MAX_TOKENS = 80

SENTENCES = {
    "de": [
        "The animal didn't cross the street because it was too tired.",
        "The animal didn't cross the street because it was too wide.",
        "Good morning!",
        "Could you tell me where the station is, please?",
        "I haven't seen my brother since last summer.",
        "She said that she would call us as soon as she arrived.",
        "It's raining, so take an umbrella with you.",
        "How much does this bicycle cost?",
        "We were all surprised by the result of the election.",
        "If I had known that, I would have stayed at home.",
    ],
    "en": [
        "Das Tier überquerte die Straße nicht, weil es zu müde war.",
        "Guten Abend!",
        "Könnten Sie mir bitte sagen, wo der Bahnhof ist?",
        "Ich habe meinen Bruder seit dem letzten Sommer nicht gesehen.",
        "Sie sagte, dass sie uns anrufen werde, sobald sie angekommen sei.",
        "Es regnet, also nimm einen Regenschirm mit.",
        "Wie viel kostet dieses Fahrrad?",
        "Wir waren alle vom Ergebnis der Wahl überrascht.",
        "Wenn ich das gewusst hätte, wäre ich zu Hause geblieben.",
        "Mein Großvater erzählt gern Geschichten aus seiner Kindheit.",
    ],
}


def headway_translations(sentences, to, beam):
    """(text, score) of each sentence by the program."""
    program = os.environ.get("HEADWAY_PROGRAM", "build/release/headway")
    command = [program, "translate", "--model", str(MODEL), "--to", to, "--beam", str(beam), "--json"]
    lines = subprocess.run(command, input="\n".join(sentences) + "\n", text=True, capture_output=True, check=True).stdout
    answers = [json.loads(line) for line in lines.splitlines()]
    return [(answer["translation"], answer["best"][0]["score"]) for answer in answers]


class Transformers:
    """MarianMTModel.generate(), and the score of any translation."""

    def __init__(self):
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(MODEL)
        self.model = transformers.MarianMTModel.from_pretrained(MODEL, dtype=torch.float32).eval()

    def translate(self, sentences, to, beam):
        texts = []
        for sentence in sentences:  # one by one: padding changes rounding
            inputs = self.tokenizer([f"{MARKS[to]} {sentence}"], return_tensors="pt")
            ids = self.model.generate(**inputs, num_beams=beam, max_new_tokens=MAX_TOKENS, do_sample=False)
            texts.append(self.tokenizer.decode(ids[0], skip_special_tokens=True))
        return texts

    def score(self, sentence, translation, to):
        """The mean log-probability of a translation's tokens."""
        inputs = self.tokenizer([f"{MARKS[to]} {sentence}"], text_target=[translation], return_tensors="pt")
        with torch.no_grad():
            return -self.model(**inputs).loss.item()


class CTranslate2:
    def __init__(self, work, tokenizer):
        target = pathlib.Path(work) / "ctranslate2"
        ctranslate2.converters.TransformersConverter(str(MODEL)).convert(str(target), force=True)
        self.translator = ctranslate2.Translator(str(target), compute_type="float32")
        self.tokenizer = tokenizer

    def translate(self, sentences, to, beam):
        sources = [self.tokenizer(f"{MARKS[to]} {sentence}").input_ids for sentence in sentences]
        tokens = [self.tokenizer.convert_ids_to_tokens(source) for source in sources]
        results = self.translator.translate_batch(tokens, beam_size=beam, max_decoding_length=MAX_TOKENS)
        ids = [self.tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in results]
        return [self.tokenizer.decode(row, skip_special_tokens=True) for row in ids]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=pathlib.Path)
    parser.add_argument("--to", choices=sorted(MARKS))
    arguments = parser.parse_args()
    sentences = SENTENCES
    if arguments.sentences:
        sentences = {arguments.to: arguments.sentences.read_text(encoding="utf-8").splitlines()}
    counts = {"passed": 0, "failed": 0}
    with tempfile.TemporaryDirectory() as work:
        reference = Transformers()
        others = {"transformers": reference, "CTranslate2": CTranslate2(work, reference.tokenizer)}
        for to, texts in sentences.items():
            for beam in (1, 4):
                ours = headway_translations(texts, to, beam)
                for name, other in others.items():
                    for text, (mine, _), theirs in zip(texts, ours, other.translate(texts, to, beam), strict=True):
                        same = mine == theirs
                        if not same:
                            gap = reference.score(text, mine, to) - reference.score(text, theirs, to)
                            print(f"beam {beam}, {text!r}: {mine!r}, {name} {theirs!r}, ours scores {gap:+.2e}")
                            same = abs(gap) < TIE or (beam > 1 and gap > 0)
                        counts["passed" if same else "failed"] += 1
    print(f"shipped model: {counts['passed']} passed, {counts['failed']} failed, 0 skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
