"""Models of every family from their Hugging Face directories, and what works on text: the face of headway._text."""

from typing import Any, NamedTuple

from headway import _TEXT_NAMES
from headway._text import (
    ClipModel,
    MaskFiller,
    ModelCache,
    PromptCache,
    QuestionAnswerer,
    SequenceRecommender,
    StreamingDecoder,
    TextClassifier,
    TextEncoder,
    TextGenerator,
    TextToText,
    TextTokenizer,
    TokenTagger,
    TransformerModel,
    quantize,
)

__all__ = sorted(_TEXT_NAMES)


class ModelResult(NamedTuple):
    """What TransformerModel.forward() gives: arrays of the tokens' kind, None where the model has no such part."""

    logits: Any  # of the head: [batch, length, vocab_size], [batch, labels], [batch, length, labels]
    hidden: Any  # [batch, length, width]: the last hidden states
    pooled: Any  # [batch, width], of a pooler
    memory: Any  # [batch, source_length, width]: the encoder's of an encoder-decoder
    encoder_weights: list  # a layer's [batch, heads, queries, keys] for each layer, where they were asked for
    decoder_weights: list
    cross_weights: list


class ClipEmbeddings(NamedTuple):
    """What one tower of a ClipModel makes of its input."""

    embeddings: Any  # [texts or pictures, projection], of length 1
    projected: Any  # the same before they are divided by their length
    hidden: Any  # [batch, positions, width]: the last hidden states
    weights: list  # a layer's [batch, heads, positions, positions] for each layer, where they were asked for


class ClipResult(NamedTuple):
    """What ClipModel.forward() gives."""

    logits_per_text: Any  # [texts, pictures]
    logits_per_picture: Any  # [pictures, texts]
    text: ClipEmbeddings
    picture: ClipEmbeddings


class TokenizedText(NamedTuple):
    """A text, or a pair of texts, as tokens; all lists have one length."""

    ids: list
    type_ids: list  # 0 for the first text of a pair, 1 for the second
    offsets: list  # (begin, end) in characters of the text that `sequence` says
    sequence: list  # 0 or 1: the text that the token is of; -1: an added token
    words: list  # the number of the word in its text; -1 for added tokens


class LabelScore(NamedTuple):
    """A label of a text."""

    label: str
    score: float
    id: int


class TaggedSpan(NamedTuple):
    """Tokens of one label: the characters [begin, end) of a text."""

    label: str
    score: float
    begin: int
    end: int
    text: str


class Answer(NamedTuple):
    """The characters [begin, end) of a context; an empty text means that there is no answer."""

    text: str
    score: float
    begin: int
    end: int


class Answers(NamedTuple):
    """Answers to one question, the best first, and the score of there being none."""

    best: list
    no_answer: float


class MaskWord(NamedTuple):
    """A word for a mask, and the whole text with it."""

    word: str
    score: float
    text: str
    id: int


class RecommendedItem(NamedTuple):
    """An item that may come next."""

    item: int
    score: float  # the logit; of popular items the number of times that training met them
    probability: float  # among all items; of popular items their share of training
    shares: list  # of each item of Recommendations.read: how much of the recommendation came from it


class Recommendations(NamedTuple):
    """What comes after a history."""

    items: list  # of RecommendedItem, the best first
    read: list  # the items of the history that the model read, oldest first
    attention: list  # of the last position: a layer's NumPy array [heads, read], for each layer
    note: str  # remarks on the history; empty where there are none


class GeneratedText(NamedTuple):
    """A text that a model wrote."""

    text: str  # empty without a tokenizer
    tokens: list
    log_probabilities: list  # of each token, before temperature and other rules
    score: float  # their sum / length ** length_penalty
    reason: str  # why it ends: "length", "end_token" or "stop_text"
    prompt_tokens: int
    attention: list  # GeneratedAttention of each step, where it was asked for


class GeneratedAttention(NamedTuple):
    """What one token attends to: NumPy arrays of every layer."""

    position: int
    self: list  # [heads, position + 1], or [position + 1] for the mean
    cross: list  # [heads, source_length], of encoder-decoders


class TextScore(NamedTuple):
    """The probability of a text."""

    tokens: list
    log_probabilities: list  # of each token after the first
    log_probability: float
    perplexity: float


def load_model(directory, dtype=None, device="cpu", mapped=True, new_head=None, new_labels=()):
    """The model of a Hugging Face directory, of any family, in evaluation mode: model(ids) gives logits, or hidden
    states where the model has no head.

    dtype converts the parameters, "int8" to weights in 8 bits for the CPU; by default they stay as they are in the
    files, which stay mapped: mapped=False gives a model that is to be trained memory of its own. new_head replaces the
    head for fine-tuning: "language_model", "sequence", "tokens" or "span", with the names of its classes in new_labels.
    """
    return TransformerModel.load(directory, dtype, device, mapped, new_head, list(new_labels or ()))
