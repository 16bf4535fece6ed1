"""replace_attention(): Headway's layers in a model that was built with torch's."""

import warnings

import torch

from headway.torch._multi_head_attention import MultiheadAttention


def _replace_layer(module):
    """Makes an nn.MultiheadAttention one of Headway's, in place; warns about one that cannot be."""
    if type(module) is not torch.nn.MultiheadAttention:
        if not isinstance(module, MultiheadAttention):
            warnings.warn(
                f"replace_attention: a {type(module).__name__} stays as it is: only torch.nn.MultiheadAttention itself "
                "is replaced, a class derived from it may compute something else",
                stacklevel=3,
            )
        return
    module.__class__ = MultiheadAttention
    module._refuse_shortcuts()


def replace_attention(model):
    """Makes every torch.nn.MultiheadAttention inside a model compute with Headway, and returns the model.

    The layers stay the objects they were, so parameters, optimizers, hooks, shared layers, names, dtypes and the
    training mode stay too. nn.TransformerEncoder's conversion to nested tensors and nn.TransformerEncoderLayer's fast
    path, which would go around the layers in evaluation, are turned off.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"replace_attention: model is of type {type(model).__name__}, expected a torch.nn.Module")
    for module in model.modules():
        if isinstance(module, torch.nn.MultiheadAttention):
            _replace_layer(module)
    for module in model.modules():
        if isinstance(module, torch.nn.TransformerEncoder):
            if any(isinstance(inner, MultiheadAttention) for inner in module.modules()):
                module.use_nested_tensor = False
    return model
