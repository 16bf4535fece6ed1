"""Headway: multi-head attention with its gradients and weights, on NumPy arrays, torch tensors and DLPack arrays.

>>> import headway, numpy as np
>>> q = k = v = np.ones((1, 2, 3, 4), np.float32)  # [batch, heads, length, head_dim]
>>> headway.attention(q, k, v, causal="top_left").shape
(1, 2, 3, 4)

load_model() and the classes for text come from a second library, sounds and pictures from a third one; each is loaded
when one of its names is first used.
headway.torch has PyTorch's own signatures, with automatic gradients; headway.transformers serves Hugging Face's models.
"""

import importlib

from headway import _operators as _operators
from headway import ops
from headway._attention import AttentionGradients, attention, attention_backward
from headway._convert import tensor
from headway._core import (
    Adam,
    AdamW,
    Communicator,
    DecoderCache,
    Dropout,
    Embedding,
    FeedForward,
    KeyValueCache,
    LayerNorm,
    LearnedPositions,
    Linear,
    Mask,
    Module,
    MultiHeadAttention,
    Optimizer,
    RmsNorm,
    RotaryOptions,
    SafeTensors,
    Sgd,
    SinusoidalPositions,
    Tensor,
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
    call_count,
    clip_gradient_norm,
    cosine_schedule,
    gradient_norms,
    instruction_set,
    instruction_sets,
    linear_schedule,
    load_safetensors,
    no_grad,
    num_threads,
    save_safetensors,
    set_num_threads,
    set_random_seed,
    train,
    version,
    warmup_schedule,
)

__version__ = version()

# What headway._models has; libheadway_text is loaded when one of them is first asked for.
_TEXT_NAMES = frozenset(
    {
        "Answer",
        "Answers",
        "ClipEmbeddings",
        "ClipModel",
        "ClipResult",
        "GeneratedAttention",
        "GeneratedText",
        "LabelScore",
        "MaskFiller",
        "MaskWord",
        "ModelCache",
        "ModelResult",
        "PromptCache",
        "QuestionAnswerer",
        "Recommendations",
        "RecommendedItem",
        "SequenceRecommender",
        "StreamingDecoder",
        "TaggedSpan",
        "TextClassifier",
        "TextEncoder",
        "TextGenerator",
        "TextScore",
        "TextToText",
        "TextTokenizer",
        "TokenTagger",
        "TokenizedText",
        "TransformerModel",
        "load_model",
        "quantize",
    }
)
# What headway._perception has; libheadway_media is loaded when one of them is first asked for.
_MEDIA_NAMES = frozenset(
    {
        "Caption",
        "ImageCaptioner",
        "LogMelOptions",
        "Picture",
        "PictureClassifier",
        "PictureInput",
        "Sound",
        "Transcriber",
        "TranscribedWord",
        "Transcript",
        "encode_png",
        "log_mel",
        "parse_picture",
        "parse_sound",
        "picture_tensor",
        "read_picture",
        "read_sound",
        "resample",
        "resize",
        "spectrogram_picture",
        "write_png",
        "write_wav",
    }
)

__all__ = [
    "Adam",
    "AdamW",
    "AttentionGradients",
    "Communicator",
    "DecoderCache",
    "Dropout",
    "Embedding",
    "FeedForward",
    "KeyValueCache",
    "LayerNorm",
    "LearnedPositions",
    "Linear",
    "Mask",
    "Module",
    "MultiHeadAttention",
    "Optimizer",
    "RmsNorm",
    "RotaryOptions",
    "SafeTensors",
    "Sgd",
    "SinusoidalPositions",
    "Tensor",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "attention",
    "attention_backward",
    "call_count",
    "clip_gradient_norm",
    "cosine_schedule",
    "gradient_norms",
    "info",
    "linear_schedule",
    "load_safetensors",
    "no_grad",
    "num_threads",
    "ops",
    "save_safetensors",
    "set_num_threads",
    "set_random_seed",
    "train",
    "tensor",
    "warmup_schedule",
]


def info():
    """What this build is and what it runs on: version, instruction sets, number of threads."""
    return {
        "version": version(),
        "instruction_set": instruction_set(),
        "instruction_sets": instruction_sets(),
        "num_threads": num_threads(),
    }


def _load_names(name, names, face, library):
    """Brings all names of a library's face into the package; `name` is the one that was asked for."""
    try:
        module = importlib.import_module(face)
    except ImportError as error:
        raise ImportError(
            f"headway.{name} needs the {library} library, libheadway_{library}, which this build of the package was made "
            f"without or whose own libraries are missing: {error}"
        ) from error
    for known in names:
        globals()[known] = getattr(module, known)
    return globals()[name]


def __getattr__(name):
    if name in _TEXT_NAMES:
        return _load_names(name, _TEXT_NAMES, "headway._models", "text")
    if name in _MEDIA_NAMES:
        return _load_names(name, _MEDIA_NAMES, "headway._perception", "media")
    raise AttributeError(f"module 'headway' has no attribute '{name}'")


def __dir__():
    return sorted(set(globals()) | _TEXT_NAMES | _MEDIA_NAMES)
