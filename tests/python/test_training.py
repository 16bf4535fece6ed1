"""headway.train(), and the operations that a loss is written with."""

import numpy
import pytest

import headway


def reversing(directory, steps, log=None):
    """Trains a linear layer towards a fixed matrix; gives (its weights, the report)."""
    headway.set_random_seed(3)
    layer = headway.Linear(4, 4)
    optimizer = headway.AdamW(layer, learning_rate=0.05)
    target = headway.tensor(numpy.eye(4, dtype=numpy.float32)[::-1].copy())

    def loss_of(step, part, index):
        x = headway.Tensor.randn([8, 4], seed=index)
        difference = layer(x) - x @ target
        return headway.ops.mean(difference * difference), 8

    report = headway.train(
        layer, optimizer, headway.cosine_schedule(0.05, steps=60), loss_of, steps=steps, directory=directory,
        checkpoint_every=10, log=log,
    )
    return {name: value.numpy().copy() for name, value in layer.state_dict().items()}, report


def test_resumed_run_ends_with_the_same_bits(tmp_path):
    whole, report = reversing(tmp_path / "whole", 60, tmp_path / "log.jsonl")
    assert report["first_step"] == 1 and report["last_step"] == 60 and report["loss"] < 0.1
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 60
    reversing(tmp_path / "parts", 30)
    resumed, report = reversing(tmp_path / "parts", 60)
    assert report["first_step"] == 31
    for name, value in whole.items():
        numpy.testing.assert_array_equal(value, resumed[name])


def test_errors_of_the_loss_come_through():
    layer = headway.Linear(2, 2)
    optimizer = headway.Sgd(layer)
    with pytest.raises(ZeroDivisionError):
        headway.train(layer, optimizer, lambda step: 0.1, lambda *position: 1 / 0, steps=1)
    with pytest.raises(TypeError, match="loss_of"):
        headway.train(layer, optimizer, lambda step: 0.1, lambda *position: 1.0, steps=1)


def test_callbacks():
    layer = headway.Linear(2, 2)
    seen = []
    report = headway.train(
        layer, headway.Sgd(layer), lambda step: 0.1,
        lambda *position: headway.ops.sum(layer(headway.Tensor.full([1, 2], 1.0))), steps=10, on_step=seen.append,
        should_stop=lambda: len(seen) == 3,
    )
    assert report["stopped"] and [step["step"] for step in seen] == [1, 2, 3]
    assert seen[0]["gradient_norm"] > 0 and seen[0]["layers"]


def test_operators_and_parts():
    a = headway.tensor(numpy.arange(6, dtype=numpy.float32).reshape(2, 3))
    b = headway.tensor(numpy.ones((2, 3), numpy.float32))
    numpy.testing.assert_array_equal((a + b).numpy(), a.numpy() + 1)
    numpy.testing.assert_array_equal((a - b).numpy(), a.numpy() - 1)
    numpy.testing.assert_array_equal((2 * a * b / 4).numpy(), a.numpy() / 2)
    numpy.testing.assert_array_equal((-a).numpy(), -a.numpy())
    with pytest.raises(TypeError):
        a + "1"
    x = a.numpy()
    numpy.testing.assert_array_equal(headway.ops.sum(x, [1]), x.sum(1))
    numpy.testing.assert_array_equal(headway.ops.mean(x, [0], keep_dims=True), x.mean(0, keepdims=True))
    parts = headway.ops.split(x, [1, 2], dim=1)
    numpy.testing.assert_array_equal(headway.ops.concat(parts, dim=1), x)
    assert headway.ops.sinusoidal_positions(3, 4, layout="halves").shape == (3, 4)
    kept = headway.ops.dropout(numpy.ones(1000, numpy.float32), 0.5, seed=1)
    assert set(numpy.unique(kept)) == {0.0, 2.0}


def test_master_weights():
    for kind in (headway.Sgd, headway.Adam, headway.AdamW):
        layer = headway.Linear(4, 4)
        exact = layer.state_dict()
        layer.to("bfloat16")
        assert "weight.master" not in kind(layer, master_weights=False).state_dict()
        optimizer = kind(layer, learning_rate=1e-5)
        optimizer.load_master_weights(exact)
        numpy.testing.assert_array_equal(optimizer.master_weights()["weight"].numpy(), exact["weight"].numpy())
        before = optimizer.master_weights()["weight"].numpy().copy()
        x = headway.Tensor.randn([8, 4], seed=1).to("bfloat16")
        headway.ops.mean(layer(x)).backward()
        optimizer.step()
        state = optimizer.state_dict()
        assert state["weight.master"].numpy().dtype == numpy.float32
        changed = optimizer.master_weights()["weight"].numpy()
        numpy.testing.assert_array_equal(state["weight.master"].numpy(), changed)
        assert (changed != before).any()
        other = kind(layer)
        other.load_state_dict(state)
        numpy.testing.assert_array_equal(other.master_weights()["weight"].numpy(), changed)
