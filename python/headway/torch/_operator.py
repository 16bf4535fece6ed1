"""attention() as a registered operator of torch: for torch.compile, torch.func, tensor subclasses and dispatch modes.

Eager calls do not come here: the operator costs some 20 microseconds more than a straight call.
"""

import torch
from torch import Tensor

from headway.torch import _kernel, _mapping
from headway.torch._mapping import OPTION_COUNT, PER_ENTRY, TENSORS, VALUES

NO_SECOND_GRADIENT = (
    "headway.torch: attention has no second gradient: the backward pass cannot be differentiated (create_graph=True, "
    "gradients of gradients)"
)

# ---- between the options of attention() and the operator's arguments ----


def _as_tensor(value, like):
    """Integers as a tensor that can be an argument."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (list, tuple)):
        return torch.tensor(value, dtype=torch.int64, device=like.device)
    return torch.full((), value, dtype=torch.int64, device=like.device)


def _flatten(options, like):
    """The options that are given as the operator's arguments after query, key and value."""
    flat = dict.fromkeys(TENSORS + VALUES)
    flat.update(dropout=0.0, return_weights="none", weights_of="softmax")
    for name, option in options.items():
        if name == "window":
            flat["window_left"], flat["window_right"] = option
        elif name == "return_weights":
            flat[name] = {True: "per_head", False: "none"}.get(option, option)
        elif name == "seed" and not isinstance(option, Tensor):
            # 64 bits in two's complement: torch has no unsigned seeds.
            flat[name] = _as_tensor(option - 2**64 if option >= 2**63 else option, like)
        elif name in PER_ENTRY:
            flat[name] = _as_tensor(option, like)
        elif name in ("scale", "softcap", "dropout"):
            flat[name] = float(option)
        else:
            flat[name] = option
    return tuple(flat.values())


def _unflatten(flat):
    """The kernel's options from the operator's arguments."""
    options = {name: option for name, option in zip(TENSORS + VALUES, flat) if option is not None}
    left, right = options.pop("window_left", None), options.pop("window_right", None)
    if left is not None or right is not None:
        options["window"] = (left, right)
    options["return_weights"] = {"none": False, "per_head": True}.get(options["return_weights"], "mean")
    if "seed" in options:
        options["seed"] = int(options["seed"]) % 2**64
    return options


# ---- the operators ----


_OPTION_TYPES = ("Tensor?",) * len(TENSORS) + ("str?", "float?", "SymInt?", "SymInt?", "float?", "float", "str", "str")
_OPTIONS = ", ".join(f"{kind} {name}" for kind, name in zip(_OPTION_TYPES, TENSORS + VALUES, strict=True))
_FORWARD_SCHEMA = f"(Tensor query, Tensor key, Tensor value, {_OPTIONS}) -> (Tensor, Tensor, Tensor)"
_BACKWARD_SCHEMA = (
    "(Tensor? d_output, Tensor? d_logsumexp, Tensor? d_weights, bool needs_bias, Tensor query, Tensor key, "
    f"Tensor value, Tensor output, Tensor logsumexp, {_OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)


@torch.library.custom_op("headway::attention", mutates_args=(), schema=_FORWARD_SCHEMA)
def _attention(query, key, value, *flat):
    """(output, logsumexp, weights); weights are empty where none are wanted."""
    _check_device("attention", query, key, value)
    output, logsumexp, weights = _kernel.forward(query, key, value, **_unflatten(flat))
    return output, logsumexp, query.new_empty(0) if weights is None else weights


def _check_device(function, *tensors):
    for tensor in tensors:
        if tensor.device.type not in ("cpu", "cuda"):
            raise ValueError(f"{function}: a tensor is on device {tensor.device}, expected the CPU or CUDA")


def _empty_in_order_of(like, shape):
    """Memory that lies as the kernel lays it: in the order of `like`'s strides, rows last."""
    order = sorted(range(3), key=lambda dim: -like.stride(dim)) + [3]
    return like.new_empty([shape[dim] for dim in order]).permute([order.index(dim) for dim in range(4)])


def _with_contiguous_rows(tensor):
    return tensor if tensor.size(-1) <= 1 or tensor.stride(-1) == 1 else tensor.contiguous()


@_attention.register_fake
def _(query, key, value, *flat):
    batch, heads, query_length, _ = query.shape
    output = _empty_in_order_of(query, (batch, heads, query_length, value.shape[3]))
    statistics = torch.float64 if query.dtype == torch.float64 else torch.float32
    logsumexp = query.new_empty((batch, heads, query_length), dtype=statistics)
    kind = flat[-2]
    if kind == "none":
        weights = query.new_empty(0)
    elif kind == "mean":
        weights = query.new_empty((batch, query_length, key.shape[2]))
    else:
        weights = query.new_empty((batch, heads, query_length, key.shape[2]))
    return output, logsumexp, weights


@torch.library.custom_op("headway::attention_backward", mutates_args=(), schema=_BACKWARD_SCHEMA)
def _attention_backward(d_output, d_logsumexp, d_weights, needs_bias, query, key, value, output, logsumexp, *flat):
    """The gradients of query, key, value, bias and sinks; empty for a bias and sinks that have none."""
    gradients = _kernel.backward(
        query, key, value, output, logsumexp, d_output, d_logsumexp, d_weights, needs_bias, **_unflatten(flat)
    )
    return tuple(query.new_empty(0) if gradient is None else gradient for gradient in gradients)


@_attention_backward.register_fake
def _(d_output, d_logsumexp, d_weights, needs_bias, query, key, value, output, logsumexp, *flat):
    rows = [_with_contiguous_rows(tensor) for tensor in (query, key, value)]
    gradients = [_empty_in_order_of(tensor, tensor.shape) for tensor in rows]
    bias, sinks = flat[TENSORS.index("bias")], flat[TENSORS.index("sinks")]
    gradients.append(bias.new_empty(bias.shape) if bias is not None and needs_bias else query.new_empty(0))
    gradients.append(query.new_empty(0) if sinks is None else sinks.new_empty(sinks.shape))
    return tuple(gradients)


# ---- gradients ----


def _save(ctx, inputs, output):
    query, key, value, *flat = inputs
    ctx.save_for_backward(query, key, value, output[0], output[1], *flat[: len(TENSORS)])
    ctx.values = tuple(flat[len(TENSORS) :])
    ctx.set_materialize_grads(False)


def _back(ctx, backward, d_output, d_logsumexp, d_weights):
    none = (None,) * (3 + OPTION_COUNT)
    if d_output is None and d_logsumexp is None and d_weights is None:
        return none
    if ctx.values[-2] == "none":
        d_weights = None
    saved = ctx.saved_tensors
    place_of_bias, place_of_sinks = (3 + TENSORS.index(name) for name in ("bias", "sinks"))
    needs = ctx.needs_input_grad
    gradients = backward(d_output, d_logsumexp, d_weights, bool(needs[place_of_bias]), *saved, *ctx.values)
    all_gradients = list(none)
    for place, gradient in zip((0, 1, 2, place_of_bias, place_of_sinks), gradients):
        if needs[place]:
            all_gradients[place] = gradient
    return tuple(all_gradients)


def _refuse_second(ctx, *_):
    raise NotImplementedError(NO_SECOND_GRADIENT)


_attention.register_autograd(lambda ctx, *grads: _back(ctx, _attention_backward, *grads), setup_context=_save)
_attention_backward.register_autograd(_refuse_second, setup_context=lambda ctx, inputs, output: None)
_attention.register_vmap(lambda info, dims, *arguments: _mapping.map_forward(_attention, info, dims, arguments))
_attention_backward.register_vmap(
    lambda info, dims, *arguments: _mapping.map_backward(_attention_backward, info, dims, arguments)
)


class _Transformed(torch.autograd.Function):
    """The operator for torch.func's transforms, which do not go through a registered operator's gradient."""

    @staticmethod
    def forward(*arguments):
        return _attention(*arguments)

    setup_context = staticmethod(_save)

    @staticmethod
    def backward(ctx, *d_results):
        return _back(ctx, _TransformedBackward.apply, *d_results)

    @staticmethod
    def vmap(info, in_dims, *arguments):
        return _mapping.map_forward(_Transformed.apply, info, in_dims, arguments)


class _TransformedBackward(torch.autograd.Function):
    """Its gradients, for the same transforms."""

    @staticmethod
    def forward(*arguments):
        return _attention_backward(*arguments)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    backward = staticmethod(_refuse_second)

    @staticmethod
    def vmap(info, in_dims, *arguments):
        return _mapping.map_backward(_TransformedBackward.apply, info, in_dims, arguments)


def attend(query, key, value, options):
    """(output, logsumexp, weights or None) through the operator."""
    operator = _Transformed.apply if torch._C._are_functorch_transforms_active() else _attention
    output, logsumexp, weights = operator(query, key, value, *_flatten(options, query))
    return output, logsumexp, weights if options.get("return_weights", False) else None
