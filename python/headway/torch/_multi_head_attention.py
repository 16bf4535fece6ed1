"""multi_head_attention_forward() and MultiheadAttention with torch's signatures, state dict and errors."""

import warnings

import torch
from torch.nn import functional

from headway.torch._attention import is_autocast
from headway.torch._scaled_dot_product import attend_with_dropout


def _check_mask_type(mask, name, other=None, other_name=""):
    """torch's error for masks of integers and its warning for masks of two kinds."""
    if mask is None:
        return
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and mask.dtype != other.dtype:
        warnings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=4,
        )


class _Masks:
    """A mask whose True forbids and a bias that is added, each broadcasting to [batch, heads, queries, keys]."""

    def __init__(self):
        self.drop = None
        self.bias = None

    def add(self, mask):
        if mask is None:
            return
        if mask.dtype == torch.bool:
            self.drop = mask if self.drop is None else self.drop | mask
        else:
            self.bias = mask if self.bias is None else self.bias + mask

    def options(self, dtype):
        options = {}
        if self.drop is not None:
            options["drop_mask"] = self.drop
        if self.bias is not None:
            if self.bias.dtype not in (dtype, torch.float32) and not is_autocast(self.bias):
                raise RuntimeError(
                    "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
                    f"{self.bias.dtype} and  query.dtype: {dtype} instead."
                )
            options["bias"] = self.bias
        return options


class _Layer:
    """One call of the layer: batched inputs of either order, [batch, length, ...] or [length, batch, ...]."""

    def __init__(self, query, key, value, num_heads, batch_first):
        self.query = query
        self.key = key
        self.value = value
        self.num_heads = num_heads
        self.batch_first = batch_first
        self.head_dim = query.size(2) // num_heads
        self.length_dim = 1 if batch_first else 0
        self.batch = query.size(1 - self.length_dim)
        self.query_length = query.size(self.length_dim)

    def split_heads(self, x):
        """[batch or length, length or batch, embed_dim] -> [.., .., heads, head_dim], a view."""
        return x.unflatten(-1, (self.num_heads, self.head_dim))

    def to_attention(self, x):
        """[.., .., heads, head_dim] -> [batch, heads, length, head_dim], a view."""
        return x.permute(0, 2, 1, 3) if self.batch_first else x.permute(1, 2, 0, 3)

    def project_packed(self, weight, bias):
        """Query, key and value of every head, [.., .., heads, head_dim], by as few products as the inputs allow."""
        query, key, value = self.query, self.key, self.value
        embed_dim = query.size(-1)
        if query is key and key is value:
            projected = functional.linear(query, weight, bias)
            return projected.unflatten(-1, (3, self.num_heads, self.head_dim)).unbind(2)
        if key is value:
            sizes = [embed_dim, 2 * embed_dim]
            query_weight, rest_weight = weight.split(sizes)
            query_bias, rest_bias = (None, None) if bias is None else bias.split(sizes)
            projected = functional.linear(key, rest_weight, rest_bias)
            return (
                self.split_heads(functional.linear(query, query_weight, query_bias)),
                *projected.unflatten(-1, (2, self.num_heads, self.head_dim)).unbind(2),
            )
        return self.project(weight.chunk(3), bias)

    def project(self, weights, bias):
        """The same with one product for each."""
        biases = (None,) * 3 if bias is None else bias.chunk(3)
        inputs = (self.query, self.key, self.value)
        return tuple(
            self.split_heads(functional.linear(x, weight, b)) for x, weight, b in zip(inputs, weights, biases)
        )

    def append(self, x, row):
        """x with one more key, [1, 1, heads, head_dim], for every batch entry."""
        shape = list(x.shape)
        shape[self.length_dim] = 1
        return torch.cat([x, row.expand(shape)], dim=self.length_dim)

    def join(self, output):
        """[batch, heads, query_length, head_dim] -> the inputs' order [.., .., embed_dim]; a view, as they lie."""
        output = output.permute(0, 2, 1, 3) if self.batch_first else output.permute(2, 0, 1, 3)
        return output.flatten(2)


def _check_separate(query, key, value, weights, bias):
    """torch's errors for projections of their own."""
    for weight, name in zip(weights, "qkv"):
        if weight is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
    embed_dim = query.size(-1)
    for x, weight, name in zip((query, key, value), weights, ("query", "key", "value")):
        expected = (embed_dim, x.size(-1))
        if weight.shape != expected:
            raise AssertionError(f"expecting {name} weights shape of {expected}, but got {weight.shape}")
    if bias is not None:
        for part, name in zip(bias.chunk(3), ("query", "key", "value")):
            if part.shape != (embed_dim,):
                raise AssertionError(f"expecting {name} bias shape of {(embed_dim,)}, but got {part.shape}")


def _check_attention_mask(mask, layer, key_length):
    """A mask of 2 or 3 dimensions as [1 or batch, 1 or heads, query_length, key_length]."""
    if mask is None:
        return None
    size = (layer.query_length, key_length)
    if mask.dim() == 2:
        if mask.shape != size:
            raise RuntimeError(f"The shape of the 2D attn_mask is {mask.shape}, but should be {size}.")
        return mask[None, None]
    size = (layer.batch * layer.num_heads, *size)
    if mask.shape != size:
        raise RuntimeError(f"The shape of the 3D attn_mask is {mask.shape}, but should be {size}.")
    return mask.view(layer.batch, layer.num_heads, *size[1:])


def _check_padding_mask(mask, layer, key_length):
    """A mask [batch, key_length] as [batch, 1, 1, key_length]."""
    if mask is None:
        return None
    for dim, expected in enumerate((layer.batch, key_length)):
        if mask.shape[dim] != expected:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{dim}] to be {expected}, but got {mask.shape[dim]}"
            )
    return mask[:, None, None, :]


def _static(tensor, name, layer):
    """Keys or values that are given, [batch * heads, length, head_dim], as [batch, heads, length, head_dim]."""
    for dim, expected in ((0, layer.batch * layer.num_heads), (2, layer.head_dim)):
        if tensor.size(dim) != expected:
            raise AssertionError(f"expecting {name}.size({dim}) of {expected}, but got {tensor.size(dim)}")
    return tensor.view(layer.batch, layer.num_heads, tensor.size(1), layer.head_dim)


def _check_shapes(query, key, value, embed_dim_to_check, num_heads, separate):
    embed_dim = query.size(-1)
    if embed_dim != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed_dim}")
    if embed_dim // num_heads * num_heads != embed_dim:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    if separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    if not separate and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


def _check_key_biases(bias_k, bias_v, static_k, static_v):
    if bias_k is None and bias_v is None:
        return
    if bias_v is None:
        raise AssertionError("bias_k is set but bias_v is None")
    if bias_k is None:
        raise AssertionError("bias_v is set but bias_k is None")
    if static_k is not None:
        raise AssertionError("bias cannot be added to static key.")
    if static_v is not None:
        raise AssertionError("bias cannot be added to static value.")


def _attend_layer(query, key, value, arguments, batch_first):
    """(output, weights or None) of multi_head_attention_forward()'s arguments, inputs of either order."""
    key_padding_mask, attn_mask = arguments["key_padding_mask"], arguments["attn_mask"]
    num_heads, need_weights, separate = (
        arguments[name] for name in ("num_heads", "need_weights", "use_separate_proj_weight")
    )
    for name, mask in (("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
        if mask is not None and not isinstance(mask, torch.Tensor):
            raise TypeError(
                f"multi_head_attention_forward: {name} is of type {type(mask).__name__}, expected a torch.Tensor"
            )
    is_batched = functional._mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not is_batched:
        batch_first = False
        if query is key and key is value:
            query = key = value = query.unsqueeze(1)
        elif key is value:
            query, key = query.unsqueeze(1), key.unsqueeze(1)
            value = key
        else:
            query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    _check_mask_type(key_padding_mask, "key_padding_mask", attn_mask, "attn_mask")
    is_causal = arguments["is_causal"]
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    # The hint stands for the mask only where nothing else is to be masked and no weights are wanted.
    is_causal = is_causal and key_padding_mask is None and not need_weights
    if is_causal:
        attn_mask = None
    _check_mask_type(attn_mask, "attn_mask")
    _check_shapes(query, key, value, arguments["embed_dim_to_check"], num_heads, separate)

    layer = _Layer(query, key, value, num_heads, batch_first)
    heads = _project(layer, arguments)
    attn_mask = _check_attention_mask(attn_mask, layer, key.size(layer.length_dim))
    keys_and_values, added = _keys_and_values(layer, heads, arguments)
    if added:
        attn_mask, key_padding_mask = (
            None if mask is None else functional.pad(mask, (0, added)) for mask in (attn_mask, key_padding_mask)
        )
    masks = _Masks()
    masks.add(attn_mask)
    masks.add(_check_padding_mask(key_padding_mask, layer, keys_and_values[0].size(2)))
    options = masks.options(heads[0].dtype)
    if is_causal:
        options["causal"] = "top_left"
    if need_weights:
        options["return_weights"] = "mean" if arguments["average_attn_weights"] else True
    dropout_p = arguments["dropout_p"] if arguments["training"] else 0.0
    if not 0 <= dropout_p <= 1:
        functional.dropout(query.new_empty(0), dropout_p)  # raises
    output, _, weights = attend_with_dropout(layer.to_attention(heads[0]), *keys_and_values, options, dropout_p)
    output = functional.linear(layer.join(output), arguments["out_proj_weight"], arguments["out_proj_bias"])
    if not is_batched:
        output = output.squeeze(1)
        weights = None if weights is None else weights.squeeze(0)
    return output, weights


def _project(layer, arguments):
    """Query, key and value, each [.., .., heads, head_dim]."""
    bias = arguments["in_proj_bias"]
    if arguments["use_separate_proj_weight"]:
        weights = tuple(arguments[f"{name}_proj_weight"] for name in "qkv")
        _check_separate(layer.query, layer.key, layer.value, weights, bias)
        return layer.project(weights, bias)
    if arguments["in_proj_weight"] is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    return layer.project_packed(arguments["in_proj_weight"], bias)


def _keys_and_values(layer, heads, arguments):
    """([key, value], number of keys that were added), each [batch, heads, length, head_dim]."""
    biases = [arguments["bias_k"], arguments["bias_v"]]
    statics = [arguments["static_k"], arguments["static_v"]]
    _check_key_biases(*biases, *statics)
    results = []
    for x, bias, static, name in zip(heads[1:], biases, statics, ("static_k", "static_v")):
        if bias is not None:
            x = layer.append(x, layer.split_heads(bias))
        x = layer.to_attention(x) if static is None else _static(static, name, layer)
        if arguments["add_zero_attn"]:
            x = torch.cat([x, x.new_zeros((*x.shape[:2], 1, x.size(3)))], dim=2)
        results.append(x)
    return results, (biases[0] is not None) + bool(arguments["add_zero_attn"])


def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """torch.nn.functional.multi_head_attention_forward(), with its attention computed by Headway.

    Two things differ: a query whose keys are all masked gives zeros before the output projection, never NaN; and with
    dropout the weights that are returned are those before it.
    """
    arguments = dict(locals())
    tensors = tuple(x for x in arguments.values() if isinstance(x, torch.Tensor))
    if torch.overrides.has_torch_function(tensors):
        return torch.overrides.handle_torch_function(multi_head_attention_forward, tensors, **arguments)
    del arguments["query"], arguments["key"], arguments["value"]
    return _attend_layer(query, key, value, arguments, batch_first=False)


def _takes_no_shortcut(module, arguments):
    """Hangs on out_proj, which is never called itself: nn.TransformerEncoderLayer's fast path would go around Headway
    in evaluation, and stays away from layers with hooks."""


class MultiheadAttention(torch.nn.MultiheadAttention):
    """torch.nn.MultiheadAttention with its attention computed by Headway.

    Constructor, forward arguments, shapes, state dict, initial values and errors are torch's. As in torch, True in
    key_padding_mask and in a boolean attn_mask means: not to be looked at.

    Differences: training and evaluation run the same code, so they give the same numbers without dropout; a query whose
    keys are all masked attends to nothing (zeros, never NaN); with dropout the returned weights are those before it;
    weights come out of the fused kernel, so need_weights=True costs little; nested tensors and torch.jit.script are
    refused or not supported.
    """

    def __init__(
        self,
        embed_dim,
        num_heads,
        dropout=0.0,
        bias=True,
        add_bias_kv=False,
        add_zero_attn=False,
        kdim=None,
        vdim=None,
        batch_first=False,
        device=None,
        dtype=None,
    ):
        super().__init__(
            embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device, dtype
        )
        self._refuse_shortcuts()

    def _refuse_shortcuts(self):
        self.out_proj.register_forward_pre_hook(_takes_no_shortcut)

    def forward(
        self,
        query,
        key,
        value,
        key_padding_mask=None,
        need_weights=True,
        attn_mask=None,
        average_attn_weights=True,
        is_causal=False,
    ):
        """(output, weights or None), as torch.nn.MultiheadAttention.forward() returns them."""
        if query.is_nested or key.is_nested or value.is_nested:
            raise AssertionError(
                "MultiheadAttention does not support NestedTensor: pass padded tensors and key_padding_mask. "
                "headway.torch.replace_attention() keeps nn.TransformerEncoder from making nested tensors."
            )
        arguments = dict(
            embed_dim_to_check=self.embed_dim,
            num_heads=self.num_heads,
            in_proj_weight=self.in_proj_weight,
            in_proj_bias=self.in_proj_bias,
            bias_k=self.bias_k,
            bias_v=self.bias_v,
            add_zero_attn=self.add_zero_attn,
            dropout_p=self.dropout,
            out_proj_weight=self.out_proj.weight,
            out_proj_bias=self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            static_k=None,
            static_v=None,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return _attend_layer(query, key, value, arguments, self.batch_first)
