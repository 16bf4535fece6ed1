"""Models that read pictures or sound in Headway against transformers, on drawn small configurations.

As families.py: logits and hidden states, attention weights, gradients, initial values, directories both ways, and for
models that write text the tokens of greedy and beam search. CLIP is compared by its own class. Prints `families NAME: N
passed, N failed, 0 skipped` for each family.
"""

import argparse
import concurrent.futures
import copy
import math
import multiprocessing
import os
import random
import sys
import tempfile
import traceback
import types

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file

import families
import headway
from families import Case, Checks, assert_close
from family_draws import BARE, GENERATES, Draw, Head
from feature_generation import FeatureGeneration

ACTIVATIONS = ("gelu", "gelu_new", "relu", "silu", "quick_gelu")


def picture_sizes(draw, square=False):
    """A picture and its patches, often not square."""
    patch = [draw.integer(1, 4), draw.integer(1, 4)]
    if square:
        patch = [patch[0]] * 2
    rows, columns = draw.integer(1, 4), draw.integer(1, 4)
    image = [patch[0] * rows, patch[1] * (rows if square else columns)]
    both = square or draw.number % 3 == 0
    if both:
        side = patch[0] * rows
        return dict(image_size=side, patch_size=patch[0], num_channels=draw.choice(1, 3))
    return dict(image_size=image, patch_size=patch, num_channels=draw.choice(1, 3))


def vit_sizes(draw):
    heads = draw.integer(1, 4)
    return dict(
        hidden_size=heads * draw.choice(4, 5, 7, 8, 13), num_attention_heads=heads, num_hidden_layers=draw.layers,
        intermediate_size=draw.integer(9, 48), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        hidden_act=draw.choice(*ACTIVATIONS), layer_norm_eps=draw.choice(1e-12, 1e-5), qkv_bias=draw.flag(),
        initializer_range=0.2, **picture_sizes(draw), **draw.labels(),
    )


def vit(draw):
    return transformers.ViTConfig(**vit_sizes(draw))


def deit(draw):
    return transformers.DeiTConfig(**vit_sizes(draw))


def whisper(draw):
    return transformers.WhisperConfig(
        d_model=4 * draw.integer(2, 10), encoder_layers=draw.layers, decoder_layers=draw.integer(1, 3),
        encoder_ffn_dim=draw.integer(9, 48), decoder_ffn_dim=draw.integer(9, 48),
        encoder_attention_heads=draw.choice(1, 2, 4), decoder_attention_heads=draw.choice(1, 2, 4),
        vocab_size=draw.vocabulary, num_mel_bins=draw.integer(1, 12), max_source_positions=draw.integer(1, 24),
        max_target_positions=160, activation_function=draw.choice(*ACTIVATIONS), dropout=0.0, attention_dropout=0.0,
        activation_dropout=0.0, init_std=0.2, scale_embedding=draw.flag(), tie_word_embeddings=True,
        suppress_tokens=None, begin_suppress_tokens=None, decoder_start_token_id=4, **draw.ids(),
    )


def vision_encoder_decoder(draw):
    encoder = vit_sizes(draw)
    heads = draw.integer(1, 4)
    width = heads * draw.choice(4, 5, 8)
    if draw.flag():
        heads, width = encoder["num_attention_heads"], encoder["hidden_size"]
    decoder = transformers.GPT2Config(
        n_embd=width, n_head=heads, n_layer=draw.integer(1, 3), vocab_size=draw.vocabulary, n_positions=160,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, activation_function=draw.choice("gelu_new", "gelu", "relu"),
        scale_attn_by_inverse_layer_idx=draw.flag(), tie_word_embeddings=draw.number % 3 != 2, initializer_range=0.2,
        is_decoder=True, add_cross_attention=True, **draw.ids(),
    )
    return transformers.VisionEncoderDecoderConfig(
        encoder=transformers.ViTConfig(**encoder).to_dict(), decoder=decoder.to_dict(), decoder_start_token_id=4,
        **draw.ids(),
    )


def clip(draw):
    heads, own_heads = draw.integer(1, 4), draw.integer(1, 4)
    shared = dict(hidden_act=draw.choice(*ACTIVATIONS), layer_norm_eps=draw.choice(1e-5, 1e-3))
    return transformers.CLIPConfig(
        text_config=dict(
            vocab_size=draw.vocabulary, hidden_size=heads * draw.choice(4, 8), num_attention_heads=heads,
            num_hidden_layers=draw.layers, intermediate_size=draw.integer(9, 48), max_position_embeddings=24,
            bos_token_id=0, eos_token_id=draw.choice(2, draw.vocabulary - 1), pad_token_id=1,
            initializer_factor=draw.choice(1.0, 2.0), **shared,
        ),
        vision_config=dict(
            hidden_size=own_heads * draw.choice(4, 8), num_attention_heads=own_heads, num_hidden_layers=draw.layers,
            intermediate_size=draw.integer(9, 48), initializer_range=draw.choice(0.02, 0.1), **shared,
            **picture_sizes(draw, square=True),
        ),
        projection_dim=draw.integer(3, 24), initializer_factor=draw.choice(1.0, 1.5),
    )


def head_of(name, model_class):
    """A head whose class of transformers is not chosen by the config."""
    return Head(
        name,
        types.SimpleNamespace(from_config=model_class._from_config, from_pretrained=model_class.from_pretrained),
    )


# Headway's name of the family -> (how its configurations are drawn, its heads, whether it writes text).
FAMILIES = {
    "vit": (vit, (head_of("sequence", transformers.ViTForImageClassification), BARE), False),
    "deit": (deit, (head_of("sequence", transformers.DeiTForImageClassification), BARE), False),
    "whisper": (whisper, (Head("language_model", transformers.AutoModelForSpeechSeq2Seq), BARE), True),
    "vision-encoder-decoder": (
        vision_encoder_decoder, (head_of("language_model", transformers.VisionEncoderDecoderModel),), True,
    ),
    "clip": (clip, (head_of("none", transformers.CLIPModel),), False),
}


def pixels(draw, config):
    """Pictures [batch, channels, height, width]."""
    size = config.image_size
    height, width = (size, size) if isinstance(size, int) else size
    return torch.randn(draw.batch, config.num_channels, height, width, generator=draw.generator)


class FeatureCase(Case):
    """One drawn model in a directory, with pictures or sounds for both libraries."""

    def __init__(self, family, head, seed, number, directory):
        self.draw = Draw(seed, family, head.name, number)
        torch.manual_seed(self.draw.random.getrandbits(31))
        self.head, self.family, self.directory = head, family, families.pathlib.Path(directory)
        self.config = FAMILIES[family][0](self.draw)
        self.model = families.make_model(head, self.config)
        self.model.save_pretrained(self.directory / "theirs")
        self.draw_inputs()

    def draw_inputs(self):
        draw, config = self.draw, self.config
        if self.family == "whisper":  # transformers takes sounds of the full length alone
            shape = (draw.batch, config.num_mel_bins, 2 * config.max_source_positions)
            features = torch.randn(shape, generator=draw.generator)
            name, positions = "input_features", config.max_source_positions
        else:
            encoder = config.encoder if self.family == "vision-encoder-decoder" else config
            features = pixels(draw, encoder)
            name, positions = "pixel_values", self.position_count(features, encoder)
        self.features = features
        self.their_inputs = {name: features}
        self.our_inputs = dict(features=features.numpy())
        self.mask = self.valid = torch.ones(draw.batch, positions, dtype=torch.bool)
        self.target_mask = None
        if config.is_encoder_decoder:
            self.draw_target()

    def position_count(self, features, config):
        patch = config.patch_size if isinstance(config.patch_size, (list, tuple)) else [config.patch_size] * 2
        count = features.shape[2] // patch[0] * (features.shape[3] // patch[1])
        return count + (2 if self.family == "deit" else 1)

    def their_outputs(self, model, **more):
        outputs = super().their_outputs(model, **more)
        if "memory" in outputs and hasattr(model, "enc_to_dec_proj"):
            outputs["memory"] = model.enc_to_dec_proj(outputs["memory"])
        return outputs

    def our_outputs(self, model, record=False, weights=False):
        given = self.our_inputs
        if record:
            self.our_inputs = given | dict(features=headway.tensor(given["features"]))
        try:
            return super().our_outputs(model, weights=weights)
        finally:
            self.our_inputs = given


class FeatureChecks(Checks):
    def compare_gradients(self, written):
        """Names in transformers' memory are not those of the files, so that it reads our gradients as a model."""
        holder = self.load_theirs("gradients")
        for name, parameter in self.case.model.named_parameters():
            if parameter.grad is not None:
                assert_close(f"the gradient of {name}", holder.get_parameter(name).detach(), parameter.grad.numpy())

    def load_theirs(self, folder):
        """A pooler of the encoder, which nothing reads, is not written."""
        case = self.case
        loaded, report = case.head.auto_class.from_pretrained(
            case.directory / folder, output_loading_info=True, attn_implementation="eager"
        )
        missing = {key for key in report["missing_keys"] if not key.startswith("encoder.pooler.")}
        assert not missing and not report["unexpected_keys"] and not report["mismatched_keys"], f"{report}"
        assert type(loaded) is type(case.model), f"it is a {type(loaded).__name__}"
        return loaded.eval()


class ClipCase(FeatureCase):
    """Texts and as many pictures."""

    @property
    def ours(self):
        if not hasattr(self, "loaded"):
            self.loaded = headway.ClipModel.load(self.directory / "theirs")
        return self.loaded

    def draw_inputs(self):
        draw, config = self.draw, self.config
        length = draw.integer(2, 20)
        tokens = torch.randint(3, draw.vocabulary - 1, (draw.batch, length), generator=draw.generator)
        for row in tokens:
            row[draw.integer(0, length - 1)] = draw.vocabulary - 1  # the end, and the greatest id
        self.mask = draw.mask(length, draw.choice("none", "right"))
        self.mask |= (tokens == draw.vocabulary - 1).flip(-1).cumsum(-1).flip(-1) > 0  # the end is no padding
        self.features = pixels(draw, config.vision_config)
        self.their_inputs = dict(input_ids=tokens, pixel_values=self.features, attention_mask=self.mask.long())
        self.lengths = self.mask.sum(-1).numpy()
        self.tokens = tokens.numpy()

    def their_outputs(self, model, **more):
        result = model(**self.their_inputs, return_loss=True, **more)
        texts, pictures = result.text_model_output, result.vision_model_output
        outputs = dict(
            per_text=result.logits_per_text, per_picture=result.logits_per_image, loss=result.loss,
            text=result.text_embeds, picture=result.image_embeds,
            text_hidden=torch.where(self.mask[:, :, None], texts.last_hidden_state, 0),
            picture_hidden=pictures.last_hidden_state,
        )
        if more.get("output_attentions"):
            for layer, weights in enumerate(texts.attentions):
                outputs[f"text_weights {layer}"] = torch.where(self.mask[:, None, :, None], weights, 0)
            for layer, weights in enumerate(pictures.attentions):
                outputs[f"picture_weights {layer}"] = weights
        return outputs

    def our_outputs(self, model, record=False, weights=False):
        pictures = headway.tensor(self.features.numpy()) if record else self.features.numpy()
        tokens = headway.tensor(self.tokens) if record else self.tokens
        result = model.forward(tokens, pictures, lengths=self.lengths, return_weights=weights)
        loss = headway.ClipModel.contrastive_loss(result.logits_per_text)
        if record:
            return dict(loss=loss)
        mask = self.mask.numpy()
        outputs = dict(
            per_text=result.logits_per_text, per_picture=result.logits_per_picture, loss=loss,
            text=result.text.embeddings, picture=result.picture.embeddings,
            text_hidden=np.where(mask[:, :, None], result.text.hidden, 0), picture_hidden=result.picture.hidden,
        )
        for layer, array in enumerate(result.text.weights):
            outputs[f"text_weights {layer}"] = np.where(mask[:, None, :, None], array, 0)
        for layer, array in enumerate(result.picture.weights):
            outputs[f"picture_weights {layer}"] = array
        return outputs

    def cut(self, name, array):
        return np.asarray(array)


class ClipChecks(FeatureChecks):
    def outputs(self):
        with torch.no_grad():
            theirs = self.case.their_outputs(self.case.model)
        self.compare(self.case.our_outputs(self.case.ours), theirs)

    def gradients(self):
        case = self.case
        case.model.zero_grad()
        case.their_outputs(case.model)["loss"].backward()
        ours = headway.ClipModel.load(case.directory / "theirs", mapped=False)
        case.our_outputs(ours, record=True)["loss"].backward()
        holder = headway.ClipModel.load(case.directory / "theirs", mapped=False)
        holder.load_state_dict({name: parameter.grad for name, parameter in ours.named_parameters().items()})
        holder.save(case.directory / "gradients")
        written = load_file(case.directory / "gradients" / "model.safetensors")
        for name, parameter in case.model.named_parameters():
            assert_close(f"the gradient of {name}", written[name], parameter.grad.numpy())

    def saved(self):
        case = self.case
        case.ours.save(case.directory / "ours")
        loaded = self.load_theirs("ours")
        with torch.no_grad():
            theirs, again = case.their_outputs(case.model), case.their_outputs(loaded)
        for name, tensor in theirs.items():
            assert_close(f"{name} of the saved model", again[name].numpy(), tensor.numpy(), 1e-6)
        self.compare(case.our_outputs(headway.ClipModel.load(case.directory / "ours")), theirs)

    def initial_values(self):
        case = self.case
        headway.set_random_seed(case.draw.random.getrandbits(31))
        config = (case.directory / "theirs" / "config.json").read_text()
        headway.ClipModel.from_config(config).save(case.directory / "initial")
        ours = self.load_theirs("initial").state_dict()
        for name, tensor in transformers.CLIPModel(copy.deepcopy(case.config)).state_dict().items():
            if tensor.numel() == 1 or tensor.max() == tensor.min():
                assert torch.allclose(ours[name], tensor), f"{name} is not {tensor.flatten()[0].item()} throughout"
            elif tensor.numel() >= 100:
                ratio = (ours[name].std() / tensor.std()).item()
                assert abs(ratio - 1) < 6 / math.sqrt(tensor.numel()), f"{name} deviates {ratio:.3f} times as much"

    def half_precision(self):
        case = self.case
        case.ours.save(case.directory / "half", dtype="bfloat16")
        loaded = self.load_theirs("half").float()
        with torch.no_grad():
            theirs = case.their_outputs(loaded)
        self.compare(case.our_outputs(headway.ClipModel.load(case.directory / "half", dtype="float32")), theirs)

    def all(self):
        checks = [check for check in super().all() if check[0] != "several files"]
        return checks


def checks_of(family, head, seed, number, directory):
    """[(name, function)] of one case."""
    if family == "clip":
        return ClipChecks(ClipCase(family, head, seed, number, directory)).all()
    if head is None:
        head = FAMILIES[family][1][0]._replace(name=GENERATES)
        return FeatureGeneration(FeatureCase(family, head, seed, number, directory)).all()
    return FeatureChecks(FeatureCase(family, head, seed, number, directory)).all()


def run_family(family, head_number, seed, draws):
    """(passed, failures) of one family's head; generation where the number is one past the last head."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    headway.set_num_threads(1)
    heads = FAMILIES[family][1]
    head = heads[head_number] if head_number < len(heads) else None
    passed, failures = 0, []
    for number in range(draws):
        with tempfile.TemporaryDirectory() as directory:
            try:
                checks = checks_of(family, head, seed, number, directory)
            except Exception:
                checks = [("case", lambda text=traceback.format_exc(limit=-3): families_fail(text))]
            for name, check in checks:
                try:
                    check()
                    passed += 1
                except Exception as error:
                    is_plain = isinstance(error, (AssertionError, ValueError)) and str(error)
                    text = error if is_plain else traceback.format_exc(limit=-3)
                    failures.append(f"FAILED {family} {families.name_of(head)} {number}: {name}: {text}")
    return passed, failures


def families_fail(text):
    raise AssertionError(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default=os.environ.get("HEADWAY_CONFORMANCE_SEED", "1"), help='a number, or "random"')
    parser.add_argument("--draws", type=int, default=20, help="configurations of each family and head")
    parser.add_argument("--only", nargs="*", help="families")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    arguments = parser.parse_args()
    seed = random.SystemRandom().getrandbits(31) if arguments.seed == "random" else int(arguments.seed)
    pool = concurrent.futures.ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn"))
    runs = {}
    for family in arguments.only or FAMILIES:
        _, heads, generates = FAMILIES[family]
        for number in range(len(heads) + generates):
            runs.setdefault(family, []).append(pool.submit(run_family, family, number, seed, arguments.draws))
    status = 0
    for family, futures in runs.items():
        results = [future.result() for future in futures]
        failures = [failure for _, of_head in results for failure in of_head]
        print("\n".join(failures[:10]), end="\n" if failures else "")
        passed = sum(count for count, _ in results)
        print(f"families {family}: {passed} passed, {len(failures)} failed, 0 skipped; seed {seed}", flush=True)
        status |= bool(failures) or passed == 0
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
