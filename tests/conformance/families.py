"""Every family of models in Headway against transformers, on drawn small configurations.

For every family and head: logits and hidden states, attention weights, gradients of all parameters, initial values,
directories written by each and read by the other (in several files, in bfloat16, with older configs); for models that
generate also the tokens of greedy and beam search, with a cache and without. Prints `families NAME: N passed, N failed,
0 skipped` for each family after a line for every failure.
"""

import argparse
import concurrent.futures
import copy
import functools
import json
import math
import multiprocessing
import os
import pathlib
import random
import shutil
import sys
import tempfile
import traceback

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file

import family_draws
import headway
from family_draws import FAMILIES, GENERATES, Draw
from family_generation import Generation

TOLERANCE = 1e-4


def assert_close(name, ours, theirs, tolerance=TOLERANCE):
    """An error where arrays differ by more than the tolerance, which grows with their largest number above 1."""
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    assert ours.shape == theirs.shape, f"{name} has shape {ours.shape}, expected {theirs.shape}"
    if ours.size == 0:
        return
    error = np.abs(ours - theirs).max()
    bound = tolerance * max(1.0, np.abs(theirs).max())
    assert error <= bound, f"{name} differs by {error:.3g}, expected at most {bound:.3g}"


def make_model(head, config):
    """A model far from its initial values, so that every parameter matters; in evaluation mode."""
    model = head.auto_class.from_config(copy.deepcopy(config), attn_implementation="eager").float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # others are tables of sines
                parameter += 0.1 * torch.randn(parameter.shape)
        for name, buffer in model.named_buffers():
            if name.endswith("final_logits_bias"):
                buffer += torch.randn(buffer.shape)
    return model


class Case:
    """One drawn model in a directory, with inputs for both libraries."""

    def __init__(self, family, head, seed, number, directory):
        self.draw = Draw(seed, family, head.name, number)
        torch.manual_seed(self.draw.random.getrandbits(31))
        self.head, self.family, self.directory = head, family, pathlib.Path(directory)
        self.config = FAMILIES[family][0](self.draw)
        self.model = make_model(head, self.config)
        self.model.save_pretrained(self.directory / "theirs")
        self.draw_inputs()

    @functools.cached_property
    def ours(self):
        return headway.load_model(self.directory / "theirs")

    def draw_inputs(self):
        draw, config = self.draw, self.config
        length = draw.integer(2, 48)
        self.mask = draw.mask(length)
        tokens = draw.tokens(length).masked_fill(~self.mask, config.pad_token_id)
        self.their_inputs = dict(input_ids=tokens, attention_mask=self.mask.long())
        self.our_inputs = dict(tokens=tokens.numpy(), **self.padding(self.mask, "lengths", "padding_mask"))
        self.valid = self.mask  # non-padding queries of hidden states and logits
        self.target_mask = None
        if config.is_encoder_decoder:
            self.draw_target()
            if draw.padding in ("left", "both"):  # their positions count padding too
                positions = np.broadcast_to(np.arange(length), (draw.batch, length))
                self.our_inputs["positions"] = np.ascontiguousarray(positions)
        elif not self.family.endswith(("roberta", "camembert")):  # whose positions follow from the tokens
            self.their_inputs["position_ids"] = (self.mask.long().cumsum(-1) - 1).clamp(min=0)
        if getattr(config, "type_vocab_size", 0) > 0:
            types = torch.randint(0, config.type_vocab_size, tokens.shape, generator=draw.generator)
            self.their_inputs["token_type_ids"] = types
            self.our_inputs["token_types"] = types.numpy()

    def draw_target(self):
        draw = self.draw
        length = draw.integer(1, 40)
        self.target_mask = draw.mask(length, "none" if draw.padding == "none" else "right")
        target = draw.tokens(length).masked_fill(~self.target_mask, self.config.pad_token_id)
        self.their_inputs |= dict(decoder_input_ids=target, decoder_attention_mask=self.target_mask.long())
        self.our_inputs |= dict(
            target=target.numpy(), **self.padding(self.target_mask, "target_lengths", "target_padding_mask")
        )
        self.valid = self.target_mask

    def padding(self, mask, lengths, padding_mask):
        """Padding as Headway takes it: in one of two ways where it is at the end."""
        if mask.all() and self.draw.flag():
            return {}
        first = bool((mask.long().diff(dim=-1) <= 0).all()) and bool(mask[:, 0].all())
        if first and self.draw.flag():
            return {lengths: mask.sum(-1).numpy()}
        return {padding_mask: headway.Mask.keep(mask.numpy())}

    def their_outputs(self, model, **more):
        """name -> tensor, by Headway's names; padding is not cut off."""
        result = model(**self.their_inputs, **more)
        if self.head.name == "none":
            outputs = dict(hidden=result.last_hidden_state)
            if getattr(result, "pooler_output", None) is not None:
                outputs["pooled"] = result.pooler_output
        elif self.head.name == "span":
            outputs = dict(logits=torch.stack([result.start_logits, result.end_logits], -1))
        else:
            outputs = dict(logits=result.logits)
        if self.config.is_encoder_decoder:
            outputs["memory"] = result.encoder_last_hidden_state
        if more.get("output_attentions"):
            kinds = (
                dict(encoder="encoder_attentions", decoder="decoder_attentions", cross="cross_attentions")
                if self.config.is_encoder_decoder
                else {self.ours.options["kind"]: "attentions"}
            )
            for kind, name in kinds.items():
                for layer, weights in enumerate(result[name]):
                    outputs[f"{kind}_weights {layer}"] = weights
        return outputs

    def our_outputs(self, model, record=False, weights=False):
        """name -> array, or headway.Tensor with `record`."""
        inputs = dict(self.our_inputs)
        if record:
            inputs["tokens"] = headway.tensor(inputs["tokens"])
        result = model.forward(**inputs, return_weights=weights)
        names = ("hidden", "pooled") if self.head.name == "none" else ("logits",)
        outputs = {name: getattr(result, name) for name in (*names, "memory") if getattr(result, name) is not None}
        for kind in ("encoder", "decoder", "cross") if weights else ():
            for layer, array in enumerate(getattr(result, f"{kind}_weights")):
                outputs[f"{kind}_weights {layer}"] = array
        return outputs

    def valid_shape(self, name, rank):
        """The mask of non-padding queries in the shape of an output, or None where all are valid."""
        if name == "pooled" or name == "logits" and self.head.name == "sequence":
            return None
        of_source = name == "memory" or name.startswith("encoder_weights")
        valid = (self.mask if of_source else self.valid).numpy()
        if "weights" in name:
            return valid[:, None, :, None]
        return valid[:, :, None]

    def cut(self, name, array):
        """The array with zeros for padding."""
        array = np.asarray(array)
        valid = self.valid_shape(name, array.ndim)
        return array if valid is None else np.where(valid, array, 0)


class Checks:
    """What is compared for one case."""

    def __init__(self, case):
        self.case = case

    def compare(self, ours, theirs, tolerance=TOLERANCE):
        assert set(ours) == set(theirs), f"outputs are {sorted(ours)}, expected {sorted(theirs)}"
        for name in theirs:
            assert_close(
                name, self.case.cut(name, ours[name]), self.case.cut(name, theirs[name].detach().numpy()), tolerance
            )

    def outputs(self):
        """Logits or hidden states."""
        case = self.case
        with torch.no_grad():
            theirs = case.their_outputs(case.model)
        assert case.ours.options["head"] == case.head.name, f"the head is {case.ours.options['head']}"
        self.compare(case.our_outputs(case.ours), theirs)

    def weights(self):
        """Attention weights of every layer."""
        case = self.case
        with torch.no_grad():
            theirs = case.their_outputs(case.model, output_attentions=True)
        self.compare(case.our_outputs(case.ours, weights=True), theirs)

    def gradients(self):
        """Gradients of all parameters; save() says which names they have in transformers."""
        case = self.case
        case.model.zero_grad()
        theirs = case.their_outputs(case.model)
        theirs.pop("memory", None)
        directions = {}
        for name, tensor in theirs.items():
            direction = torch.randn(tensor.shape, generator=case.draw.generator) / tensor[0].numel() ** 0.5
            directions[name] = case.cut(name, direction.numpy()).astype(np.float32)
        sum((tensor * torch.from_numpy(directions[name])).sum() for name, tensor in theirs.items()).backward()
        case.ours.zero_grad()
        ours = case.our_outputs(case.ours, record=True)
        for name, direction in directions.items():
            ours[name].backward(headway.tensor(direction), retain_graph=True)
        gradients = {}
        for name, parameter in case.ours.named_parameters().items():
            zeros = headway.Tensor.zeros(parameter.shape)
            gradients[name] = zeros if parameter.grad is None else parameter.grad
        holder = headway.load_model(case.directory / "theirs", mapped=False)
        holder.load_state_dict(gradients, strict=False)
        holder.save(case.directory / "gradients")
        written = load_file(case.directory / "gradients" / "model.safetensors")
        self.compare_gradients(written)

    def compare_gradients(self, written):
        model = self.case.model
        names = {}  # a parameter's memory -> its names, several for a tied one
        for name, tensor in model.state_dict(keep_vars=True).items():
            names.setdefault(tensor.data_ptr(), []).append(name)
        for name, parameter in model.named_parameters():
            found = [other for other in names[parameter.data_ptr()] if other in written]
            if parameter.grad is None:  # a table of sines, or a bias that is written and not used
                continue
            assert found, f"there is no gradient of {name}"
            assert_close(f"the gradient of {name}", written[found[0]], parameter.grad.numpy())

    def load_theirs(self, folder):
        """What transformers reads from a directory that Headway wrote."""
        case = self.case
        loaded, report = case.head.auto_class.from_pretrained(
            case.directory / folder, output_loading_info=True, attn_implementation="eager"
        )
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            assert not report[kind], f"{kind}: {sorted(report[kind])}"
        assert type(loaded) is type(case.model), f"it is a {type(loaded).__name__}"
        architectures = loaded.config.architectures
        assert architectures == [type(case.model).__name__], f"architectures are {architectures}"
        return loaded.eval()

    def saved(self):
        """A directory that Headway writes is the same model in transformers."""
        case = self.case
        case.ours.save(case.directory / "ours")
        loaded = self.load_theirs("ours")
        with torch.no_grad():
            theirs, again = case.their_outputs(case.model), case.their_outputs(loaded)
        for name, tensor in theirs.items():
            assert_close(f"{name} of the saved model", again[name].numpy(), tensor.numpy(), 1e-6)
        reloaded = headway.load_model(case.directory / "ours")
        self.compare(case.our_outputs(reloaded), theirs)

    def initial_values(self):
        """A model from the config alone has their names and, as far as can be told, their distributions."""
        case = self.case
        headway.set_random_seed(case.draw.random.getrandbits(31))
        config = (case.directory / "theirs" / "config.json").read_text()
        headway.TransformerModel.from_config(config).save(case.directory / "initial")
        ours = self.load_theirs("initial").state_dict()
        theirs = case.head.auto_class.from_config(copy.deepcopy(case.config)).state_dict()
        for name, tensor in theirs.items():
            if tensor.numel() > 1 and tensor.max() == tensor.min():
                assert torch.equal(ours[name], tensor), f"{name} is not {tensor.flatten()[0].item()} throughout"
            elif tensor.numel() >= 100:
                ratio = (ours[name].float().std() / tensor.float().std()).item()
                slack = 6 / math.sqrt(tensor.numel())
                assert abs(ratio - 1) < slack, f"{name} deviates {ratio:.3f} times as much as theirs"

    def several_files(self):
        """A directory with an index of several files."""
        case = self.case
        case.model.save_pretrained(case.directory / "shards", max_shard_size="1KB")
        assert len(list((case.directory / "shards").glob("*.safetensors"))) > 1, "there is one file"
        with torch.no_grad():
            theirs = case.their_outputs(case.model)
        self.compare(case.our_outputs(headway.load_model(case.directory / "shards")), theirs)

    def half_precision(self):
        """A directory in bfloat16, as it is and converted."""
        case = self.case
        copy.deepcopy(case.model).to(torch.bfloat16).save_pretrained(case.directory / "half")
        kept = headway.load_model(case.directory / "half")
        dtypes = {parameter.dtype for parameter in kept.parameters()}
        assert dtypes == {"bfloat16"}, f"parameters are {dtypes}"
        converted = case.head.auto_class.from_pretrained(
            case.directory / "half", dtype=torch.float32, attn_implementation="eager"
        )
        with torch.no_grad():
            for parameter, exact in zip(converted.parameters(), case.model.parameters()):
                if not exact.requires_grad:  # tables of sines, which Headway computes
                    parameter.copy_(exact)
            theirs = case.their_outputs(converted.eval())
        self.compare(case.our_outputs(headway.load_model(case.directory / "half", dtype="float32")), theirs)

    def older_config(self):
        """The config as transformers 4 wrote it."""
        case = self.case
        shutil.copytree(case.directory / "theirs", case.directory / "older")
        file = case.directory / "older" / "config.json"
        file.write_text(json.dumps(family_draws.older_config(json.loads(file.read_text()))))
        with torch.no_grad():
            theirs = case.their_outputs(case.model)
        self.compare(case.our_outputs(headway.load_model(case.directory / "older")), theirs)

    def all(self):
        """[(name, function)]"""
        checks = [("outputs", self.outputs), ("gradients", self.gradients), ("saved", self.saved)]
        number = self.case.draw.number
        if number % 2 == 0:
            checks.append(("weights", self.weights))
        if number % 5 == 1:
            checks.append(("several files", self.several_files))
        if number % 5 == 2:
            checks.append(("half precision", self.half_precision))
        if "rope_parameters" in self.case.config.to_dict():
            checks.append(("older config", self.older_config))
        if number < 5:
            checks.append(("initial values", self.initial_values))
        return checks


def checks_of(family, head, seed, number, directory):
    """[(name, function)] of one case."""
    generates = head is None
    if generates:
        head = FAMILIES[family][1][0]._replace(name=GENERATES)
    case = Case(family, head, seed, number, directory)
    return Generation(case).all() if generates else Checks(case).all()


def name_of(head):
    return GENERATES if head is None else head.name


def run_family(family, head_number, seed, draws):
    """(passed, failures) of one family's head; generation where the number is one past the last head."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)  # the models are tiny
    headway.set_num_threads(1)
    heads = FAMILIES[family][1]
    head = heads[head_number] if head_number < len(heads) else None
    passed, failures = 0, []
    for number in range(draws):
        with tempfile.TemporaryDirectory() as directory:
            try:
                checks = checks_of(family, head, seed, number, directory)
            except Exception:
                checks = []
                failures.append(f"FAILED {family} {name_of(head)} {number}: {traceback.format_exc(limit=-3)}")
            for name, check in checks:
                try:
                    check()
                    passed += 1
                except Exception as error:
                    is_plain = isinstance(error, (AssertionError, ValueError)) and str(error)
                    text = error if is_plain else traceback.format_exc(limit=-3)
                    failures.append(f"FAILED {family} {name_of(head)} {number}: {name}: {text}")
    return passed, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default=os.environ.get("HEADWAY_CONFORMANCE_SEED", "1"), help='a number, or "random"')
    parser.add_argument("--draws", type=int, default=20, help="configurations of each family and head")
    parser.add_argument("--only", nargs="*", help="families")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--failures", type=int, default=10, help="failures that are printed for each family")
    arguments = parser.parse_args()
    seed = random.SystemRandom().getrandbits(31) if arguments.seed == "random" else int(arguments.seed)
    elsewhere = family_draws.READ_AS_OTHERS | family_draws.READ_FEATURES
    unknown = set(headway.TransformerModel.families()) - elsewhere ^ set(FAMILIES)
    status = 0
    if unknown and not arguments.only:
        status = 1
        print(f"FAILED families: {sorted(unknown)} are in one of Headway and this suite alone")

    pool = concurrent.futures.ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn"))
    runs = {}
    for family in arguments.only or FAMILIES:
        heads = FAMILIES[family][1]
        generates = heads[0] in (family_draws.CAUSAL, family_draws.SEQUENCE_TO_SEQUENCE)
        for number in range(len(heads) + generates):
            runs.setdefault(family, []).append(pool.submit(run_family, family, number, seed, arguments.draws))
    for family, futures in runs.items():
        results = [future.result() for future in futures]
        failures = [failure for _, of_head in results for failure in of_head]
        for failure in failures[: arguments.failures]:
            print(failure)
        if len(failures) > arguments.failures:
            print(f"... and {len(failures) - arguments.failures} more")
        passed = sum(count for count, _ in results)
        print(f"families {family}: {passed} passed, {len(failures)} failed, 0 skipped; seed {seed}", flush=True)
        status |= bool(failures) or passed == 0
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
