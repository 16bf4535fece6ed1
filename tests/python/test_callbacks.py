"""Functions that Headway calls: what they return is checked, what they raise comes through, Ctrl-C ends the call."""

import os
import signal
import threading
import time
import traceback

import headway
import numpy as np
import pytest

TEXT_CONFIG = dict(model_type="gpt2", vocab_size=50, n_positions=512, n_embd=64, n_layer=2, n_head=2)


def train(schedule=lambda step: 0.1, loss_of=None, steps=2, **options):
    layer = headway.Linear(2, 2)
    loss_of = loss_of or (lambda *position: headway.ops.sum(layer(headway.Tensor.full([1, 2], 1.0))))
    return headway.train(layer, headway.Sgd(layer), schedule, loss_of, steps=steps, **options)


def ones():
    return headway.Tensor.full([1], 1.0)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(schedule=lambda step: "0.1"), "train: what schedule returned is of type str, expected a number"),
        (dict(schedule=lambda step: None), "train: what schedule returned is of type NoneType, expected a number"),
        (dict(schedule=0.1), "train: schedule is of type float, expected a function"),
        (dict(loss_of=lambda *position: "1"), "train: what loss_of gave is of type str, expected a headway.Tensor"),
        (dict(loss_of=lambda *position: ()), "train: what loss_of gave is of type tuple, expected a headway.Tensor"),
        (dict(loss_of=lambda *position: (ones(), "8")), "train: tokens is of type str, expected an integer"),
        (dict(loss_of=3), "train: loss_of is of type int, expected a function"),
        (dict(should_stop=lambda: "no"), "train: what should_stop returned is of type str, expected True or False"),
        (dict(should_stop=lambda: None), "train: what should_stop returned is of type NoneType"),
        (dict(should_stop=True), "train: should_stop is of type bool, expected a function"),
        (dict(on_step=[]), "train: on_step is of type list, expected a function"),
    ],
)
def test_wrong_results_of_training(options, message):
    with pytest.raises(TypeError, match=message):
        train(**options)


def test_numbers_and_flags_of_numpy():
    assert train(lambda step: np.float32(0.1), steps=3, should_stop=lambda: np.bool_(True))["last_step"] == 1
    assert train(lambda step: 1, steps=3, should_stop=lambda: np.bool_(False))["last_step"] == 3
    assert train(headway.cosine_schedule(0.1, steps=9))["last_step"] == 2


def broken(*arguments):
    raise KeyError("from the callback")


@pytest.mark.parametrize("name", ["schedule", "loss_of", "on_step", "should_stop"])
def test_errors_keep_their_traceback(name):
    with pytest.raises(KeyError, match="from the callback") as info:
        train(**{name: broken})
    assert "broken" in [frame.name for frame in traceback.extract_tb(info.value.__traceback__)]


@pytest.fixture(scope="module")
def writer():
    pytest.importorskip("headway._text")
    headway.set_random_seed(1)
    model = headway.TransformerModel.from_config(TEXT_CONFIG)
    model.eval()
    return headway.TextGenerator(model)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(on_token=lambda *token: "stop"), "generate: what on_token returned is of type str, expected True or False"),
        (dict(on_token=1), "generate: on_token is of type int, expected a function"),
        (dict(on_text="print"), "generate: on_text is of type str, expected a function"),
        (dict(on_attention=0, return_weights=True), "generate: on_attention is of type int, expected a function"),
        (dict(ignore_end="yes"), "generate: ignore_end is of type str, expected True or False"),
    ],
)
def test_wrong_results_of_generation(writer, options, message):
    with pytest.raises(TypeError, match=message):
        writer.generate([1, 2], max_new_tokens=3, **options)


def test_errors_of_generation(writer):
    with pytest.raises(KeyError, match="from the callback") as info:
        writer.generate([1, 2], max_new_tokens=3, on_token=broken)
    assert "broken" in [frame.name for frame in traceback.extract_tb(info.value.__traceback__)]
    with pytest.raises(UnicodeEncodeError):
        headway.TextTokenizer.from_json('{"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}').encode(
            "\ud800"
        )
    assert len(writer.generate([1, 2], max_new_tokens=3, ignore_end=True).tokens) == 3


class Interrupt:
    """Sends this process what Ctrl-C sends, a moment from now, and measures how long it takes to be raised."""

    def __enter__(self):
        self.sent = None
        self.before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs of a shell
        self.timer = threading.Timer(0.3, self.send)
        self.timer.start()
        return self

    def send(self):
        self.sent = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    def __exit__(self, kind, error, trace):
        self.timer.cancel()
        signal.signal(signal.SIGINT, self.before)
        assert kind is KeyboardInterrupt and time.monotonic() - self.sent < 2
        return True


@pytest.mark.parametrize(
    "options", [{}, dict(beams=4), dict(temperature=1.0, num_return=8), dict(no_repeat_ngram=3)], ids=str
)
def test_interrupted_generation(writer, options):
    prompts = [[i % 50, 2, 3] for i in range(2000)]
    with Interrupt():
        writer.generate(prompts, max_new_tokens=500, ignore_end=True, **options)
    assert len(writer.generate([1, 2], max_new_tokens=3, ignore_end=True).tokens) == 3


@pytest.mark.parametrize("sleeps", [None, "schedule", "loss_of", "on_step", "should_stop"])
def test_interrupted_training_loses_no_step(tmp_path, sleeps):
    steps = []
    layer = headway.Linear(2, 2)

    def sleep_in(name):
        if name == sleeps:
            time.sleep(0.001)

    def schedule(step):
        sleep_in("schedule")
        return 1e-6

    def on_step(report):
        steps.append(report["step"])
        sleep_in("on_step")

    def should_stop():
        sleep_in("should_stop")
        return False

    def loss_of(step, part, index):
        sleep_in("loss_of")
        return headway.ops.sum(layer(headway.Tensor.full([1, 2], 1.0)))

    def run(count):
        return headway.train(
            layer, headway.Sgd(layer), schedule, loss_of, steps=count, directory=tmp_path,
            checkpoint_every=10**9, on_step=on_step, should_stop=should_stop,
        )

    with Interrupt():
        run(10**9)
    last = steps[-1]
    weight = layer.state_dict()["weight"].numpy().copy()
    assert run(last + 2)["first_step"] in (last + 1, last + 2)  # the latter where on_step was cut short
    assert not np.array_equal(layer.state_dict()["weight"].numpy(), weight)
