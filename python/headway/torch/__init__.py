"""Headway inside PyTorch: torch's own signatures, with Headway's kernels behind them.

>>> import torch, headway.torch as ht
>>> q = k = v = torch.ones(1, 2, 3, 4)
>>> ht.scaled_dot_product_attention(q, k, v, is_causal=True).shape
torch.Size([1, 2, 3, 4])
>>> ht.MultiheadAttention(8, 2, batch_first=True)(*3 * [torch.ones(1, 3, 8)])[1].shape
torch.Size([1, 3, 3])
"""

from headway.torch._attention import attention
from headway.torch._distributed import communicator, ring_attention, sequence_positions
from headway.torch._multi_head_attention import MultiheadAttention, multi_head_attention_forward
from headway.torch._replace import replace_attention
from headway.torch._scaled_dot_product import scaled_dot_product_attention

__all__ = [
    "MultiheadAttention",
    "attention",
    "communicator",
    "multi_head_attention_forward",
    "replace_attention",
    "ring_attention",
    "scaled_dot_product_attention",
    "sequence_positions",
]
