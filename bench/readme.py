#!/usr/bin/env python3
"""Writes the tables of benchmarks into Markdown files: readme.py RESULTS.json... FILE...

From attention_bench's results a file gets the short table between <!-- bench:begin --> and <!-- bench:end -->, and the
full one between <!-- bench-full:begin --> and <!-- bench-full:end -->, whichever it has; from layer_bench.py's those
between the marks bench-layers and bench-layers-full, and from matmul_bench's the one between the marks bench-matmul.
torch_bench.py's and transformers_bench.py's together, never one alone, make those between the marks bench-python and
bench-python-full. A name with .zh- in it gets Chinese words.
"""

import json
import math
import re
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
    "layers_caption": "{date}, {cpu}, {isa}, beside PyTorch {torch} (Python, eager, `AdamW(fused=True)`), f32. A ratio is "
    "PyTorch's time / Headway's with {threads}; the share is that of the multiply-add peak that Headway reaches on one "
    "thread; memory is the peak of such steps, Headway's / PyTorch's.",
    "layers_columns": ["model, batch x length: step", "ratio", "share", "MiB"],
    "layers_weights": "Attention weights as well, time with / without:",
    "layers_weights_cost": "{name}: Headway {headway}, PyTorch {torch}",
    "layers_names": {},
    "matmul_caption": "{date}, {cpu}, {isa}, beside PyTorch {torch} (MKL, oneDNN) and OpenBLAS, {threads}: the peer's "
    "time / Headway's over tokens x in x out of a Transformer's products; the share is the median of what Headway "
    "reaches of the multiply-add peak.",
    "python_caption": "{date}, {cpu}, {isa}, f32, from Python beside PyTorch {torch}{peers} and, for MiniLM, transformers "
    "{transformers}. A cell is the other's time / Headway's with {threads}.{missing}",
    "python_peer": ", {name} {version} ({call})",
    "python_missing": " {name} is not installed there.",
    "python_columns": ["call", "PyTorch, inference", "PyTorch, training"],
    "python_peer_column": "{name}, inference",
    "python_overhead": "What a tiny call costs above PyTorch's, in µs:",
    "python_overhead_columns": ["call", "inference", "training"],
    "python_names": {},
    "python_beside": "{name}, beside {peer}",
    "matmul_columns": ["product", "PyTorch: mean", "lowest", "rows below 0.9", "OpenBLAS: mean", "share", "rows"],
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
    "layers_caption": "{date}，{cpu}，{isa}，对照 PyTorch {torch}（Python、eager、`AdamW(fused=True)`），f32。比值为 "
    "PyTorch 用时 / Headway 用时（{threads}）；比例为 Headway 单线程达到的乘加峰值比例；内存为这些步骤的峰值，"
    "Headway / PyTorch。",
    "layers_columns": ["模型，批 x 长度：步骤", "比值", "比例", "MiB"],
    "layers_weights": "同时返回注意力权重，有 / 无的用时比：",
    "layers_weights_cost": "{name}：Headway {headway}，PyTorch {torch}",
    "layers_names": {
        "training step without dropout": "训练一步，无 dropout",
        "training step, dropout": "训练一步，dropout",
        "inference": "推理",
        "weights averaged": "各头平均的权重",
        "weights per head": "每个头的权重",
        "layer": "层",
        ", ": "，",
        ": ": "：",
    },
    "matmul_caption": "{date}，{cpu}，{isa}，对照 PyTorch {torch}（MKL、oneDNN）和 OpenBLAS，{threads}：Transformer 各乘积"
    "（词数 x 输入 x 输出）上对方用时 / Headway 用时；比例为 Headway 达到的乘加峰值比例的中位数。",
    "python_caption": "{date}，{cpu}，{isa}，f32，从 Python 调用，对照 PyTorch {torch}{peers}；MiniLM 对照 transformers "
    "{transformers}。每格为对方用时 / Headway 用时（{threads}）。{missing}",
    "python_peer": "、{name} {version}（{call}）",
    "python_missing": "该机器未安装 {name}。",
    "python_columns": ["调用", "PyTorch，推理", "PyTorch，训练"],
    "python_peer_column": "{name}，推理",
    "python_overhead": "极小形状的一次调用比 PyTorch 多用的时间，µs：",
    "python_overhead_columns": ["调用", "推理", "训练"],
    "python_names": {
        "without weights": "不返回权重",
        "weights averaged": "各头平均的权重",
        "weights per head": "每个头的权重",
        "2 layers": "2 层",
        "256 sentences sorted in batches of 32": "256 句，按长度排序，每批 32 句",
        "256 sentences as they come in batches of 32": "256 句，不排序，每批 32 句",
        " causal": "，causal",
        " mask": "，mask",
        ", ": "，",
        ": ": "：",
    },
    "python_beside": "{name}，对照 {peer}",
    "matmul_columns": ["乘积", "PyTorch：平均", "最低", "低于 0.9 的行", "OpenBLAS：平均", "比例", "行数"],
}
MARK = "†"


def threads_text(data, words):
    counts = sorted({row["threads"] for row in data["rows"]})
    return words["one_thread"] if counts == [1] else words["threads"].format(count=counts[-1])


def caption(text, data, words, **more):
    """A table's first line: when, on what machine and beside which PyTorch it was measured."""
    return text.format(
        date=data["date"],
        cpu=data["cpu"],
        isa=data["instruction_set"],
        torch=data["torch"],
        threads=threads_text(data, words),
        **more,
    )


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
    lines = [
        caption(words["caption"], data, words, mark=MARK),
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


def start_of(row):
    """The first cells of a row of a full table."""
    return f"| {row['name']} | {row['threads']} | "


def failure_of(row):
    return f"failed: {row['failure'].replace('|', '/')} |"


def time_of(row, side, digits):
    return f"{row[f'{side}_ms']:.{digits}f} ±{100 * row[f'{side}_spread']:.0f}% | "


def full_row(row):
    if row["failure"]:
        return start_of(row) + failure_of(row) + " |" * 5
    shares = f"{100 * row['headway_share']:.1f}% | {100 * row['torch_share']:.1f}%"
    limit = f"{row['limit_value']:.1f} {row['limit'].removeprefix('read ')}"
    times = time_of(row, "headway", 3) + time_of(row, "torch", 3)
    return start_of(row) + times + f"{row['ratio']:.2f} | {shares} | {limit} |"


def full_table(data, words):
    del words  # the full table is in English everywhere
    lines = [
        f"{data['date']}, {data['cpu']}, {data['instruction_set']}, PyTorch {data['torch']}",
        "",
        "| case | threads | Headway ms | PyTorch ms | ratio | Headway's share | PyTorch's share | of |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [full_row(row) for row in data["rows"]]
    lines += ["", "| geometric mean of the ratios | threads | mean | lowest |", "|---|---|---|---|"]
    for mean in data["groups"]:
        lines.append(
            f"| {mean['group']} | {mean['threads']} | {mean['geometric_mean']:.2f} | {mean['lowest']:.2f} |"
        )
    return lines


def layer_name(name, words):
    for english, other in words["layers_names"].items():
        name = name.replace(english, other)
    return name


def layers_table(data, words):
    """A line for each model and kind of step; the price of the attention weights below."""
    lines = [
        caption(words["layers_caption"], data, words),
        "",
        "| " + " | ".join(words["layers_columns"]) + " |",
        "|---|---|---|---|",
    ]
    costs = []
    for name in dict.fromkeys(row["name"] for row in data["rows"]):
        rows = sorted((row for row in data["rows"] if row["name"] == name), key=lambda row: row["threads"])
        shown = layer_name(name, words)
        if any(row["failure"] for row in rows):
            lines.append(f"| {shown} | {words['failed']} | | |")
            continue
        ratios = " / ".join(f"{row['ratio']:.2f}" for row in rows)
        memory = "" if rows[0]["headway_mib"] is None else f"{rows[0]['headway_mib']:.0f} / {rows[0]['torch_mib']:.0f}"
        lines.append(f"| {shown} | {ratios} | {100 * rows[0]['headway_share']:.0f}% | {memory} |")
        if "headway_weights_cost" in rows[0]:
            costs.append(
                words["layers_weights_cost"].format(
                    name=layer_name(name.split(": ", 1)[1], words),
                    headway=" / ".join(f"{row['headway_weights_cost']:.2f}" for row in rows),
                    torch=" / ".join(f"{row['torch_weights_cost']:.2f}" for row in rows),
                )
            )
    if costs:
        lines += ["", words["layers_weights"]] + [f"- {cost}" for cost in costs]
    return lines


def layers_full_table(data, words):
    del words  # the full table is in English everywhere
    lines = [
        f"{data['date']}, {data['cpu']}, {data['instruction_set']}, PyTorch {data['torch']}; other programs took "
        f"{100 * data['other_load']:.0f}% of the machine's time",
        "",
        "| case | threads | Headway ms | PyTorch ms | ratio | Headway's share | PyTorch's share | of GFLOP/s "
        "| Headway MiB | PyTorch MiB | with weights / without: Headway | PyTorch |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in data["rows"]:
        start = f"| {row['name']} | {row['threads']} | "
        if row["failure"]:
            lines.append(start + f"failed: {row['failure'].replace('|', '/')} |" + " |" * 9)
            continue
        sides = ("headway", "torch")
        memory = ["" if row[f"{side}_mib"] is None else f"{row[f'{side}_mib']:.0f}" for side in sides]
        costs = [f"{row[f'{side}_weights_cost']:.2f}" if f"{side}_weights_cost" in row else "" for side in sides]
        lines.append(
            start + f"{row['headway_ms']:.2f} ±{100 * row['headway_spread']:.0f}% | "
            f"{row['torch_ms']:.2f} ±{100 * row['torch_spread']:.0f}% | {row['ratio']:.2f} | "
            f"{100 * row['headway_share']:.1f}% | {100 * row['torch_share']:.1f}% | {row['limit_value']:.1f} | "
            + " | ".join(memory + costs)
            + " |"
        )
    return lines


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def matmul_table(data, words):
    """A line for each dtype, product and number of threads."""
    first = caption(words["matmul_caption"], data, words)
    lines = [first, "", "| " + " | ".join(words["matmul_columns"]) + " |", "|---|---|---|---|---|---|---|"]
    good = [row for row in data["rows"] if not row["failure"]]
    for dtype, name, threads in dict.fromkeys((row["dtype"], row["pass"], row["threads"]) for row in good):
        rows = [row for row in good if (row["dtype"], row["pass"], row["threads"]) == (dtype, name, threads)]
        ratios = [row["ratio"] for row in rows]
        blas = [row["openblas_ratio"] for row in rows if row.get("openblas_ratio")]
        share = sorted(row["headway_share"] for row in rows)[len(rows) // 2]
        lines.append(
            f"| {dtype} {name} | **{geometric_mean(ratios):.2f}** | {min(ratios):.2f} | "
            f"{sum(ratio < 0.9 for ratio in ratios)} | {f'{geometric_mean(blas):.2f}' if blas else ''} | "
            f"{100 * share:.0f}% | {len(rows)} |"
        )
    return lines


def python_name(name, words):
    """The name in the table's language; the commas of a shape stay."""
    for english, other in words["python_names"].items():
        name = "".join(
            part if part.startswith("(") else part.replace(english, other) for part in re.split(r"(\([^)]*\))", name)
        )
    return name


def python_cell(rows, words, show):
    """"1.31 / 1.29" from the rows of one call, fewest threads first; empty where there are none."""
    if any(row["failure"] for row in rows):
        return words["failed"]
    return " / ".join(show(row) for row in sorted(rows, key=lambda row: row["threads"]))


def python_calls(rows):
    """{"MultiheadAttention 512/8: 1 x 16": {"inference": rows, "training": rows}}"""
    calls = {}
    for row in rows:
        subject, step = row["group"].rsplit(", ", 1)
        calls.setdefault(f"{subject}: {row['name']}", {"inference": [], "training": []})[step].append(row)
    return calls


def peer_key(name):
    return name.lower().replace(" ", "_")


def python_table(data, encoders, words):
    """Ratios of large calls and of encoding sentences; below, what a tiny call costs."""
    peers = data["peers"]
    first = caption(
        words["python_caption"],
        data,
        words,
        transformers=encoders["transformers"],
        peers="".join(words["python_peer"].format(name=name, **peer) for name, peer in peers.items()),
        missing="".join(words["python_missing"].format(name=name) for name in data["missing_peers"]),
    )
    columns = words["python_columns"] + [words["python_peer_column"].format(name=name) for name in peers]
    lines = [first, "", "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for call, steps in python_calls(row for row in data["rows"] if not row["tiny"]).items():
        cells = [python_cell(rows, words, lambda row: f"{row['ratio']:.2f}") for rows in steps.values()]
        for key in (f"{peer_key(name)}_ratio" for name in peers):
            known = all(key in row for row in steps["inference"])
            cells.append(" / ".join(f"{row[key]:.2f}" for row in steps["inference"]) if known else "")
        lines.append(f"| {python_name(call, words)} | " + " | ".join(cells) + " |")
    for name, peer in dict.fromkeys((row["name"], row["peer"]) for row in encoders["rows"]):
        shown = words["python_beside"].format(name=python_name(name, words), peer=peer)
        rows = [row for row in encoders["rows"] if row["name"] == name]
        cell = python_cell(rows, words, lambda row: f"{row['ratio']:.2f}")
        lines.append(f"| {shown} | {cell} |" + " |" * (len(columns) - 2))
    tiny = python_calls(row for row in data["rows"] if row["tiny"])
    if tiny:
        columns = words["python_overhead_columns"]
        lines += ["", words["python_overhead"], "", "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for call, steps in tiny.items():
        cells = [python_cell(rows, words, lambda row: f"{row['overhead_us']:+.1f}") for rows in steps.values()]
        lines.append(f"| {python_name(call, words)} | " + " | ".join(cells) + " |")
    return lines


def python_full_row(row, peers):
    start = f"| {row['group']}: {row['name']} | {row['threads']} | "
    if row["failure"]:
        return start + failure_of(row) + " |" * (3 + 2 * len(peers))
    unit, size = ("µs", 1.0) if row["pytorch_us"] < 1e3 else ("ms", 1e-3)

    def measured(key):
        return f"{size * row[f'{key}_us']:.2f} {unit} ±{100 * row[f'{key}_spread']:.0f}%"

    cells = [measured("headway"), measured("pytorch"), f"{row['ratio']:.2f}"]
    cells.append(f"{row['overhead_us']:+.1f}" if row["tiny"] else "")
    for key in map(peer_key, peers):
        cells += [measured(key), f"{row[f'{key}_ratio']:.2f}"] if f"{key}_us" in row else ["", ""]
    return start + " | ".join(cells) + " |"


def python_full_table(data, encoders, words):
    del words  # the full table is in English everywhere
    peers = data["peers"]
    columns = ["case", "threads", "Headway", "PyTorch", "ratio", "above PyTorch, µs"]
    for name in peers:
        columns += [name, "ratio"]
    lines = [
        f"{data['date']}, {data['cpu']}, {data['instruction_set']}, PyTorch {data['torch']}; other programs took "
        f"{100 * data['other_load']:.0f}% of the machine's time",
        "",
    ]
    lines += [f"- {name} {peer['version']}: {peer['call']}; {peer['threads_note']}" for name, peer in peers.items()]
    lines += [f"- {name} is not installed there" for name in data["missing_peers"]]
    lines += ["", "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    lines += [python_full_row(row, peers) for row in data["rows"]]
    lines += [
        "",
        f"transformers {encoders['transformers']}; other programs took {100 * encoders['other_load']:.0f}% of the "
        "machine's time",
        "",
        "| case | threads | Headway ms | other | its ms | ratio |",
        "|---|---|---|---|---|---|",
    ]
    return lines + [encoder_row(row) for row in encoders["rows"]]


def encoder_row(row):
    if row["failure"]:
        return start_of(row) + failure_of(row) + f" {row['peer']} | | |"
    times = time_of(row, "headway", 1) + f"{row['peer']} | " + time_of(row, "peer", 1)
    return start_of(row) + times + f"{row['ratio']:.2f} |"


# The name of the marks: the kinds of results that it takes, and who makes the lines between them.
TABLES = {
    "bench": (["attention"], short_table),
    "bench-full": (["attention"], full_table),
    "bench-layers": (["layers"], layers_table),
    "bench-layers-full": (["layers"], layers_full_table),
    "bench-matmul": (["matmul"], matmul_table),
    "bench-python": (["torch", "transformers"], python_table),
    "bench-python-full": (["torch", "transformers"], python_full_table),
}


def replace_between(text, name, lines):
    """The text with the lines between the marks of that name; unchanged where it has no such marks."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if begin not in text or end not in text:
        return text
    head, rest = text.split(begin, 1)
    return head + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end, 1)[1]


def main():
    results = [path for path in sys.argv[1:] if path.endswith(".json")]
    files = [path for path in sys.argv[1:] if not path.endswith(".json")]
    if not results or not files:
        sys.exit(__doc__)
    measured = {}
    for path in results:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        measured[data.get("kind", "attention")] = data
    for path in files:
        words = CHINESE if ".zh-" in path else ENGLISH
        with open(path, encoding="utf-8") as file:
            old = file.read()
        new = old
        for name, (kinds, table) in TABLES.items():
            if all(kind in measured for kind in kinds):
                new = replace_between(new, name, table(*(measured[kind] for kind in kinds), words))
        if new == old:
            print(f"{path}: no marks, or nothing new", file=sys.stderr)
            continue
        with open(path, "w", encoding="utf-8") as file:
            file.write(new)


if __name__ == "__main__":
    main()
