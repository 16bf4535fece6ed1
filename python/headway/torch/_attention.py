"""attention() on torch tensors, with gradients."""

import torch

from headway.torch import _kernel, _operator

PLAIN_TYPES = frozenset((torch.Tensor, torch.nn.Parameter))
_MASKS = ("keep_mask", "drop_mask", "bias")
_TENSOR_OPTIONS = (*_MASKS, "alibi_slopes", "sinks")

_are_transforms_active = torch._C._are_functorch_transforms_active
_dispatch_mode_count = torch._C._len_torch_dispatch_stack
_is_compiling = torch.compiler.is_compiling
_is_grad_enabled = torch.is_grad_enabled
_forward_output = _kernel.forward_output
_backward = _kernel.backward


def _save(ctx, tensors, options):
    """Keeps what the gradients need; tensors among the options are watched for changes like all others."""
    names = [name for name, option in options.items() if isinstance(option, torch.Tensor)]
    ctx.names = names
    if names:
        ctx.save_for_backward(*tensors, *[options[name] for name in names])
        options = {name: option for name, option in options.items() if name not in names}
    else:
        ctx.save_for_backward(*tensors)
    ctx.options = options


def _gradients(ctx, d_output, d_logsumexp, d_weights):
    """The gradients of query, key, value, bias and sinks; None for a bias that needs none."""
    tensors, options = ctx.saved_tensors, ctx.options
    if ctx.names:
        options = dict(options, **dict(zip(ctx.names, tensors[5:])))
        tensors = tensors[:5]
    needs = ctx.needs_input_grad
    arguments = (*tensors, d_output, d_logsumexp, d_weights, needs[3])
    if torch.is_grad_enabled():
        return _Gradients.apply(options, *arguments)
    return _kernel.backward(*arguments, **options)


class _Gradients(torch.autograd.Function):
    """The gradients where a graph of them is wanted: they are right, their own gradients are refused."""

    @staticmethod
    def forward(ctx, options, *arguments):
        return _kernel.backward(*arguments, **options)

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError(_operator.NO_SECOND_GRADIENT)


class _Attention(torch.autograd.Function):
    """The fused kernel in torch's record of gradients."""

    @staticmethod
    def forward(ctx, query, key, value, bias, sinks, options):
        output, logsumexp, weights = _kernel.forward(query, key, value, **options)
        _save(ctx, (query, key, value, output, logsumexp), options)
        ctx.set_materialize_grads(False)
        return output, logsumexp, weights

    @staticmethod
    def backward(ctx, d_output, d_logsumexp, d_weights):
        if d_output is None and d_logsumexp is None and d_weights is None:
            return (None,) * 6
        d_query, d_key, d_value, d_bias, d_sinks = _gradients(ctx, d_output, d_logsumexp, d_weights)
        return d_query, d_key, d_value, d_bias, d_sinks, None


class _Output(torch.autograd.Function):
    """The same for the output alone and options without tensors, which is most calls: little work in Python."""

    @staticmethod
    def forward(ctx, query, key, value, grouped, options):
        output, logsumexp = _forward_output(query, key, value, grouped, **options)
        ctx.save_for_backward(query, key, value, output)
        ctx.rest = (logsumexp, options)
        return output

    @staticmethod
    def backward(ctx, d_output):
        logsumexp, options = ctx.rest
        query, key, value, output = ctx.saved_tensors
        arguments = (query, key, value, output, logsumexp, d_output, None, None, False)
        if _is_grad_enabled():
            return (*_Gradients.apply(options, *arguments)[:3], None, None)
        d_query, d_key, d_value, _, _ = _backward(*arguments, **options)
        return d_query, d_key, d_value, None, None


# Function.apply looks for torch.func's transforms, which is_plain() has done already.
_apply_attention = super(torch.autograd.Function, _Attention).apply
_apply_output = super(torch.autograd.Function, _Output).apply


def is_plain(query, key, value):
    """Whether nothing but torch's own record of gradients watches: no compiler, transform, mode or subclass."""
    return (
        type(query) in PLAIN_TYPES
        and type(key) in PLAIN_TYPES
        and type(value) in PLAIN_TYPES
        and (query.is_cpu or query.is_cuda)
        and not _is_compiling()
        and not _are_transforms_active()
        and not _dispatch_mode_count()
    )


def is_autocast(tensor):
    """Whether torch.autocast is on where the tensor is; it knows no tensors without memory."""
    device = tensor.device.type
    return device in ("cpu", "cuda") and torch.is_autocast_enabled(device)


def autocast_dtype(tensor):
    """The dtype in which torch.autocast computes attention on this tensor."""
    is_eligible = tensor.is_floating_point() and tensor.dtype != torch.float64
    return torch.get_autocast_dtype(tensor.device.type) if is_eligible else tensor.dtype


def _autocast(query, key, value, options):
    query, key, value = (tensor.to(autocast_dtype(tensor)) for tensor in (query, key, value))
    bias = options.get("bias")
    return query, key, value, options if bias is None else dict(options, bias=bias.to(autocast_dtype(bias)))


def with_four_dimensions(options):
    """A mask or bias of three dimensions with a batch of 1 before them: torch reads [heads, query_length, key_length],
    and the kernels take no three."""
    for name in _MASKS:
        mask = options.get(name)
        if isinstance(mask, torch.Tensor) and mask.dim() == 3:
            options = dict(options, **{name: mask[None]})
    return options


def attend(query, key, value, options):
    """(output, logsumexp, weights or None) of the options that are given; a graph only where a gradient is needed."""
    options = with_four_dimensions(options)
    if is_autocast(query):
        query, key, value, options = _autocast(query, key, value, options)
    if not is_plain(query, key, value):
        return _operator.attend(query, key, value, options)
    if "seed" in options:
        options = dict(options, seed=int(options["seed"]))
    if torch.is_grad_enabled():
        bias = options.get("bias")
        sinks = options.get("sinks")
        if (
            query.requires_grad
            or key.requires_grad
            or value.requires_grad
            or (bias is not None and bias.requires_grad)
            or (sinks is not None and sinks.requires_grad)
        ):
            return _apply_attention(query, key, value, bias, sinks, options)
    return _kernel.forward(query, key, value, **options)


def plain_output(query, key, value, grouped, options):
    """attend()'s output alone, for tensors that is_plain() and outside of autocast; no bias and no sinks.

    Fewer heads of keys than of queries are refused unless `grouped`. A mask has two or four dimensions.
    """
    if not _is_grad_enabled() or not (query.requires_grad or key.requires_grad or value.requires_grad):
        return _forward_output(query, key, value, grouped, **options)[0]
    if "keep_mask" not in options:
        return _apply_output(query, key, value, grouped, options)
    if not grouped and query.size(1) != key.size(1):
        raise ValueError("attention: key has another number of heads than query, expected the same")
    return _apply_attention(query, key, value, None, None, options)[0]


def draw_seed():
    """A seed from torch's default generator, so that torch.manual_seed() makes dropout repeatable; a tensor."""
    return torch.randint(0, 2**63 - 1, (), dtype=torch.int64)


def attention(
    query,
    key,
    value,
    *,
    causal=None,
    query_offset=None,
    keep_mask=None,
    drop_mask=None,
    bias=None,
    scale=None,
    window=None,
    key_lengths=None,
    cu_query_lengths=None,
    cu_key_lengths=None,
    softcap=None,
    alibi_slopes=None,
    sinks=None,
    dropout=0.0,
    seed=None,
    return_weights=False,
    weights_of="softmax",
    return_logsumexp=False,
):
    """headway.attention() on torch tensors, with gradients of query, key, value, bias and sinks.

    Arguments and results are headway.attention()'s, and a mask or bias of three dimensions is [heads, query_length,
    key_length], as torch broadcasts it; gradients flow back through the output, the weights and the
    log-sum-exp. The seed of the dropout comes from torch's default generator unless it is given.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"attention: {name} is of type {type(tensor).__name__}, expected a torch.Tensor")
    options = dict(
        causal=causal, query_offset=query_offset, keep_mask=keep_mask, drop_mask=drop_mask, bias=bias, scale=scale,
        window=window, key_lengths=key_lengths, cu_query_lengths=cu_query_lengths, cu_key_lengths=cu_key_lengths,
        softcap=softcap, alibi_slopes=alibi_slopes, sinks=sinks,
    )
    options = {name: option for name, option in options.items() if option is not None}
    for name in _TENSOR_OPTIONS:
        if name in options and not isinstance(options[name], torch.Tensor):
            raise TypeError(f"attention: {name} is of type {type(options[name]).__name__}, expected a torch.Tensor")
    if dropout:
        options["dropout"] = dropout
        options["seed"] = draw_seed() if seed is None else seed
    if return_weights is not False:
        options["return_weights"] = return_weights
        options["weights_of"] = weights_of
    output, logsumexp, weights = attend(query, key, value, options)
    results = [output]
    if weights is not None:
        results.append(weights)
    if return_logsumexp:
        results.append(logsumexp)
    return output if len(results) == 1 else tuple(results)
