"""Greedy and beam search from pictures and sounds, Headway's against transformers', by token ids."""

import json
import os
import pathlib
import subprocess

import numpy as np
import torch
from safetensors.numpy import save_file
from transformers import GenerationMixin

import headway
from family_generation import NEW_TOKENS, Generation

# Beside the program that run_conformance.sh has built.
PROGRAM = pathlib.Path(os.environ.get("HEADWAY_PROGRAM", "build/release/headway")).parent / "tests/generate_from_features"


class FeatureGeneration(Generation):
    """One case with a decoder's prompt of one token or several, as Whisper has."""

    def __init__(self, case):
        self.case, self.is_pair = case, True
        draw = case.draw
        self.features = case.features
        self.name = next(iter(name for name in case.their_inputs if not name.startswith("decoder")))
        start = torch.full((draw.batch, 1), case.config.decoder_start_token_id)
        self.prompt = torch.cat([start, draw.tokens(draw.choice(0, 0, 2))], 1)
        self.ends = draw.number % 4 == 3
        if not self.ends:
            case.model.generation_config.eos_token_id = None

    def theirs(self, **options):
        # Without what WhisperForConditionalGeneration.generate() does about long sounds and timestamps.
        with torch.no_grad():
            tokens = GenerationMixin.generate(
                self.case.model, **{self.name: self.features}, decoder_input_ids=self.prompt,
                max_new_tokens=NEW_TOKENS, do_sample=False, **options,
            )
        return [self.until_end(row) for row in tokens[:, self.prompt.shape[1] :].tolist()]

    def ours(self, **options):
        directory = self.case.directory
        save_file({f"{i}": np.ascontiguousarray(row) for i, row in enumerate(self.features.numpy())}, directory / "features")
        options = dict(prompt=self.prompt[0].tolist(), ends=self.ends, tokens=NEW_TOKENS, **options)
        if len(set(map(tuple, self.prompt.tolist()))) > 1:
            options["prompts"] = self.prompt.tolist()
        result = subprocess.run(
            [PROGRAM, directory / "theirs", directory / "features", json.dumps(options)], check=True,
            capture_output=True, text=True,
        )
        return json.loads(result.stdout)

    def greedy_with_cache(self):
        model, cache, chosen = self.case.ours, headway.ModelCache(), []
        memory, given = model.encode(features=self.features.numpy()).hidden, self.prompt.numpy()
        for _ in range(NEW_TOKENS):
            given = model.decode(given, cache, memory=memory, last_only=True).logits[:, -1].argmax(-1)[:, None]
            chosen.append(given)
        return [self.until_end(row) for row in np.concatenate(chosen, 1).tolist()]

    def greedy_without_cache(self):
        """Every 25th step of it alone, since each computes the whole text."""
        model, given = self.case.ours, self.prompt.numpy()
        chosen = np.array(self.greedy_full_length())
        for step in range(0, NEW_TOKENS, 25):
            target = np.concatenate([given, chosen[:, :step]], 1)
            logits = model.forward(features=self.features.numpy(), target=target).logits
            rows = np.arange(len(given))
            best, taken = logits[:, -1].max(-1), logits[rows, -1, chosen[:, step]]
            assert np.all(best - taken <= 1e-4), f"step {step} would take another token"
        return self.greedy_with_cache()

    def greedy_full_length(self):
        ends, self.ends = self.ends, False
        try:
            return self.greedy_with_cache()
        finally:
            self.ends = ends

    def log_probabilities(self, row, tokens):
        target = torch.cat([self.prompt[row : row + 1], torch.tensor(tokens)[None]], 1)
        with torch.no_grad():
            inputs = {self.name: self.features[row : row + 1], "decoder_input_ids": target}
            logits = self.case.model(**inputs).logits[0]
        return logits[-len(tokens) - 1 : -1].double().log_softmax(-1).numpy()
