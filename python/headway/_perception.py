"""Sounds and pictures, and what works on them: the face of headway._media."""

from typing import Any, NamedTuple

from headway import _MEDIA_NAMES
from headway._media import (
    ImageCaptioner,
    LogMelOptions,
    PictureClassifier,
    PictureInput,
    Transcriber,
    encode_png,
    log_mel,
    parse_picture,
    parse_sound,
    picture_tensor,
    read_picture,
    read_sound,
    resample,
    resize,
    spectrogram_picture,
    write_png,
    write_wav,
)

__all__ = sorted(_MEDIA_NAMES)


class Sound(NamedTuple):
    """A sound of one channel."""

    samples: Any  # [length], float32, -1 to 1
    rate: int  # samples a second
    notes: str  # what was changed or is odd; empty: nothing

    @property
    def seconds(self):
        """How long it lasts."""
        return len(self.samples) / self.rate


class Picture(NamedTuple):
    """A picture of 1 (grey), 3 (RGB) or 4 (RGBA) channels."""

    pixels: Any  # [height, width, channels], float32, 0 to 1
    notes: str  # what was changed; empty: nothing


class TranscribedWord(NamedTuple):
    """A word of a transcript."""

    text: str
    start: float  # seconds
    end: float


class Transcript(NamedTuple):
    """What was said in a sound."""

    text: str
    words: list[TranscribedWord]
    tokens: list[int]  # without the prompt; each window's with its end token
    score: float  # mean log-probability of the tokens
    seconds: float  # of the sound
    language: str  # of models that know several
    notes: str  # what was changed or is odd; empty: nothing
    attention: list[Any]  # on request, for each window and layer [heads, tokens, positions]


class Caption(NamedTuple):
    """What a picture shows."""

    text: str  # empty without a tokenizer
    score: float  # log-probability / length ** length_penalty
    tokens: list  # with the end token
    notes: str  # what was changed in the picture; empty: nothing
