"""headway.torch.MultiheadAttention and multi_head_attention_forward beside PyTorch's own."""

import copy
import io
import itertools
import pickle
import sys
import warnings

import torch
from torch import nn
from torch.nn import functional
from torch_suite import Suite, assert_close, assert_same_error, gradients, raises

import headway
import headway.torch as ht

suite = Suite("torch modules")
BATCH, QUERIES, KEYS, EMBED, HEADS = 2, 3, 5, 8, 2
INF = float("inf")


def pair(seed=1, dtype=torch.float64, **options):
    """(Headway's, torch's) layer, made from the same seed."""
    layers = []
    for kind in (ht.MultiheadAttention, nn.MultiheadAttention):
        torch.manual_seed(seed)
        layers.append(kind(EMBED, HEADS, dtype=dtype, **options))
    for parameter in layers[1].parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter)  # biases begin at zero, where their gradients would tell little
    layers[0].load_state_dict(layers[1].state_dict())
    return layers


def inputs_of(layer, batched=True, self_attention=False, keys=KEYS):
    """Query, key, value in the layer's layout."""
    parameter = next(layer.parameters())

    def make(length, width):
        x = torch.randn(BATCH, length, width, dtype=parameter.dtype)
        x = x if layer.batch_first else x.transpose(0, 1).contiguous()
        return (x if batched else x[0] if layer.batch_first else x[:, 0].contiguous()).requires_grad_()

    query = make(QUERIES, EMBED)
    if self_attention:
        return query, query, query
    key = make(keys, layer.kdim)
    return query, key, key if layer.kdim == layer.vdim else make(keys, layer.vdim)


def compare_layers(layers, inputs, **options):
    """Outputs, weights, and the gradients of inputs and parameters."""
    before = headway.call_count()
    got = layers[0](*inputs, **options)
    assert headway.call_count() == before + 1, "not one call of Headway"
    wanted = layers[1](*inputs, **options)
    assert_close(got[0], wanted[0])
    assert (got[1] is None) == (wanted[1] is None)
    if wanted[1] is None:
        got, wanted = got[:1], wanted[:1]
    else:
        assert_close(got[1], wanted[1])
    unique = list({id(x): x for x in inputs}.values())
    mine = gradients(got, [*unique, *layers[0].parameters()])
    theirs = gradients(wanted, [*unique, *layers[1].parameters()])
    for one, other in zip(mine, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_close(one, other)


CONSTRUCTOR = [
    dict(bias=bias, add_bias_kv=bias_kv, add_zero_attn=zero, batch_first=first, **sizes)
    for bias, bias_kv, zero, first in itertools.product((True, False), repeat=4)
    for sizes in ({}, dict(kdim=5), dict(vdim=7), dict(kdim=5, vdim=5))
]


def mask_sets(batched):
    """Masks of every kind, as keyword arguments of forward()."""
    padding = torch.tensor([[False, False, True, False, True], [False, False, False, True, True]])
    float_padding = torch.zeros(BATCH, KEYS, dtype=torch.float64).masked_fill(padding, -INF)
    square = torch.triu(torch.ones(QUERIES, KEYS), 1).bool()
    count = HEADS * (BATCH if batched else 1)
    cube = torch.rand(count, QUERIES, KEYS) < 0.3
    cube[:, :, 0] = False
    numbers = torch.randn(count, QUERIES, KEYS, dtype=torch.float64)
    if not batched:
        padding, float_padding = padding[0], float_padding[0]
    return [
        {},
        dict(key_padding_mask=padding),
        dict(key_padding_mask=float_padding),
        dict(attn_mask=square),
        dict(attn_mask=numbers[0]),
        dict(attn_mask=cube),
        dict(attn_mask=numbers),
        dict(attn_mask=square, is_causal=True),
        dict(attn_mask=square, key_padding_mask=padding),
        dict(attn_mask=square, key_padding_mask=padding, is_causal=True),
        dict(attn_mask=numbers, key_padding_mask=float_padding),
        dict(attn_mask=numbers, key_padding_mask=padding),
        dict(attn_mask=cube, key_padding_mask=float_padding),
    ]


@suite.case(options=CONSTRUCTOR)
def every_constructor_option(options):
    layers = pair(**options)
    assert list(layers[0].state_dict()) == list(layers[1].state_dict())
    assert repr(layers[0]) == repr(layers[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Every mask with every kind of weights, batched and not by turns.
        for masks, weights in itertools.product(range(13), ("none", "mean", "each")):
            batched = (masks + len(weights)) % 2 == 0
            wanted = dict(need_weights=weights != "none", average_attn_weights=weights == "mean")
            compare_layers(layers, inputs_of(layers[0], batched), **mask_sets(batched)[masks], **wanted)
        if layers[0]._qkv_same_embed_dim:
            compare_layers(layers, inputs_of(layers[0], self_attention=True))
            query, key, _ = inputs_of(layers[0])
            compare_layers(layers, (query, key, key.detach().clone().requires_grad_()))


@suite.case(options=CONSTRUCTOR, computes=False)
def same_initial_values(options):
    layers = []
    for kind in (ht.MultiheadAttention, nn.MultiheadAttention):
        torch.manual_seed(11)
        layers.append(kind(EMBED, HEADS, **options))
    for (name, mine), (other, theirs) in zip(
        layers[0].state_dict().items(), layers[1].state_dict().items(), strict=True
    ):
        assert name == other and torch.equal(mine, theirs), name
    torch.manual_seed(12)
    layers[0]._reset_parameters()
    torch.manual_seed(12)
    layers[1]._reset_parameters()
    assert torch.equal(layers[0].out_proj.weight, layers[1].out_proj.weight)


@suite.case(dtype=[torch.float32, torch.float64, torch.bfloat16, torch.float16])
def training_and_evaluation_agree(dtype):
    for weights, masks in itertools.product((True, False), (0, 1, 3, 8)):
        layer = pair(dtype=dtype, batch_first=True)[0]
        inputs = inputs_of(layer)
        options = dict(mask_sets(True)[masks], need_weights=weights)
        trained = layer.train()(*inputs, **options)[0]
        assert torch.equal(trained, layer.eval()(*inputs, **options)[0])
        with torch.no_grad():
            assert torch.equal(trained, layer(*inputs, **options)[0])


@suite.case(dtype=[torch.float32, torch.bfloat16, torch.float16])
def narrow_dtypes(dtype):
    layers = pair(dtype=dtype, batch_first=True)
    inputs = inputs_of(layers[0])
    for got, wanted in zip(layers[0](*inputs), layers[1](*inputs)):
        assert_close(got, wanted)


@suite.case
def autocast():
    layers = pair(dtype=torch.float32, batch_first=True)
    inputs = inputs_of(layers[0])
    with torch.autocast("cpu", torch.bfloat16):
        for options in ({}, dict(need_weights=False), mask_sets(True)[8], dict(attn_mask=torch.randn(QUERIES, KEYS))):
            got, wanted = layers[0](*inputs, **options), layers[1](*inputs, **options)
            torch.testing.assert_close(got[0], wanted[0], rtol=5e-2, atol=5e-2)
            assert (got[1] is None) == (wanted[1] is None)
            if got[1] is not None:
                torch.testing.assert_close(got[1], wanted[1], rtol=5e-2, atol=5e-2, check_dtype=False)


@suite.case
def fully_masked_rows_give_the_bias_of_the_output():
    layer = pair(batch_first=True)[0]
    inputs = inputs_of(layer)
    masked = torch.zeros(QUERIES, KEYS, dtype=torch.bool)
    masked[1] = True
    for mask in (masked, torch.zeros(QUERIES, KEYS, dtype=torch.float64).masked_fill(masked, -INF)):
        output, weights = layer(*inputs, attn_mask=mask)
        assert_close(output[:, 1], layer.out_proj.bias.expand(BATCH, -1))
        assert not weights[:, 1].any()
        for gradient in gradients([output, weights], [inputs[0], *layer.parameters()]):
            assert gradient.isfinite().all()


@suite.case
def dropout():
    layer = ht.MultiheadAttention(32, 4, dropout=0.5, batch_first=True)
    x = torch.randn(2, 64, 32)
    torch.manual_seed(3)
    first, weights = layer(x, x, x)
    torch.manual_seed(3)
    assert torch.equal(first, layer(x, x, x)[0])
    assert not torch.equal(first, layer(x, x, x)[0])
    assert_close(weights, layer.eval()(x, x, x)[1])  # the weights are those before dropout
    assert torch.equal(layer(x, x, x)[0], layer(x, x, x)[0])
    mean = torch.stack([layer.train()(x, x, x)[0] for _ in range(300)]).mean(0)
    assert (mean - layer.eval()(x, x, x)[0]).abs().max() < 0.1


@suite.case
def dropout_of_everything():
    layers = pair(dropout=1.0)
    inputs = inputs_of(layers[0])
    assert_close(layers[0](*inputs)[0], layers[1](*inputs)[0])


@suite.case
def copies_and_pickles():
    for options in ({}, dict(add_bias_kv=True, add_zero_attn=True), dict(kdim=5, vdim=7, batch_first=True)):
        layer = pair(**options)[0].eval()
        inputs = inputs_of(layer)
        wanted = layer(*inputs)[0]
        stream = io.BytesIO()
        torch.save(layer, stream)
        stream.seek(0)
        copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), torch.load(stream, weights_only=False)]
        for other in copies:
            assert type(other) is ht.MultiheadAttention and not other.training
            assert torch.equal(other(*inputs)[0], wanted)
    theirs = nn.MultiheadAttention(EMBED, HEADS)
    theirs.load_state_dict(ht.MultiheadAttention(EMBED, HEADS).state_dict(), strict=True)


@suite.case
def noncontiguous_and_empty_inputs():
    for batch_first in (True, False):
        layers = pair(batch_first=batch_first)
        x = torch.randn(EMBED, 4, 6, dtype=torch.float64, requires_grad=True)
        view = x.permute(2, 1, 0)
        got, wanted = layers[0](view, view, view), layers[1](view, view, view)
        assert_close(got[0], wanted[0])
        assert_close(gradients(got, [x])[0], gradients(wanted, [x])[0])
        for shape in ((0, 3, EMBED), (3, 0, EMBED)):
            empty = torch.randn(shape, dtype=torch.float64)
            assert layers[0](empty, empty, empty, need_weights=False)[0].shape == shape


@suite.case
def a_mask_that_learns():
    layers = pair()
    inputs = inputs_of(layers[0])
    bias = torch.randn(BATCH * HEADS, QUERIES, KEYS, dtype=torch.float64, requires_grad=True)
    padding = torch.randn(BATCH, KEYS, dtype=torch.float64, requires_grad=True)
    results = [layer(*inputs, attn_mask=bias, key_padding_mask=padding) for layer in layers]
    for got, wanted in zip(*(gradients(result, (bias, padding)) for result in results)):
        assert_close(got, wanted)


@suite.case
def warns_as_torch():
    layers = pair()
    inputs = inputs_of(layers[0])
    texts = []
    for layer in layers:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            layer(*inputs, **mask_sets(True)[11])
        texts.append({str(warning.message) for warning in caught})
    assert texts[0] == texts[1] and texts[0], texts


# ---- errors ----

X = torch.randn(3, 2, EMBED)
FLAT = X[:, 0]
LONG = torch.randn(3, 2, EMBED + 1)
FORWARD_ERRORS = {
    "four dimensions": (X[None], X[None], X[None]),
    "one dimension": (X[0, 0], X[0, 0], X[0, 0]),
    "key of two dimensions": (X, X[0], X),
    "value of two dimensions": (X, X, X[0]),
    "unbatched query only": (X[:, 0], X, X),
    "width of the query": (LONG, X, X),
    "width of the key": (X, LONG, LONG),
    "lengths of key and value": (X, X, X[:2]),
    "batch of key and value": (X, X, X[:, :1]),
    "padding of one dimension": (X, X, X, dict(key_padding_mask=torch.zeros(3, dtype=torch.bool))),
    "padding of two dimensions, unbatched": (*[FLAT] * 3, dict(key_padding_mask=torch.zeros(1, 3, dtype=torch.bool))),
    "padding of another batch": (X, X, X, dict(key_padding_mask=torch.zeros(3, 3, dtype=torch.bool))),
    "padding of another length": (X, X, X, dict(key_padding_mask=torch.zeros(2, 4, dtype=torch.bool))),
    "padding of bytes": (X, X, X, dict(key_padding_mask=torch.zeros(2, 3, dtype=torch.uint8))),
    "mask of bytes": (X, X, X, dict(attn_mask=torch.zeros(3, 3, dtype=torch.uint8))),
    "mask of one dimension": (X, X, X, dict(attn_mask=torch.zeros(3, dtype=torch.bool))),
    "mask of four dimensions": (X, X, X, dict(attn_mask=torch.zeros(1, 1, 3, 3, dtype=torch.bool))),
    "mask of another size": (X, X, X, dict(attn_mask=torch.zeros(3, 4, dtype=torch.bool))),
    "mask of other heads": (X, X, X, dict(attn_mask=torch.zeros(3, 3, 3, dtype=torch.bool))),
    "mask of other heads, unbatched": (*[FLAT] * 3, dict(attn_mask=torch.zeros(3, 3, 3, dtype=torch.bool))),
    "is_causal alone": (X, X, X, dict(is_causal=True)),
    "is_causal alone, no weights": (X, X, X, dict(is_causal=True, need_weights=False)),
    "dtype of the input": (X.double(), X.double(), X.double()),
    "no value": (X, X),
    "an unknown name": (X, X, X, dict(mask=None)),
}


@suite.case(computes=False, name=list(FORWARD_ERRORS))
def forward_errors(name):
    given = FORWARD_ERRORS[name]
    *tensors, options = given if isinstance(given[-1], dict) else (*given, {})
    mine, theirs = pair(dtype=torch.float32)
    names_class = name in ("no value", "an unknown name")
    assert_same_error(lambda: mine(*tensors, **options), lambda: theirs(*tensors, **options), not names_class)


@suite.case(computes=False, arguments=[(0, 1), (8, 0), (-8, 2), (8, 3)])
def constructor_errors(arguments):
    assert_same_error(lambda: ht.MultiheadAttention(*arguments), lambda: nn.MultiheadAttention(*arguments))


# ---- the functional form ----


def functional_arguments(**changes):
    torch.manual_seed(4)
    weight, bias = torch.randn(3 * EMBED, EMBED), torch.randn(3 * EMBED)
    arguments = dict(
        query=torch.randn(QUERIES, BATCH, EMBED), key=torch.randn(KEYS, BATCH, EMBED),
        value=torch.randn(KEYS, BATCH, EMBED), embed_dim_to_check=EMBED, num_heads=HEADS, in_proj_weight=weight,
        in_proj_bias=bias, bias_k=None, bias_v=None, add_zero_attn=False, dropout_p=0.0,
        out_proj_weight=torch.randn(EMBED, EMBED), out_proj_bias=torch.randn(EMBED),
    )
    arguments.update(changes)
    for name, x in arguments.items():
        if isinstance(x, torch.Tensor) and x.is_floating_point():
            arguments[name] = x.double()
    return arguments


ROW = torch.randn(1, 1, EMBED)
STATIC = torch.randn(BATCH * HEADS, 6, EMBED // HEADS)
SEPARATE = dict(
    use_separate_proj_weight=True, in_proj_weight=None, q_proj_weight=torch.randn(EMBED, EMBED),
    k_proj_weight=torch.randn(EMBED, 5), v_proj_weight=torch.randn(EMBED, 7), key=torch.randn(KEYS, BATCH, 5),
    value=torch.randn(KEYS, BATCH, 7),
)
FUNCTIONAL = {
    "plain": {},
    "no biases": dict(in_proj_bias=None, out_proj_bias=None),
    "no weights": dict(need_weights=False),
    "weights of each head": dict(average_attn_weights=False),
    "evaluation": dict(training=False, dropout_p=0.5),
    "key biases": dict(bias_k=ROW, bias_v=-ROW),
    "zero attention": dict(add_zero_attn=True),
    "both": dict(bias_k=ROW, bias_v=-ROW, add_zero_attn=True),
    "static keys": dict(static_k=STATIC[:, :KEYS]),
    "static values": dict(static_v=STATIC[:, :KEYS]),
    "static": dict(static_k=STATIC, static_v=-STATIC),
    "static, zero attention": dict(static_k=STATIC, static_v=-STATIC, add_zero_attn=True, need_weights=False),
    "separate": SEPARATE,
    "separate, no bias": dict(SEPARATE, in_proj_bias=None),
    "separate, key biases": dict(SEPARATE, bias_k=ROW, bias_v=-ROW),
    "causal": dict(is_causal=True, attn_mask=torch.triu(torch.ones(QUERIES, KEYS), 1).bool(), need_weights=False),
    "causal with weights": dict(is_causal=True, attn_mask=torch.triu(torch.ones(QUERIES, KEYS), 1).bool()),
    "causal, key biases": dict(
        is_causal=True, attn_mask=torch.triu(torch.ones(QUERIES, KEYS), 1).bool(), need_weights=False, bias_k=ROW,
        bias_v=-ROW,
    ),
    "masks, key biases": dict(
        attn_mask=torch.randn(BATCH * HEADS, QUERIES, KEYS), key_padding_mask=torch.randn(BATCH, KEYS), bias_k=ROW,
        bias_v=-ROW, add_zero_attn=True,
    ),
    "unbatched": dict(query=torch.randn(QUERIES, EMBED), key=torch.randn(KEYS, EMBED), value=torch.randn(KEYS, EMBED)),
}
FUNCTIONAL_ERRORS = {
    "a key bias alone": dict(bias_k=ROW),
    "a value bias alone": dict(bias_v=ROW),
    "key biases with static keys": dict(bias_k=ROW, bias_v=ROW, static_k=STATIC),
    "key biases with static values": dict(bias_k=ROW, bias_v=ROW, static_v=STATIC),
    "static heads": dict(static_k=STATIC[:3], static_v=STATIC[:3]),
    "static width": dict(static_v=STATIC[:, :KEYS, :3]),
    "no weight": dict(in_proj_weight=None),
    "separate without weights": dict(use_separate_proj_weight=True),
    "separate without a key weight": dict(SEPARATE, k_proj_weight=None),
    "separate without a value weight": dict(SEPARATE, v_proj_weight=None),
    "separate, wrong query weight": dict(SEPARATE, q_proj_weight=torch.randn(EMBED, 5)),
    "separate, wrong key weight": dict(SEPARATE, k_proj_weight=torch.randn(EMBED, 6)),
    "separate, wrong value weight": dict(SEPARATE, v_proj_weight=torch.randn(EMBED, 6)),
    "separate, lengths": dict(SEPARATE, value=torch.randn(KEYS + 1, BATCH, 7)),
    "embedding": dict(embed_dim_to_check=EMBED + 1),
    "heads": dict(num_heads=3),
    "the hint alone": dict(is_causal=True),
}


@suite.case(name=list(FUNCTIONAL))
def functional_form(name):
    arguments = functional_arguments(**FUNCTIONAL[name])
    tensors = [x.requires_grad_() for x in arguments.values() if isinstance(x, torch.Tensor) and x.is_floating_point()]
    got = ht.multi_head_attention_forward(**arguments)
    wanted = functional.multi_head_attention_forward(**arguments)
    assert_close(got[0], wanted[0])
    assert (got[1] is None) == (wanted[1] is None)
    if got[1] is not None:
        assert_close(got[1], wanted[1])
    for g, w in zip(gradients([got[0]], tensors), gradients([wanted[0]], tensors)):
        if w is None:
            assert g is None or not g.any()
        else:
            assert_close(torch.zeros_like(w) if g is None else g, w)


@suite.case(computes=False, name=list(FUNCTIONAL_ERRORS))
def functional_errors(name):
    arguments = functional_arguments(**FUNCTIONAL_ERRORS[name])
    assert_same_error(
        lambda: ht.multi_head_attention_forward(**arguments),
        lambda: functional.multi_head_attention_forward(**arguments),
    )


@suite.case(computes=False)
def signatures():
    import inspect

    for mine, theirs in (
        (ht.multi_head_attention_forward, functional.multi_head_attention_forward),
        (ht.MultiheadAttention.__init__, nn.MultiheadAttention.__init__),
        (ht.MultiheadAttention.forward, nn.MultiheadAttention.forward),
    ):
        parameters = [inspect.signature(function).parameters.values() for function in (mine, theirs)]
        for one, other in zip(*parameters, strict=True):
            assert (one.name, one.default, one.kind) == (other.name, other.default, other.kind)


# ---- torch.compile ----


@suite.case(backend=["eager", "aot_eager"])
def compiled(backend):
    torch._dynamo.reset()
    layer = pair(dtype=torch.float32, batch_first=True)[0]
    run = torch.compile(layer, backend=backend, fullgraph=True)
    inputs = inputs_of(layer)
    for options in ({}, dict(need_weights=False), mask_sets(True)[8]):
        got, wanted = run(*inputs, **options), layer(*inputs, **options)
        assert_close(got[0], wanted[0])
        parameters = list(layer.parameters())
        for g, w in zip(gradients([got[0]], parameters), gradients([wanted[0]], parameters)):
            assert_close(g, w)


@suite.case(computes=False)
def nested_tensors_are_refused():
    layer = ht.MultiheadAttention(EMBED, HEADS, batch_first=True).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([torch.randn(3, EMBED), torch.randn(2, EMBED)])
    with raises(AssertionError, "does not support NestedTensor"):
        layer(nested, nested, nested)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=".*mismatched.*")
    sys.exit(suite.run())
