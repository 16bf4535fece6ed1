#!/usr/bin/env python3
"""Checks that the tuned CUDA kernels keep their numbers in registers and their matrix products in flight.

  check_cuda_resources.py libheadway_cuda.so    asks cuobjdump, where it is installed
  check_cuda_resources.py build.log ...         reads what ptxas -v printed; which reports serialized products too"""

import dataclasses
import pathlib
import re
import shutil
import subprocess
import sys

ARCHITECTURES = ("sm_90a", "sm_90")
# Mangled names of the kernels that may not spill: what the benchmarks are about, which is attention in full and causal,
# and the steps of decoding. The others have options that cost more registers, and may spill a little.
TUNED = (
    r"hopper_forward_kernel.*Li(64|128|256)ELi[01]ELb[01]E",  # ForwardShape<T, dimension, rules, short>
    r"hopper_float_(forward|backward)_kernel",
    r"backward_kernel.*BackwardTiles.*Li(64|128|256)EL.*BackwardRulesE[01]E",  # <T, dimension, rules, ordered>
    r"step_product_cu.*product_kernel",
    r"mma_step_attention_kernel",
)


@dataclasses.dataclass
class Kernel:
    name: str
    registers: int
    stack_bytes: int
    spill_bytes: int

    @property
    def tuned(self):
        return any(re.search(pattern, self.name) for pattern in TUNED)


def kernels_of_log(text):
    """The kernels in the output of ptxas -v."""
    pattern = re.compile(
        r"Compiling entry function '(?P<name>\S+)' for '(?P<architecture>\w+)'.*?"
        r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
        r"Used (?P<registers>\d+) registers",
        re.DOTALL,
    )
    return [
        Kernel(m["name"], int(m["registers"]), int(m["stack"]), int(m["stores"]) + int(m["loads"]))
        for m in pattern.finditer(text)
        if m["architecture"] in ARCHITECTURES
    ]


def serialized_of_log(text):
    """The lines in which ptxas says that products of matrices wait for each other."""
    return [line.strip() for line in text.splitlines() if "serialized" in line and "wgmma" in line]


def kernels_of_library(library):
    """The kernels in a library, as cuobjdump lists them; it does not distinguish spills from other local memory."""
    listing = subprocess.run(
        ["cuobjdump", "--dump-resource-usage", library], check=True, capture_output=True, text=True
    ).stdout
    kernels = []
    architecture, name = "", ""
    for line in listing.splitlines():
        if match := re.match(r"\s*arch = (\w+)", line):
            architecture = match[1]
        elif match := re.match(r"\s*Function (\S+):", line):
            name = match[1]
        elif (match := re.match(r"\s*REG:(\d+) STACK:(\d+) .*?LOCAL:(\d+)", line)) and architecture in ARCHITECTURES:
            kernels.append(Kernel(name, int(match[1]), int(match[2]), int(match[3])))
    return kernels


def short_name(kernel):
    """The name with its template arguments, where c++filt is installed."""
    if shutil.which("c++filt") is None:
        return kernel.name
    words = subprocess.run(["c++filt", kernel.name], check=True, capture_output=True, text=True).stdout.strip()
    return words.replace("headway::v0::internal::cuda::", "").removeprefix("void ").split("(")[0]


def report(kernels, serialized):
    """Prints what is wrong, and the number of kernels; the exit status."""
    tuned = [kernel for kernel in kernels if kernel.tuned]
    bad = [kernel for kernel in tuned if kernel.stack_bytes > 0 or kernel.spill_bytes > 0]
    for kernel in bad:
        print(
            f"spills: {short_name(kernel)}: {kernel.spill_bytes} bytes, stack {kernel.stack_bytes} bytes, "
            f"{kernel.registers} registers"
        )
    for line in serialized:
        print(f"serialized: {line}")
    if not kernels and not serialized:
        print("resources: nothing was compiled")
        return 0
    if not tuned:
        print("resources: no tuned kernel was found: the names in TUNED are not those of the sources")
    others = sum(1 for kernel in kernels if not kernel.tuned and kernel.spill_bytes > 0)
    print(
        f"resources: {len(tuned)} tuned kernels for Hopper, {len(bad)} spill; of {len(kernels) - len(tuned)} "
        f"others {others}; {len(serialized)} serialized"
    )
    return 1 if bad or serialized or not tuned else 0


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    kernels, serialized = [], []
    for path in map(pathlib.Path, sys.argv[1:]):
        content = path.read_bytes()
        if not content.startswith(b"\x7fELF"):
            text = content.decode(errors="replace")
            kernels += kernels_of_log(text)
            serialized += serialized_of_log(text)
        elif shutil.which("cuobjdump") is not None:
            kernels += kernels_of_library(path)
        else:
            print("resources: not checked, because cuobjdump is not installed; the build's log will do in its place")
            return 0
    return report(kernels, serialized)


if __name__ == "__main__":
    sys.exit(main())
