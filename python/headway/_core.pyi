import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal


class Tensor:
    @staticmethod
    def from_array(array: Any, name: str = "from_array: array", bfloat16_bits: bool = False) -> Tensor: ...

    @staticmethod
    def from_dlpack(array: Any) -> Tensor: ...

    @staticmethod
    def zeros(shape: Sequence[int], dtype: str = "float32") -> Tensor: ...

    @staticmethod
    def full(shape: Sequence[int], value: float, dtype: str = "float32") -> Tensor: ...

    @staticmethod
    def randn(shape: Sequence[int], seed: Any, dtype: str = "float32", device: str = "cpu") -> Tensor: ...

    @staticmethod
    def uniform(
        shape: Sequence[int], low: float, high: float, seed: Any, dtype: str = "float32", device: str = "cpu"
    ) -> Tensor: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def strides(self) -> tuple[int, ...]: ...

    @property
    def ndim(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def dtype(self) -> str: ...

    @property
    def device(self) -> str: ...

    @property
    def data_ptr(self) -> int: ...

    @property
    def is_read_only(self) -> bool: ...

    @property
    def is_contiguous(self) -> bool: ...

    def item(self) -> float: ...

    def numpy(self) -> Any: ...

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any: ...

    def __dlpack__(self, **options: Any) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...

    def __add__(self, other: Tensor | float) -> Tensor: ...

    def __radd__(self, other: float) -> Tensor: ...

    def __sub__(self, other: Tensor | float) -> Tensor: ...

    def __rsub__(self, other: float) -> Tensor: ...

    def __mul__(self, other: Tensor | float) -> Tensor: ...

    def __rmul__(self, other: float) -> Tensor: ...

    def __truediv__(self, other: Tensor | float) -> Tensor: ...

    def __rtruediv__(self, other: float) -> Tensor: ...

    def __pow__(self, other: float) -> Tensor: ...

    def __neg__(self) -> Tensor: ...

    def __matmul__(self, other: Tensor) -> Tensor: ...

    def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]

    def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]

    def __hash__(self) -> int: ...

    def __lt__(self, other: Tensor | float) -> Tensor: ...

    def __le__(self, other: Tensor | float) -> Tensor: ...

    def __gt__(self, other: Tensor | float) -> Tensor: ...

    def __ge__(self, other: Tensor | float) -> Tensor: ...

    def __and__(self, other: Tensor) -> Tensor: ...

    def __or__(self, other: Tensor) -> Tensor: ...

    def __invert__(self) -> Tensor: ...

    def __getitem__(self, index: int) -> Tensor: ...

    def __bool__(self) -> bool: ...

    def __str__(self) -> str: ...

    def __len__(self) -> int: ...

    def __repr__(self) -> str: ...

    def transpose(self, dim0: int, dim1: int) -> Tensor: ...

    def permute(self, dims: Sequence[int]) -> Tensor: ...

    def reshape(self, shape: Sequence[int]) -> Tensor: ...

    def contiguous(self) -> Tensor: ...

    def clone(self) -> Tensor: ...

    def to(self, target: str) -> Tensor: ...

    def detach(self) -> Tensor: ...

    @property
    def requires_grad(self) -> bool: ...

    @requires_grad.setter
    def requires_grad(self, arg: bool, /) -> None: ...

    @property
    def grad(self) -> Tensor | None: ...

    def zero_grad(self) -> None: ...

    def backward(self, d_this: Tensor | None = None, retain_graph: bool = False) -> None: ...

def attention(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> tuple[Tensor, Tensor, Tensor | None]: ...

def attention_output(
    query: Tensor, key: Tensor, value: Tensor, grouped: bool, **options: Any
) -> tuple[Tensor, Tensor]: ...

def attention_backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    d_output: Tensor | None = None,
    d_logsumexp: Tensor | None = None,
    d_weights: Tensor | None = None,
    bias_gradient: bool = True,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]: ...

class Communicator:
    def __init__(self) -> None: ...

    @staticmethod
    def mpi() -> Communicator: ...

    @staticmethod
    def world() -> Communicator: ...

    @staticmethod
    def local(size: int) -> list[Communicator]: ...

    @staticmethod
    def of_engine(engine: Any) -> Communicator: ...

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def counts(self) -> dict[str, Any]: ...

    def barrier(self) -> None: ...

    def broadcast(self, values: Tensor, root: int = 0) -> None: ...

    def all_reduce(self, values: Tensor, how: Literal["sum", "max", "min"] = "sum") -> None: ...

    def all_gather(self, share: Tensor, counts: Sequence[int] = ...) -> Tensor: ...

    def reduce_scatter(self, values: Tensor, counts: Sequence[int] = ...) -> Tensor: ...

    def split(self, color: int, key: int = 0) -> Communicator: ...

    def fail(self, why: str) -> None: ...

class SequenceAttentionCall: ...

def sequence_attention(
    query: Any, key: Any, value: Any, ranks: Communicator, layout: str, method: str, wants_gradients: bool,
    **options: Any,
) -> tuple[Any, Any, Any, SequenceAttentionCall | None]: ...

def sequence_attention_backward(
    call: SequenceAttentionCall, d_output: Any, d_logsumexp: Any, d_weights: Any
) -> tuple[Any, Any, Any, Any, Any]: ...

def sequence_positions(length: int, ranks: Communicator, layout: str) -> list[int]: ...

def version() -> str: ...

def instruction_set() -> str: ...

def instruction_sets() -> list[str]: ...

def num_threads() -> int: ...

def set_num_threads(count: Any) -> None: ...

def set_random_seed(seed: Any) -> None: ...

def next_random_seed() -> int: ...

def call_count() -> int: ...

def gradients_enabled() -> bool: ...

class no_grad:
    def __init__(self) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *args: Any) -> None: ...

def matmul(a: Any, b: Any) -> Any: ...

def linear(x: Any, weight: Any, bias: Any = None, activation: Any = "none") -> Any: ...

def activate(x: Any, activation: Any) -> Any: ...

def add(a: Any, b: Any) -> Any: ...

def sub(a: Any, b: Any) -> Any: ...

def mul(a: Any, b: Any) -> Any: ...

def div(a: Any, b: Any) -> Any: ...

def maximum(a: Any, b: Any) -> Any: ...

def minimum(a: Any, b: Any) -> Any: ...

def eq(a: Any, b: Any) -> Any: ...

def ne(a: Any, b: Any) -> Any: ...

def lt(a: Any, b: Any) -> Any: ...

def le(a: Any, b: Any) -> Any: ...

def gt(a: Any, b: Any) -> Any: ...

def ge(a: Any, b: Any) -> Any: ...

def logical_and(a: Any, b: Any) -> Any: ...

def logical_or(a: Any, b: Any) -> Any: ...

def neg(x: Any) -> Any: ...

def exp(x: Any) -> Any: ...

def log(x: Any) -> Any: ...

def sqrt(x: Any) -> Any: ...

def logical_not(x: Any) -> Any: ...

def pow(x: Any, exponent: float) -> Any: ...

def where(mask: Any, a: Any, b: Any) -> Any: ...

def max(x: Any, dim: int | None = None, keep_dims: bool = False) -> Any: ...

def min(x: Any, dim: int | None = None, keep_dims: bool = False) -> Any: ...

def argmax(x: Any, dim: int | None = None, keep_dims: bool = False) -> Any: ...

def argmin(x: Any, dim: int | None = None, keep_dims: bool = False) -> Any: ...

def stack(tensors: Sequence[Any], dim: int = 0) -> Any: ...

def softmax(x: Any, dim: int = -1) -> Any: ...

def log_softmax(x: Any, dim: int = -1) -> Any: ...

def sum(x: Any, dims: Sequence[int] | None = None, keep_dims: bool = False) -> Any: ...

def mean(x: Any, dims: Sequence[int] | None = None, keep_dims: bool = False) -> Any: ...

def concat(tensors: Sequence[Any], dim: int = 0) -> Any: ...

def split(x: Any, sizes: Sequence[int], dim: int = 0) -> list[Any]: ...

def scale(x: Any, factor: float) -> Any: ...

def dropout(x: Any, probability: float, seed: int) -> Any: ...

def sinusoidal_positions(length: int, dim: int, layout: str = "interleaved") -> Tensor: ...

def layer_norm(x: Any, weight: Any = None, bias: Any = None, *, epsilon: float = 1e-05) -> Any: ...

def rms_norm(x: Any, weight: Any = None, *, epsilon: float | None = None) -> Any: ...

def embedding(weight: Any, indices: Any, *, padding_index: int | None = None) -> Any: ...

def cross_entropy(
    logits: Any, targets: Any, *, ignore_index: int = -100, label_smoothing: float = 0.0, reduction: Any = "mean"
) -> Any: ...

def rotary(x: Any, *, base: float = 10000.0, dims: int = 0, interleaved: bool = False, offset: int = 0) -> Any: ...

class Module:
    def named_parameters(self) -> dict[str, Tensor]: ...

    def parameters(self) -> list[Tensor]: ...

    def parameter_count(self) -> int: ...

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, values: dict[str, Any], strict: bool = True) -> None: ...

    def train(self, on: bool = True) -> None: ...

    def eval(self) -> None: ...

    @property
    def is_training(self) -> bool: ...

    def to(self, target: str) -> None: ...

    def freeze(self) -> None: ...

    def unfreeze(self) -> None: ...

    def zero_grad(self) -> None: ...

class Linear(Module):
    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bias: bool = True,
        activation: Any = "none",
        dtype: str = "float32",
    ) -> None: ...

    def forward(self, x: Any) -> Any: ...

    __call__ = forward

class LayerNorm(Module):
    def __init__(
        self, width: int, *, epsilon: float = 1e-05, affine: bool = True, bias: bool = True, dtype: str = "float32"
    ) -> None: ...

    def forward(self, x: Any) -> Any: ...

    __call__ = forward

class RmsNorm(Module):
    def __init__(
        self, width: int, *, epsilon: float | None = None, affine: bool = True, dtype: str = "float32"
    ) -> None: ...

    def forward(self, x: Any) -> Any: ...

    __call__ = forward

class Embedding(Module):
    def __init__(
        self, count: int, width: int, *, padding_index: int | None = None, dtype: str = "float32"
    ) -> None: ...

    def forward(self, x: Any) -> Any: ...

    __call__ = forward

class Dropout(Module):
    def __init__(self, probability: float = 0.5) -> None: ...

    def forward(self, x: Any) -> Any: ...

    __call__ = forward

class SinusoidalPositions(Module):
    def __init__(
        self,
        width: int,
        *,
        max_length: int = 5000,
        dropout: float = 0.0,
        layout: Any = "interleaved",
        dtype: str = "float32",
    ) -> None: ...

    def forward(self, x: Any, offset: int = 0) -> Any: ...

    __call__ = forward

class LearnedPositions(Module):
    def __init__(
        self,
        width: int,
        *,
        max_length: int = 5000,
        dropout: float = 0.0,
        layout: Any = "interleaved",
        dtype: str = "float32",
    ) -> None: ...

    def forward(self, x: Any, offset: int = 0) -> Any: ...

    __call__ = forward

class FeedForward(Module):
    def __init__(
        self,
        width: int,
        *,
        hidden: int = 0,
        activation: Any = "relu",
        gated: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        dtype: str = "float32",
    ) -> None: ...

    def forward(self, x: Any) -> Any: ...

    __call__ = forward

class Mask:
    @staticmethod
    def keep(allowed: Any) -> Mask: ...

    @staticmethod
    def drop(forbidden: Any) -> Mask: ...

class KeyValueCache:
    def __init__(self) -> None: ...

    def __len__(self) -> int: ...

    def clear(self) -> None: ...

    def reorder(self, entries: Sequence[int]) -> None: ...

    @property
    def keys(self) -> Any: ...

    @property
    def values(self) -> Any: ...

class RotaryOptions:
    def __init__(self, *, base: float = 10000.0, dims: int = 0, interleaved: bool = False, offset: int = 0) -> None: ...

    @property
    def base(self) -> float: ...

    @property
    def dims(self) -> int: ...

    @property
    def interleaved(self) -> bool: ...

    @property
    def offset(self) -> int: ...

class MultiHeadAttention(Module):
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        kdim: int | None = None,
        vdim: int | None = None,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        projection_dropout: float = 0.0,
        output_dropout: float = 0.0,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        batch_first: bool = True,
        rotary: RotaryOptions | None = None,
        dtype: str = "float32",
    ) -> None: ...

    def forward(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        *,
        causal: Any = None,
        key_lengths: Any = None,
        key_padding_mask: Mask | None = None,
        mask: Mask | None = None,
        bias: Any = None,
        return_weights: bool | Literal["mean"] = False,
        cache: KeyValueCache | None = None,
        cache_is_static: bool = False,
    ) -> Any: ...

    __call__ = forward

class TransformerEncoderLayer(Module):
    def __init__(self, **options: Any) -> None: ...

    def forward(
        self,
        source: Any,
        *,
        source_lengths: Any = None,
        mask: Mask | None = None,
        padding_mask: Mask | None = None,
        causal: Any = None,
        return_weights: bool | Literal["mean"] = False,
    ) -> Any: ...

    __call__ = forward

class TransformerDecoderLayer(Module):
    def __init__(self, **options: Any) -> None: ...

    def forward(
        self,
        target: Any,
        memory: Any,
        *,
        target_lengths: Any = None,
        memory_lengths: Any = None,
        target_mask: Mask | None = None,
        memory_mask: Mask | None = None,
        target_padding_mask: Mask | None = None,
        memory_padding_mask: Mask | None = None,
        target_causal: Any = None,
        return_weights: bool | Literal["mean"] = False,
    ) -> Any: ...

    __call__ = forward

class TransformerEncoder(Module):
    def __init__(self, **options: Any) -> None: ...

    def forward(
        self,
        source: Any,
        *,
        source_lengths: Any = None,
        mask: Mask | None = None,
        padding_mask: Mask | None = None,
        causal: Any = None,
        return_weights: bool | Literal["mean"] = False,
    ) -> Any: ...

    __call__ = forward

class DecoderCache:
    def __init__(self) -> None: ...

    def __len__(self) -> int: ...

    def reorder(self, entries: Sequence[int]) -> None: ...

class TransformerDecoder(Module):
    def __init__(self, **options: Any) -> None: ...

    def forward(
        self,
        target: Any,
        memory: Any,
        *,
        target_lengths: Any = None,
        memory_lengths: Any = None,
        target_mask: Mask | None = None,
        memory_mask: Mask | None = None,
        target_padding_mask: Mask | None = None,
        memory_padding_mask: Mask | None = None,
        target_causal: Any = None,
        return_weights: bool | Literal["mean"] = False,
    ) -> Any: ...

    __call__ = forward

    def decode(
        self,
        target: Any,
        memory: Any,
        cache: DecoderCache,
        *,
        memory_lengths: Any = None,
        memory_padding_mask: Mask | None = None,
    ) -> Any: ...

class Transformer(Module):
    def __init__(self, **options: Any) -> None: ...

    def forward(
        self,
        source: Any,
        target: Any,
        *,
        source_lengths: Any = None,
        target_lengths: Any = None,
        source_mask: Mask | None = None,
        target_mask: Mask | None = None,
        memory_mask: Mask | None = None,
        source_padding_mask: Mask | None = None,
        target_padding_mask: Mask | None = None,
        memory_padding_mask: Mask | None = None,
        source_causal: Any = None,
        target_causal: Any = None,
        return_weights: bool | Literal["mean"] = False,
    ) -> Any: ...

    __call__ = forward

    @property
    def encoder(self) -> TransformerEncoder: ...

    @property
    def decoder(self) -> TransformerDecoder: ...

class Optimizer:
    def step(self, gradient_factor: float = 1.0) -> None: ...

    def zero_grad(self) -> None: ...

    @property
    def learning_rate(self) -> float: ...

    @learning_rate.setter
    def learning_rate(self, arg: float, /) -> None: ...

    @property
    def steps(self) -> int: ...

    def master_weights(self) -> dict[str, Tensor]: ...

    def load_master_weights(self, weights: Mapping[str, Tensor]) -> None: ...

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None: ...

class Sgd(Optimizer):
    def __init__(
        self,
        module: Module,
        *,
        learning_rate: float = 0.001,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        master_weights: bool = True,
    ) -> None: ...

class Adam(Optimizer):
    def __init__(
        self,
        module: Module,
        *,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        weight_decay: float | None = None,
        amsgrad: bool = False,
        master_weights: bool = True,
    ) -> None: ...

class AdamW(Optimizer):
    def __init__(
        self,
        module: Module,
        *,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        weight_decay: float | None = None,
        amsgrad: bool = False,
        master_weights: bool = True,
    ) -> None: ...

def warmup_schedule(width: int, warmup_steps: int, factor: float = 1.0) -> Callable[[int], float]: ...

def cosine_schedule(
    peak: float, steps: int, *, warmup_steps: int = 0, final_rate: float = 0.0
) -> Callable[[int], float]: ...

def linear_schedule(
    peak: float, steps: int, *, warmup_steps: int = 0, final_rate: float = 0.0
) -> Callable[[int], float]: ...

def gradient_norms(module: Module) -> tuple[float, dict[str, float], list[str]]: ...

def clip_gradient_norm(module: Module, max_norm: float) -> float: ...

def train(
    module: Module, optimizer: Optimizer, schedule: Callable[[int], float],
    loss_of: Callable[[int, int, int], Tensor | tuple[Tensor, int]], *, steps: int, accumulate: int = 1,
    clip_norm: float = 0.0, seed: int = 0, max_skipped_steps: int = 10, directory: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 1000, keep_checkpoints: int = 3, resume: bool = True,
    log: str | os.PathLike[str] | None = None, progress: bool = False, on_step: Callable[[dict[str, Any]], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    ranks: Communicator | None = None,
) -> dict[str, Any]: ...

class SafeTensors:
    @staticmethod
    def open(path: str | os.PathLike[str]) -> SafeTensors: ...

    def names(self) -> list[str]: ...

    def metadata(self) -> dict[str, str]: ...

    def get(self, name: str) -> Tensor: ...

    def __contains__(self, arg: str, /) -> bool: ...

def load_safetensors(path: str | os.PathLike[str]) -> dict[str, Tensor]: ...

def save_safetensors(
    path: str | os.PathLike[str], tensors: dict[str, Any], metadata: Mapping[str, str] = {}
) -> None: ...
