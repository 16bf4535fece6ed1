"""Small random models of Hugging Face's families, each with inputs and with which of its positions are not padding."""

import random
from typing import NamedTuple

import torch
import transformers


class Case(NamedTuple):
    """A model to be made and what to call it with."""

    auto_class: type  # whose from_config() makes it
    config: object
    inputs: dict
    valid: dict  # output's name -> its non-padding queries, boolean [batch, query_length]; absent: all are
    generates: dict | None = None  # the inputs of generate(), for models that can


class Draw:
    """Random sizes, tokens and padding of one seed; four numbers in a row pad on all sides and on none."""

    def __init__(self, seed, number):
        self.random = random.Random(f"{seed} {number}")
        self.generator = torch.Generator().manual_seed(self.random.getrandbits(48))
        self.batch = self.random.randint(1, 3)
        self.layers = self.random.randint(1, 3)
        self.kv_heads = self.random.choice([1, 2, 3])
        self.groups = self.random.choice([1, 2, 4])
        self.heads = self.kv_heads * self.groups
        self.head_dim = self.random.choice([4, 8, 12, 16, 20])
        self.hidden = self.heads * self.head_dim
        self.vocabulary = self.random.randint(30, 99)
        self.padding = ("right", "left", "both", "none")[number % 4]

    def length(self, low=2, high=40):
        return self.random.randint(low, high)

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.generator)

    def tokens(self, length):
        """[batch, length], none of them a special token."""
        return torch.randint(5, self.vocabulary, (self.batch, length), generator=self.generator)

    def mask(self, length, padding=None):
        """[batch, length], 1 for non-padding; every entry keeps at least one position."""
        padding = padding or self.padding
        mask = torch.ones(self.batch, length, dtype=torch.long)
        for row in range(self.batch):
            cut = self.random.randint(0, length - 1)
            left = {"none": 0, "left": cut, "right": 0, "both": self.random.randint(0, cut)}[padding]
            right = {"none": 0, "left": 0, "right": cut, "both": cut - left}[padding]
            mask[row, :left] = 0
            mask[row, length - right :] = 0
        return mask

    def special_tokens(self):
        return dict(bos_token_id=1, eos_token_id=None, pad_token_id=0)


def encoder(draw, auto_class, config):
    length = draw.length()
    mask = draw.mask(length)
    inputs = dict(input_ids=draw.tokens(length), attention_mask=mask)
    return Case(auto_class, config, inputs, dict(logits=mask.bool(), attentions=mask.bool()))


def decoder(draw, auto_class, config):
    case = encoder(draw, auto_class, config)
    length = draw.length(2, 12)
    mask = draw.mask(length, draw.random.choice(["none", "left"]))
    return case._replace(generates=dict(input_ids=draw.tokens(length), attention_mask=mask))


def encoder_decoder(draw, auto_class, config):
    length = draw.length()
    source = draw.mask(length)
    target = draw.mask(draw.length(), "right" if draw.padding != "none" else "none")
    inputs = dict(
        input_ids=draw.tokens(length), attention_mask=source,
        decoder_input_ids=draw.tokens(target.shape[1]), decoder_attention_mask=target,
    )
    valid = dict(
        logits=target.bool(), encoder_attentions=source.bool(), decoder_attentions=target.bool(),
        cross_attentions=target.bool(),
    )
    generates = dict(input_ids=inputs["input_ids"], attention_mask=source)
    return Case(auto_class, config, inputs, valid, generates)


def bert_sizes(draw):
    return dict(
        hidden_size=draw.hidden, num_attention_heads=draw.heads, num_hidden_layers=draw.layers, intermediate_size=32,
        vocab_size=draw.vocabulary, max_position_embeddings=64, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


def llama_sizes(draw):
    return dict(
        hidden_size=draw.hidden, num_attention_heads=draw.heads, num_key_value_heads=draw.kv_heads,
        num_hidden_layers=draw.layers, intermediate_size=32, vocab_size=draw.vocabulary, max_position_embeddings=64,
        **draw.special_tokens(),
    )


def bart_sizes(draw):
    return dict(
        d_model=draw.hidden, encoder_layers=draw.layers, decoder_layers=draw.layers, encoder_ffn_dim=32,
        decoder_ffn_dim=32, encoder_attention_heads=draw.heads, decoder_attention_heads=draw.heads,
        vocab_size=draw.vocabulary, max_position_embeddings=64, dropout=0.0, decoder_start_token_id=2,
        forced_eos_token_id=None, **draw.special_tokens(),
    )


def with_cross_attention(draw, config):
    """A decoder over another model's states."""
    case = encoder(draw, transformers.AutoModelForCausalLM, config)
    mask = draw.mask(draw.length())
    case.inputs.update(
        encoder_hidden_states=draw.normal(draw.batch, mask.shape[1], draw.hidden), encoder_attention_mask=mask,
        use_cache=False,
    )
    case.valid["cross_attentions"] = case.valid["logits"]
    return case


def bert(draw):
    return encoder(draw, transformers.AutoModelForMaskedLM, transformers.BertConfig(**bert_sizes(draw)))


def bert_with_cross_attention(draw):
    """BERT as a decoder over another model's states."""
    config = transformers.BertConfig(**bert_sizes(draw), is_decoder=True, add_cross_attention=True)
    return with_cross_attention(draw, config)


def roberta(draw):
    config = transformers.RobertaConfig(**bert_sizes(draw), pad_token_id=0)
    return encoder(draw, transformers.AutoModelForMaskedLM, config)


def distilbert(draw):
    config = transformers.DistilBertConfig(
        dim=draw.hidden, n_heads=draw.heads, n_layers=draw.layers, hidden_dim=32, vocab_size=draw.vocabulary,
        max_position_embeddings=64, dropout=0.0, attention_dropout=0.0,
    )
    return encoder(draw, transformers.AutoModelForMaskedLM, config)


def modernbert(draw):
    """Full and local attention in turn."""
    config = transformers.ModernBertConfig(
        hidden_size=draw.hidden, num_attention_heads=draw.heads, num_hidden_layers=3, intermediate_size=32,
        vocab_size=draw.vocabulary, max_position_embeddings=64, local_attention=2 * draw.random.randint(1, 8),
        global_attn_every_n_layers=2, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2,
    )
    return encoder(draw, transformers.AutoModelForMaskedLM, config)


def gpt2_config(draw, **more):
    return transformers.GPT2Config(
        n_embd=draw.hidden, n_head=draw.heads, n_layer=draw.layers, n_inner=32, vocab_size=draw.vocabulary,
        n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        scale_attn_by_inverse_layer_idx=draw.random.random() < 0.5, **draw.special_tokens(), **more,
    )


def gpt2(draw):
    return decoder(draw, transformers.AutoModelForCausalLM, gpt2_config(draw))


def gpt2_with_cross_attention(draw):
    return with_cross_attention(draw, gpt2_config(draw, add_cross_attention=True))


def llama(draw):
    return decoder(draw, transformers.AutoModelForCausalLM, transformers.LlamaConfig(**llama_sizes(draw)))


def qwen3(draw):
    config = transformers.Qwen3Config(**llama_sizes(draw), head_dim=draw.head_dim)
    return decoder(draw, transformers.AutoModelForCausalLM, config)


def mistral(draw):
    """A sliding window, often shorter than the text."""
    config = transformers.MistralConfig(**llama_sizes(draw), head_dim=draw.head_dim, sliding_window=draw.length(2, 16))
    return decoder(draw, transformers.AutoModelForCausalLM, config)


def gemma2(draw):
    """Softcapped scores, a scale of its own, sliding windows in every other layer."""
    config = transformers.Gemma2Config(
        **llama_sizes(draw), head_dim=draw.head_dim, sliding_window=draw.length(2, 16),
        attn_logit_softcapping=draw.random.uniform(0.5, 20), query_pre_attn_scalar=draw.random.randint(4, 64),
    )
    return decoder(draw, transformers.AutoModelForCausalLM, config)


def gpt_oss(draw):
    """Sinks, sliding windows in every other layer, experts (all at work: a choice of them is not continuous)."""
    config = transformers.GptOssConfig(
        **llama_sizes(draw), head_dim=draw.head_dim, sliding_window=draw.length(2, 16), num_local_experts=3,
        num_experts_per_tok=3, experts_implementation="eager",
    )
    return decoder(draw, transformers.AutoModelForCausalLM, config)


def t5(draw):
    """A learned bias of the relative position."""
    config = transformers.T5Config(
        d_model=24, d_kv=draw.head_dim, d_ff=32, num_heads=draw.heads, num_layers=draw.layers,
        vocab_size=draw.vocabulary, relative_attention_num_buckets=8, relative_attention_max_distance=20,
        dropout_rate=0.0, decoder_start_token_id=0, eos_token_id=None, pad_token_id=0,
    )
    return encoder_decoder(draw, transformers.AutoModelForSeq2SeqLM, config)


def bart(draw):
    return encoder_decoder(draw, transformers.AutoModelForSeq2SeqLM, transformers.BartConfig(**bart_sizes(draw)))


def marian(draw):
    config = transformers.MarianConfig(**bart_sizes(draw))
    return encoder_decoder(draw, transformers.AutoModelForSeq2SeqLM, config)


def whisper(draw):
    """Speech features in, text out; the encoder has no mask."""
    frames = draw.length(3, 20)
    sizes = dict(bart_sizes(draw), max_source_positions=frames, max_target_positions=64, num_mel_bins=8)
    sizes.pop("max_position_embeddings")
    config = transformers.WhisperConfig(**sizes, suppress_tokens=None, begin_suppress_tokens=None)
    target = draw.mask(draw.length(), "right" if draw.padding != "none" else "none")
    features = draw.normal(draw.batch, 8, 2 * frames)
    inputs = dict(
        input_features=features, decoder_input_ids=draw.tokens(target.shape[1]), decoder_attention_mask=target
    )
    valid = dict(logits=target.bool(), decoder_attentions=target.bool(), cross_attentions=target.bool())
    return Case(transformers.AutoModelForSpeechSeq2Seq, config, inputs, valid, dict(input_features=features))


def vit_sizes(draw):
    return dict(image_size=4 * draw.random.randint(1, 5), patch_size=4, num_channels=2)


def vit(draw):
    sizes = bert_sizes(draw)
    config = transformers.ViTConfig(
        **{name: size for name, size in sizes.items() if name not in ("vocab_size", "max_position_embeddings")},
        **vit_sizes(draw), num_labels=5,
    )
    pixels = draw.normal(draw.batch, 2, config.image_size, config.image_size)
    return Case(transformers.AutoModelForImageClassification, config, dict(pixel_values=pixels), {})


def clip(draw):
    """A causal text encoder beside an image encoder."""
    common = dict(
        hidden_size=draw.hidden, intermediate_size=32, num_hidden_layers=draw.layers, num_attention_heads=draw.heads,
        projection_dim=16, attention_dropout=0.0,
    )
    text = dict(
        common, vocab_size=draw.vocabulary, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0
    )
    config = transformers.CLIPConfig(text_config=text, vision_config=dict(common, **vit_sizes(draw)), projection_dim=16)
    mask = draw.mask(draw.length(), "right")
    tokens = draw.tokens(mask.shape[1])
    tokens[torch.arange(draw.batch), mask.sum(-1) - 1] = 2
    size = config.vision_config.image_size
    inputs = dict(input_ids=tokens, attention_mask=mask, pixel_values=draw.normal(draw.batch, 2, size, size))
    return Case(transformers.AutoModel, config, inputs, {"text_model_output.attentions": mask.bool()})


FAMILIES = (
    bert, bert_with_cross_attention, roberta, distilbert, modernbert, gpt2, gpt2_with_cross_attention, llama, qwen3,
    mistral, gemma2, gpt_oss, t5, bart, marian, whisper, vit, clip,
)
