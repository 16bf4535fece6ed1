"""Small random models of every family that Headway reads, with inputs: configurations by seed and number."""

import random
from typing import NamedTuple

import torch
import transformers

GENERATES = "generates"
PAD = 3  # no drawn token is a special one: they are 0 to 4


class Head(NamedTuple):
    """A model class of transformers, and the name that Headway has for its head."""

    name: str
    auto_class: type


BARE = Head("none", transformers.AutoModel)
MASKED = Head("language_model", transformers.AutoModelForMaskedLM)
CAUSAL = Head("language_model", transformers.AutoModelForCausalLM)
SEQUENCE_TO_SEQUENCE = Head("language_model", transformers.AutoModelForSeq2SeqLM)
SEQUENCE = Head("sequence", transformers.AutoModelForSequenceClassification)
TOKENS = Head("tokens", transformers.AutoModelForTokenClassification)
SPAN = Head("span", transformers.AutoModelForQuestionAnswering)

ENCODER_HEADS = (BARE, MASKED, SEQUENCE, TOKENS, SPAN)
DECODER_HEADS = (CAUSAL, BARE, SEQUENCE)
ENCODER_DECODER_HEADS = (SEQUENCE_TO_SEQUENCE, BARE)


class Draw:
    """Random choices of one configuration and of its inputs."""

    def __init__(self, seed, family, head, number):
        self.random = random.Random(f"{seed} {family} {head} {number}")
        self.generator = torch.Generator().manual_seed(self.random.getrandbits(48))
        self.number = number
        self.head = head
        self.generates = head == GENERATES
        # Where texts of this many tokens begin to be long for rotary scalings; generated ones never are.
        self.positions = 160 if self.generates else 32
        self.batch = self.random.randint(1, 3)
        self.layers = self.random.randint(1, 3)
        self.vocabulary = self.random.randint(30, 99)
        # Where the first token stands for the text, transformers takes what is at the first position.
        pools = head in ("none", "sequence") and FAMILIES.get(family, (None, ()))[1] is ENCODER_HEADS
        self.padding = ("none", "right", *(("none", "right") if pools else ("left", "both")))[number % 4]

    def choice(self, *values):
        return self.random.choice(values)

    def flag(self):
        return self.random.random() < 0.5

    def integer(self, low, high):
        return self.random.randint(low, high)

    def number_between(self, low, high):
        return round(self.random.uniform(low, high), 3)

    def tokens(self, length):
        """[batch, length], none of them a special token."""
        return torch.randint(5, self.vocabulary, (self.batch, length), generator=self.generator)

    def mask(self, length, padding=None):
        """Boolean [batch, length], true for non-padding; every entry keeps at least one position."""
        padding = padding or self.padding
        mask = torch.ones(self.batch, length, dtype=torch.bool)
        for row in range(self.batch):
            cut = self.integer(0, length - 1)
            left = {"none": 0, "left": cut, "right": 0, "both": self.integer(0, cut)}[padding]
            right = {"none": 0, "left": 0, "right": cut, "both": cut - left}[padding]
            mask[row, :left] = False
            mask[row, length - right :] = False
        return mask

    def labels(self):
        """id2label and what belongs to it, sometimes with names."""
        count = 2 if self.head == "span" else self.integer(2, 7)
        if self.flag() or count == 2:
            return dict(num_labels=count)
        names = {i: f"label {chr(ord('a') + i)}" for i in range(count)}
        return dict(id2label=names, label2id={name: i for i, name in names.items()})

    def ids(self, **more):
        return dict(bos_token_id=0, eos_token_id=2, pad_token_id=PAD) | more


def bert_sizes(draw):
    heads = draw.integer(1, 4)
    return dict(
        hidden_size=heads * draw.choice(4, 5, 7, 8, 13), num_attention_heads=heads, num_hidden_layers=draw.layers,
        intermediate_size=draw.integer(9, 48), vocab_size=draw.vocabulary, max_position_embeddings=64,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout=draw.choice(None, 0.0),
        hidden_act=draw.choice("gelu", "gelu_new", "relu", "silu", "gelu_pytorch_tanh"),
        layer_norm_eps=draw.choice(1e-12, 1e-5), type_vocab_size=draw.choice(1, 2, 3), initializer_range=0.2,
        tie_word_embeddings=draw.number % 5 != 4, **draw.labels(), **draw.ids(),
    )


def bert(draw):
    return transformers.BertConfig(**bert_sizes(draw))


def roberta(draw):
    sizes = bert_sizes(draw) | dict(pad_token_id=draw.choice(1, 3), max_position_embeddings=70)
    return transformers.RobertaConfig(**sizes)


def xlm_roberta(draw):
    sizes = bert_sizes(draw) | dict(pad_token_id=draw.choice(1, 3), max_position_embeddings=70)
    return transformers.XLMRobertaConfig(**sizes)


def camembert(draw):
    sizes = bert_sizes(draw) | dict(pad_token_id=draw.choice(1, 3), max_position_embeddings=70)
    return transformers.CamembertConfig(**sizes)


def distilbert(draw):
    heads = draw.integer(1, 4)
    return transformers.DistilBertConfig(
        dim=heads * draw.choice(4, 5, 7, 8, 13), n_heads=heads, n_layers=draw.layers, hidden_dim=draw.integer(9, 48),
        vocab_size=draw.vocabulary, max_position_embeddings=64, dropout=0.0, attention_dropout=0.0, qa_dropout=0.0,
        seq_classif_dropout=0.0, activation=draw.choice("gelu", "relu"), sinusoidal_pos_embds=False,
        initializer_range=0.2, **draw.labels(), **draw.ids(),
    )


def modernbert(draw):
    """Full and local attention in turn, each with its own base."""
    heads, layers = draw.integer(1, 4), draw.integer(1, 4)
    return transformers.ModernBertConfig(
        hidden_size=heads * draw.choice(4, 6, 8, 10), num_attention_heads=heads, num_hidden_layers=layers,
        intermediate_size=draw.integer(9, 48), vocab_size=draw.vocabulary, max_position_embeddings=64,
        local_attention=2 * draw.integer(1, 8), global_attn_every_n_layers=draw.integer(1, 3),
        hidden_activation=draw.choice("gelu", "silu"), norm_bias=draw.flag(), attention_bias=draw.flag(),
        mlp_bias=draw.flag(), decoder_bias=draw.flag(), classifier_bias=draw.flag(),
        classifier_activation=draw.choice("gelu", "relu"), classifier_pooling=draw.choice("cls", "mean"),
        norm_eps=draw.choice(1e-5, 1e-4), initializer_range=0.2, classifier_dropout=0.0,
        rope_parameters={
            kind: dict(rope_type="default", rope_theta=base)
            for kind, base in (
                ("sliding_attention", draw.choice(100.0, 10000.0)), ("full_attention", draw.choice(1000.0, 160000.0))
            )
        },
        cls_token_id=0, sep_token_id=2, **draw.labels(), **draw.ids(),
    )


def gpt2(draw):
    heads = draw.integer(1, 4)
    return transformers.GPT2Config(
        n_embd=heads * draw.choice(4, 5, 7, 8, 13), n_head=heads, n_layer=draw.layers,
        n_inner=draw.choice(None, draw.integer(9, 48)), vocab_size=draw.vocabulary, n_positions=160, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, summary_first_dropout=0.0,
        activation_function=draw.choice("gelu_new", "gelu", "relu", "silu"),
        scale_attn_by_inverse_layer_idx=draw.flag(), scale_attn_weights=draw.random.random() < 0.8,
        tie_word_embeddings=draw.number % 3 != 2, layer_norm_epsilon=draw.choice(1e-5, 1e-3), initializer_range=0.2,
        **draw.labels(), **draw.ids(),
    )


def rope(draw, head_dim, kinds=("default", "linear", "dynamic", "yarn", "llama3", "longrope")):
    """rope_parameters."""
    kind = kinds[draw.number % len(kinds)]
    parameters = dict(rope_type=kind, rope_theta=draw.choice(100.0, 10000.0, 500000.0))
    factor = draw.number_between(1.5, 6)
    if kind == "linear" or kind == "dynamic":
        parameters |= dict(factor=factor)
    elif kind == "llama3":
        low = draw.number_between(0.5, 2)
        parameters |= dict(
            factor=factor, low_freq_factor=low, high_freq_factor=low + draw.number_between(0.5, 4),
            original_max_position_embeddings=draw.positions,
        )
    elif kind == "yarn":
        parameters |= dict(factor=factor, original_max_position_embeddings=draw.positions)
        if draw.flag():
            parameters |= dict(beta_fast=draw.number_between(4, 32), beta_slow=draw.number_between(0.5, 2))
        if draw.flag():
            parameters |= dict(truncate=draw.flag())
        more = draw.integer(0, 2)
        if more == 1:
            parameters |= dict(attention_factor=draw.number_between(0.5, 2))
        elif more == 2:
            parameters |= dict(mscale=draw.number_between(0.5, 2), mscale_all_dim=draw.number_between(0.5, 2))
    elif kind == "longrope":
        parameters |= dict(
            short_factor=[draw.number_between(1, 2) for _ in range(head_dim // 2)],
            long_factor=[draw.number_between(1, 6) for _ in range(head_dim // 2)],
            original_max_position_embeddings=draw.positions, factor=factor,
        )
    return parameters


def older_config(config):
    """A config.json with rotary positions as transformers 4 wrote them: rope_theta and rope_scaling."""
    config = dict(config)
    parameters = config.pop("rope_parameters")

    def scaling(of_kind):
        rest = {name: value for name, value in of_kind.items() if name not in ("rope_theta", "partial_rotary_factor")}
        return None if rest["rope_type"] == "default" else rest

    if config["model_type"] == "modernbert":
        config["global_rope_theta"] = parameters["full_attention"]["rope_theta"]
        config["local_rope_theta"] = parameters["sliding_attention"]["rope_theta"]
    elif config["model_type"] == "gemma3_text":
        config["rope_theta"] = parameters["full_attention"]["rope_theta"]
        config["rope_scaling"] = scaling(parameters["full_attention"])
        config["rope_local_base_freq"] = parameters["sliding_attention"]["rope_theta"]
    else:
        config["rope_theta"] = parameters["rope_theta"]
        config["rope_scaling"] = scaling(parameters)
        if "partial_rotary_factor" in parameters:
            config["partial_rotary_factor"] = parameters["partial_rotary_factor"]
    config["torch_dtype"] = config.pop("dtype", "float32")
    return config


def llama_sizes(draw):
    """Grouped heads, and a head_dim that is often not width / heads."""
    kv_heads = draw.integer(1, 3)
    heads = kv_heads * draw.choice(1, 2, 4)
    head_dim = draw.choice(4, 6, 8, 10, 16)
    return dict(
        hidden_size=heads * draw.choice(head_dim, draw.integer(2, 6)), num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=head_dim, num_hidden_layers=draw.layers,
        intermediate_size=draw.integer(9, 48), vocab_size=draw.vocabulary, max_position_embeddings=160,
        rms_norm_eps=draw.choice(1e-6, 1e-5), initializer_range=0.2, tie_word_embeddings=draw.flag(),
        rope_parameters=rope(draw, head_dim), attention_dropout=0.0, **draw.labels(), **draw.ids(),
    )


def stretched(draw, sizes):
    """Scalings that depend on the length do so within the texts drawn here."""
    kind = sizes["rope_parameters"]["rope_type"]
    if kind in ("dynamic", "longrope") and not draw.generates:
        sizes["max_position_embeddings"] = 64 if kind == "longrope" else draw.choice(16, 64)
    return sizes


def llama(draw):
    sizes = stretched(draw, llama_sizes(draw))
    return transformers.LlamaConfig(
        **sizes, attention_bias=draw.flag(), mlp_bias=draw.flag(), hidden_act=draw.choice("silu", "gelu", "relu")
    )


def mistral(draw):
    return transformers.MistralConfig(
        **stretched(draw, llama_sizes(draw)), sliding_window=draw.choice(None, draw.integer(2, 16))
    )


def qwen_windows(draw):
    """Some layers see a window alone."""
    if draw.flag():
        return {}
    return dict(
        use_sliding_window=True, sliding_window=draw.integer(2, 16), max_window_layers=draw.integer(0, draw.layers)
    )


def qwen2(draw):
    sizes = llama_sizes(draw)
    head_dim = sizes.pop("head_dim")
    sizes["hidden_size"] = head_dim * sizes["num_attention_heads"]
    return transformers.Qwen2Config(**stretched(draw, sizes), **qwen_windows(draw))


def qwen3(draw):
    return transformers.Qwen3Config(
        **stretched(draw, llama_sizes(draw)), attention_bias=draw.flag(), **qwen_windows(draw)
    )


def layer_types(draw):
    return [draw.choice("sliding_attention", "full_attention") for _ in range(draw.layers)]


def gemma2(draw):
    """Softcapped scores and logits, a scale of its own, sliding windows in some layers."""
    sizes = stretched(draw, llama_sizes(draw))
    return transformers.Gemma2Config(
        **sizes, sliding_window=draw.integer(2, 16), query_pre_attn_scalar=draw.integer(4, 64),
        attn_logit_softcapping=draw.choice(None, draw.number_between(0.5, 20)),
        final_logit_softcapping=draw.choice(None, draw.number_between(1, 20)), attention_bias=draw.flag(),
        layer_types=layer_types(draw), hidden_activation=draw.choice("gelu_pytorch_tanh", "gelu"),
    )


def gemma3_text(draw):
    """Norms of queries and keys, and a base and a scaling for each kind of layer."""
    sizes = llama_sizes(draw)
    full = rope(draw, sizes["head_dim"], kinds=("default", "linear", "yarn", "llama3"))
    full.pop("truncate", None)  # transformers looks for it beside the kinds of layers
    sizes["rope_parameters"] = dict(
        sliding_attention=dict(rope_type="default", rope_theta=draw.choice(100.0, 10000.0)), full_attention=full
    )
    return transformers.Gemma3TextConfig(
        **sizes, sliding_window=draw.integer(2, 16), query_pre_attn_scalar=draw.integer(4, 64),
        final_logit_softcapping=draw.choice(None, draw.number_between(1, 20)), attention_bias=draw.flag(),
        layer_types=layer_types(draw), hidden_activation=draw.choice("gelu_pytorch_tanh", "gelu"),
    )


def phi3(draw):
    """One matrix for queries, keys and values, one for gate and up; part of each head rotates."""
    sizes = llama_sizes(draw)
    head_dim = sizes.pop("head_dim")
    sizes["hidden_size"] = head_dim * sizes["num_attention_heads"]
    partial = draw.choice(1.0, 0.5) if head_dim % 4 == 0 else 1.0
    sizes["rope_parameters"] = rope(draw, int(head_dim * partial), kinds=("default", "longrope"))
    sizes["rope_parameters"]["partial_rotary_factor"] = partial
    sizes["rope_parameters"].pop("factor", None)
    return transformers.Phi3Config(
        **sizes, original_max_position_embeddings=draw.positions, sliding_window=draw.choice(None, draw.integer(2, 16)),
        resid_pdrop=0.0, embd_pdrop=0.0,
    )


def bart_sizes(draw, **ids):
    heads = draw.choice(1, 2, 4)
    return dict(
        d_model=4 * draw.integer(2, 10), encoder_layers=draw.layers, decoder_layers=draw.integer(1, 3),
        encoder_ffn_dim=draw.integer(9, 48), decoder_ffn_dim=draw.integer(9, 48), encoder_attention_heads=heads,
        decoder_attention_heads=draw.choice(1, 2, 4), vocab_size=draw.vocabulary, max_position_embeddings=160,
        dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, classifier_dropout=0.0,
        activation_function=draw.choice("gelu", "relu", "silu", "gelu_new"), scale_embedding=draw.flag(), init_std=0.2,
        forced_eos_token_id=None, **draw.labels(), **draw.ids(decoder_start_token_id=draw.choice(2, PAD), **ids),
    )


def bart(draw):
    return transformers.BartConfig(**bart_sizes(draw))


def mbart(draw):
    return transformers.MBartConfig(**bart_sizes(draw))


def pegasus(draw):
    return transformers.PegasusConfig(**bart_sizes(draw))


def marian(draw):
    sizes = bart_sizes(draw)
    shared = draw.number % 3 != 2
    return transformers.MarianConfig(**sizes, share_encoder_decoder_embeddings=shared)


def t5_sizes(draw):
    # generate() of transformers makes a cache for as many layers as the encoder has.
    decoder_layers = draw.integer(1, draw.layers if draw.generates else 3)
    return dict(
        d_model=draw.integer(8, 40), d_kv=draw.choice(3, 4, 8, 11), d_ff=draw.integer(9, 48),
        num_heads=draw.integer(1, 4), num_layers=draw.layers, num_decoder_layers=decoder_layers,
        vocab_size=draw.vocabulary,
        relative_attention_num_buckets=2 * draw.integer(2, 12), relative_attention_max_distance=draw.integer(16, 60),
        dropout_rate=0.0, classifier_dropout=0.0, layer_norm_epsilon=draw.choice(1e-6, 1e-5), initializer_factor=1.0,
        feed_forward_proj=draw.choice("relu", "gated-gelu", "gated-silu", "gelu"), tie_word_embeddings=draw.flag(),
        **draw.labels(), **draw.ids(decoder_start_token_id=PAD),
    )


def t5(draw):
    return transformers.T5Config(**t5_sizes(draw))


def mt5(draw):
    return transformers.MT5Config(**t5_sizes(draw))


# Headway's name of the family -> (how its configurations are drawn, its heads).
FAMILIES = {
    "bert": (bert, ENCODER_HEADS),
    "roberta": (roberta, ENCODER_HEADS),
    "xlm-roberta": (xlm_roberta, ENCODER_HEADS),
    "camembert": (camembert, ENCODER_HEADS),
    "distilbert": (distilbert, ENCODER_HEADS),
    "modernbert": (modernbert, ENCODER_HEADS),
    "gpt2": (gpt2, DECODER_HEADS),
    "llama": (llama, DECODER_HEADS),
    "mistral": (mistral, DECODER_HEADS),
    "qwen2": (qwen2, DECODER_HEADS),
    "qwen3": (qwen3, DECODER_HEADS),
    "gemma2": (gemma2, DECODER_HEADS),
    "gemma3_text": (gemma3_text, DECODER_HEADS),
    "phi3": (phi3, DECODER_HEADS),
    "marian": (marian, ENCODER_DECODER_HEADS),
    "bart": (bart, ENCODER_DECODER_HEADS),
    "mbart": (mbart, ENCODER_DECODER_HEADS),
    "t5": (t5, ENCODER_DECODER_HEADS),
    "mt5": (mt5, ENCODER_DECODER_HEADS),
    "pegasus": (pegasus, ENCODER_DECODER_HEADS),
}

# Families that Headway reads and writes as another one: the text part of Gemma 3 with images.
READ_AS_OTHERS = {"gemma3"}
# Families that families_features.py looks at.
READ_FEATURES = {"vit", "deit", "whisper", "vision-encoder-decoder"}
