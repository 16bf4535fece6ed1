"""What is compared with PyTorch: the list of cases. A case is a kind ("linear", "transformer", ...) with options, which
follow from a few sizes; compute.py knows what they mean."""

import dataclasses
import random


@dataclasses.dataclass
class Case:
    name: str
    kind: str
    options: dict
    in_float32: bool = False  # one of those whose file is stored as computed in float32 too


@dataclasses.dataclass
class Sizes:
    batch: int = 2
    heads: int = 2
    head_dim: int = 4
    query_length: int = 3
    key_length: int = 5
    hidden: int = 12
    classes: int = 7
    adam_epsilon: float = 1e-8  # of the training of whole layers, as the next
    activation: str = "relu"

    @property
    def embed(self):
        return self.heads * self.head_dim

    @staticmethod
    def drawn(seed):
        """Larger ones, odd ones among them."""
        draw = random.Random(seed)
        heads = draw.choice([1, 2, 3, 4, 8])
        head_dim = draw.choice([d for d in [3, 4, 8, 10, 16, 17, 32, 64] if 8 <= heads * d <= 72])
        # Training in float32 must not hang on a rounding error for torch to be within 1e-5 of its own float64: among
        # many parameters some have gradients that are hardly more than rounding errors, which Adam with a small epsilon
        # makes steps of full size, and among many hidden values some are so near to 0 that relu's slope is chance.
        return Sizes(batch=draw.randint(1, 4), heads=heads, head_dim=head_dim, query_length=draw.randint(2, 40),
                     key_length=draw.randint(2, 70), hidden=draw.randint(9, 150), classes=draw.randint(3, 300),
                     adam_epsilon=1e-3, activation="gelu")


# ---- the list ----

def small_layer_cases(s):
    x = {"batch": s.batch, "length": s.query_length}
    yield Case("linear", "linear", {**x, "in_features": s.embed, "out_features": s.hidden}, in_float32=True)
    yield Case("linear_no_bias", "linear", {**x, "in_features": s.hidden, "out_features": s.embed, "bias": False})
    for activation in ["relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"]:
        yield Case(f"linear_{activation}", "linear",
                   {**x, "in_features": s.embed, "out_features": s.hidden, "activation": activation})
        yield Case(f"activation_{activation}", "activation", {**x, "features": s.hidden, "activation": activation})
    yield Case("layer_norm", "layer_norm", {**x, "features": s.hidden}, in_float32=True)
    yield Case("layer_norm_no_bias", "layer_norm", {**x, "features": s.hidden, "bias": False, "epsilon": 1e-3})
    yield Case("layer_norm_plain", "layer_norm", {**x, "features": s.hidden, "affine": False})
    yield Case("rms_norm", "rms_norm", {**x, "features": s.hidden}, in_float32=True)
    yield Case("rms_norm_plain", "rms_norm", {**x, "features": s.hidden, "affine": False, "epsilon": 1e-2})
    yield Case("embedding", "embedding", {**x, "count": s.classes, "features": s.embed})
    yield Case("embedding_padding", "embedding", {**x, "count": s.classes, "features": s.embed, "padding_index": 1})
    yield Case("softmax", "softmax", {**x, "features": s.hidden, "dim": -1})
    yield Case("softmax_dim1", "softmax", {**x, "features": s.hidden, "dim": 1})
    yield Case("log_softmax", "softmax", {**x, "features": s.hidden, "dim": -1, "log": True})
    yield Case("matmul", "matmul", {**x, "features": s.embed, "columns": s.hidden})
    for reduction in ["mean", "sum", "none"]:
        yield Case(f"cross_entropy_{reduction}", "cross_entropy",
                   {**x, "classes": s.classes, "reduction": reduction}, in_float32=reduction == "mean")
        yield Case(f"cross_entropy_{reduction}_ignore_smooth", "cross_entropy",
                   {**x, "classes": s.classes, "reduction": reduction, "ignore_index": 2, "label_smoothing": 0.1})


def attention_cases(s):
    base = {"batch": s.batch, "heads": s.heads * 2, "kv_heads": s.heads * 2, "head_dim": s.head_dim,
            "value_dim": s.head_dim, "query_length": s.query_length, "key_length": s.key_length}
    yield Case("attention", "attention", {**base, "value_dim": s.head_dim + 1})
    yield Case("attention_gqa_causal", "attention", {**base, "kv_heads": s.heads, "causal": True}, in_float32=True)
    yield Case("attention_mqa_mask", "attention", {**base, "kv_heads": 1, "mask": "bool"})
    yield Case("attention_gqa_bias_scale", "attention", {**base, "kv_heads": s.heads, "mask": "float", "scale": 0.3})


def layer_cases(s):
    """nn.MultiheadAttention in all its variants."""
    def case(name, in_float32=False, **options):
        base = {"embed_dim": s.embed, "num_heads": s.heads, "batch": s.batch, "query_length": s.query_length,
                "key_length": s.key_length}
        return Case(f"mha_{name}", "multi_head_attention", {**base, **options}, in_float32)

    weights = {"need_weights": True}
    averaged = {"need_weights": True, "average_weights": True}
    others = {"kdim": s.embed + 2, "vdim": s.embed + 5, "cross": True}
    both = {"add_bias_kv": True, "add_zero_attn": True}
    yield case("self", in_float32=True)
    yield case("self_weights", weights_gradient=True, **weights)
    yield case("self_averaged", weights_gradient=True, **averaged)
    yield case("no_bias", bias=False, **weights)
    yield case("length_first", batch_first=False, **averaged)
    yield case("length_first_cross", batch_first=False, cross=True, padding=True, mask="bool", **weights)
    yield case("causal", causal=True, in_float32=True)
    yield case("causal_padding_weights", causal=True, padding=True, **weights)
    yield case("self_bool3_padding", mask="bool3", padding=True, **weights)
    yield case("self_float", mask="float", **averaged)
    yield case("cross", cross=True, in_float32=True, **weights)
    yield case("cross_same_value", cross=True, same_value=True, **weights)
    yield case("cross_padding", cross=True, padding=True)
    yield case("cross_bool", cross=True, mask="bool")
    yield case("cross_bool3", cross=True, mask="bool3", **averaged)
    yield case("cross_float", cross=True, mask="float")
    yield case("cross_float3", cross=True, mask="float3", **weights)
    yield case("widths", **others, **weights, in_float32=True)
    yield case("widths_no_bias", bias=False, **others)
    yield case("widths_bias_kv", **others, **both, **weights)
    yield case("kdim_only", kdim=s.embed + 3, cross=True, mask="bool")
    yield case("vdim_only", vdim=s.embed + 3, cross=True, padding=True)
    yield case("bias_kv", add_bias_kv=True, **weights)
    yield case("zero_attn", add_zero_attn=True, **averaged)
    yield case("bias_kv_zero_attn", **both, weights_gradient=True, **weights)
    yield case("bias_kv_zero_attn_masks", **both, cross=True, padding=True, mask="bool3", **weights)
    yield case("bias_kv_causal", **both, causal=True, batch_first=False)
    yield case("bias_kv_float", **both, cross=True, mask="float", bias=False)
    yield case("unbatched", unbatched=True, **weights)
    yield case("unbatched_masks", unbatched=True, cross=True, padding=True, mask="bool3", **averaged)
    yield case("unbatched_length_first", unbatched=True, batch_first=False, mask="float", causal=False)
    yield case("unbatched_bias_kv", unbatched=True, cross=True, **both, **weights)


def transformer_cases(s):
    layer = {"d_model": s.embed, "nhead": s.heads, "dim_feedforward": s.hidden, "batch": s.batch,
             "target_length": s.query_length, "source_length": s.key_length}
    masks = {"source_mask": "bool", "source_padding": True}
    decoder_masks = {"target_causal": True, "target_padding": True, "memory_padding": True}
    yield Case("encoder_layer", "encoder_layer", dict(layer), in_float32=True)
    yield Case("encoder_layer_norm_first", "encoder_layer", {**layer, **masks, "norm_first": True})
    yield Case("encoder_layer_gelu", "encoder_layer", {**layer, "activation": "gelu", "source_causal": True,
                                                       "layer_norm_eps": 1e-3})
    yield Case("encoder_layer_no_bias", "encoder_layer", {**layer, **masks, "bias": False, "batch_first": False})
    yield Case("encoder_layer_mask3", "encoder_layer", {**layer, "source_mask": "bool3", "norm_first": True})
    yield Case("decoder_layer", "decoder_layer", {**layer, "target_causal": True}, in_float32=True)
    yield Case("decoder_layer_norm_first", "decoder_layer", {**layer, **decoder_masks, "norm_first": True})
    yield Case("decoder_layer_gelu", "decoder_layer", {**layer, "activation": "gelu", "target_mask": "bool",
                                                       "memory_mask": "bool", "target_padding": True})
    yield Case("decoder_layer_no_bias", "decoder_layer", {**layer, **decoder_masks, "bias": False,
                                                          "norm_first": True, "batch_first": False})
    yield Case("encoder", "encoder", {**layer, **masks, "num_layers": 2})
    yield Case("encoder_norm", "encoder", {**layer, **masks, "num_layers": 2, "final_norm": True,
                                           "norm_first": True})
    yield Case("decoder", "decoder", {**layer, "num_layers": 2, **decoder_masks})
    yield Case("decoder_norm", "decoder", {**layer, "num_layers": 2, "final_norm": True, "target_causal": True,
                                           "memory_mask": "bool", "norm_first": True})
    model = {**layer, "num_encoder_layers": 2, "num_decoder_layers": 2}
    every_mask = {**masks, **decoder_masks, "memory_mask": "bool"}
    yield Case("transformer", "transformer", {**model, "target_causal": True}, in_float32=True)
    yield Case("transformer_masks", "transformer", {**model, **every_mask})
    yield Case("transformer_norm_first", "transformer", {**model, **every_mask, "norm_first": True,
                                                         "activation": "gelu", "bias": False})
    yield Case("transformer_length_first", "transformer", {**model, "batch_first": False, "target_mask": "bool",
                                                           "source_padding": True, "memory_padding": True,
                                                           "num_encoder_layers": 1, "num_decoder_layers": 1})


def training_cases(s):
    sgd = {"optimizer": "sgd", "learning_rate": 0.1, "momentum": 0.9}
    adam = {"optimizer": "adam", "learning_rate": 0.002}
    adamw = {"optimizer": "adamw", "learning_rate": 0.002}
    linear = {"batch": s.batch, "length": s.query_length, "in_features": s.embed, "out_features": s.hidden}
    yield Case("train_sgd_plain", "linear", {**linear, "optimizer": "sgd", "learning_rate": 0.3})
    yield Case("train_sgd_dampening", "linear", {**linear, **sgd, "dampening": 0.3, "weight_decay": 0.05})
    yield Case("train_sgd_nesterov", "linear", {**linear, **sgd, "nesterov": True, "weight_decay": 0.05})
    yield Case("train_adam_decay", "linear", {**linear, **adam, "weight_decay": 0.1, "beta1": 0.8, "beta2": 0.95})
    yield Case("train_adam_amsgrad", "linear", {**linear, **adam, "amsgrad": True})
    yield Case("train_adamw_amsgrad", "linear", {**linear, **adamw, "amsgrad": True, "weight_decay": 0.1})
    yield Case("train_adamw_groups", "linear", {**linear, **adamw, "weight_decay": 0.1, "groups": True})
    yield Case("train_adamw_clip", "linear", {**linear, **adamw, "clip": 0.5})
    yield Case("train_layer_norm", "layer_norm", {"batch": s.batch, "length": s.query_length, "features": s.hidden,
                                                  **adamw})
    yield Case("train_rms_norm", "rms_norm", {"batch": s.batch, "length": s.query_length, "features": s.hidden,
                                              **adam})
    yield Case("train_embedding", "embedding", {"batch": s.batch, "length": s.query_length, "count": s.classes,
                                                "features": s.embed, "padding_index": 1, **adam})
    adam["adam_epsilon"] = adamw["adam_epsilon"] = s.adam_epsilon
    mha = {"embed_dim": s.embed, "num_heads": s.heads, "batch": s.batch, "query_length": s.query_length,
           "key_length": s.key_length}
    yield Case("train_mha_sgd", "multi_head_attention", {**mha, **sgd, "causal": True}, in_float32=True)
    yield Case("train_mha_adam", "multi_head_attention", {**mha, **adam, "padding": True}, in_float32=True)
    yield Case("train_mha_adamw", "multi_head_attention", {**mha, **adamw, "cross": True, "kdim": s.embed + 1,
                                                           "add_bias_kv": True}, in_float32=True)
    layer = {"d_model": s.embed, "nhead": s.heads, "dim_feedforward": s.hidden, "batch": s.batch,
             "target_length": s.query_length, "source_length": s.key_length, "activation": s.activation}
    yield Case("train_encoder_layer", "encoder_layer", {**layer, **sgd, "source_padding": True})
    yield Case("train_decoder_layer", "decoder_layer", {**layer, **adamw, "target_causal": True, "norm_first": True})
    yield Case("train_encoder", "encoder", {**layer, **adamw, "num_layers": 2, "norm_first": True,
                                            "final_norm": True})
    yield Case("train_decoder", "decoder", {**layer, **adam, "num_layers": 2, "target_causal": True,
                                            "memory_padding": True})
    yield Case("train_transformer", "transformer", {**layer, **adamw, "num_encoder_layers": 1,
                                                    "num_decoder_layers": 1, "target_causal": True,
                                                    "source_padding": True, "memory_padding": True}, in_float32=True)


def schedule_cases():
    yield Case("schedule_cosine", "schedule", {"schedule": "cosine", "peak": 0.3, "final_rate": 0.02, "steps": 25})
    yield Case("schedule_linear", "schedule", {"schedule": "linear", "peak": 0.3, "final_rate": 0.06, "steps": 25})


def all_cases(s):
    cases = [*small_layer_cases(s), *attention_cases(s), *layer_cases(s), *transformer_cases(s), *training_cases(s),
             *schedule_cases()]
    assert len({c.name for c in cases}) == len(cases), "two cases have one name"
    return cases
