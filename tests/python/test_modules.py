"""Layers, operations, optimizers and files from Python."""

import headway
import numpy as np
import pytest
import reference


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def test_linear():
    layer = headway.Linear(4, 3, activation="relu")
    weight, bias = (layer.state_dict()[name].detach().numpy() for name in ("weight", "bias"))
    x = normal(2, 5, 4)
    np.testing.assert_allclose(layer(x), np.maximum(x @ weight.T + bias, 0), atol=1e-6)
    assert isinstance(layer(x), np.ndarray) and layer.parameter_count() == 15


def project(state, x, heads):
    """Queries, keys and values [batch, heads, length, head_dim] of self-attention."""
    projected = x @ state["in_proj_weight"].T + state["in_proj_bias"]
    batch, length, _ = x.shape
    return [part.reshape(batch, length, heads, -1).swapaxes(1, 2) for part in np.split(projected, 3, -1)]


def test_multi_head_attention():
    layer = headway.MultiHeadAttention(embed_dim=16, num_heads=4, dtype="float64")
    state = {name: tensor.detach().numpy() for name, tensor in layer.state_dict().items()}
    x = normal(2, 5, 16, dtype=np.float64)
    drop = np.zeros((2, 5), bool)
    drop[1, 3:] = True
    output, weights = layer(x, causal="top_left", key_padding_mask=headway.Mask.drop(drop), return_weights=True)
    attended, expected, _ = reference.attention(
        *project(state, x, 4), causal="top_left", drop_mask=drop[:, None, None, :]
    )
    joined = attended.swapaxes(1, 2).reshape(2, 5, 16)
    np.testing.assert_allclose(weights, expected, atol=1e-12)
    np.testing.assert_allclose(output, joined @ state["out_proj.weight"].T + state["out_proj.bias"], atol=1e-12)
    _, mean = layer(x, return_weights="mean")
    assert mean.shape == (2, 5, 5)
    for lengths in ([5, 3], np.array([5, 3]), np.array([5, 3], np.int32), headway.tensor(np.array([5, 3]))):
        assert np.array_equal(layer(x, causal="top_left", key_lengths=lengths), output)
    assert np.array_equal(layer(x, key_lengths=4), layer(x, key_lengths=[4, 4]))
    with pytest.raises(TypeError, match="return_weights is of type int, expected True, False or \"mean\""):
        layer(x, return_weights=1)


def test_a_mask_of_three_dimensions_is_refused():
    layer = headway.MultiHeadAttention(embed_dim=16, num_heads=4, dtype="float64")
    x = normal(4, 5, 16, dtype=np.float64)
    keep = np.random.default_rng(1).random((4, 5, 5)) < 0.7
    keep[:, :, 0] = True
    with pytest.raises(ValueError, match="four dimensions"):
        layer(x, mask=headway.Mask.keep(keep))
    with pytest.raises(ValueError, match="four dimensions"):
        layer(x, bias=np.zeros((4, 5, 5)))
    by_entry, by_head = layer(x, mask=headway.Mask.keep(keep[:, None])), layer(x, mask=headway.Mask.keep(keep[None]))
    assert not np.allclose(by_entry, by_head)


def test_decoding_with_a_cache():
    layer = headway.MultiHeadAttention(embed_dim=8, num_heads=2, dtype="float64")
    x = normal(2, 6, 8, dtype=np.float64)
    whole = layer(x, causal="top_left")
    cache = headway.KeyValueCache()
    parts = [layer(x[:, i : i + 1], causal="top_left", cache=cache) for i in range(6)]
    assert len(cache) == 6 and cache.keys.shape == (2, 2, 6, 4)
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, atol=1e-12)


def test_state_goes_through_a_file(tmp_path):
    options = dict(d_model=16, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=32)
    model, other = headway.Transformer(**options), headway.Transformer(**options)
    model.eval()
    other.eval()
    source, target = normal(2, 5, 16), normal(2, 4, 16, seed=1)
    expected = model(source, target, target_causal="top_left")
    assert expected.shape == (2, 4, 16) and not np.array_equal(other(source, target), expected)
    path = tmp_path / "model.safetensors"
    headway.save_safetensors(path, model.state_dict(), {"format": "pt"})
    assert headway.SafeTensors.open(path).metadata() == {"format": "pt"}
    other.load_state_dict(headway.load_safetensors(path))
    assert np.array_equal(other(source, target, target_causal="top_left"), expected)


def test_arrays_as_state():
    layer = headway.Linear(2, 2)
    layer.load_state_dict({"weight": np.eye(2, dtype=np.float32), "bias": np.array([1, 2], np.float64)})
    np.testing.assert_allclose(layer(np.array([[3, 4]], np.float32)), [[4, 6]])
    with pytest.raises(ValueError, match="bias"):
        layer.load_state_dict({"weight": np.eye(2, dtype=np.float32)})
    with pytest.raises(ValueError):
        layer.load_state_dict({"weight": np.eye(3, dtype=np.float32), "bias": np.zeros(2, np.float32)})


@pytest.mark.parametrize("make", [headway.Sgd, headway.Adam, headway.AdamW])
def test_training(make):
    headway.set_random_seed(1)
    layer = headway.MultiHeadAttention(embed_dim=8, num_heads=2)
    optimizer = make(layer, learning_rate=0.02)
    x = headway.tensor(normal(2, 5, 8))
    target = headway.tensor(normal(2, 5, 8, seed=1))
    losses = []
    for _ in range(20):
        difference = headway.ops.sub(layer(x), target)
        loss = headway.ops.mean(headway.ops.mul(difference, difference))
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        headway.clip_gradient_norm(layer, 5.0)
        optimizer.step()
    assert optimizer.steps == 20 and losses[-1] < losses[0]
    with pytest.raises(ValueError, match="requires a gradient"):
        layer(x).numpy()


def test_operations():
    x, weight, bias = normal(3, 8), normal(8, seed=1), normal(8, seed=2)
    centred = x - x.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(headway.ops.layer_norm(x, weight, bias), expected, atol=2e-6)
    expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight
    np.testing.assert_allclose(headway.ops.rms_norm(x, weight, epsilon=1e-6), expected, atol=2e-6)
    exponentials = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(
        headway.ops.softmax(x), exponentials / exponentials.sum(-1, keepdims=True), atol=1e-6
    )
    targets = np.array([1, 0, 7])
    loss = -np.log(headway.ops.softmax(x)[np.arange(3), targets])
    np.testing.assert_allclose(headway.ops.cross_entropy(x, targets), loss.mean(), rtol=1e-5)
    np.testing.assert_allclose(headway.ops.cross_entropy(x, targets, reduction="none"), loss, rtol=1e-5)
    np.testing.assert_allclose(headway.ops.matmul(x, x.T), x @ x.T, atol=1e-5)
    assert np.array_equal(headway.ops.embedding(x, np.array([[2, 0]])), x[[[2, 0]]])
    np.testing.assert_allclose(headway.ops.rotary(x)[0], x[0], atol=1e-6)


def test_transformer_in_parts():
    model = headway.Transformer(
        d_model=8, nhead=2, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=16, dtype="float64"
    )
    model.eval()
    source, target = normal(2, 5, 8, dtype=np.float64), normal(2, 4, 8, seed=1, dtype=np.float64)
    drop = headway.Mask.drop(np.arange(5)[None] >= np.array([[5], [3]]))
    memory, weights = model.encoder(source, padding_mask=drop, return_weights=True)
    assert len(weights) == 2 and weights[0].shape == (2, 2, 5, 5) and not weights[1][1, :, :, 3:].any()
    whole = model(
        source, target, target_causal="top_left", source_padding_mask=drop, memory_padding_mask=drop
    )
    output, own, memories = model.decoder(
        target, memory, target_causal="top_left", memory_padding_mask=drop, return_weights=True
    )
    all_results = model(source, target, target_causal="top_left", source_lengths=[5, 3], return_weights="mean")
    assert [len(part) for part in all_results[1:]] == [2, 2, 2] and all_results[3][1].shape == (2, 4, 5)
    assert np.array_equal(all_results[0], whole)
    np.testing.assert_allclose(output, whole, atol=1e-12)
    assert [weight.shape for weight in own + memories] == [(2, 2, 4, 4)] * 2 + [(2, 2, 4, 5)] * 2
    cache = headway.DecoderCache()
    parts = [
        model.decoder.decode(target[:, i : i + 1], memory, cache, memory_lengths=[5, 3]) for i in range(4)
    ]
    assert len(cache) == 4
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, atol=1e-12)
    layer = headway.TransformerDecoderLayer(d_model=8, nhead=2, dtype="float64")
    layer.eval()
    assert layer(target, memory).shape == target.shape
    _, own, between = layer(target, memory, return_weights=True)
    assert own.shape == (2, 2, 4, 4) and between.shape == (2, 2, 4, 5)


def test_dropouts_of_a_transformer():
    model = headway.Transformer(
        d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16, dropout=0.0,
        attention_dropout=0.5,
    )
    source, target = normal(2, 5, 8), normal(2, 4, 8, seed=1)
    assert not np.array_equal(model(source, target), model(source, target))
    model.eval()
    assert np.array_equal(model(source, target), model(source, target))


def test_schedules():
    rate = headway.warmup_schedule(512, 4000)
    assert rate(4000) == pytest.approx(512**-0.5 * 4000**-0.5) and rate(1) < rate(4000) > rate(8000)
    for make in (headway.cosine_schedule, headway.linear_schedule):
        rate = make(1e-2, 100, warmup_steps=10, final_rate=1e-3)
        assert rate(10) == pytest.approx(1e-2) and rate(5) == pytest.approx(5e-3) and rate(100) == pytest.approx(1e-3)


def test_gradient_norms():
    layer = headway.Linear(3, 2)
    headway.ops.sum(layer(headway.tensor(np.ones((1, 3), np.float32)))).backward()
    total, layers, bad = headway.gradient_norms(layer)
    assert total == pytest.approx(8**0.5) and layers and bad == []
    assert headway.clip_gradient_norm(layer, 1.0) == pytest.approx(8**0.5)
    assert headway.gradient_norms(layer)[0] == pytest.approx(1.0)


def test_rotary_attention():
    layer = headway.MultiHeadAttention(embed_dim=8, num_heads=2, rotary=headway.RotaryOptions(base=100.0))
    x = normal(1, 5, 8)
    plain = headway.MultiHeadAttention(embed_dim=8, num_heads=2)
    plain.load_state_dict(layer.state_dict())
    assert layer(x).shape == x.shape and not np.allclose(layer(x), plain(x))


def test_layers_have_shapes():
    x = normal(2, 5, 8)
    layers = [
        headway.LayerNorm(8), headway.RmsNorm(8), headway.Dropout(0.1), headway.SinusoidalPositions(8),
        headway.LearnedPositions(8, max_length=10), headway.FeedForward(8, activation="silu", gated=True),
        headway.TransformerEncoder(d_model=8, nhead=2, num_layers=1, dim_feedforward=16),
        headway.TransformerEncoderLayer(d_model=8, nhead=2, norm_first=True, activation="gelu"),
    ]
    for layer in layers:
        layer.eval()
        assert isinstance(layer, headway.Module) and not layer.is_training
        assert layer(x).shape == x.shape and layer.forward(x).dtype == np.float32
    assert headway.Embedding(10, 8)(np.array([[1, 2, 3]])).shape == (1, 3, 8)


def test_bad_arguments():
    with pytest.raises(ValueError, match="embed_dim"):
        headway.MultiHeadAttention(embed_dim=10, num_heads=3)
    with pytest.raises(ValueError, match='Linear: activation is "swish"'):
        headway.Linear(2, 2, activation="swish")
    with pytest.raises(TypeError, match="forward: x is of type list"):
        headway.Linear(2, 2)([[1.0, 2.0]])
    with pytest.raises(ValueError):
        headway.Linear(2, 2)(normal(2, 3))
    with pytest.raises(TypeError, match="TransformerEncoder: there is no option layers"):
        headway.TransformerEncoder(layers=2)
    with pytest.raises(TypeError, match="Transformer: norm_first is of type int"):
        headway.Transformer(norm_first=1)
    with pytest.raises(FileNotFoundError, match="no_such_file"):
        headway.load_safetensors("no_such_file")


MASKED = np.tril(np.ones((4, 4), bool))


@pytest.mark.parametrize("mask", [MASKED, MASKED.astype(np.float32), MASKED.tolist(), headway.tensor(MASKED)])
def test_masks_without_a_meaning_are_refused(mask):
    x = normal(1, 4, 8)
    options = dict(d_model=8, nhead=2, dim_feedforward=16, dropout=0.0)
    attention = headway.MultiHeadAttention(8, 2)
    encoder = headway.TransformerEncoder(num_layers=1, **options)
    decoder = headway.TransformerDecoder(num_layers=1, **options)
    model = headway.Transformer(num_encoder_layers=1, num_decoder_layers=1, **options)
    calls = {
        "MultiHeadAttention: mask": lambda: attention(x, mask=mask),
        "MultiHeadAttention: key_padding_mask": lambda: attention(x, key_padding_mask=mask),
        "forward: mask": lambda: encoder(x, mask=mask),
        "forward: padding_mask": lambda: encoder(x, padding_mask=mask),
        "forward: target_mask": lambda: decoder(x, x, target_mask=mask),
        "forward: memory_mask": lambda: decoder(x, x, memory_mask=mask),
        "forward: target_padding_mask": lambda: decoder(x, x, target_padding_mask=mask),
        "forward: memory_padding_mask": lambda: decoder(x, x, memory_padding_mask=mask),
        "decode: memory_padding_mask": lambda: decoder.decode(
            x, x, headway.DecoderCache(), memory_padding_mask=mask
        ),
        "Transformer: source_mask": lambda: model(x, x, source_mask=mask),
        "Transformer: memory_padding_mask": lambda: model(x, x, memory_padding_mask=mask),
    }
    for argument, call in calls.items():
        with pytest.raises(TypeError, match=f"^{argument} is of type {type(mask).__name__}, expected headway.Mask.keep"):
            call()


def test_masks_of_a_model_are_refused_too():
    pytest.importorskip("headway._text")
    model = headway.TransformerModel.from_config(
        dict(model_type="gpt2", vocab_size=9, n_positions=8, n_embd=4, n_layer=1, n_head=2)
    )
    tokens = np.zeros((1, 4), np.int64)
    for call in (model, model.forward, lambda *a, **b: model.decode(*a, headway.ModelCache(), **b)):
        with pytest.raises(TypeError, match="padding_mask is of type ndarray, expected headway.Mask.keep"):
            call(tokens, padding_mask=MASKED[:1])


@pytest.mark.parametrize("make", [headway.Mask.keep, headway.Mask.drop])
@pytest.mark.parametrize("array", [MASKED.astype(np.int32), MASKED.astype(np.float32)])
def test_masks_are_boolean(make, array):
    with pytest.raises(TypeError, match="has dtype .*, expected bool"):
        make(array)


def test_a_mask_is_used():
    attention = headway.MultiHeadAttention(8, 2)
    attention.eval()
    x = normal(1, 4, 8)
    masked = attention(x, mask=headway.Mask.keep(MASKED))
    assert not np.allclose(masked, attention(x))
    assert np.array_equal(masked, attention(x, mask=headway.Mask.drop(~MASKED)))
