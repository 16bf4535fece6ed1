"""Random configurations of scaled_dot_product_attention and MultiheadAttention, Headway beside PyTorch.

Outputs, weights and all gradients must agree, or the kind of error. A failure is shrunk to a small case, and the line
that repeats it is printed.

torch_differential.py [--seed N] [--count N] [--case JSON]
"""

import argparse
import json
import random
import sys
import traceback
import warnings

import torch
from torch import nn
from torch.nn import functional
from torch_suite import TOLERANCES, gradients

import headway
import headway.torch as ht

DTYPES = dict(float64=torch.float64, float32=torch.float32, bfloat16=torch.bfloat16, float16=torch.float16)
# Gradients of 16-bit inputs are compared loosely: torch rounds in between where Headway does not.
GRADIENT_SLACK = dict(float64=10, float32=20, bfloat16=6, float16=10)
LAYER_SLACK = dict(float64=3, float32=3, bfloat16=5, float16=5)  # three roundings more than attention alone


def draw_attention(draw):
    """A call of scaled_dot_product_attention as plain values."""
    case = dict(
        kind="attention", dtype=draw.choices(list(DTYPES), (3, 6, 1, 1))[0], rank=draw.choice((2, 3, 4, 4, 4, 5)),
        queries=draw.choice((0, 1, 1, 2, 3, 5, 8, 17, 33, 70)), keys=draw.choice((0, 1, 2, 3, 5, 8, 17, 40, 130)),
        head_dim=draw.choice((1, 2, 3, 8, 16, 20, 64)), value_dim=draw.choice((0, 0, 0, 1, 5, 8, 40)),
        batch=draw.choice((1, 2, 3)), heads=draw.choice((1, 2, 4)), groups=1, mask="none", causal=False, scale=None,
        layout="plain", broadcast="none", weights=False, gradient=draw.random() < 0.6, seed=draw.randrange(2**31),
    )
    if draw.random() < 0.2 and case["rank"] >= 3:
        case["groups"] = draw.choice((1, 2, 4))
    if draw.random() < 0.3:
        case["causal"] = True
    elif draw.random() < 0.6:
        case["mask"] = draw.choice(("bool", "bool", "float", "learned", "infinite", "lowest", "float32"))
        # torch reads a float32 mask beside float64 wrongly, and loses the gradients of rows of the lowest number.
        if case["mask"] == "float32" and case["dtype"] == "float64":
            case["mask"] = "float"
        case["gradient"] = case["gradient"] and case["mask"] != "lowest"
    if draw.random() < 0.2:
        # torch's causal kernel gives NaN where the scale is not above 0.
        case["scale"] = draw.choice((0.1, 0.7, 1) if case["causal"] else (0.0, 0.1, 0.7, -0.5, 1))
    if draw.random() < 0.3:
        case["layout"] = draw.choice(("heads inside", "columns first", "strided", "expanded"))
    # Where nothing is to be computed torch gives the query's own shape, broadcast or not.
    if draw.random() < 0.15 and case["groups"] == 1 and case["queries"] and case["keys"]:
        case["broadcast"] = draw.choice(("query", "key", "value", "ranks"))
    case["weights"] = draw.random() < 0.3
    return case


def draw_layer(draw):
    """A layer and a call of it as plain values."""
    return dict(
        kind="layer", dtype=draw.choices(list(DTYPES), (4, 6, 1, 1))[0], heads=draw.choice((1, 2, 3, 4)),
        head_dim=draw.choice((1, 2, 4, 8, 16)), bias=draw.random() < 0.8, add_bias_kv=draw.random() < 0.2,
        add_zero_attn=draw.random() < 0.2, kdim=draw.choice((None, None, None, 5)),
        vdim=draw.choice((None, None, None, 7)), batch_first=draw.random() < 0.5, batched=draw.random() < 0.8,
        batch=draw.choice((1, 2, 3)), queries=draw.choice((1, 2, 3, 7, 20, 65)), keys=draw.choice((1, 2, 5, 9, 33, 80)),
        same=draw.choice(("query", "key", "none")), training=draw.random() < 0.5, need_weights=draw.random() < 0.5,
        average=draw.random() < 0.5, padding=draw.choice(("none", "none", "bool", "float")),
        mask=draw.choice(("none", "none", "bool2", "bool3", "float2", "float3", "causal")),
        gradient=draw.random() < 0.6, seed=draw.randrange(2**31),
    )


# ---- calls of scaled_dot_product_attention ----


def lay_out(x, layout):
    if layout == "heads inside" and x.dim() >= 3:
        return x.transpose(-3, -2).contiguous().transpose(-3, -2)
    if layout == "columns first":
        return x.mT.contiguous().mT
    if layout == "strided":
        return torch.stack([x, x], dim=-1)[..., 1]
    if layout == "expanded" and x.dim() >= 3 and x.size(0) > 0:
        return x[:1].expand(x.shape)
    return x


def make_mask(kind, lead, queries, keys, dtype, generator):
    """A mask of a random rank that leaves each query a key, unless it is to be infinite or the lowest number."""
    lead = lead[torch.randint(len(lead) + 1, (), generator=generator) :]
    shape = [size if torch.rand((), generator=generator) < 0.7 else 1 for size in lead] + [queries, keys]
    keep = torch.rand(shape, generator=generator) < 0.7
    if kind in ("bool", "infinite", "lowest"):
        if kind == "bool":
            return keep
        low = -float("inf") if kind == "infinite" else torch.finfo(dtype).min
        return torch.zeros(shape, dtype=dtype).masked_fill(~keep, low)
    mask = torch.randn(shape, generator=generator).to(torch.float32 if kind == "float32" else dtype)
    return mask.requires_grad_() if kind == "learned" else mask


def attention_call(case):
    """(positional arguments, keyword arguments, tensors that have gradients)"""
    generator = torch.Generator().manual_seed(case["seed"])
    dtype = DTYPES[case["dtype"]]
    lead = dict([(2, []), (3, [case["heads"]]), (4, [case["batch"], case["heads"]]),
                 (5, [2, case["batch"], case["heads"]])])[case["rank"]]
    fewer = lead[:-1] + [max(1, case["heads"] // case["groups"])] if lead else lead
    shapes = [
        [*lead, case["queries"], case["head_dim"]],
        [*fewer, case["keys"], case["head_dim"]],
        [*fewer, case["keys"], case["value_dim"] or case["head_dim"]],
    ]
    for place, name in enumerate(("query", "key", "value")):
        if case["broadcast"] == name and lead:
            shapes[place][0] = 1
        if case["broadcast"] == "ranks" and place and len(shapes[place]) > 2:
            shapes[place] = shapes[place][1:]
    leaves = [torch.randn(shape, generator=generator).to(dtype).requires_grad_(case["gradient"]) for shape in shapes]
    options = dict(is_causal=case["causal"], scale=case["scale"], enable_gqa=case["groups"] > 1)
    if case["mask"] != "none":
        options["attn_mask"] = make_mask(case["mask"], lead, case["queries"], case["keys"], dtype, generator)
    learned = [x for x in (*leaves, options.get("attn_mask")) if x is not None and x.requires_grad]
    return [lay_out(x, case["layout"]) for x in leaves], options, learned


def reference_weights(query, key, options):
    """The probabilities by torch's operations."""
    if options["enable_gqa"]:
        key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
    scale = query.size(-1) ** -0.5 if options["scale"] is None else options["scale"]
    scores = (query.double() @ key.double().mT) * scale
    if options["is_causal"]:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:]).tril().bool(), -float("inf"))
    mask = options.get("attn_mask")
    if mask is not None:
        scores = scores.masked_fill(~mask, -float("inf")) if mask.dtype == torch.bool else scores + mask.double()
    return scores.softmax(-1).nan_to_num().to(query.dtype)


def run_attention(case):
    inputs, options, learned = attention_call(case)
    wanted, error = attempt(lambda: functional.scaled_dot_product_attention(*inputs, **options))
    got, own_error = attempt(lambda: ht.scaled_dot_product_attention(*inputs, **options))
    compare_errors(own_error, error)
    if error is not None:
        return
    compare("output", got, wanted, case)
    if case["weights"] and case["broadcast"] == "none":
        both, weights = ht.scaled_dot_product_attention(*inputs, **options, return_weights=True)
        compare("output beside weights", both, wanted, case)
        if case["mask"] != "lowest":
            compare("weights", weights, reference_weights(*inputs[:2], options), case)
    compare_gradients([got], [wanted], learned, learned, case)


# ---- calls of the layer ----


def layer_call(case):
    """(Headway's layer, torch's layer, inputs, keyword arguments)"""
    dtype = DTYPES[case["dtype"]]
    width = case["heads"] * case["head_dim"]
    names = ("bias", "add_bias_kv", "add_zero_attn", "kdim", "vdim", "batch_first")
    layers = []
    for kind in (ht.MultiheadAttention, nn.MultiheadAttention):
        torch.manual_seed(case["seed"])
        layer = kind(width, case["heads"], dtype=dtype, **{name: case[name] for name in names})
        for parameter in layer.parameters():
            nn.init.normal_(parameter, std=width**-0.5)
        layers.append(layer.train(case["training"]))

    def make(length, size):
        x = torch.randn(case["batch"], length, size, dtype=dtype)
        x = x if case["batch_first"] else x.transpose(0, 1).contiguous()
        return (x if case["batched"] else x.select(0 if case["batch_first"] else 1, 0)).requires_grad_(case["gradient"])

    same = case["same"] if layers[0]._qkv_same_embed_dim else "none"
    query = make(case["queries"], width)
    key = query if same == "query" else make(case["keys"], case["kdim"] or width)
    value = key if same != "none" else make(case["keys"], case["vdim"] or width)
    keys = case["queries"] if same == "query" else case["keys"]
    return layers, [query, key, value], layer_masks(case, keys, dtype)


def layer_masks(case, keys, dtype):
    options = dict(need_weights=case["need_weights"], average_attn_weights=case["average"])
    batch = case["batch"] if case["batched"] else 1
    if case["padding"] != "none":
        padding = torch.rand(batch, keys) < 0.3
        padding[:, 0] = False
        if case["padding"] == "float":
            padding = torch.zeros(batch, keys, dtype=dtype).masked_fill(padding, -float("inf"))
        options["key_padding_mask"] = padding if case["batched"] else padding[0]
    if case["mask"] != "none":
        shape = (case["queries"], keys) if case["mask"][-1] != "3" else (batch * case["heads"], case["queries"], keys)
        mask = torch.rand(shape) < 0.3
        mask[..., 0] = False
        if case["mask"] == "causal":
            mask = torch.ones(shape).triu(1).bool()
            options["is_causal"] = True
        elif case["mask"].startswith("float"):
            mask = torch.randn(shape).to(dtype)
        options["attn_mask"] = mask
    return options


def run_layer(case):
    layers, inputs, options = layer_call(case)
    wanted, error = attempt(lambda: layers[1](*inputs, **options))
    got, own_error = attempt(lambda: layers[0](*inputs, **options))
    compare_errors(own_error, error)
    if error is not None:
        return
    slack = LAYER_SLACK[case["dtype"]]
    compare("output", got[0], wanted[0], case, slack)
    assert (got[1] is None) == (wanted[1] is None), "weights on one side only"
    if wanted[1] is None:
        got, wanted = got[:1], wanted[:1]
    else:
        compare("weights", got[1], wanted[1], case, slack)
    if case["gradient"]:
        unique = list({id(x): x for x in inputs}.values())
        # In 16 bits the long sums of the parameters' gradients are mostly rounding, on both sides.
        is_narrow = DTYPES[case["dtype"]].itemsize == 2
        sides = [unique if is_narrow else [*unique, *layer.parameters()] for layer in layers]
        compare_gradients(got, wanted, *sides, case)


# ---- comparing ----


def attempt(function):
    try:
        return function(), None
    except Exception as error:
        return None, error


def compare_errors(got, wanted):
    if wanted is None and got is not None:
        raise got
    assert wanted is None or got is not None, f"no error, torch has {type(wanted).__name__}: {wanted}"
    if wanted is not None:
        assert type(got) is type(wanted), f"{type(got).__name__}: {got}; torch has {type(wanted).__name__}: {wanted}"


def compare(name, got, wanted, case, slack=3):
    tolerances = {key: value * slack for key, value in TOLERANCES[DTYPES[case["dtype"]]].items()}
    torch.testing.assert_close(got, wanted, **tolerances, msg=lambda text: f"{name}: {text}")


def compare_gradients(got, wanted, my_inputs, their_inputs, case):
    if not my_inputs or not wanted[0].requires_grad:
        return
    pairs = zip(gradients(got, my_inputs), gradients(wanted, their_inputs), strict=True)
    for place, (mine, theirs) in enumerate(pairs):
        mine = torch.zeros_like(my_inputs[place]) if mine is None else mine
        theirs = torch.zeros_like(my_inputs[place]) if theirs is None else theirs
        size = max(1.0, theirs.abs().max().item() if theirs.numel() else 1.0)
        compare(f"gradient {place}", mine / size, theirs / size, case, GRADIENT_SLACK[case["dtype"]])


RUN = dict(attention=run_attention, layer=run_layer)


def failure_of(case):
    """The traceback of a case that fails, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            RUN[case["kind"]](case)
    except Exception:
        return traceback.format_exc()
    return None


# ---- shrinking ----

SIMPLE = dict(
    dtype="float64", rank=4, groups=1, mask="none", causal=False, scale=None, layout="plain", broadcast="none",
    weights=False, gradient=False, bias=False, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None,
    batch_first=True, batched=True, same="query", training=False, need_weights=False, average=True, padding="none",
    value_dim=0,
)
SIZES = ("batch", "heads", "queries", "keys", "head_dim", "value_dim")


def shrink(case):
    """A case that fails still, from which nothing can be taken and no size halved."""
    changed = True
    while changed:
        changed = False
        steps = [{name: SIMPLE[name]} for name in case if name in SIMPLE and case[name] != SIMPLE[name]]
        steps += [{name: case[name] // 2} for name in SIZES if case.get(name, 0) > 1]
        for step in steps:
            smaller = dict(case, **step)
            if failure_of(smaller):
                case, changed = smaller, True
                break
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="default: a random one, which is printed")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--case", help="run this one case, as a failure prints it")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    if flags.case:
        failure = failure_of(json.loads(flags.case))
        print(failure or "passed")
        return int(failure is not None)
    seed = random.SystemRandom().randrange(2**31) if flags.seed is None else flags.seed
    print(f"torch differential: seed {seed}")
    draw = random.Random(seed)
    failed = 0
    before = headway.call_count()
    for _ in range(flags.count):
        case = draw_attention(draw) if draw.random() < 0.6 else draw_layer(draw)
        if failure_of(case):
            failed += 1
            if failed <= 3:
                smaller = shrink(case)
                print(f"{failure_of(smaller)}repeat with: torch_differential.py --case '{json.dumps(smaller)}'")
    calls = headway.call_count() - before
    if calls < flags.count // 2:
        print(f"torch differential: Headway computed {calls} times only")
        failed += 1
    print(f"torch differential: {flags.count - failed} passed, {failed} failed, 0 skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
