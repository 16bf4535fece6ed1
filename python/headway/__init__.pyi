from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypedDict

from headway import ops as ops
from headway._core import Adam as Adam
from headway._core import AdamW as AdamW
from headway._core import Communicator as Communicator
from headway._core import DecoderCache as DecoderCache
from headway._core import Dropout as Dropout
from headway._core import Embedding as Embedding
from headway._core import FeedForward as FeedForward
from headway._core import KeyValueCache as KeyValueCache
from headway._core import LayerNorm as LayerNorm
from headway._core import LearnedPositions as LearnedPositions
from headway._core import Linear as Linear
from headway._core import Mask as Mask
from headway._core import Module as Module
from headway._core import MultiHeadAttention as MultiHeadAttention
from headway._core import Optimizer as Optimizer
from headway._core import RmsNorm as RmsNorm
from headway._core import RotaryOptions as RotaryOptions
from headway._core import SafeTensors as SafeTensors
from headway._core import Sgd as Sgd
from headway._core import SinusoidalPositions as SinusoidalPositions
from headway._core import Tensor as Tensor
from headway._core import Transformer as Transformer
from headway._core import TransformerDecoder as TransformerDecoder
from headway._core import TransformerDecoderLayer as TransformerDecoderLayer
from headway._core import TransformerEncoder as TransformerEncoder
from headway._core import TransformerEncoderLayer as TransformerEncoderLayer
from headway._core import call_count as call_count
from headway._core import clip_gradient_norm as clip_gradient_norm
from headway._core import cosine_schedule as cosine_schedule
from headway._core import gradient_norms as gradient_norms
from headway._core import linear_schedule as linear_schedule
from headway._core import load_safetensors as load_safetensors
from headway._core import no_grad as no_grad
from headway._core import num_threads as num_threads
from headway._core import save_safetensors as save_safetensors
from headway._core import set_num_threads as set_num_threads
from headway._core import set_random_seed as set_random_seed
from headway._core import train as train
from headway._core import warmup_schedule as warmup_schedule
from headway._models import Answer as Answer
from headway._models import Answers as Answers
from headway._models import ClipEmbeddings as ClipEmbeddings
from headway._models import ClipModel as ClipModel
from headway._models import ClipResult as ClipResult
from headway._models import GeneratedAttention as GeneratedAttention
from headway._models import GeneratedText as GeneratedText
from headway._models import LabelScore as LabelScore
from headway._models import MaskFiller as MaskFiller
from headway._models import MaskWord as MaskWord
from headway._models import ModelCache as ModelCache
from headway._models import ModelResult as ModelResult
from headway._models import PromptCache as PromptCache
from headway._models import QuestionAnswerer as QuestionAnswerer
from headway._models import Recommendations as Recommendations
from headway._models import RecommendedItem as RecommendedItem
from headway._models import SequenceRecommender as SequenceRecommender
from headway._models import StreamingDecoder as StreamingDecoder
from headway._models import TaggedSpan as TaggedSpan
from headway._models import TextClassifier as TextClassifier
from headway._models import TextEncoder as TextEncoder
from headway._models import TextGenerator as TextGenerator
from headway._models import TextScore as TextScore
from headway._models import TextToText as TextToText
from headway._models import TextTokenizer as TextTokenizer
from headway._models import TokenTagger as TokenTagger
from headway._models import TokenizedText as TokenizedText
from headway._models import TransformerModel as TransformerModel
from headway._models import load_model as load_model
from headway._models import quantize as quantize
from headway._perception import Caption as Caption
from headway._perception import ImageCaptioner as ImageCaptioner
from headway._perception import LogMelOptions as LogMelOptions
from headway._perception import Picture as Picture
from headway._perception import PictureClassifier as PictureClassifier
from headway._perception import PictureInput as PictureInput
from headway._perception import Sound as Sound
from headway._perception import Transcriber as Transcriber
from headway._perception import TranscribedWord as TranscribedWord
from headway._perception import Transcript as Transcript
from headway._perception import encode_png as encode_png
from headway._perception import log_mel as log_mel
from headway._perception import parse_picture as parse_picture
from headway._perception import parse_sound as parse_sound
from headway._perception import picture_tensor as picture_tensor
from headway._perception import read_picture as read_picture
from headway._perception import read_sound as read_sound
from headway._perception import resample as resample
from headway._perception import resize as resize
from headway._perception import spectrogram_picture as spectrogram_picture
from headway._perception import write_png as write_png
from headway._perception import write_wav as write_wav

__version__: str

# An array of NumPy, PyTorch or any library that speaks DLPack; results are of the query's kind.
_Array = Any
_PerEntry = int | Sequence[int] | _Array

def tensor(array: _Array) -> Tensor: ...
def attention(
    query: _Array,
    key: _Array,
    value: _Array,
    *,
    causal: Literal["top_left", "bottom_right"] | None = None,
    query_offset: _PerEntry | None = None,
    keep_mask: _Array | None = None,
    drop_mask: _Array | None = None,
    bias: _Array | None = None,
    scale: float | None = None,
    window: tuple[int | None, int | None] | None = None,
    key_lengths: _PerEntry | None = None,
    cu_query_lengths: Sequence[int] | _Array | None = None,
    cu_key_lengths: Sequence[int] | _Array | None = None,
    softcap: float | None = None,
    alibi_slopes: _Array | None = None,
    sinks: _Array | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    return_weights: bool | Literal["mean"] = False,
    weights_of: Literal["softmax", "scores", "softcapped", "masked"] = "softmax",
    return_logsumexp: bool = False,
) -> Any: ...

class AttentionGradients(NamedTuple):
    query: _Array
    key: _Array
    value: _Array
    bias: _Array | None
    sinks: _Array | None

def attention_backward(
    d_output: _Array | None,
    query: _Array,
    key: _Array,
    value: _Array,
    output: _Array,
    logsumexp: _Array,
    *,
    d_weights: _Array | None = None,
    d_logsumexp: _Array | None = None,
    bias_gradient: bool = True,
    causal: Literal["top_left", "bottom_right"] | None = None,
    query_offset: _PerEntry | None = None,
    keep_mask: _Array | None = None,
    drop_mask: _Array | None = None,
    bias: _Array | None = None,
    scale: float | None = None,
    window: tuple[int | None, int | None] | None = None,
    key_lengths: _PerEntry | None = None,
    cu_query_lengths: Sequence[int] | _Array | None = None,
    cu_key_lengths: Sequence[int] | _Array | None = None,
    softcap: float | None = None,
    alibi_slopes: _Array | None = None,
    sinks: _Array | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    return_weights: bool | Literal["mean"] = False,
    weights_of: Literal["softmax", "scores", "softcapped", "masked"] = "softmax",
) -> AttentionGradients: ...

class _Info(TypedDict):
    version: str
    instruction_set: str
    instruction_sets: list[str]
    num_threads: int

def info() -> _Info: ...
