"""What the Hugging Face suites share: two models of the same weights, and how their results are compared."""

import contextlib
import copy

import torch
import transformers

import headway
import headway.transformers

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-11}


def make_models(auto_class, config, dtype=torch.float32):
    """(eager, headway): two models of the same random weights, in eval mode."""
    eager, fused = (
        auto_class.from_config(copy.deepcopy(config), attn_implementation=implementation).to(dtype).eval()
        for implementation in ("eager", headway.transformers.NAME)
    )
    with torch.no_grad():
        for parameter in eager.parameters():
            parameter += 0.1 * torch.randn(parameter.shape).to(dtype)  # far from uniform attention and from zero biases
    fused.load_state_dict(eager.state_dict())
    return eager, fused


@contextlib.contextmanager
def softmax_in_own_dtype():
    """Many eager models compute the softmax in float32 whatever they get; here float64 stays float64."""
    softmax = torch.nn.functional.softmax

    def own_dtype(scores, dim=None, dtype=None):
        return softmax(scores, dim=dim, dtype=None if scores.dtype == torch.float64 else dtype)

    torch.nn.functional.softmax = own_dtype
    try:
        yield
    finally:
        torch.nn.functional.softmax = softmax


def run_eager(function):
    """The function's result; an error if Headway was called meanwhile."""
    before = headway.call_count()
    with softmax_in_own_dtype():
        result = function()
    calls = headway.call_count() - before
    assert calls == 0, f"{calls} calls of Headway by the eager model"
    return result


def run_headway(function):
    """The function's result; an error if Headway was not called."""
    before = headway.call_count()
    result = function()
    assert headway.call_count() > before, "no call of Headway by the model that should"
    return result


def compared_outputs(outputs, prefix=""):
    """name -> tensor or tuple of tensors, of what a model computes at positions that may be compared."""
    found = {}
    for name, entry in outputs.items():
        if isinstance(entry, transformers.utils.ModelOutput):
            found.update(compared_outputs(entry, f"{name}."))
        elif name.startswith("logits") or name.endswith("_embeds") or name.endswith("attentions"):
            found[prefix + name] = entry
    return found


def valid_part(tensor, name, valid):
    """The tensor where queries are padding made zero: logits [batch, length, any], attentions [batch, heads, length,
    key_length]. valid: output's name -> [batch, length]."""
    if name not in valid:
        return tensor
    batch, length = valid[name].shape
    shape = (batch, 1, length, 1) if name.endswith("attentions") else (batch, length, 1)
    return torch.where(valid[name].view(shape), tensor, torch.zeros((), dtype=tensor.dtype))


def flat_outputs(outputs, valid):
    """[(name, tensor)] with every layer's attentions, padding made zero."""
    flat = []
    for name, entry in compared_outputs(outputs).items():
        for number, tensor in enumerate(entry if isinstance(entry, tuple) else (entry,)):
            flat.append((f"{name}[{number}]" if isinstance(entry, tuple) else name, valid_part(tensor, name, valid)))
    return flat


def assert_close(name, ours, theirs, tolerance):
    """An error where the tensors differ by more than the tolerance, which grows with their largest number above 1."""
    assert ours.shape == theirs.shape, f"{name} has shape {tuple(ours.shape)}, expected {tuple(theirs.shape)}"
    assert ours.dtype == theirs.dtype, f"{name} has dtype {ours.dtype}, expected {theirs.dtype}"
    if ours.numel() == 0:
        return
    error = (ours.double() - theirs.double()).abs().max().item()
    bound = tolerance * max(1.0, theirs.double().abs().max().item())
    assert error <= bound, f"{name} differs by {error:.3g}, expected at most {bound:.3g}"


def assert_same_outputs(ours, theirs, valid, tolerance):
    """Compares two models' outputs, all of them, at non-padding queries."""
    ours, theirs = flat_outputs(ours, valid), flat_outputs(theirs, valid)
    assert [name for name, _ in ours] == [name for name, _ in theirs], "other outputs than eager's"
    for (name, our), (_, their) in zip(ours, theirs):
        assert_close(name, our, their, tolerance)
