import os
from collections.abc import Sequence
from typing import Any, Literal, overload

from headway._core import Mask, Module
from headway._models import (
    Answers,
    ClipEmbeddings,
    ClipResult,
    GeneratedAttention,
    LabelScore,
    MaskWord,
    ModelResult,
    Recommendations,
    TaggedSpan,
    TextScore,
    TokenizedText,
)

_Path = str | os.PathLike[str]
# Integers: an array of any library, or lists of them.
_Tokens = Any
_PerEntry = Any

def quantize(directory: _Path, output: _Path) -> tuple[int, int]: ...

class ModelCache:
    def __init__(self) -> None: ...

    def __len__(self) -> int: ...

    def reorder(self, entries: Sequence[int]) -> None: ...

class TransformerModel(Module):
    @staticmethod
    def load(
        directory: _Path,
        dtype: str | None = None,
        device: str = "cpu",
        mapped: bool = True,
        new_head: Literal["none", "language_model", "sequence", "tokens", "span"] | None = None,
        new_labels: Sequence[str] = (),
    ) -> TransformerModel: ...

    @staticmethod
    def from_config(config: dict[str, Any] | str, dtype: str = "float32") -> TransformerModel: ...

    @staticmethod
    def families() -> list[str]: ...

    def save(self, directory: _Path, dtype: str | None = None) -> None: ...

    def __call__(
        self,
        tokens: _Tokens | None = None,
        *,
        lengths: _PerEntry | None = None,
        padding_mask: Mask | None = None,
        packed: Any | None = None,
        token_types: _Tokens | None = None,
        positions: _Tokens | None = None,
        target: _Tokens | None = None,
        target_lengths: _PerEntry | None = None,
        target_padding_mask: Mask | None = None,
        features: Any | None = None,
        last_only: bool = False,
    ) -> Any: ...

    def forward(
        self,
        tokens: _Tokens | None = None,
        *,
        lengths: _PerEntry | None = None,
        padding_mask: Mask | None = None,
        packed: Any | None = None,
        token_types: _Tokens | None = None,
        positions: _Tokens | None = None,
        target: _Tokens | None = None,
        target_lengths: _PerEntry | None = None,
        target_padding_mask: Mask | None = None,
        features: Any | None = None,
        last_only: bool = False,
        return_weights: bool | Literal["mean"] = False,
    ) -> ModelResult: ...

    def encode(
        self,
        tokens: _Tokens | None = None,
        *,
        lengths: _PerEntry | None = None,
        padding_mask: Mask | None = None,
        packed: Any | None = None,
        token_types: _Tokens | None = None,
        positions: _Tokens | None = None,
        features: Any | None = None,
        return_weights: bool | Literal["mean"] = False,
    ) -> ModelResult: ...

    def decode(
        self,
        tokens: _Tokens,
        cache: ModelCache,
        *,
        memory: Any | None = None,
        memory_lengths: _PerEntry | None = None,
        padding_mask: Mask | None = None,
        positions: _Tokens | None = None,
        last_only: bool = False,
        return_weights: bool | Literal["mean"] = False,
    ) -> ModelResult: ...

    def logits_of(self, hidden: Any) -> Any: ...

    @property
    def family(self) -> str: ...

    @property
    def config(self) -> dict[str, Any]: ...

    @property
    def generation_config(self) -> dict[str, Any] | None: ...

    @property
    def options(self) -> dict[str, Any]: ...

    @property
    def labels(self) -> list[str]: ...

    def __repr__(self) -> str: ...

class ClipModel(Module):
    @staticmethod
    def load(
        directory: _Path, dtype: str | None = None, device: str = "cpu", mapped: bool = True
    ) -> ClipModel: ...

    @staticmethod
    def from_config(config: dict[str, Any] | str, dtype: str = "float32") -> ClipModel: ...

    def save(self, directory: _Path, dtype: str | None = None) -> None: ...

    def embed_texts(
        self,
        tokens: _Tokens,
        *,
        lengths: _PerEntry | None = None,
        return_weights: bool | Literal["mean"] = False,
    ) -> ClipEmbeddings: ...

    def embed_pictures(
        self, pictures: Any, *, return_weights: bool | Literal["mean"] = False
    ) -> ClipEmbeddings: ...

    def forward(
        self,
        tokens: _Tokens,
        pictures: Any,
        *,
        lengths: _PerEntry | None = None,
        return_weights: bool | Literal["mean"] = False,
    ) -> ClipResult: ...

    def __call__(
        self,
        tokens: _Tokens,
        pictures: Any,
        *,
        lengths: _PerEntry | None = None,
        return_weights: bool | Literal["mean"] = False,
    ) -> ClipResult: ...

    @staticmethod
    def contrastive_loss(logits_per_text: Any) -> Any: ...

    @property
    def config(self) -> dict[str, Any]: ...

    def __repr__(self) -> str: ...

class TextTokenizer:
    def __init__(self, directory: _Path) -> None: ...

    @staticmethod
    def load(directory: _Path) -> TextTokenizer: ...

    @staticmethod
    def from_json(text: str) -> TextTokenizer: ...

    def save(self, directory: _Path) -> None: ...

    def __len__(self) -> int: ...

    def token(self, id: int) -> str: ...

    def id(self, token: str) -> int | None: ...

    def is_special(self, id: int) -> bool: ...

    @property
    def bos_id(self) -> int | None: ...

    @property
    def eos_id(self) -> int | None: ...

    @property
    def pad_id(self) -> int | None: ...

    @property
    def unk_id(self) -> int | None: ...

    @property
    def cls_id(self) -> int | None: ...

    @property
    def sep_id(self) -> int | None: ...

    @property
    def mask_id(self) -> int | None: ...

    @property
    def max_length(self) -> int | None: ...

    def encode(self, text: str | Sequence[str], special_tokens: bool = True) -> Any: ...

    def tokenize(
        self,
        text: str,
        pair: str | None = None,
        *,
        special_tokens: bool = True,
        max_length: int = 0,
        truncated: Literal["longest", "first", "second"] = "longest",
        side: Literal["right", "left"] = "right",
    ) -> TokenizedText: ...

    def tokenize_windows(
        self, text: str, pair: str | None = None, *, max_length: int, stride: int = 0, special_tokens: bool = True
    ) -> list[TokenizedText]: ...

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str: ...

class StreamingDecoder:
    def __init__(self, tokenizer: TextTokenizer, skip_special_tokens: bool = True) -> None: ...

    def add(self, id: int) -> str: ...

    def finish(self) -> str: ...

class _Task:
    @overload
    def __init__(self, directory: _Path, device: str = "cpu", dtype: str | None = None) -> None: ...

    @overload
    def __init__(self, model: TransformerModel, tokenizer: TextTokenizer) -> None: ...

    @property
    def max_length(self) -> int: ...

    @property
    def model(self) -> TransformerModel: ...

    @property
    def tokenizer(self) -> TextTokenizer: ...

class TextEncoder(_Task):
    def embed(
        self,
        texts: str | Sequence[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        normalize: bool | None = None,
        batch_tokens: int = 0,
    ) -> Any: ...

    @property
    def width(self) -> int: ...

    def save(self, directory: _Path) -> None: ...

class TextClassifier(_Task):
    @overload
    def classify(
        self,
        texts: str,
        pairs: str | None = None,
        *,
        most: int = 0,
        scores: Literal["softmax", "sigmoid", "logits"] | None = None,
        batch_tokens: int = 0,
    ) -> list[LabelScore]: ...

    @overload
    def classify(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        most: int = 0,
        scores: Literal["softmax", "sigmoid", "logits"] | None = None,
        batch_tokens: int = 0,
    ) -> list[list[LabelScore]]: ...

    def logits(self, texts: str | Sequence[str], *, batch_tokens: int = 0) -> Any: ...

    @property
    def labels(self) -> list[str]: ...

class TokenTagger(_Task):
    @overload
    def tag(
        self,
        texts: str,
        *,
        aggregation: Literal["none", "simple", "first", "average", "max"] = "simple",
        ignored: Sequence[str] = ("O",),
        stride: int = 64,
        batch_tokens: int = 0,
    ) -> list[TaggedSpan]: ...

    @overload
    def tag(
        self,
        texts: Sequence[str],
        *,
        aggregation: Literal["none", "simple", "first", "average", "max"] = "simple",
        ignored: Sequence[str] = ("O",),
        stride: int = 64,
        batch_tokens: int = 0,
    ) -> list[list[TaggedSpan]]: ...

    @property
    def labels(self) -> list[str]: ...

class QuestionAnswerer(_Task):
    @overload
    def answer(
        self,
        question: str,
        context: str,
        *,
        num_best: int = 1,
        max_answer_length: int = 15,
        max_length: int = 384,
        stride: int = 128,
        allow_no_answer: bool = False,
        whole_words: bool = True,
        batch_tokens: int = 0,
    ) -> Answers: ...

    @overload
    def answer(
        self,
        question: Sequence[tuple[str, str]],
        context: None = None,
        *,
        num_best: int = 1,
        max_answer_length: int = 15,
        max_length: int = 384,
        stride: int = 128,
        allow_no_answer: bool = False,
        whole_words: bool = True,
        batch_tokens: int = 0,
    ) -> list[Answers]: ...

class MaskFiller(_Task):
    def fill(
        self, texts: str | Sequence[str], *, most: int = 5, targets: Sequence[str] = (), batch_tokens: int = 0
    ) -> list[list[MaskWord]] | list[list[list[MaskWord]]]: ...

    @property
    def mask_token(self) -> str: ...

class SequenceRecommender:
    @overload
    def __init__(self, directory: _Path, device: str = "cpu", dtype: str | None = None) -> None: ...

    @overload
    def __init__(self, model: TransformerModel, counts: Sequence[int] = ()) -> None: ...

    @overload
    def recommend(
        self,
        histories: Sequence[int],
        *,
        count: int = 10,
        exclude_seen: bool = True,
        candidates: Sequence[int] = (),
        sources: bool = True,
        batch_items: int = 0,
    ) -> Recommendations: ...

    @overload
    def recommend(
        self,
        histories: Sequence[Sequence[int]],
        *,
        count: int = 10,
        exclude_seen: bool = True,
        candidates: Sequence[int] = (),
        sources: bool = True,
        batch_items: int = 0,
    ) -> list[Recommendations]: ...

    def scores(self, histories: Sequence[int] | Sequence[Sequence[int]], *, batch_items: int = 0) -> Any: ...

    def save(self, directory: _Path, dtype: str | None = None) -> None: ...

    @property
    def items(self) -> int: ...

    @property
    def max_length(self) -> int: ...

    @property
    def counts(self) -> list[int]: ...

    @property
    def model(self) -> TransformerModel: ...

class PromptCache:
    @property
    def tokens(self) -> list[int]: ...

class _Writer:
    @overload
    def __init__(self, model: TransformerModel, tokenizer: TextTokenizer | None = None) -> None: ...

    @overload
    def __init__(self, directory: _Path, device: str = "cpu", dtype: str | None = None) -> None: ...

    @property
    def model(self) -> TransformerModel: ...

    @property
    def tokenizer(self) -> TextTokenizer | None: ...

class TextGenerator(_Writer):
    def generate(self, prompt: Any, *, prefix: PromptCache | None = None, **options: Any) -> Any: ...

    def read_prompt(self, prompt: Any) -> PromptCache: ...

    def score(self, text: Any, *, window: int = 0, stride: int = 0) -> TextScore: ...

    def attention(
        self, tokens: Any, position: int, return_weights: bool | Literal["mean"] = True
    ) -> GeneratedAttention: ...

    def encode(self, prompt: str) -> list[int]: ...

class TextToText(_Writer):
    def run(
        self, text: Any, *, prefix: str = "", truncate: bool = True, first_token: int | None = None, **options: Any
    ) -> Any: ...
