#!/usr/bin/env python3
"""How ring attention goes on at more ranks than can be measured here: compute and transfer of each rank, from measured
rates. ring_model.py --svg docs/distributed.svg prints the table of docs/distributed.md and draws its chart.

Assumptions, each of which can be changed by an option:
- The sequence is cut in zigzag order, so that all ranks have the same work: 2 * heads * head_dim * length^2 / ranks
  operations forward under a causal mask, 2.5 times that backward. A rank's rate depends on the size of its part as
  measured (RATES), since small parts keep a GPU less busy.
- In each of `ranks` rounds a rank sends one part of keys and values, in the backward the gradients of another part too,
  while it computes; a round takes as long as the slower of both. Each rank has a link of its own at 90% of its nominal
  rate, and a message a latency of 10 microseconds.
- Merging partial results is a pass over output and log-sum-exp at the rate of memory.
"""

import argparse
import dataclasses
import html
import math

RANKS = (8, 16, 32, 64, 128, 256, 512, 1024)
LINKS = (100, 400)  # Gbit/s


@dataclasses.dataclass
class Machine:
    name: str
    rates: list  # (tokens of a part, operations per second forward, backward), ascending
    memory: float  # bytes per second

    def rate(self, part, backward):
        """Interpolated over the logarithm of the part's size."""
        column = 2 if backward else 1
        points = [(math.log2(row[0]), row[column]) for row in self.rates]
        at = min(max(math.log2(part), points[0][0]), points[-1][0])
        for (x0, y0), (x1, y1) in zip(points, points[1:]):
            if at <= x1:
                return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
        return points[-1][1]


# Measured: docs/performance.md has the runs. Bfloat16 with head size 128 on an H200; float32 with head size 64 on two
# threads of a server's processor, by bench/ring_bench.
MACHINES = [
    Machine(
        "H200, bfloat16",
        [(512, 499e12, 287e12), (2048, 645e12, 494e12), (4096, 679e12, 547e12), (16384, 716e12, 597e12)],
        4.2e12,
    ),
    Machine("two processor threads, float32", [(1024, 0.225e12, 0.2e12), (16384, 0.225e12, 0.2e12)], 20e9),
]


@dataclasses.dataclass
class Round:
    compute: float
    transfer: float
    merge: float

    @property
    def efficiency(self):
        return self.compute / (max(self.compute, self.transfer) + self.merge)


def round_of(machine, options, length, ranks, link, backward):
    """The seconds of one of `ranks` rounds, of one layer and one sequence."""
    part = length / ranks
    heads, dim = options.heads, options.head_dim
    operations = 2 * heads * dim * length**2 / ranks  # two products over half of the square
    compute = operations / ranks / machine.rate(part, backward)
    sent = 2 * part * options.kv_heads * dim * options.bytes
    merge = part * heads * (dim * 4 * 2 + dim * options.bytes) / machine.memory
    if backward:
        compute *= 2.5
        sent *= 2  # gradients go home to the rank whose keys they are of
        merge = 0.0
    return Round(compute, sent / (link * 1e9 / 8 * 0.9) + 10e-6, merge)


def short_time(seconds):
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def rows(machine, options, length_of):
    for ranks in RANKS:
        length = length_of(ranks)
        cells = []
        for link in LINKS:
            forward, backward = (round_of(machine, options, length, ranks, link, way) for way in (False, True))
            cells.append((forward, backward))
        yield ranks, length, cells


def table(machine, options, length_of):
    head = "| ranks | tokens | of a rank | compute, a round | transfer at 100 / 400 Gbit/s | forward | with backward |"
    lines = [head, "|---:|---:|---:|---:|---:|---:|---:|"]
    for ranks, length, cells in rows(machine, options, length_of):
        (slow, slow_back), (fast, fast_back) = cells
        both = [(f.compute + b.compute) / (max(f.compute, f.transfer) + f.merge + max(b.compute, b.transfer) + b.merge)
                for f, b in cells]
        lines.append(
            f"| {ranks} | {length:,} | {length // ranks:,} | {short_time(slow.compute)} | "
            f"{short_time(slow.transfer)} / {short_time(fast.transfer)} | "
            f"{slow.efficiency:.0%} / {fast.efficiency:.0%} | {both[0]:.0%} / {both[1]:.0%} |"
        )
    return "\n".join(lines)


def smallest_part(machine, options, link, backward):
    """Tokens of a rank from which a round's transfer takes no longer than its computing; whatever the number of ranks."""
    for part in (2**power for power in range(6, 24)):
        one = round_of(machine, options, part * 64, 64, link, backward)
        if one.transfer <= one.compute:
            return part
    return math.inf


STYLE = """
text { font: 12px system-ui, sans-serif; fill: #57606a; }
.title { font-size: 16px; font-weight: 600; } .axis { font-size: 11px; }
.grid { stroke: #8c959f; stroke-opacity: 0.3; }
.slow { stroke: #d1703c; fill: none; stroke-width: 2.5; } .fast { stroke: #2f6fce; fill: none; stroke-width: 2.5; }
.dashed { stroke-dasharray: 6 4; }
@media (prefers-color-scheme: dark) {
  text { fill: #b6bec8; } .slow { stroke: #e38a57; } .fast { stroke: #5b9bf3; }
}
"""
LEFT, TOP, WIDTH, HEIGHT, GAP = 60, 76, 300, 200, 70


def chart(machines, options, length_of):
    """One panel for each machine: the share of the time in which a rank computes, over the number of ranks."""

    def x(ranks):
        return WIDTH * (math.log2(ranks) - 3) / 7

    def y(share):
        return HEIGHT * (1 - share)

    parts = []
    for index, machine in enumerate(machines):
        lines = [f'<text y="-12">{html.escape(machine.name)}</text>']
        for share in (0, 0.25, 0.5, 0.75, 1):
            lines.append(f'<line class="grid" x1="0" x2="{WIDTH}" y1="{y(share)}" y2="{y(share)}"/>')
            lines.append(f'<text class="axis" x="-6" y="{y(share) + 4}" text-anchor="end">{share:.0%}</text>')
        for ranks in RANKS:
            lines.append(f'<text class="axis" x="{x(ranks):.1f}" y="{HEIGHT + 16}" text-anchor="middle">{ranks}</text>')
        for link_index, kind in enumerate(("slow", "fast")):
            for way, dashes in ((0, ""), (1, " dashed")):
                points = " ".join(
                    f"{x(ranks):.1f},{y(cells[link_index][way].efficiency):.1f}"
                    for ranks, _, cells in rows(machine, options, length_of)
                )
                lines.append(f'<polyline class="{kind}{dashes}" points="{points}"/>')
        parts.append(f'<g transform="translate({LEFT + index * (WIDTH + GAP)},{TOP})">{"".join(lines)}</g>')
    width = LEFT + len(machines) * (WIDTH + GAP)
    foot = TOP + HEIGHT + 46
    key = (
        f'<g transform="translate({LEFT},{foot})"><line class="slow" x2="30" y1="-4" y2="-4"/>'
        '<text x="36">100 Gbit/s</text><line class="fast" x1="130" x2="160" y1="-4" y2="-4"/><text x="166">400 Gbit/s</text>'
        '<text x="260">solid: forward, dashed: backward</text></g>'
    )
    title = f"Share of the time in which a rank computes: {length_of(RANKS[0]):,} tokens over N ranks"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {foot + 16}" width="{width}" role="img">'
        f"<title>{title}</title><style>{STYLE}</style>"
        f'<text class="title" x="{LEFT}" y="30">{title}</text>{"".join(parts)}{key}</svg>\n'
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--bytes", type=int, default=2, help="of an element of keys and values")
    parser.add_argument("--length", type=int, default=1 << 20, help="tokens of the sequence that all ranks share")
    parser.add_argument("--svg", help="where the chart is written")
    options = parser.parse_args()
    for machine in MACHINES:
        print(f"\n{machine.name}, {options.length:,} tokens in all\n")
        print(table(machine, options, lambda ranks: options.length))
        print(f"\n{machine.name}: the smallest part, in tokens, whose transfer is hidden\n")
        for link in LINKS:
            print(f"- {link} Gbit/s: {smallest_part(machine, options, link, False):,} forward, "
                  f"{smallest_part(machine, options, link, True):,} backward")
    if options.svg:
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(chart(MACHINES, options, lambda ranks: options.length))


if __name__ == "__main__":
    main()
