#!/usr/bin/env python3
"""Loads what Headway's modules saved into torch's and compares: python check_state_dicts.py DIRECTORY...

Each file of a directory is a case (see compute.py) with Headway's own weights and results. torch must take the state
dict as it is (strict), and give the same outputs, gradients and parameters after training: within 1e-5 (float32) or
1e-10 (float64) of the tensor's largest magnitude. DIRECTORY/initial holds the initial weights of many modules of a
kind, whose distribution must be that of torch's.
"""

import argparse
import pathlib
import sys

import numpy
import torch
from safetensors import safe_open

import compute

kTolerance = {"float32": 1e-5, "float64": 1e-10}
kSmallest = 0.1  # magnitudes count as this at least: what cancels keeps the rounding errors of its terms
kGiven = ("state.", "input.", "d_output.")


def read(path):
    with safe_open(path, framework="pt") as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}


def without_keys_bias(name, tensor, options):
    """The same added to all keys changes no softmax: the keys' bias has a gradient of rounding errors, which Adam makes
    steps of full size. It is left out there, unless bias_k is one more key that has it not."""
    if options.get("optimizer", "sgd") == "sgd" or options.get("add_bias_kv") or not name.endswith("in_proj_bias"):
        return tensor
    third = len(tensor) // 3
    return torch.cat([tensor[:third], tensor[2 * third:]])


def check_case(path):
    """What is wrong with a file, and how many tensors were compared; no gradients where float32 cannot tell them."""
    metadata, tensors = read(path)
    case = compute.case_of(path.stem, metadata)
    wanted = compute.compute(case, getattr(torch, metadata["dtype"]), tensors)
    actual = {name: t for name, t in tensors.items() if not name.startswith(kGiven)}
    if set(actual) != set(wanted):
        return [f"results differ in {sorted(set(actual) ^ set(wanted))}"], 0
    if metadata["dtype"] == "float32" and not compute.float32_is_enough(case, tensors):
        print(f"{path.stem}: outputs alone are compared, float32 cannot tell the gradients")
        wanted = {name: t for name, t in wanted.items() if name.startswith("output.")}
    wrong = []
    for name, expected in wanted.items():
        if actual[name].shape != expected.shape:
            wrong.append(f"{name} is {tuple(actual[name].shape)}, torch gives {tuple(expected.shape)}")
            continue
        a = without_keys_bias(name, actual[name], case.options).double()
        e = without_keys_bias(name, expected.detach(), case.options).double()
        allowed = kTolerance[metadata["dtype"]] * max(kSmallest, e.abs().max().item())
        difference = (a - e).abs().max().item()
        if not difference <= allowed:
            wrong.append(f"{name} differs by {difference:.3g}, allowed {allowed:.3g}")
    return wrong, len(wanted)


def same_distribution(ours, theirs):
    """What tells two samples apart, or None: a Kolmogorov-Smirnov test that fails by chance once in 100,000 runs, and
    the ends of a uniform distribution."""
    both = numpy.sort(numpy.concatenate([ours, theirs]))
    shares = [numpy.searchsorted(numpy.sort(x), both, side="right") / len(x) for x in (ours, theirs)]
    distance = numpy.abs(shares[0] - shares[1]).max()
    limit = 2.47 * numpy.sqrt(1 / len(ours) + 1 / len(theirs))
    if distance > limit:
        return (f"distributions are {distance:.3g} apart, allowed {limit:.3g}; standard deviations {ours.std():.4g} "
                f"and {theirs.std():.4g}")
    kurtosis = ((theirs - theirs.mean()) ** 4).mean() / theirs.var() ** 2
    if kurtosis < 1.9:  # uniform; normal has 3
        slack = 30 / min(len(ours), len(theirs))  # of the range: this far from an end lie 30 of all numbers
        for end in (numpy.min, numpy.max):
            if abs(end(ours) - end(theirs)) > slack * numpy.ptp(theirs):
                return f"one ends at {end(ours):.5g}, torch's at {end(theirs):.5g}"
    return None


def check_initial(path):
    """What is wrong with the initial weights of a kind, and how many parameters were compared."""
    metadata, tensors = read(path)
    texts = {**metadata, "dtype": "float32", "torch": ""}
    case = compute.case_of(path.stem, texts)
    count = 1 + max(int(name.split(".", 1)[0]) for name in tensors)
    modules = [compute.make_module(case.kind, case.options).state_dict() for _ in range(count)]
    if {f"{i}.{name}" for i in range(count) for name in modules[0]} != set(tensors):
        return ["state dicts have other names than torch's"], 0
    wrong = []
    for name in modules[0]:
        ours = [tensors[f"{i}.{name}"].flatten().numpy() for i in range(count)]
        theirs = [m[name].flatten().numpy() for m in modules]
        if all(numpy.array_equal(t, theirs[0]) for t in theirs):
            if not all(numpy.array_equal(t, theirs[0]) for t in ours):
                wrong.append(f"{name} is not constant, as torch's is")
            continue
        if any(numpy.array_equal(a, ours[0]) for a in ours[1:]):
            wrong.append(f"{name} is the same in two modules")
        if "padding_index" in case.options and (numpy.stack(ours) == 0).sum() < count * case.options["features"]:
            wrong.append(f"{name}: the padding row is not zero")
        found = same_distribution(numpy.concatenate(ours), numpy.concatenate(theirs))
        if found:
            wrong.append(f"{name}: {found}")
    return wrong, len(modules[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    counts = {check_case: [0, 0], check_initial: [0, 0]}  # files, tensors
    failed = 0
    for check, pattern in [(check_case, "*.safetensors"), (check_initial, "initial/*.safetensors")]:
        for path in [p for directory in arguments.directories for p in sorted(directory.glob(pattern))]:
            try:
                wrong, compared = check(path)
            except Exception as error:  # a state dict that torch refuses, for one
                wrong, compared = [f"{type(error).__name__}: {error}"], 0
            for line in wrong:
                print(f"{path}: {line}")
            failed += bool(wrong)
            counts[check][0] += 1
            counts[check][1] += compared
    files = [counts[check][0] for check in counts]
    if 0 in files:
        sys.exit(f"check_state_dicts: nothing to compare in {', '.join(map(str, arguments.directories))}")
    (modules, tensors), (kinds, parameters) = counts.values()
    print(f"Headway modules in torch, {modules} modules with {tensors} tensors, initial weights of {kinds} kinds with "
          f"{parameters} parameters: {sum(files) - failed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
