"""Hugging Face's models with attn_implementation="headway" against the same models with "eager".

hf_models.py [--seed N | --seed random] [--draws N] [--only FAMILY]: small random models of many families: outputs,
attentions, gradients of all parameters and generated tokens, and what else the attention interface can ask for.
"""

import argparse
import copy
import random
import sys
import traceback

import torch
import transformers

import headway.transformers
import hf_families
import hf_features
from hf_compare import (
    TOLERANCE, assert_close, assert_same_outputs, flat_outputs, make_models, run_eager, run_headway,
)


class Checks:
    """What is tried with one drawn model."""

    def __init__(self, case):
        self.case = case
        self.made = {}

    def models(self, dtype):
        if dtype not in self.made:
            self.made[dtype] = make_models(self.case.auto_class, self.case.config, dtype)
        return self.made[dtype]

    def call(self, model, dtype, output_attentions):
        return model(**in_dtype(self.case.inputs, dtype), output_attentions=output_attentions)

    def outputs(self, dtype, output_attentions):
        """Logits and, where they are asked for, attentions."""
        eager, fused = self.models(dtype)
        with torch.no_grad():
            theirs = run_eager(lambda: self.call(eager.eval(), dtype, output_attentions))
            ours = run_headway(lambda: self.call(fused.eval(), dtype, output_attentions))
        if dtype == torch.bfloat16:
            self.assert_no_worse(ours, theirs, output_attentions)
        else:
            assert_same_outputs(ours, theirs, self.case.valid, TOLERANCE[dtype])
        given = any("attentions" in name for name, _ in flat_outputs(ours, {}))
        assert given == output_attentions, f"attentions were returned: {given}, expected {output_attentions}"

    def assert_no_worse(self, ours, theirs, output_attentions):
        """In bfloat16 both are far from the truth, which the same weights give in float32."""
        exact_model = copy.deepcopy(self.models(torch.bfloat16)[0]).float()
        inputs = in_dtype(in_dtype(self.case.inputs, torch.bfloat16), torch.float32)
        with torch.no_grad():
            exact = exact_model(**inputs, output_attentions=output_attentions)
        ours, theirs, exact = (flat_outputs(outputs, self.case.valid) for outputs in (ours, theirs, exact))
        for (name, our), (_, their), (_, truth) in zip(ours, theirs, exact):
            our_error, their_error = ((outputs.float() - truth).abs().max().item() for outputs in (our, their))
            bound = 2 * their_error + 0.05 * max(1.0, truth.abs().max().item())
            assert our_error <= bound, f"{name} is off by {our_error:.3g} where eager is off by {their_error:.3g}"

    def gradients(self, dtype, output_attentions):
        """Gradients of all parameters, through the outputs and, where they are asked for, through the attentions."""
        directions = []

        def backward(model):
            model.train().zero_grad()
            flat = flat_outputs(self.call(model, dtype, output_attentions), self.case.valid)
            if not directions:
                directions.extend(torch.randn(tensor.shape).to(dtype) / tensor.numel() ** 0.5 for _, tensor in flat)
            sum((tensor * direction).sum() for (_, tensor), direction in zip(flat, directions)).backward()

        eager, fused = self.models(dtype)
        run_eager(lambda: backward(eager))
        run_headway(lambda: backward(fused))
        for (name, our), (_, their) in zip(fused.named_parameters(), eager.named_parameters()):
            assert (our.grad is None) == (their.grad is None), f"{name} has a gradient in one of the two"
            if our.grad is not None:
                assert_close(f"the gradient of {name}", our.grad, their.grad, TOLERANCE[dtype])

    def generation(self, **options):
        """Greedy generation with a cache gives the same tokens."""
        eager, fused = self.models(torch.float64)
        inputs = in_dtype(self.case.generates, torch.float64)
        options = dict(max_new_tokens=10, do_sample=False, **options)
        theirs = run_eager(lambda: eager.eval().generate(**inputs, **options))
        ours = run_headway(lambda: fused.eval().generate(**inputs, **options))
        assert torch.equal(ours, theirs), f"tokens are {ours.tolist()}, expected {theirs.tolist()}"

    def all(self):
        """[(name, function)]"""
        checks = []
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            for attentions in (False, True):
                suffix = f"{str(dtype).removeprefix('torch.')}{', attentions' if attentions else ''}"
                checks.append((f"outputs {suffix}", lambda d=dtype, a=attentions: self.outputs(d, a)))
                if dtype != torch.bfloat16:
                    checks.append((f"gradients {suffix}", lambda d=dtype, a=attentions: self.gradients(d, a)))
        if self.case.generates is not None:
            checks.append(("generate", self.generation))
            checks.append(("generate, static cache", lambda: self.generation(cache_implementation="static")))
        return checks


def in_dtype(inputs, dtype):
    """The inputs with floating tensors in another dtype."""
    return {
        name: entry.to(dtype) if torch.is_tensor(entry) and entry.is_floating_point() else entry
        for name, entry in inputs.items()
    }


def draw_checks(seed, draws, only):
    """[(name, function)] of all families and features, or of one."""
    checks = []
    for family in hf_families.FAMILIES:
        for number in range(draws if only in (None, family.__name__) else 0):
            case = family(hf_families.Draw(f"{seed} {family.__name__}", number))
            checks += [(f"{family.__name__} {number}: {name}", check) for name, check in Checks(case).all()]
    if only in (None, "features"):
        checks += [(f"features: {name}", check) for name, check in hf_features.CHECKS]
    return checks


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default="1", help='a number, or "random"')
    parser.add_argument("--draws", type=int, default=4, help="models of each family")
    parser.add_argument("--only", help="one family, or features")
    arguments = parser.parse_args()
    seed = random.SystemRandom().getrandbits(31) if arguments.seed == "random" else int(arguments.seed)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)  # the models are tiny
    headway.transformers.register()

    checks = draw_checks(seed, arguments.draws, arguments.only)
    failed = 0
    for name, check in checks:
        torch.manual_seed(seed)
        try:
            check()
        except Exception as error:
            failed += 1
            is_difference = isinstance(error, AssertionError) and str(error)
            print(f"FAILED {name} (--seed {seed}): {error if is_difference else traceback.format_exc()}")
    print(f"hf_models: {len(checks) - failed} passed, {failed} failed, 0 skipped; seed {seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
