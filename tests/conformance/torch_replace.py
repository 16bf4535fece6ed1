"""headway.torch.replace_attention: models of torch's layers compute and learn the same before and after it, and no
layer goes around Headway."""

import copy
import itertools
import pickle
import sys
import warnings

import torch
from torch import nn
from torch_suite import Suite, assert_close, raises

import headway
import headway.torch as ht

suite = Suite("torch replace_attention")
EMBED, HEADS = 8, 2


def models():
    """A model, its inputs, how often one forward attends, and the masks that it takes."""
    padding = torch.tensor([[False] * 4, [False, False, True, True]])
    causal = nn.Transformer.generate_square_subsequent_mask(4)
    encoder_masks = [
        {}, dict(src_key_padding_mask=padding), dict(mask=causal), dict(mask=causal, is_causal=True),
        dict(mask=causal.isinf(), src_key_padding_mask=padding),
    ]
    for batch_first, norm_first, bias in itertools.product((True, False), repeat=3):
        options = dict(batch_first=batch_first, norm_first=norm_first, bias=bias, dropout=0.0)
        x = torch.randn(2, 4, EMBED) if batch_first else torch.randn(4, 2, EMBED)

        def encoder(options=options, activation="relu"):
            layer = nn.TransformerEncoderLayer(EMBED, HEADS, 16, activation=activation, **options)
            return nn.TransformerEncoder(layer, 2)

        yield f"encoder {options}", encoder, (x,), 2, encoder_masks
        yield (
            f"transformer {options}", lambda options=options: nn.Transformer(EMBED, HEADS, 2, 2, 16, **options),
            (x, x.flip(0)), 6,
            [{}, dict(tgt_mask=causal), dict(src_key_padding_mask=padding, memory_key_padding_mask=padding,
                                             tgt_key_padding_mask=padding, tgt_mask=causal.isinf())],
        )


MODELS = {}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for model_name, *rest in models():
        MODELS[model_name] = rest


def make_models(name):
    make, inputs, calls, masks = MODELS[name]
    torch.manual_seed(6)
    theirs = make()
    return ht.replace_attention(copy.deepcopy(theirs)), theirs, inputs, calls, masks


@suite.case(name=list(MODELS))
def replaced_models_compute_the_same(name):
    mine, theirs, inputs, calls, all_masks = make_models(name)
    for masks, training, record in itertools.product(all_masks, (True, False), (True, False)):
        mine.train(training)
        theirs.train(training)
        with torch.set_grad_enabled(record):
            before = headway.call_count()
            got = mine(*inputs, **masks)
            assert headway.call_count() == before + calls, "a layer went around Headway"
            wanted = theirs(*inputs, **masks)
        seen = slice(None)
        if "src_key_padding_mask" in masks and not training and not record:
            # torch's nested tensors give zeros at padding, where a plain forward gives numbers.
            keep = ~masks["src_key_padding_mask"]
            seen = keep if is_batch_first(mine) else keep.T
        assert_close(got[seen], wanted[seen])


def is_batch_first(model):
    return next(layer for layer in model.modules() if isinstance(layer, nn.MultiheadAttention)).batch_first


@suite.case(name=list(MODELS))
def replaced_models_train_the_same(name):
    mine, theirs, inputs, _, masks = make_models(name)
    losses = []
    for model in (mine, theirs):
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        history = []
        for step in range(5):
            loss = (model(*inputs, **masks[step % len(masks)]) - inputs[-1]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss.item())
        losses.append(torch.tensor(history, dtype=torch.float64))
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-5)


@suite.case
def replaced_layers_stay_what_they_were():
    shared = nn.MultiheadAttention(EMBED, HEADS).double().eval()
    shared.in_proj_weight.requires_grad_(False)
    seen = []
    shared.register_forward_hook(lambda *_: seen.append("after"))
    shared.register_forward_pre_hook(lambda *_: seen.append("before"))
    model = nn.ModuleDict(dict(a=shared, b=nn.ModuleList([shared, nn.Linear(2, 2), nn.MultiheadAttention(4, 2)])))
    parameters = dict(model.named_parameters(remove_duplicate=False))
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1)
    assert ht.replace_attention(model) is model
    assert ht.replace_attention(model) is model  # twice does no harm
    assert type(model["a"]) is ht.MultiheadAttention and model["a"] is model["b"][0]
    assert type(model["b"][2]) is ht.MultiheadAttention
    assert not shared.training and model["b"][2].training
    after = dict(model.named_parameters(remove_duplicate=False))
    assert list(parameters) == list(after) and all(parameters[name] is after[name] for name in after)
    x = torch.randn(3, 1, EMBED, dtype=torch.float64)
    shared(x, x, x)[0].sum().backward()
    assert seen == ["before", "after"]
    assert shared.in_proj_weight.grad is None
    before = shared.out_proj.weight.clone()
    optimizer.step()
    assert not torch.equal(before, shared.out_proj.weight)
    alone = nn.MultiheadAttention(EMBED, HEADS)
    assert type(ht.replace_attention(alone)) is ht.MultiheadAttention


@suite.case
def replaced_models_can_be_copied_and_saved():
    layer = nn.TransformerEncoderLayer(EMBED, HEADS, 16, batch_first=True)
    model = ht.replace_attention(nn.TransformerEncoder(layer, 2)).eval()
    x, padding = torch.randn(2, 4, EMBED), torch.tensor([[False] * 4, [False, False, True, True]])
    with torch.no_grad():
        wanted = model(x, src_key_padding_mask=padding)
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            before = headway.call_count()
            assert torch.equal(other(x, src_key_padding_mask=padding), wanted)
            assert headway.call_count() == before + 2


@suite.case
def a_layer_put_in_by_hand_is_not_gone_around():
    layer = nn.TransformerEncoderLayer(EMBED, HEADS, 16, batch_first=True).eval()
    layer.self_attn = ht.MultiheadAttention(EMBED, HEADS, batch_first=True).eval()
    x = torch.randn(2, 4, EMBED)
    before = headway.call_count()
    with torch.no_grad():
        layer(x)
    assert headway.call_count() == before + 1


@suite.case(computes=False)
def what_cannot_be_replaced_is_said():
    class Special(nn.MultiheadAttention):
        pass

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = ht.replace_attention(nn.Sequential(Special(EMBED, HEADS)))
    assert type(model[0]) is Special and "Special stays as it is" in str(caught[0].message)
    with raises(TypeError, "expected a torch.nn.Module"):
        ht.replace_attention([model])


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=".*nested.*")
    warnings.filterwarnings("ignore", message=".*mismatched.*")
    sys.exit(suite.run())
