"""scaled_dot_product_attention() with torch's signature, meaning and errors."""

import torch
from torch.nn import functional

from headway.torch._attention import PLAIN_TYPES, attend, autocast_dtype, draw_seed, is_autocast, is_plain, plain_output

# Headway takes a bias from -1e30 down as masked. For torch only -infinity masks: a row of torch.finfo.min is a mean.
_LOWEST_BIAS = -1e29

_is_autocast_enabled = torch.is_autocast_enabled


def _refuse(arguments, reason):
    """Raises the error that torch has for such arguments; where it has none, one of our own."""
    query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa = arguments
    functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale,
        enable_gqa=enable_gqa,
    )
    raise RuntimeError(f"scaled_dot_product_attention: {reason}")


def _raised(bias):
    """The bias with finite numbers lifted that Headway would take as masked."""
    is_low = (bias < _LOWEST_BIAS) & (bias != -torch.inf)
    return torch.where(is_low, torch.full_like(bias, _LOWEST_BIAS), bias)


def attend_as_torch(query, key, value, options):
    """attend(), where a row of finite biases is never taken as masked, however low they are."""
    bias = options.get("bias")
    if bias is None or bias.dtype == torch.float16:
        return attend(query, key, value, options)
    if not is_plain(query, key, value):
        return attend(query, key, value, dict(options, bias=_raised(bias)))
    results = attend(query, key, value, options)
    logsumexp = results[1]
    # Only rows without a key can have been taken wrongly, and they are rare.
    if logsumexp.numel() and logsumexp.min().item() == -torch.inf:
        raised = _raised(bias)
        if not torch.equal(raised, bias):
            return attend(query, key, value, dict(options, bias=raised))
    return results


def attend_with_dropout(query, key, value, options, dropout_p):
    """attend_as_torch() with a seed from torch's generator; a dropout of 1 drops everything."""
    if 0 < dropout_p < 1:
        options = dict(options, dropout=dropout_p, seed=draw_seed())
    output, logsumexp, weights = attend_as_torch(query, key, value, options)
    if dropout_p == 1:
        output = output.masked_fill(torch.ones((), dtype=torch.bool), 0.0)
    return output, logsumexp, weights


def mask_options(attn_mask):
    """torch's mask as options: True may be looked at, numbers are added."""
    if attn_mask is None:
        return {}
    return {"keep_mask": attn_mask} if attn_mask.dtype == torch.bool else {"bias": attn_mask}


def _autocast(tensor):
    """As torch.autocast casts the inputs of this function."""
    return tensor.to(autocast_dtype(tensor)) if isinstance(tensor, torch.Tensor) else tensor


def _check(arguments):
    """torch's own checks, with torch's own errors."""
    query, key, value, attn_mask, dropout_p, is_causal, scale, _ = arguments
    tensors = (query, key, value) if attn_mask is None else (query, key, value, attn_mask)
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors) or not isinstance(is_causal, bool):
        _refuse(arguments, "expected tensors, and a bool for is_causal")
    if any(tensor.is_nested for tensor in tensors):
        raise NotImplementedError(
            "scaled_dot_product_attention: nested tensors are not supported, expected padded ones with a mask"
        )
    if any(tensor.layout != torch.strided for tensor in tensors):
        _refuse(arguments, "expected dense tensors")
    if min(query.dim(), key.dim(), value.dim()) < 2:
        _refuse(arguments, "expected at least two dimensions")
    if not query.dtype == key.dtype == value.dtype:
        _refuse(arguments, "expected one dtype")
    if not query.is_floating_point() or query.dtype.itemsize < 2:
        _refuse(arguments, f"query has dtype {query.dtype}, expected float32, float64, bfloat16 or float16")
    if not query.device.type == key.device.type == value.device.type:
        _refuse(arguments, "expected one device")
    if query.device.type not in ("cpu", "cuda", "meta") or (attn_mask is not None and attn_mask.device != query.device):
        raise RuntimeError(
            f"scaled_dot_product_attention: tensors are on {[str(tensor.device) for tensor in tensors]}, expected one, "
            "the CPU or CUDA"
        )
    if not 0 <= dropout_p <= 1:
        _refuse(arguments, f"dropout_p is {dropout_p}, expected 0 to 1")
    if scale is not None and not isinstance(scale, (int, float, torch.SymFloat, torch.SymInt)):
        _refuse(arguments, "expected a number for scale")
    if attn_mask is not None:
        _check_mask(arguments)


def _check_mask(arguments):
    query, key, value, attn_mask, dropout_p, is_causal, _, enable_gqa = arguments
    if attn_mask.dim() < 2:
        _refuse(arguments, "expected a mask of at least two dimensions")
    if attn_mask.dtype not in (torch.bool, torch.float32, query.dtype):
        _refuse(arguments, "expected a mask of booleans or of the query's dtype")
    # torch's documents refuse a mask beside is_causal, but its fused CPU kernel applies both; so does this function.
    if is_causal and not torch.compiler.is_compiling():
        choose = getattr(torch, "_fused_sdp_choice", None)
        if choose is None or choose(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa=enable_gqa) == 0:
            raise RuntimeError(
                "scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            )


class _FourDimensions:
    """Inputs of any ranks and broadcast batches as [batch, heads, length, dim], and results back."""

    def __init__(self, arguments):
        query, key, value, attn_mask, _, _, _, enable_gqa = arguments
        grouped = False
        if enable_gqa:
            key, value, grouped = self._group_heads(arguments)
        if query.size(-1) != key.size(-1):
            _refuse(arguments, f"key has head_dim {key.size(-1)}, expected the query's {query.size(-1)}")
        if key.size(-2) != value.size(-2):
            _refuse(arguments, f"value has length {value.size(-2)}, expected the key's {key.size(-2)}")
        kept = 3 if grouped else 2  # dimensions at the end that do not broadcast
        try:
            lead = torch.broadcast_shapes(query.shape[:-kept], key.shape[:-kept], value.shape[:-kept])
        except RuntimeError:
            _refuse(arguments, "expected batch dimensions that broadcast")
        self.batch = (*lead, query.size(-3)) if grouped else tuple(lead)
        target = (*self.batch, query.size(-2), key.size(-2))
        if attn_mask is not None:
            fits = attn_mask.dim() <= len(target) and all(
                size in (1, wanted) for size, wanted in zip(reversed(attn_mask.shape), reversed(target))
            )
            if not fits:
                shape = tuple(attn_mask.shape)
                _refuse(arguments, f"attn_mask has shape {shape}, expected what broadcasts to {target}")
            attn_mask = self._flatten_mask(attn_mask)
        self.attn_mask = attn_mask
        self.query = self._flatten(query, query.size(-3) if grouped else None)
        if len(self.batch) == 2 and query.shape[:-2] != self.batch:
            self.query = self.query.contiguous()  # the output lies in memory as the query does
        self.key = self._flatten(key, key.size(-3) if grouped else None)
        self.value = self._flatten(value, value.size(-3) if grouped else None)

    @staticmethod
    def _group_heads(arguments):
        """(key, value, whether fewer heads serve more queries) of grouped queries."""
        query, key, value = arguments[:3]
        if min(query.dim(), key.dim(), value.dim()) < 3:
            _refuse(arguments, "enable_gqa: expected at least three dimensions")
        heads, key_heads, value_heads = (tensor.size(-3) for tensor in (query, key, value))
        if any(count == 0 or heads % count for count in (key_heads, value_heads)):
            if not heads == key_heads == value_heads:
                _refuse(arguments, "enable_gqa: expected heads of key and value that divide the query's")
            return key, value, False
        if key_heads != value_heads:
            key = key.repeat_interleave(heads // key_heads, -3)
            value = value.repeat_interleave(heads // value_heads, -3)
        return key, value, True

    def _flatten(self, tensor, heads):
        """[..., heads or nothing, length, dim] -> [batch, heads, length, dim]; a view wherever strides allow."""
        batch = self.batch if heads is None else (*self.batch[:-1], heads)
        shape = (*batch, *tensor.shape[-2:])
        if tensor.shape != shape:
            tensor = tensor.expand(shape)
        while tensor.dim() < 4:
            tensor = tensor.unsqueeze(0)
        return tensor if tensor.dim() == 4 else tensor.flatten(0, tensor.dim() - 4)

    def _flatten_mask(self, mask):
        """The same for a mask, of which only the batch dimensions are repeated, and only where they differ."""
        lead = mask.shape[:-3]
        if mask.dim() <= 4 and len(self.batch) <= 2:
            return mask
        if all(size == 1 for size in lead):
            return mask.reshape(mask.shape[-3:])
        mask = mask.expand(*self.batch[:-1], *mask.shape[-3:])
        return mask.flatten(0, mask.dim() - 4)

    def restore(self, tensor):
        """[batch, heads, rows, columns] -> [..., rows, columns]"""
        return tensor if len(self.batch) == 2 else tensor.reshape(*self.batch, *tensor.shape[-2:])


def _attend_any(arguments, return_weights):
    """The whole of it: all ranks, broadcasts, dtypes, and every error."""
    query = arguments[0]
    if isinstance(query, torch.Tensor) and is_autocast(query):
        arguments = (*(_autocast(tensor) for tensor in arguments[:4]), *arguments[4:])
    _check(arguments)
    dropout_p, is_causal, scale = arguments[4:7]
    inputs = _FourDimensions(arguments)
    query, key = inputs.query, inputs.key
    options = mask_options(inputs.attn_mask)
    if is_causal:
        options["causal"] = "top_left"
    if query.size(-1) == 0:
        # All scores are zero, as with one column of zeros.
        query, key = (functional.pad(tensor, (0, 1)) for tensor in (query, key))
        scale = 1.0
    if scale is not None:
        options["scale"] = scale
    if return_weights is not False:
        options["return_weights"] = return_weights
    output, _, weights = attend_with_dropout(query, key, inputs.value, options, dropout_p)
    output = inputs.restore(output)
    return output if weights is None else (output, inputs.restore(weights))


def _attend_plain_bias(query, key, value, bias, options, enable_gqa):
    """The same for a mask of numbers and four dimensions."""
    heads_fit = query.dim() == key.dim() == 4 and (enable_gqa or query.size(1) == key.size(1))
    if not heads_fit or bias.dtype not in (query.dtype, torch.float32):
        raise ValueError("not a plain bias")
    return attend_as_torch(query, key, value, dict(options, bias=bias))[0]


def _attend_plain(query, key, value, attn_mask, is_causal, scale, enable_gqa):
    """The output with little work in Python; an error sends what does not fit here to _attend_any()."""
    options = {}
    if is_causal:
        options["causal"] = "top_left"
    if scale is not None:
        options["scale"] = scale
    if attn_mask is not None:
        if type(attn_mask) not in PLAIN_TYPES or is_causal or not 2 <= attn_mask.dim() <= query.dim():
            raise ValueError("not a plain mask")
        if attn_mask.dtype is not torch.bool:
            return _attend_plain_bias(query, key, value, attn_mask, options, enable_gqa)
        options["keep_mask"] = attn_mask[None] if attn_mask.dim() == 3 else attn_mask
    if query.dim() == 4:
        return plain_output(query, key, value, enable_gqa, options)
    if not query.dim() == key.dim() == value.dim() == 3:
        raise ValueError("neither three nor four dimensions")
    return plain_output(query[None], key[None], value[None], enable_gqa, options)[0]


def scaled_dot_product_attention(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    *,
    scale=None,
    enable_gqa=False,
    return_weights=False,
):
    """torch.nn.functional.scaled_dot_product_attention(), computed by Headway.

    Arguments, shapes, broadcasts, errors and gradients are torch's: a boolean mask is True where a query may look, a
    floating one is added, is_causal aligns at the top left, and dropout follows torch.manual_seed(), though other
    elements are dropped than by torch. A query whose keys are all masked gives zeros.

    return_weights=True returns (output, weights), weights [..., query_length, key_length] before dropout, at the price
    of writing them.
    """
    if (
        return_weights is False
        and dropout_p == 0.0
        and is_plain(query, key, value)
        and (is_causal is False or is_causal is True)
        and (enable_gqa is False or enable_gqa is True)
        and not _is_autocast_enabled(query.device.type)
    ):
        try:
            return _attend_plain(query, key, value, attn_mask, is_causal, scale, enable_gqa)
        except (TypeError, ValueError):
            pass  # broadcasts, other ranks, empty dimensions, and inputs for which torch has an error of its own
    arguments = (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    tensors = tuple(tensor for tensor in arguments[:4] if isinstance(tensor, torch.Tensor))
    if torch.overrides.has_torch_function(tensors):
        return torch.overrides.handle_torch_function(
            scaled_dot_product_attention, tensors, query, key, value, attn_mask, dropout_p, is_causal, scale=scale,
            enable_gqa=enable_gqa, return_weights=return_weights,
        )
    return _attend_any(arguments, return_weights)
