"""How torch computes a case of cases.py, and how files hold it.

A file's metadata are the options, every value as JSON or plain text; its tensors are named by what they are:
  state.<name>                    parameters before anything else happened
  input.<name>                    inputs; masks have torch's shapes and torch's meaning (true: must not be looked at)
  output.<name>, d_output.<name>  results, and the gradients that come from above
  d_input.<name>, d_state.<name>  gradients
  after.<name>, losses            where there is an optimizer: parameters after kSteps steps, and the loss before each
"""

import json
import warnings
import zlib

import torch
import torch.nn.functional as F
from torch import nn

from cases import Case

kSteps = 20

warnings.filterwarnings("ignore", message="enable_nested_tensor is True")  # of nn.Transformer; only inference uses them


# ---- how torch makes the modules ----

def activation_function(name):
    return {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
            "tanh": torch.tanh, "sigmoid": torch.sigmoid}[name]


def layer_arguments(o):
    """What the layers and models of nn.Transformer have in common; dropout is off, the rest is torch's default."""
    return {"d_model": o["d_model"], "nhead": o["nhead"], "dim_feedforward": o["dim_feedforward"], "dropout": 0.0,
            "activation": o.get("activation", "relu"), "layer_norm_eps": o.get("layer_norm_eps", 1e-5),
            "batch_first": o.get("batch_first", True), "norm_first": o.get("norm_first", False),
            "bias": o.get("bias", True)}


def final_norm(o):
    return nn.LayerNorm(o["d_model"]) if o.get("final_norm", False) else None


def make_module(kind, o):
    """The torch module of a case in float32, in training; None for plain functions."""
    if kind == "linear":
        return nn.Linear(o["in_features"], o["out_features"], bias=o.get("bias", True))
    if kind == "layer_norm":
        return nn.LayerNorm(o["features"], eps=o.get("epsilon", 1e-5), elementwise_affine=o.get("affine", True),
                            bias=o.get("bias", True))
    if kind == "rms_norm":
        return nn.RMSNorm(o["features"], eps=o.get("epsilon"), elementwise_affine=o.get("affine", True))
    if kind == "embedding":
        return nn.Embedding(o["count"], o["features"], padding_idx=o.get("padding_index"))
    if kind == "multi_head_attention":
        return nn.MultiheadAttention(o["embed_dim"], o["num_heads"], bias=o.get("bias", True), kdim=o.get("kdim"),
                                     vdim=o.get("vdim"), add_bias_kv=o.get("add_bias_kv", False),
                                     add_zero_attn=o.get("add_zero_attn", False),
                                     batch_first=o.get("batch_first", True))
    if kind == "encoder_layer":
        return nn.TransformerEncoderLayer(**layer_arguments(o))
    if kind == "decoder_layer":
        return nn.TransformerDecoderLayer(**layer_arguments(o))
    if kind == "encoder":
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(**layer_arguments(o)), o["num_layers"],
                                     norm=final_norm(o), enable_nested_tensor=False)
    if kind == "decoder":
        return nn.TransformerDecoder(nn.TransformerDecoderLayer(**layer_arguments(o)), o["num_layers"],
                                     norm=final_norm(o))
    if kind == "transformer":
        return nn.Transformer(num_encoder_layers=o["num_encoder_layers"], num_decoder_layers=o["num_decoder_layers"],
                              **layer_arguments(o))
    if kind in ["activation", "softmax", "matmul", "cross_entropy", "attention", "schedule"]:
        return None
    raise ValueError(f"no such kind of case: {kind}")


# ---- inputs; every row of every mask leaves its first key, since torch gives NaN for a row without keys ----

def random_mask(*shape):
    mask = torch.rand(shape) < 0.4
    mask[..., 0] = False
    return mask


def padding_mask(batch, length):
    """Each entry is padded at its end, the first one is not."""
    lengths = torch.randint(2, length + 1, (batch,))
    if batch > 1:
        lengths[0] = length
    return torch.arange(length)[None, :] >= lengths[:, None]


def causal_mask(length):
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def attention_mask(form, heads, queries, keys):
    """A mask of nn.MultiheadAttention: 2-D, or 3-D with one for each of `heads` (batch and heads)."""
    if form == "float":
        return torch.randn(queries, keys)
    if form == "float3":
        return torch.randn(heads, queries, keys)
    return random_mask(queries, keys) if form == "bool" else random_mask(heads, queries, keys)


def sequence(o, length, features):
    if o.get("unbatched", False):
        return torch.randn(length, features)
    first, second = (o["batch"], length) if o.get("batch_first", True) else (length, o["batch"])
    return torch.randn(first, second, features)


def layer_inputs(o):
    queries = o["query_length"]
    keys = o["key_length"] if o.get("cross", False) else queries
    unbatched = o.get("unbatched", False)
    inputs = {"query": sequence(o, queries, o["embed_dim"])}
    if o.get("cross", False):
        inputs["key"] = sequence(o, keys, o.get("kdim", o["embed_dim"]))
        if not o.get("same_value", False):
            inputs["value"] = sequence(o, keys, o.get("vdim", o["embed_dim"]))
    if o.get("padding", False):
        inputs["padding"] = padding_mask(1, keys)[0] if unbatched else padding_mask(o["batch"], keys)
    if "mask" in o:
        heads = o["num_heads"] * (1 if unbatched else o["batch"])
        inputs["mask"] = attention_mask(o["mask"], heads, queries, keys)
    return inputs


def transformer_inputs(kind, o):
    source, target = o["source_length"], o["target_length"]
    inputs = {}
    if kind in ["encoder_layer", "encoder", "transformer"]:
        inputs["source"] = sequence(o, source, o["d_model"])
    if kind != "encoder_layer" and kind != "encoder":
        inputs["target"] = sequence(o, target, o["d_model"])
    if kind in ["decoder_layer", "decoder"]:
        inputs["memory"] = sequence(o, source, o["d_model"])
    lengths = {"source": (source, source), "target": (target, target), "memory": (target, source)}
    for name, (queries, keys) in lengths.items():
        if f"{name}_mask" in o:
            inputs[f"{name}_mask"] = attention_mask(o[f"{name}_mask"], o["batch"] * o["nhead"], queries, keys)
        if o.get(f"{name}_padding", False):
            inputs[f"{name}_padding"] = padding_mask(o["batch"], keys)
    return inputs


def attention_inputs(o):
    inputs = {"query": torch.randn(o["batch"], o["heads"], o["query_length"], o["head_dim"]),
              "key": torch.randn(o["batch"], o["kv_heads"], o["key_length"], o["head_dim"]),
              "value": torch.randn(o["batch"], o["kv_heads"], o["key_length"], o["value_dim"])}
    if o.get("mask") == "bool":
        inputs["mask"] = random_mask(o["batch"], 1, o["query_length"], o["key_length"])
    if o.get("mask") == "float":
        inputs["mask"] = torch.randn(o["heads"], o["query_length"], o["key_length"])
    return inputs


def make_inputs(kind, o):
    """Random inputs in float32."""
    if kind == "schedule":
        return {}
    if kind == "multi_head_attention":
        return layer_inputs(o)
    if kind == "attention":
        return attention_inputs(o)
    if "d_model" in o:
        return transformer_inputs(kind, o)
    batch, length = o["batch"], o["length"]
    if kind == "embedding":
        indices = torch.randint(0, o["count"], (batch, length))
        indices[0, 0] = o.get("padding_index", 0)
        return {"indices": indices}
    if kind == "cross_entropy":
        targets = torch.randint(0, o["classes"], (batch, length))
        targets[0, 0] = o.get("ignore_index", 0)
        targets[0, 1] = 0
        return {"logits": 2 * torch.randn(batch, length, o["classes"]), "targets": targets}
    if kind == "matmul":
        return {"a": torch.randn(batch, 1, length, o["features"]), "b": torch.randn(2, o["features"], o["columns"])}
    return {"x": 2 * torch.randn(batch, length, o["in_features"] if kind == "linear" else o["features"])}


# ---- results ----

def run_layer(module, o, i):
    mask = i.get("mask")
    if o.get("causal", False):
        mask = causal_mask(o["query_length"])
    key = i.get("key", i["query"])
    output, weights = module(i["query"], key, i.get("value", key), key_padding_mask=i.get("padding"), attn_mask=mask,
                             need_weights=o.get("need_weights", False),
                             average_attn_weights=o.get("average_weights", False))
    return {"output": output} if weights is None else {"output": output, "weights": weights}


def run_transformer(kind, module, o, i):
    masks = {name: causal_mask(o[f"{name}_length"]) if o.get(f"{name}_causal", False) else i.get(f"{name}_mask")
             for name in ["source", "target"]}
    if kind in ["encoder_layer", "encoder"]:
        stack = {"mask" if kind == "encoder" else "src_mask": masks["source"]}
        return module(i["source"], src_key_padding_mask=i.get("source_padding"), **stack)
    common = {"tgt_mask": masks["target"], "memory_mask": i.get("memory_mask"),
              "tgt_key_padding_mask": i.get("target_padding"), "memory_key_padding_mask": i.get("memory_padding")}
    if kind == "transformer":
        return module(i["source"], i["target"], src_mask=masks["source"],
                      src_key_padding_mask=i.get("source_padding"), **common)
    return module(i["target"], i["memory"], **common)


def run_attention(o, i):
    return F.scaled_dot_product_attention(i["query"], i["key"], i["value"],
                                          attn_mask=~i["mask"] if o.get("mask") == "bool" else i.get("mask"),
                                          is_causal=o.get("causal", False), scale=o.get("scale"),
                                          enable_gqa=o["heads"] != o["kv_heads"])


def schedule_rates(o):
    """The rate after 0, 1, ..., steps calls of torch's scheduler."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=o["peak"])
    if o["schedule"] == "cosine":
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, o["steps"], eta_min=o["final_rate"])
    else:
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, o["final_rate"] / o["peak"], o["steps"])
    rates = [optimizer.param_groups[0]["lr"]]
    for _ in range(o["steps"]):
        optimizer.step()
        scheduler.step()
        rates.append(optimizer.param_groups[0]["lr"])
    return torch.tensor(rates, dtype=torch.float64)


def run(kind, module, o, i):
    """The results of a case by name."""
    if kind == "multi_head_attention":
        return run_layer(module, o, i)
    if "d_model" in o:
        return {"output": run_transformer(kind, module, o, i)}
    if kind == "attention":
        return {"output": run_attention(o, i)}
    if kind == "schedule":
        return {"output": schedule_rates(o)}
    if kind == "embedding":
        return {"output": module(i["indices"])}
    if kind == "matmul":
        return {"output": i["a"] @ i["b"]}
    if kind == "softmax":
        return {"output": (F.log_softmax if o.get("log", False) else F.softmax)(i["x"], dim=o["dim"])}
    if kind == "cross_entropy":
        loss = F.cross_entropy(i["logits"].flatten(0, 1), i["targets"].flatten(), reduction=o["reduction"],
                               ignore_index=o.get("ignore_index", -100),
                               label_smoothing=o.get("label_smoothing", 0.0))
        return {"output": loss.view(i["targets"].shape) if o["reduction"] == "none" else loss}
    y = i["x"] if kind == "activation" else module(i["x"])
    return {"output": activation_function(o["activation"])(y) if "activation" in o else y}


def optimizer_of(module, o):
    common = {name: o[name] for name in ["weight_decay"] if name in o}
    groups = [{"params": list(module.parameters())}]
    if o.get("groups", False):  # vectors: no decay, half the rate
        groups = [{"params": [p for p in module.parameters() if p.dim() > 1]},
                  {"params": [p for p in module.parameters() if p.dim() <= 1], "weight_decay": 0.0,
                   "lr": o["learning_rate"] * 0.5}]
    if o["optimizer"] == "sgd":
        return torch.optim.SGD(groups, lr=o["learning_rate"], momentum=o.get("momentum", 0.0),
                               dampening=o.get("dampening", 0.0), nesterov=o.get("nesterov", False), **common)
    betas = (o.get("beta1", 0.9), o.get("beta2", 0.999))
    made = torch.optim.Adam if o["optimizer"] == "adam" else torch.optim.AdamW
    return made(groups, lr=o["learning_rate"], betas=betas, eps=o.get("adam_epsilon", 1e-8),
                amsgrad=o.get("amsgrad", False), fused=True, **common)


def train(kind, module, o, inputs, target):
    """kSteps steps on the mean squared distance of the output from `target`; gives the loss before each."""
    optimizer = optimizer_of(module, o)
    losses = []
    for _ in range(kSteps):
        optimizer.zero_grad()
        loss = F.mse_loss(run(kind, module, o, inputs)["output"], target)
        loss.backward()
        if "clip" in o:
            nn.utils.clip_grad_norm_(module.parameters(), o["clip"])
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


class ReluMargin:
    """Watches how near to 0 the values come that go into a module's relu. Where they are nearer than rounding errors,
    the slope there is chance, and so are all gradients behind it."""
    kLeast = 1e-5  # float32 can tell a value of this size from 0

    def __init__(self, case, module):
        self.least = float("inf")
        if case.options.get("activation", "relu" if "d_model" in case.options else None) != "relu" or module is None:
            return
        for name, part in module.named_modules():
            if isinstance(part, nn.Linear) and (name == "" or name.endswith("linear1")):
                part.register_forward_hook(self.watch)

    def watch(self, module, inputs, output):
        self.least = min(self.least, output.detach().abs().min().item())

    def is_safe(self):
        return self.least > self.kLeast


def compute_watched(case, dtype, tensors):
    """All results of a case whose state, inputs and d_outputs are given by their names in the file, and the margin."""
    o = case.options
    part = lambda prefix: {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
    module = make_module(case.kind, o)
    if module is not None:
        module.to(dtype).train()
        module.load_state_dict(part("state."), strict=True)
    margin = ReluMargin(case, module)
    inputs = {name: t.to(dtype).clone().requires_grad_() if t.is_floating_point() else t
              for name, t in part("input.").items()}
    results = {}
    if "optimizer" in o:
        results["losses"] = train(case.kind, module, o, inputs, tensors["d_output.output"].to(dtype))
        results.update({f"after.{name}": t for name, t in module.state_dict().items()})
        return results, margin
    outputs = run(case.kind, module, o, inputs)
    results.update({f"output.{name}": t for name, t in outputs.items()})
    d_outputs = part("d_output.")
    if d_outputs:
        torch.autograd.backward([outputs[name] for name in d_outputs], [t.to(dtype) for t in d_outputs.values()])
        results.update({f"d_input.{name}": t.grad for name, t in inputs.items() if t.is_floating_point()})
        if module is not None:
            results.update({f"d_state.{name}": p.grad for name, p in module.named_parameters()})
    return results, margin


def compute(case, dtype, tensors):
    """The results of compute_watched() alone."""
    return compute_watched(case, dtype, tensors)[0]


def float32_is_enough(case, tensors):
    """Whether torch's own float32 comes to what its float64 says: elsewhere a comparison in float32 shows nothing."""
    exact, margin = compute_watched(case, torch.float64, tensors)
    rounded = compute(case, torch.float32, tensors)
    names = [name for name in exact if not name.endswith("in_proj_bias")]
    return margin.is_safe() and all(
        (rounded[name] - exact[name]).abs().max() <= 3e-6 * exact[name].abs().max().clamp(min=0.1) for name in names)


def prepare(case, seed):
    """State, inputs and d_outputs of a case, in float32, so that both dtypes start from the same numbers."""
    torch.manual_seed(zlib.crc32(f"{seed} {case.name}".encode()))
    tensors = {}
    module = make_module(case.kind, case.options)
    if module is not None:
        with torch.no_grad():  # copied layers and zero biases would hide mistakes; wide matrices would grow too much
            for parameter in module.parameters():
                width = parameter.shape[-1] if parameter.dim() > 1 else 1
                parameter += 0.2 * min(1.0, (8 / width) ** 0.5) * torch.randn(parameter.shape)
        tensors.update({f"state.{name}": t.clone() for name, t in module.state_dict().items()})
    inputs = make_inputs(case.kind, case.options)
    tensors.update({f"input.{name}": t for name, t in inputs.items()})
    if case.kind == "schedule":
        return tensors
    for name, t in run(case.kind, module, case.options, inputs).items():
        if name == "output" or case.options.get("weights_gradient", False):
            tensors[f"d_output.{name}"] = torch.randn(t.shape)
    return tensors


# ---- files ----

def metadata_of(case, dtype):
    values = {"kind": case.kind, "dtype": str(dtype).removeprefix("torch."), "torch": torch.__version__,
              **case.options}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}


def case_of(name, metadata):
    """The case that a file's metadata speak of."""
    texts = {"optimizer", "activation", "mask", "source_mask", "target_mask", "memory_mask", "reduction", "schedule"}
    options = {key: value if key in texts else json.loads(value) for key, value in metadata.items()
               if key not in {"kind", "dtype", "torch"}}
    return Case(name, metadata["kind"], options)
