"""Greedy and beam search of drawn models, Headway's against transformers', by token ids."""

import copy
import functools

import numpy as np
import torch

import headway

TOLERANCE = 1e-4
NEW_TOKENS = 100


class Generation:
    """Greedy and beam search of one case with prompts of different lengths, by token ids."""

    def __init__(self, case):
        self.case = case
        draw, config = case.draw, case.config
        self.is_pair = config.is_encoder_decoder
        length = draw.integer(2, 12)
        padding = "right" if self.is_pair else "left"
        self.mask = draw.mask(length, padding if draw.flag() else "none")
        self.tokens = draw.tokens(length).masked_fill(~self.mask, config.pad_token_id)
        self.prompts = [row[keep].tolist() for row, keep in zip(self.tokens, self.mask)]
        self.ends = draw.number % 4 == 3  # otherwise the end token does not end a text
        if not self.ends:
            case.model.generation_config.eos_token_id = None

    def until_end(self, tokens):
        """A text up to its end token."""
        end = self.case.config.eos_token_id
        return tokens[: tokens.index(end) + 1] if self.ends and end in tokens else tokens

    def theirs(self, **options):
        """New tokens of each prompt."""
        with torch.no_grad():
            tokens = self.case.model.generate(
                self.tokens, attention_mask=self.mask.long(), max_new_tokens=NEW_TOKENS, do_sample=False, **options
            )
        begin = 1 if self.is_pair else self.tokens.shape[1]
        return [self.until_end(row) for row in tokens[:, begin:].tolist()]

    def ours(self, **options):
        """The same by the packed steps."""
        options = dict(max_new_tokens=NEW_TOKENS, ignore_end=not self.ends, **options)
        if self.is_pair:
            texts = headway.TextToText(self.case.ours).run(self.prompts, **options)
        else:
            texts = headway.TextGenerator(self.case.ours).generate(self.prompts, **options)
        return [text.tokens for text in texts]

    def start(self):
        return np.full((len(self.mask), 1), self.case.config.decoder_start_token_id)

    def greedy_with_cache(self):
        """Greedy search by the modules, one token at a time."""
        model, cache, chosen = self.case.ours, headway.ModelCache(), []
        more, given = {}, self.tokens.numpy()
        mask = self.mask.numpy()
        if self.is_pair:
            lengths = mask.sum(-1)
            more = dict(memory=model.encode(given, lengths=lengths).hidden, memory_lengths=lengths)
            given = self.start()
        for _ in range(NEW_TOKENS):
            if not self.is_pair:
                more = dict(padding_mask=headway.Mask.keep(mask))
            logits = model.decode(given, cache, last_only=True, **more).logits
            given = logits[:, -1].argmax(-1)[:, None]
            mask = np.concatenate([mask, np.ones_like(mask[:, :1])], 1)
            chosen.append(given)
        return [self.until_end(row) for row in np.concatenate(chosen, 1).tolist()]

    def greedy_without_cache(self):
        """Greedy search by the modules, every time over the whole text."""
        model, given = self.case.ours, self.tokens.numpy()
        mask, source = self.mask.numpy(), None
        if self.is_pair:
            source, given = given, self.start()
            lengths = mask.sum(-1)
        before = given.shape[1]
        for _ in range(NEW_TOKENS):
            if self.is_pair:
                logits = model.forward(source, lengths=lengths, target=given).logits
            else:
                logits = model.forward(given, padding_mask=headway.Mask.keep(mask), last_only=True).logits
            given = np.concatenate([given, logits[:, -1].argmax(-1)[:, None]], 1)
            mask = np.concatenate([mask, np.ones_like(mask[:, :1])], 1)
        return [self.until_end(row) for row in given[:, before:].tolist()]

    def log_probabilities(self, row, tokens):
        """Their log-probabilities [n, vocabulary] of each of n tokens after a row's prompt."""
        mask = self.mask[row : row + 1].long()
        continuation = torch.tensor(tokens)[None]
        inputs = dict(input_ids=self.tokens[row : row + 1], attention_mask=mask)
        with torch.no_grad():
            if self.is_pair:
                inputs["decoder_input_ids"] = torch.cat([torch.from_numpy(self.start()[:1]), continuation], 1)
            else:
                inputs["input_ids"] = torch.cat([inputs["input_ids"], continuation], 1)
                inputs["attention_mask"] = torch.cat([mask, torch.ones_like(continuation)], 1)
                inputs["position_ids"] = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
            logits = self.case.model(**inputs).logits[0]
        return logits[-len(tokens) - 1 : -1].double().log_softmax(-1).numpy()

    def assert_same_greedy(self, ours):
        """The same tokens, up to a step where both are equally likely within the tolerance."""
        theirs = self.greedy_theirs
        for row, (our, their) in enumerate(zip(ours, theirs)):
            if our == their:
                continue
            step = next((i for i, (a, b) in enumerate(zip(our, their)) if a != b), None)
            assert step is not None, f"row {row} has {len(our)} tokens, expected {len(their)}"
            scores = self.log_probabilities(row, their[: step + 1])[-1]
            gap = abs(scores[our[step]] - scores[their[step]])
            assert gap <= TOLERANCE, (
                f"row {row} differs from step {step} on: {our[step]}, expected {their[step]}, "
                f"whose log-probability is {gap:.3g} away"
            )

    def beams(self):
        """The same tokens by beam search, or others with the same score within the tolerance."""
        draw = self.case.draw
        beams, penalty = draw.integer(2, 4), draw.choice(1.0, 1.0, 0.6, 1.4)
        early, named = draw.choice((False, "heuristic"), (True, "first"), ("never", "never"))
        options = dict(num_beams=beams, length_penalty=penalty, early_stopping=early)
        theirs = self.theirs(**options)
        ours = self.ours(beams=beams, length_penalty=penalty, early_stopping=named)
        for row, (our, their) in enumerate(zip(ours, theirs)):
            if our == their:
                continue
            our_score, their_score = (
                self.log_probabilities(row, tokens)[np.arange(len(tokens)), tokens].sum() / len(tokens) ** penalty
                for tokens in (our, their)
            )
            is_same = abs(our_score - their_score) <= TOLERANCE or self.is_rounding(row, our, options)
            assert is_same, (
                f"row {row} of {beams} beams has {len(our)} tokens of score {our_score:.5f}, expected {len(their)} of "
                f"score {their_score:.5f}"
            )

    def is_rounding(self, row, our, options):
        """Whether their own search finds our tokens where the parameters differ by as much as rounding does."""
        exact = self.case.model
        try:
            for _ in range(8):
                self.case.model = copy.deepcopy(exact)
                with torch.no_grad():
                    for parameter in self.case.model.parameters():
                        parameter *= 1 + 1e-6 * torch.randn(parameter.shape)
                if self.theirs(**options)[row] == our:
                    return True
        finally:
            self.case.model = exact
        return False

    @functools.cached_property
    def greedy_theirs(self):
        return self.theirs()

    def all(self):
        """[(name, function)]"""
        return [
            ("greedy with cache", lambda: self.assert_same_greedy(self.greedy_with_cache())),
            ("greedy without cache", lambda: self.assert_same_greedy(self.greedy_without_cache())),
            ("greedy by packed steps", lambda: self.assert_same_greedy(self.ours())),
            ("beams", self.beams),
        ]
