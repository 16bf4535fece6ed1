"""The random numbers of examples/support/draws.h: a function of where they are used."""

import numpy


def mixed(x):
    """SplitMix64's step on an array of uint64."""
    with numpy.errstate(over="ignore"):
        x = x + numpy.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return x ^ (x >> numpy.uint64(31))


def numbers(seed, first, second, count):
    """The first `count` numbers of the streams (seed, first, second): [streams, count]; `second` may be an array."""
    with numpy.errstate(over="ignore"):
        key = mixed(mixed(numpy.array([seed], numpy.uint64)) + numpy.uint64(first))
        key = mixed(key + numpy.atleast_1d(second).astype(numpy.uint64))
        return mixed(key[:, None] + numpy.arange(count, dtype=numpy.uint64)[None, :])


def uniform(draws, low, high):
    return low + (high - low) * (draws >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53


def shuffled(count, seed, first, second):
    return numpy.argsort(numbers(seed, first, second, count)[0], kind="stable")


def groups(model, decay):
    """Matrices decay; biases, norms and vectors do not."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    return [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]


def learning_rate(step, steps, peak):
    """A cosine after a warm-up over the first twentieth; steps count from 1."""
    warmup = steps // 20
    if step <= warmup:
        return peak * step / warmup
    return peak * 0.5 * (1.0 + numpy.cos(numpy.pi * (step - warmup) / (steps - warmup)))
