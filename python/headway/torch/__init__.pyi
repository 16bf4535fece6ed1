from typing import Literal, Sequence, TypeVar

import torch
import torch.distributed
from torch import Tensor

from headway import Communicator

_Model = TypeVar("_Model", bound=torch.nn.Module)
_PerEntry = int | Sequence[int] | Tensor

def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: Literal["top_left", "bottom_right"] | None = None,
    query_offset: _PerEntry | None = None,
    keep_mask: Tensor | None = None,
    drop_mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    window: tuple[int | None, int | None] | None = None,
    key_lengths: _PerEntry | None = None,
    cu_query_lengths: Sequence[int] | Tensor | None = None,
    cu_key_lengths: Sequence[int] | Tensor | None = None,
    softcap: float | None = None,
    alibi_slopes: Tensor | None = None,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
    seed: int | Tensor | None = None,
    return_weights: bool | Literal["mean"] = False,
    weights_of: Literal["softmax", "scores", "softcapped", "masked"] = "softmax",
    return_logsumexp: bool = False,
) -> Tensor | tuple[Tensor, ...]: ...
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]: ...
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]: ...

class MultiheadAttention(torch.nn.MultiheadAttention): ...

def communicator(group: torch.distributed.ProcessGroup | None = None) -> Communicator: ...
def sequence_positions(
    length: int,
    group: torch.distributed.ProcessGroup | None = None,
    layout: Literal["contiguous", "zigzag"] = "zigzag",
) -> Tensor: ...
def ring_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    is_causal: bool = False,
    group: torch.distributed.ProcessGroup | None = None,
    layout: Literal["contiguous", "zigzag"] = "contiguous",
    method: Literal["ring", "ulysses", "auto"] = "ring",
    causal: Literal["top_left", "bottom_right"] | None = None,
    query_offset: _PerEntry | None = None,
    keep_mask: Tensor | None = None,
    drop_mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    window: tuple[int | None, int | None] | None = None,
    key_lengths: _PerEntry | None = None,
    cu_query_lengths: Sequence[int] | Tensor | None = None,
    cu_key_lengths: Sequence[int] | Tensor | None = None,
    softcap: float | None = None,
    alibi_slopes: Tensor | None = None,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    return_weights: bool | Literal["mean"] = False,
    weights_of: Literal["softmax", "scores", "softcapped", "masked"] = "softmax",
    return_logsumexp: bool = False,
) -> Tensor | tuple[Tensor, ...]: ...
def replace_attention(model: _Model) -> _Model: ...
