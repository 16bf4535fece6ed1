import os
from typing import Any, Literal, overload

from headway._models import LabelScore, TextTokenizer, TransformerModel
from headway._perception import Caption, Picture, Sound, Transcript

_Path = str | os.PathLike[str]
# An array of any library; results are of its kind.
_Array = Any

class LogMelOptions:
    rate: int
    window: int
    hop: int
    bins: int
    length: int
    max_frequency: float
    normalize: bool

    def __init__(
        self,
        *,
        rate: int = 16000,
        window: int = 400,
        hop: int = 160,
        bins: int = 80,
        length: int = 0,
        max_frequency: float = 0.0,
        normalize: bool = False,
    ) -> None: ...

    @staticmethod
    def load(directory: _Path) -> LogMelOptions: ...

    def save(self, directory: _Path) -> None: ...

def read_sound(file: _Path, rate: int = 0) -> Sound: ...

def parse_sound(data: bytes, rate: int = 0) -> Sound: ...

def write_wav(file: _Path, samples: _Array, rate: int) -> None: ...

def resample(samples: _Array, from_rate: int, to_rate: int) -> _Array: ...

def log_mel(samples: _Array, options: LogMelOptions = ...) -> _Array: ...

class PictureInput:
    channels: int
    height: int
    width: int
    shortest: int
    crop_height: int
    crop_width: int
    resampling: Literal["nearest", "bilinear", "bicubic"]
    scale: float
    mean: list[float]
    deviation: list[float]

    def __init__(self) -> None: ...

    @staticmethod
    def load(directory: _Path) -> PictureInput: ...

    def save(self, directory: _Path) -> None: ...

def read_picture(file: _Path, channels: int = 3) -> Picture: ...

def parse_picture(data: bytes, channels: int = 3) -> Picture: ...

def encode_png(pixels: _Array) -> bytes: ...

def write_png(file: _Path, pixels: _Array) -> None: ...

def resize(
    pixels: _Array, height: int, width: int, resampling: Literal["nearest", "bilinear", "bicubic"] = "bilinear"
) -> _Array: ...

def picture_tensor(picture: Picture | _Array, input: PictureInput = ...) -> _Array: ...

def spectrogram_picture(log_mel: _Array) -> _Array: ...

class ImageCaptioner:
    def __init__(
        self,
        directory: _Path,
        device: str = "cpu",
        dtype: Literal["float32", "float16", "bfloat16"] | None = None,
    ) -> None: ...

    @property
    def model(self) -> TransformerModel: ...

    @property
    def tokenizer(self) -> TextTokenizer | None: ...

    def caption(
        self,
        picture: Any,
        *,
        beams: int | None = None,
        max_new_tokens: int | None = None,
        length_penalty: float | None = None,
    ) -> Any: ...

    def attention(self, picture: _Path | Picture | _Array, caption: Caption) -> list[_Array]: ...

class PictureClassifier:
    def __init__(
        self,
        directory: _Path,
        device: str = "cpu",
        dtype: Literal["float32", "float16", "bfloat16"] | None = None,
    ) -> None: ...

    @overload
    def classify(self, picture: list[Any], *, most: int = 0) -> list[list[LabelScore]]: ...

    @overload
    def classify(self, picture: _Path | Picture | _Array, *, most: int = 0) -> list[LabelScore]: ...

    @property
    def labels(self) -> list[str]: ...

    @property
    def input(self) -> PictureInput: ...

    @property
    def model(self) -> TransformerModel: ...

class Transcriber:
    def __init__(
        self,
        directory: _Path,
        device: str = "cpu",
        dtype: Literal["float32", "float16", "bfloat16"] | None = None,
    ) -> None: ...

    @overload
    def transcribe(
        self,
        sound: _Path | Sound,
        *,
        beams: int | None = None,
        max_new_tokens: int | None = None,
        language: str = "",
        task: str = "",
        words: bool = True,
        attention: bool = False,
    ) -> Transcript: ...

    @overload
    def transcribe(
        self,
        sound: list[_Path | Sound],
        *,
        beams: int | None = None,
        max_new_tokens: int | None = None,
        language: str = "",
        task: str = "",
        words: bool = True,
        attention: bool = False,
    ) -> list[Transcript]: ...

    @property
    def languages(self) -> list[str]: ...

    @property
    def rate(self) -> int: ...

    @property
    def window_seconds(self) -> float: ...

    @property
    def model(self) -> TransformerModel: ...

    @property
    def tokenizer(self) -> TextTokenizer: ...
