"""The two sides of layer_bench.py: the same model in PyTorch and, through ctypes, in Headway."""

import ctypes
import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Case:
    """One row: a model, what a step of it does, and its sizes."""

    model: str
    layers: int  # of the encoder and of the decoder; 0: one MultiheadAttention alone
    width: int
    heads: int
    feed_forward: int
    batch: int
    length: int
    training: bool
    dropout: float = 0.0
    weights: str = "none"  # "averaged" over heads, "per head"

    @property
    def group(self):
        """Rows that are measured together: they differ in the weights alone."""
        step = "inference"
        if self.training:
            step = f"training step, dropout {self.dropout:g}" if self.dropout else "training step without dropout"
        return f"{self.model}, {self.batch} x {self.length}: {step}"

    @property
    def name(self):
        return self.group + ("" if self.weights == "none" else f", weights {self.weights}")

    def useful_flops(self):
        """Multiply-adds of the products, twice; attention's backward counts five products, as in attention_bench."""
        tokens = self.batch * self.length
        square = 2 * tokens * self.width * self.width  # one projection
        pairs = self.batch * self.length * self.length  # of a query and a key, per head
        causal_pairs = self.batch * self.length * (self.length + 1) // 2
        if self.layers == 0:
            linear, visible, unused = 4 * square, pairs, 3 * square
        else:
            feed_forward = 2 * 2 * tokens * self.width * self.feed_forward
            linear = self.layers * (4 * square + 8 * square + 2 * feed_forward)
            visible = self.layers * (2 * pairs + causal_pairs)
            unused = 2 * 3 * square
        forward = linear + 4 * self.width * visible
        if not self.training:
            return forward
        # The gradient of the model's inputs is not computed.
        return forward + 2 * linear - unused + 10 * self.width * visible


def random_inputs(case, torch):
    """source, target and the direction that makes the loss: [batch, length, width] each, None where it is not read."""
    generator = torch.Generator().manual_seed(17)
    shape = (case.batch, case.length, case.width)
    wanted = (True, case.layers > 0, case.training)
    return [torch.randn(shape, generator=generator) if one else None for one in wanted]


class TorchSide:
    """What a user of PyTorch writes: eager, the modules of torch.nn, AdamW(fused=True)."""

    name = "PyTorch"

    def __init__(self, case, inputs, learning_rate):
        import torch

        self.torch, self.case = torch, case
        self.source, self.target, self.direction = inputs
        torch.manual_seed(5)
        if case.layers:
            self.model = torch.nn.Transformer(
                case.width,
                case.heads,
                case.layers,
                case.layers,
                case.feed_forward,
                dropout=case.dropout,
                batch_first=True,
            )
            self.mask = torch.nn.Transformer.generate_square_subsequent_mask(case.length)
        else:
            self.model = torch.nn.MultiheadAttention(case.width, case.heads, dropout=case.dropout, batch_first=True)
        self.model.train(case.training)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=learning_rate, fused=True)
        self.result = None  # (output, weights or None)
        self.loss_tensor = None

    def forward(self):
        if self.case.layers:
            return self.model(self.source, self.target, tgt_mask=self.mask, tgt_is_causal=True), None
        x, weights = self.source, self.case.weights
        return self.model(
            x, x, x, need_weights=weights != "none", average_attn_weights=weights != "per head"
        )

    def run(self):
        if not self.case.training:
            with self.torch.inference_mode():
                self.result = self.forward()
            return
        self.optimizer.zero_grad()
        self.result = self.forward()
        self.loss_tensor = (self.result[0] * self.direction).mean()
        self.loss_tensor.backward()
        self.optimizer.step()

    def evaluate(self):
        """(output, weights or None) in evaluation mode."""
        self.model.eval()
        with self.torch.inference_mode():
            result = self.forward()
        self.model.train(self.case.training)
        return result

    def loss(self):
        return self.loss_tensor.item()

    def gradients(self):
        return {name: parameter.grad for name, parameter in self.model.named_parameters()}

    @staticmethod
    def set_threads(count):
        import torch

        torch.set_num_threads(count)


class Config(ctypes.Structure):
    """LayerStepsConfig of layer_steps.h."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in ("layers", "width", "heads", "feed_forward", "batch", "length", "training", "weights")
    ] + [("dropout", ctypes.c_double), ("learning_rate", ctypes.c_double)]


class Inputs(ctypes.Structure):
    """LayerStepsInputs of layer_steps.h."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("source", "target", "direction")]


OUTPUT, ATTENTION_WEIGHTS, PARAMETER, GRADIENT = range(4)
WEIGHTS = {"none": 0, "averaged": 1, "per head": 2}


class HeadwayLibrary:
    """The functions of layer_steps.h."""

    def __init__(self, path):
        self.library = library = ctypes.CDLL(path)
        pointer, count = ctypes.c_void_p, ctypes.c_int64
        library.layer_steps_create.restype = pointer
        library.layer_steps_create.argtypes = [ctypes.POINTER(Config), ctypes.POINTER(Inputs)]
        library.layer_steps_destroy.restype = None
        library.layer_steps_destroy.argtypes = [pointer]
        library.layer_steps_run.argtypes = [pointer]
        library.layer_steps_evaluate.argtypes = [pointer]
        library.layer_steps_loss.restype = ctypes.c_double
        library.layer_steps_loss.argtypes = [pointer]
        library.layer_steps_load.argtypes = [pointer, ctypes.c_char_p, pointer, count]
        library.layer_steps_read.argtypes = [pointer, ctypes.c_int, ctypes.c_char_p, pointer, count]
        library.layer_steps_float32_peak.restype = ctypes.c_double
        for name in ("error", "version", "instruction_set"):
            getattr(library, "layer_steps_" + name).restype = ctypes.c_char_p

    def check(self, status):
        if status != 0:
            raise RuntimeError("Headway: " + self.library.layer_steps_error().decode())

    def set_threads(self, count):
        self.check(self.library.layer_steps_set_threads(count))

    def float32_peak(self, threads):
        return self.library.layer_steps_float32_peak(threads)

    def version(self):
        return self.library.layer_steps_version().decode()

    def instruction_set(self):
        return self.library.layer_steps_instruction_set().decode()


class HeadwaySide:
    name = "Headway"

    def __init__(self, headway, case, inputs, learning_rate):
        """`inputs` are torch tensors, which are read in place, or None for random ones."""
        self.headway, self.library, self.case = headway, headway.library, case
        self.inputs = inputs  # keeps their memory alive
        config = Config(
            *(case.layers, case.width, case.heads, case.feed_forward, case.batch, case.length),
            *(int(case.training), WEIGHTS[case.weights], case.dropout, learning_rate),
        )
        pointers = Inputs(*(None if one is None else one.data_ptr() for one in inputs)) if inputs else Inputs()
        self.steps = self.library.layer_steps_create(config, pointers)
        if not self.steps:
            headway.check(-1)

    def close(self):
        self.library.layer_steps_destroy(self.steps)
        self.steps = None

    def load(self, state):
        """Copies torch's state_dict in."""
        for name, tensor in state.items():
            values = tensor.detach().contiguous()
            self.headway.check(
                self.library.layer_steps_load(self.steps, name.encode(), values.data_ptr(), values.numel())
            )

    def run(self):
        self.headway.check(self.library.layer_steps_run(self.steps))

    def loss(self):
        return self.library.layer_steps_loss(self.steps)

    def read(self, part, like, name=""):
        """A copy of a result that has the shape of `like`."""
        copy = like.detach().clone().contiguous()
        self.headway.check(
            self.library.layer_steps_read(self.steps, part, name.encode(), copy.data_ptr(), copy.numel())
        )
        return copy

    def evaluate(self, like):
        """(output, weights or None) in evaluation mode, shaped like those of PyTorch."""
        self.headway.check(self.library.layer_steps_evaluate(self.steps))
        output, weights = like
        return self.read(OUTPUT, output), None if weights is None else self.read(ATTENTION_WEIGHTS, weights)

    def gradients(self, like):
        return {name: self.read(GRADIENT, gradient, name) for name, gradient in like.items()}


OUTPUT_TOLERANCE = 1e-4
GRADIENT_TOLERANCE = 5e-3  # a relu whose input is zero but for rounding may fall on either side, in PyTorch's f32 too
LOSS_TOLERANCE = 1e-2
CHECKED_STEPS = 4


def relative_error(got, wanted):
    return ((got - wanted).abs().max() / wanted.abs().max().clamp_min(1e-30)).item()


def gradient_error(got, wanted):
    """The largest error of a parameter's gradient, relative to its norm.

    Gradients that are zero but for rounding, such as that of the keys' bias, are measured by a share of the whole norm.
    """
    total = math.sqrt(sum(gradient.double().square().sum().item() for gradient in wanted.values()))
    worst = 0.0
    for name, gradient in wanted.items():
        norm = max(gradient.double().norm().item(), 1e-3 * total)
        worst = max(worst, (got[name] - gradient).double().norm().item() / norm)
    return worst


def disagreement(torch_side, headway_side):
    """Why the two sides do not compute the same, or None; and the figures. Both learn a little where they train."""
    wanted = torch_side.evaluate()
    got = headway_side.evaluate(wanted)
    errors = {"output": (relative_error(got[0], wanted[0]), OUTPUT_TOLERANCE)}
    if wanted[1] is not None:
        errors["weights"] = (relative_error(got[1], wanted[1]), OUTPUT_TOLERANCE)
    case = torch_side.case
    if case.training and case.dropout == 0:
        torch_losses, headway_losses = [], []
        for step in range(CHECKED_STEPS):
            torch_side.run()
            headway_side.run()
            torch_losses.append(torch_side.loss())
            headway_losses.append(headway_side.loss())
            if step == 0:
                gradients = torch_side.gradients()
                errors["gradients"] = (gradient_error(headway_side.gradients(gradients), gradients), GRADIENT_TOLERANCE)
        change = max(torch_losses) - min(torch_losses)
        difference = max(abs(one - other) for one, other in zip(torch_losses, headway_losses))
        errors["losses"] = (difference / change, LOSS_TOLERANCE)
    elif case.training:
        # Dropped elements differ, so the numbers do: from the same weights each side still has to learn.
        for side in (torch_side, headway_side):
            for _ in range(CHECKED_STEPS):
                side.run()
        after = torch_side.evaluate()
        for side, output in ((torch_side, after[0]), (headway_side, headway_side.evaluate(after)[0])):
            fall = ((wanted[0] - output) * torch_side.direction).mean().item()
            errors[f"the loss of {side.name} rises"] = (-fall, 0.0)
    figures = {name: error for name, (error, _) in errors.items()}
    wrong = [
        f"{name}: {error:.2g}, allowed {tolerance:g}"
        for name, (error, tolerance) in errors.items()
        if not error <= tolerance
    ]
    return "; ".join(wrong) or None, figures
