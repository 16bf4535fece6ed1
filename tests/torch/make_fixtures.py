#!/usr/bin/env python3
"""Writes what PyTorch computes for every case, one small safetensors file each: python make_fixtures.py DIRECTORY.

tests/fixtures holds the files of the default seed and sizes; the tests compare Headway with them. Run it again, with
torch 2.13 and safetensors, when cases.py or compute.py changes; the same seed gives the same bytes. State and inputs
are float32, results are what torch computes from them in float64, so that one file is the truth for both dtypes; files
named *_float32 hold what torch computes in float32. With --drawn-sizes the sizes follow from the seed, and every case
is written in both dtypes.
"""

import argparse
import json
import pathlib

import torch
from safetensors.torch import save_file

import cases
import compute


def sort_metadata(path):
    """safetensors writes metadata in an order of chance; files that change without a reason are a nuisance."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode().ljust(end - 8)
    assert len(text) == end - 8
    path.write_bytes(content[:8] + text + content[end:])


def prepare(case, seed):
    """What is given, drawn again until float32 can tell its results."""
    for attempt in range(100):
        given = compute.prepare(case, f"{seed} {attempt}" if attempt else seed)
        if compute.float32_is_enough(case, given):
            return given
        print(f"{case.name}: drawn again, float32 cannot tell the results")
    raise SystemExit(f"{case.name}: float32 cannot tell the results of any draw")


def write(directory, case, dtype, given):
    tensors = {**given, **compute.compute(case, dtype, given)}
    for name, t in tensors.items():
        if t.is_floating_point() and not torch.isfinite(t).all():
            raise SystemExit(f"{case.name}: {name} is not finite")
    suffix = "_float32" if dtype == torch.float32 else ""
    path = directory / f"{case.name}{suffix}.safetensors"
    save_file({name: t.detach().contiguous() for name, t in tensors.items()}, path,
              metadata=compute.metadata_of(case, dtype))
    sort_metadata(path)
    path.chmod(0o644)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--drawn-sizes", action="store_true")
    arguments = parser.parse_args()

    torch.set_num_threads(1)  # the same sums on every machine
    arguments.directory.mkdir(parents=True, exist_ok=True)
    for old in arguments.directory.glob("*.safetensors"):
        old.unlink()
    sizes = cases.Sizes.drawn(arguments.seed) if arguments.drawn_sizes else cases.Sizes()
    count = 0
    for case in cases.all_cases(sizes):
        given = prepare(case, arguments.seed)
        write(arguments.directory, case, torch.float64, given)
        count += 1
        if case.kind != "schedule" and (case.in_float32 or arguments.drawn_sizes):
            write(arguments.directory, case, torch.float32, given)
            count += 1
    print(f"{count} files in {arguments.directory}, seed {arguments.seed}, {sizes}")


if __name__ == "__main__":
    main()
