#!/usr/bin/env python3
"""Draws the ratios of docs/benchmark.json as an SVG: chart.py benchmark.json benchmark.svg"""

import html
import json
import math
import sys

PANELS = [("f32", "forward"), ("f32", "backward"), ("bf16", "forward"), ("bf16", "backward")]
LABEL_WIDTH = 200
BAR_WIDTH = 250
PANEL_WIDTH = LABEL_WIDTH + BAR_WIDTH + 40
ROW_HEIGHT = 24
TOP = 86
PANEL_HEAD = 40

# Plain colours first, for viewers without media queries; both sets keep their contrast on light and dark pages.
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #57606a; }
.title { font-size: 16px; font-weight: 600; }
.head { font-size: 14px; font-weight: 600; }
.axis { font-size: 11px; }
.one { fill: #8cb4e8; } .all { fill: #2f6fce; } .slower { fill: #d1703c; }
.grid { stroke: #8c959f; stroke-opacity: 0.3; } .par { stroke: #57606a; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  text { fill: #b6bec8; }
  .one { fill: #35588c; } .all { fill: #5b9bf3; } .slower { fill: #e38a57; }
  .par { stroke: #b6bec8; }
}
"""


def panel_rows(data, dtype, direction):
    """[(shape, {threads: ratio or None})] in the table's order; rows with weights have another yardstick."""
    shapes = {}
    for row in data["rows"]:
        if row["dtype"] == dtype and row["pass"] == direction and "weights_cost" not in row:
            ratio = None if row["failure"] else row["ratio"]
            shapes.setdefault(row["shape"], {})[row["threads"]] = ratio
    return [(shape, ratios) for shape, ratios in shapes.items()]


class Scale:
    """A logarithmic axis: twice as fast and twice as slow are equally far from 1."""

    def __init__(self, ratios):
        self.low = math.floor(math.log2(min(ratios + [1.0])) * 2) / 2
        self.high = math.ceil(math.log2(max(ratios + [2.0])) * 2) / 2

    def x(self, ratio):
        return BAR_WIDTH * (math.log2(ratio) - self.low) / (self.high - self.low)

    def ticks(self):
        return [2.0**power for power in range(math.ceil(self.low), math.floor(self.high) + 1)]


def bar(scale, ratio, y, height, kind):
    start, end = sorted((scale.x(1.0), scale.x(ratio)))
    kind = kind if ratio >= 1 else "slower"
    return f'<rect class="{kind}" x="{start:.1f}" y="{y:.1f}" width="{max(end - start, 0.5):.1f}" height="{height}"/>'


def draw_panel(title, rows, scale, threads):
    parts = [f'<text class="head" x="0" y="-16">{title}</text>']
    bottom = len(rows) * ROW_HEIGHT
    for index, (shape, ratios) in enumerate(rows):
        y = index * ROW_HEIGHT
        parts.append(f'<text x="{LABEL_WIDTH - 8}" y="{y + 15}" text-anchor="end">{html.escape(shape)}</text>')
    parts.append(f'<g transform="translate({LABEL_WIDTH} 0)">')
    for tick in scale.ticks():
        x = scale.x(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text class="axis" x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{tick:g}</text>')
    for index, (shape, ratios) in enumerate(rows):
        y = index * ROW_HEIGHT
        shown = [(kind, ratios[count]) for kind, count in threads if ratios.get(count)]
        for place, (kind, ratio) in enumerate(shown):
            parts.append(bar(scale, ratio, y + 3 + 9 * place, 8, kind))
        text = f"{shown[-1][1]:.2f}" if shown else "failed"
        end = max([scale.x(1.0)] + [scale.x(ratio) for _, ratio in shown])
        parts.append(f'<text x="{end + 5:.1f}" y="{y + 16}">{text}</text>')
    x = scale.x(1.0)
    parts.append(f'<line class="par" x1="{x:.1f}" y1="-4" x2="{x:.1f}" y2="{bottom + 2}"/></g>')
    return "\n".join(parts)


def draw(data):
    panels = [(f"{dtype} {direction}", panel_rows(data, dtype, direction)) for dtype, direction in PANELS]
    panels = [(title, rows) for title, rows in panels if rows]
    counts = sorted({row["threads"] for row in data["rows"]})
    threads = [("all", counts[-1])] if len(counts) == 1 else [("one", counts[0]), ("all", counts[-1])]
    scale = Scale([ratio for _, rows in panels for _, ratios in rows for ratio in ratios.values() if ratio])

    body, y = [], TOP
    for start in range(0, len(panels), 2):
        pair = panels[start : start + 2]
        for column, (title, rows) in enumerate(pair):
            body.append(f'<g transform="translate({16 + column * PANEL_WIDTH} {y + PANEL_HEAD - 8})">')
            body.append(draw_panel(title, rows, scale, threads) + "</g>")
        y += PANEL_HEAD + max(len(rows) for _, rows in pair) * ROW_HEIGHT + 24
    width, height = 2 * PANEL_WIDTH + 32, y + 8
    subtitle = f"{data['cpu']}, {data['instruction_set']}, {data['date']}; logarithmic axis, 1 = as fast as PyTorch"
    legend, x = [], 16
    for kind, count in threads:
        legend.append(f'<rect class="{kind}" x="{x}" y="58" width="12" height="10"/>')
        legend.append(f'<text x="{x + 17}" y="67">{count} thread{"s" if count > 1 else ""}</text>')
        x += 100
    legend.append(f'<rect class="slower" x="{x}" y="58" width="12" height="10"/>')
    legend.append(f'<text x="{x + 17}" y="67">slower than PyTorch</text>')
    title = f"Headway's speed / PyTorch {data['torch']}'s"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" aria-label="{html.escape(title)}">',
            f"<style>{STYLE}</style>",
            f'<text class="title" x="16" y="26">{html.escape(title)}</text>',
            f'<text x="16" y="46">{html.escape(subtitle)}</text>',
            *legend,
            *body,
            "</svg>\n",
        ]
    )


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        data = json.load(file)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(data))


if __name__ == "__main__":
    main()
