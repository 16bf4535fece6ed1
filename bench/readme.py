#!/usr/bin/env python3
"""Writes the tables of a benchmark into Markdown files: readme.py benchmark.json FILE...

A file gets the short table between <!-- bench:begin --> and <!-- bench:end -->, and the full one between
<!-- bench-full:begin --> and <!-- bench-full:end -->, whichever it has. A name with .zh- in it gets Chinese words.
"""

import json
import sys

COLUMNS = [("f32", "forward"), ("f32", "backward"), ("bf16", "forward"), ("bf16", "backward")]
ENGLISH = {
    "caption": "{date}, {cpu}, {isa}, beside PyTorch {torch}. A cell is PyTorch's time / Headway's with {threads}, "
    "then the share of the multiply-add peak that Headway reaches on one thread ({mark}: of the read bandwidth).",
    "threads": "one thread / {count} threads",
    "one_thread": "one thread",
    "shape": "batch x heads x length x head size",
    "columns": ["f32 forward", "f32 backward", "bf16 forward", "bf16 backward"],
    "mean": "geometric mean of the first {count} rows",
    "failed": "failed",
    "weights": "Weights of every head as well ({shape}): {cost} x the plain forward.",
}
CHINESE = {
    "caption": "{date}，{cpu}，{isa}，对照 PyTorch {torch}。每格为 PyTorch 用时 / Headway 用时（{threads}），"
    "随后是 Headway 单线程达到的乘加峰值比例（{mark}：占内存读带宽的比例）。",
    "threads": "单线程 / {count} 线程",
    "one_thread": "单线程",
    "shape": "批 x 头数 x 长度 x 头维度",
    "columns": ["f32 前向", "f32 反向", "bf16 前向", "bf16 反向"],
    "mean": "前 {count} 行的几何平均",
    "failed": "失败",
    "weights": "同时返回每个头的权重（{shape}）：用时为普通前向的 {cost} 倍。",
}
MARK = "†"


def cell(rows, words):
    """"1.31 / 1.29, 92%" from the rows of one case, fewest threads first."""
    if not rows:
        return ""
    if any(row["failure"] for row in rows):
        return words["failed"]
    mark = MARK if rows[0]["limit"] != "GFLOP/s" else ""
    return " / ".join(f"{row['ratio']:.2f}" for row in rows) + f", {100 * rows[0]['headway_share']:.0f}%{mark}"


def short_table(data, words):
    plain = [row for row in data["rows"] if "weights_cost" not in row]
    counts = sorted({row["threads"] for row in data["rows"]})
    threads = words["one_thread"] if counts == [1] else words["threads"].format(count=counts[-1])
    lines = [
        words["caption"].format(
            date=data["date"],
            cpu=data["cpu"],
            isa=data["instruction_set"],
            torch=data["torch"],
            threads=threads,
            mark=MARK,
        ),
        "",
        f"| {words['shape']} | " + " | ".join(words["columns"]) + " |",
        "|---|---|---|---|---|",
    ]
    for shape in dict.fromkeys(row["shape"] for row in plain):
        cells = []
        for column in COLUMNS:
            rows = [row for row in plain if row["shape"] == shape and (row["dtype"], row["pass"]) == column]
            cells.append(cell(sorted(rows, key=lambda row: row["threads"]), words))
        lines.append(f"| {shape} | " + " | ".join(cells) + " |")
    groups = [" ".join(column) for column in COLUMNS]
    means = []
    for group in groups:
        found = sorted((mean for mean in data["groups"] if mean["group"] == group), key=lambda mean: mean["threads"])
        means.append(" / ".join(f"**{mean['geometric_mean']:.2f}**" for mean in found))
    first = len({row["shape"] for row in plain if row["group"] in groups})
    lines.append(f"| {words['mean'].format(count=first)} | " + " | ".join(means) + " |")
    weights = [row for row in data["rows"] if "weights_cost" in row and not row["failure"]]
    if weights:
        lines.append("")
    for shape in dict.fromkeys(row["shape"] for row in weights):
        cost = " / ".join(f"{row['weights_cost']:.2f}" for row in weights if row["shape"] == shape)
        lines.append(words["weights"].format(shape=shape.removesuffix(" full weights"), cost=cost))
    return lines


def full_table(data, words):
    del words  # the full table is in English everywhere
    lines = [
        f"{data['date']}, {data['cpu']}, {data['instruction_set']}, PyTorch {data['torch']}",
        "",
        "| case | threads | Headway ms | PyTorch ms | ratio | Headway's share | PyTorch's share | of |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in data["rows"]:
        start = f"| {row['name']} | {row['threads']} | "
        if row["failure"]:
            lines.append(start + f"failed: {row['failure'].replace('|', '/')} | | | | | |")
            continue
        lines.append(
            start + f"{row['headway_ms']:.3f} ±{100 * row['headway_spread']:.0f}% | "
            f"{row['torch_ms']:.3f} ±{100 * row['torch_spread']:.0f}% | {row['ratio']:.2f} | "
            f"{100 * row['headway_share']:.1f}% | {100 * row['torch_share']:.1f}% | "
            f"{row['limit_value']:.1f} {row['limit'].removeprefix('read ')} |"
        )
    lines += ["", "| geometric mean of the ratios | threads | mean | lowest |", "|---|---|---|---|"]
    for mean in data["groups"]:
        lines.append(
            f"| {mean['group']} | {mean['threads']} | {mean['geometric_mean']:.2f} | {mean['lowest']:.2f} |"
        )
    return lines


def replace_between(text, name, lines):
    """The text with the lines between the marks of that name; unchanged where it has no such marks."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if begin not in text or end not in text:
        return text
    head, rest = text.split(begin, 1)
    return head + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end, 1)[1]


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        data = json.load(file)
    for path in sys.argv[2:]:
        words = CHINESE if ".zh-" in path else ENGLISH
        with open(path, encoding="utf-8") as file:
            old = file.read()
        new = replace_between(old, "bench", short_table(data, words))
        new = replace_between(new, "bench-full", full_table(data, words))
        if new == old:
            print(f"{path}: no marks, or nothing new", file=sys.stderr)
            continue
        with open(path, "w", encoding="utf-8") as file:
            file.write(new)


if __name__ == "__main__":
    main()
