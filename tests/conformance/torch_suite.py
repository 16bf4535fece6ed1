"""What the PyTorch suites share: cases that are counted, and that Headway must have computed."""

import contextlib
import sys
import traceback

import torch

import headway

TOLERANCES = {
    torch.float64: dict(rtol=1e-9, atol=1e-11),
    torch.float32: dict(rtol=1e-4, atol=2e-5),
    torch.float16: dict(rtol=5e-3, atol=5e-3),
    torch.bfloat16: dict(rtol=3e-2, atol=3e-2),
}


class Skip(Exception):
    """A case that cannot run here, and why."""


class Suite:
    """Collects cases by decorators, runs them, prints failures in detail and one line at the end."""

    def __init__(self, name):
        self.name = name
        self.cases = []

    def case(self, function=None, *, computes=True, **named_values):
        """A function as one case; with values=[...] one case for each of them. `computes` False where Headway need not
        compute anything, because an error is expected."""
        if function is None:
            return lambda wrapped: self.case(wrapped, computes=computes, **named_values)
        if not named_values:
            self.cases.append((function.__name__, function, {}, computes))
            return function
        (name, values), = named_values.items()
        for value in values:
            self.cases.append((f"{function.__name__}[{value}]", function, {name: value}, computes))
        return function

    def run(self):
        """Runs all cases; 0 where none failed, for sys.exit()."""
        torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other
        passed, failed, skipped = 0, 0, 0
        for name, function, arguments, computes in self.cases:
            before = headway.call_count()
            torch.manual_seed(0)
            try:
                function(**arguments)
                assert not computes or headway.call_count() > before, "Headway computed nothing"
                passed += 1
            except Skip as reason:
                print(f"{self.name}: {name}: skipped: {reason}")
                skipped += 1
            except Exception:
                print(f"{self.name}: {name}: FAILED\n{traceback.format_exc()}", file=sys.stderr)
                failed += 1
        print(f"{self.name}: {passed} passed, {failed} failed, {skipped} skipped")
        return int(failed > 0 or passed == 0)


@contextlib.contextmanager
def raises(kind, words):
    """The body must raise an error of this kind whose message has the words."""
    try:
        yield
    except kind as error:
        assert words in str(error), f"{error!r} does not say {words!r}"
    else:
        raise AssertionError("no error")


def assert_close(got, wanted, **tolerances):
    """Equal within what the dtype allows, shape and dtype included."""
    torch.testing.assert_close(got, wanted, **(tolerances or TOLERANCES[wanted.dtype]))


def outcome(function):
    """(result or None, the error's type and first line or None)"""
    try:
        return function(), None
    except Exception as error:
        return None, (type(error), str(error).splitlines()[0] if str(error) else "")


def assert_same_error(got_function, wanted_function, same_text=True):
    """Both raise; the same type, and the same text where wanted."""
    _, wanted = outcome(wanted_function)
    assert wanted is not None, "torch raises nothing"
    _, got = outcome(got_function)
    assert got is not None, f"no error, torch has {wanted}"
    assert got[0] is wanted[0], f"{got}, torch has {wanted}"
    assert not same_text or got[1] == wanted[1], f"{got}, torch has {wanted}"


def gradients(outputs, inputs):
    """Gradients of a weighted sum of all outputs."""
    total = 0
    for output in outputs:
        weight = torch.linspace(-1, 1, output.numel(), dtype=torch.float64, device=output.device).reshape(output.shape)
        total = total + (output.double() * weight).sum()
    return torch.autograd.grad(total, inputs, allow_unused=True, retain_graph=True)
