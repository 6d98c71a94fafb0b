"""Compare files that are copied without decoding with plain Delta copies that do the same work, and with `cp`.

Part of `run.py --only ways`. The sides take turns, warm; figures are medians; our job seals every second. `--only large`: 10 GiB.
"""

import json
import os
import statistics
import subprocess
import time
from pathlib import Path

from backfill_spark.sinks.delta.create import create_empty, made_with

BARS = {
    "identity_vs_delta": ("ratio", 8, "higher"), "identity_vs_cp": ("ratio", 4, "lower"),
    "projection_vs_delta": ("ratio", 6, "higher"), "computed_vs_delta": ("ratio", 2.5, "higher"),
    "filter_vs_delta": ("ratio", 1.3, "higher"), "large_identity_vs_cp": ("ratio", 1.5, "lower"),
    "empty_target": ("s", 0.2, "lower"),
}  # fmt: skip

KEPT = ["id", "customer", "amount", "ts", "sku AS product"]
COLUMNS = ["id", "customer", "amount", "ts", "sku", "note", "status"]
TRANSFORMS = {
    "identity": {},
    "projection": {"select": KEPT},
    "computed": {"select": ["upper(status) AS status" if name == "status" else name for name in COLUMNS]},
    "filter": {"where": "customer % 2 = 0"},
}
WARM_ROUNDS = 4
EMPTY_TABLES = 9
TARGETS = ("plain", "ours", "cp")
LARGE_BYTES = 10 << 30


def ways(bench):
    """Measure every figure."""
    for _ in range(WARM_ROUNDS):
        for transform in TRANSFORMS.values():
            plain(bench, transform)
            ours(bench, transform)
    for _ in range(bench.runs):
        timed(bench, "cp", lambda: cp(bench))
        for name, transform in TRANSFORMS.items():
            timed(bench, f"{name}_delta", lambda transform=transform: plain(bench, transform))
            timed(bench, f"{name}_ours", lambda transform=transform: ours(bench, transform))
    middle = bench.middle()
    for name in TRANSFORMS:
        bench.put(f"{name}_vs_delta", middle[f"{name}_delta"] / middle[f"{name}_ours"])
    bench.put("identity_vs_cp", middle["identity_ours"] / middle["cp"])
    bench.put("empty_target", statistics.median(empty_target(bench) for _ in range(EMPTY_TABLES)))
    bench.extra["source_bytes"] = sum(file.stat().st_size for file in Path(bench.source).glob("*.parquet"))


def timed(bench, name, work):
    """Time a run that begins with a clean disk, without the writes that the previous run left in the cache."""
    for target in TARGETS:
        bench.fresh(target)
    os.sync()
    bench.timed(name, work)


def plain(bench, transform):
    """Do the same work in one Delta write, without a barrier."""
    rows = bench.spark.read.format("delta").load(bench.source)
    rows = rows.where(transform["where"]) if "where" in transform else rows
    rows = rows.selectExpr(*transform["select"]) if "select" in transform else rows
    rows.write.format("delta").save(bench.fresh("plain"))


def ours(bench, transform):
    """Run the job."""
    return bench.ours(transform=transform)


def cp(bench):
    """Copy the data files, two at a time."""
    target = bench.fresh("cp")
    Path(target).mkdir()
    files = sorted(str(file) for file in Path(bench.source).glob("*.parquet"))
    halves = [subprocess.Popen(["cp", "--reflink=never", "-t", target, *files[half::2]]) for half in range(2)]
    assert [process.wait() for process in halves] == [0, 0]


def empty_target(bench):
    """Return the seconds in which Kernel creates the table of a Replica."""
    schema = bench.spark.read.format("delta").load(bench.source).schema.json()
    target, began = bench.fresh("empty"), time.monotonic()
    create_empty(bench.spark, target, schema, partition_by=(), properties=made_with({}, deletion_vectors=True))
    return time.monotonic() - began


def large(bench):
    """Compare with `cp` on 10 GiB, where the start of a job does not matter; hard links multiply each file."""
    small, bench.source = bench.source, bench.fresh("large")
    first = [json.loads(line) for line in Path(small, "_delta_log", f"{0:020}.json").read_text().splitlines()]
    adds = [action["add"] for action in first if "add" in action]
    names = -(-LARGE_BYTES // sum(file["size"] for file in adds))
    bench.rows *= names
    lines = [json.dumps(action) for action in first if "add" not in action]
    Path(bench.source, "_delta_log").mkdir(parents=True)
    for file in adds:
        for number in range(names):
            name = f"{number}-{file['path']}"
            os.link(Path(small, file["path"]), Path(bench.source, name))
            lines.append(json.dumps({"add": file | {"path": name}}))
    Path(bench.source, "_delta_log", f"{0:020}.json").write_text("\n".join(lines) + "\n")
    ours(bench, {})
    for _ in range(bench.runs):
        timed(bench, "large_cp", lambda: cp(bench))
        timed(bench, "large_ours", lambda: ours(bench, {}))
    middle = bench.middle()
    bench.put("large_identity_vs_cp", middle["large_ours"] / middle["large_cp"])


def draw(document, path):
    """Draw a pair of bars for each transform."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    labels = {"identity": "all columns", "projection": "5 of 7 columns, 1 renamed", "computed": "1 of 7 columns computed",
              "filter": "a filter keeps half of the rows"}  # fmt: skip
    middle = {name: statistics.median(values) for name, values in document["seconds"]["ways"].items()}
    figure, axes = plt.subplots(figsize=(8, 3.4))
    rows = range(len(labels))
    for offset, kind, label, colour in (
        (0.2, "delta", "plain Delta write", "#b8c0cc"),
        (-0.2, "ours", "backfill", "#2a7de1"),
    ):
        seconds = [middle[f"{name}_{kind}"] for name in labels]
        bars = axes.barh([row + offset for row in reversed(rows)], seconds, height=0.38, color=colour, label=label)
        axes.bar_label(bars, fmt="%.1f s", padding=4)
    axes.set_yticks(list(reversed(rows)), labels.values())
    axes.set_xlabel(
        f"seconds for {document['rows'] / 1e6:.0f} M rows on {document['machine']['cores']} cores, median of {document['runs']}"
    )
    axes.legend(loc="lower right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.12)
    figure.tight_layout()
    figure.savefig(path)
    figure.savefig(path.with_suffix(".png"), dpi=110)
