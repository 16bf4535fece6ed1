"""Headway as an attention implementation of Hugging Face's transformers 5.

>>> import headway.transformers
>>> headway.transformers.register()
>>> model = AutoModel.from_pretrained(path, attn_implementation="headway")
>>> model(**inputs, output_attentions=True).attentions  # from the fused kernel; "sdpa" cannot return them
"""

from headway.transformers._attention import attention_forward
from headway.transformers._mask import attention_mask
from headway.transformers._register import NAME, register

__all__ = ["NAME", "attention_forward", "attention_mask", "register"]
