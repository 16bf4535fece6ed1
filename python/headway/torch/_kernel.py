"""Direct calls of the kernels on plain torch tensors, without any record of gradients."""

import torch

from headway import _convert, _core

def _by_dlpack(value):
    """A torch tensor as a headway.Tensor; anything else as it is."""
    return _convert.from_torch(value.detach(), "attention") if isinstance(value, torch.Tensor) else value


def _run_by_dlpack(function, arguments, options):
    options = {name: _by_dlpack(option) for name, option in options.items()}
    results = function(*[_by_dlpack(argument) for argument in arguments], **options)
    return tuple(_convert.from_core(result, "torch") for result in results)


def dlpack_forward(*arguments, **options):
    """forward() where torch has no C exchange API."""
    return _run_by_dlpack(_core.attention, arguments, options)


def dlpack_output(*arguments, **options):
    """forward_output() where torch has no C exchange API."""
    return _run_by_dlpack(_core.attention_output, arguments, options)


def dlpack_backward(*arguments, **options):
    """backward() where torch has no C exchange API."""
    return _run_by_dlpack(_core.attention_backward, arguments, options)


# forward(query, key, value, **options that are given) -> (output, logsumexp, weights or None)
# forward_output(query, key, value, grouped, **options) -> (output, logsumexp, which is good for backward() only);
#     unless grouped, heads of keys other than the query's are refused
# backward(query, key, value, output, logsumexp, d_output, d_logsumexp, d_weights, bias_gradient, **options) ->
#     (query, key, value, bias or None, sinks or None)
# torch lends its tensors to _core by itself since 2.10.
if hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    forward = _core.attention
    forward_output = _core.attention_output
    backward = _core.attention_backward
else:
    forward = dlpack_forward
    forward_output = dlpack_output
    backward = dlpack_backward
