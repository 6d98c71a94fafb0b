"""Measure the deviation of the rows of ten seconds from a limit, with real driver processes.

Part of `run.py --only throttle`.
"""

import itertools
import json
import threading
from pathlib import Path

from support.tables.oracle import adds_of, seals

from backfill_api.wire import Command, ThrottleCommand

BARS = {
    "throttle_error_1k": ("percent", 2, "lower"), "throttle_error_50k": ("percent", 2, "lower"),
    "throttle_error_500k": ("percent", 2, "lower"), "throttle_error_50mb": ("percent", 2, "lower"),
}  # fmt: skip

SETTLED_S = 6
"""A rate is measured from this many seconds after the seal that acknowledged it. By then, the splits of four
seconds that were in flight are sealed."""

WARM_SHARE = 0.35
"""Share of the rows that is copied before a driver is throttled, because a JVM that has just started sometimes stalls for a second."""

COPIED_SETTLED_S = 2
"""The same wait for a driver that was under another limit before: it copies half of a table of 20 M rows in ten seconds."""

COPIED_SHARE, COPIED_BYTES_PER_S = 0.03, 10_000_000
"""The same share for files that are copied, and the limit until then: without one the job would be complete."""


def throttle(bench):
    """Throttle a driver that was copying without a limit: its own pace is far above each rate."""
    for name, rate in (("1k", 1000), ("50k", 50_000), ("500k", 500_000)):
        target, job = bench.fresh(f"rate{name}"), f"rate{name}"
        process = bench.driver(job, target)
        warm(bench, job, WARM_SHARE)
        bench.extra[f"pace_before_{name}"] = round(bench.client(job).progress().rows_per_second)
        limited(bench, process, job, rows_per_second=rate)
        bench.put(f"throttle_error_{name}", error(bench, target, rate, "rowsPerSecond", rate))
    throttle_bytes(bench)


def throttle_bytes(bench, rate=50_000_000):
    """Throttle a job that copies each column unchanged; the limit counts bytes of the source's files, whose rows have one size."""
    target = bench.fresh("rate50mb")
    process = bench.driver("rate50mb", target, transform={}, throttle={"bytesPerSecond": COPIED_BYTES_PER_S})
    warm(bench, "rate50mb", COPIED_SHARE)
    limited(bench, process, "rate50mb", COPIED_SETTLED_S, bytes_per_second=rate)
    row_bytes = sum(file["size"] for file in adds_of(bench.source).values()) / bench.rows
    bench.put("throttle_error_50mb", error(bench, target, rate / row_bytes, "bytesPerSecond", rate, COPIED_SETTLED_S))


def warm(bench, job, share):
    """Wait until this share of the rows is committed."""
    bench.until(lambda: bench.client(job).progress().rows_done > bench.rows * share)


def limited(bench, process, job, settled_s=SETTLED_S, **limit):
    """Let a driver copy under a limit for a while, and end it."""
    bench.client(job).command(Command(type="Throttle", throttle=ThrottleCommand(**limit)), 10)
    threading.Event().wait(settled_s + 11.5)
    bench.end(process)


def error(bench, target, rows_per_s, field, limit, settled_s=SETTLED_S):
    """Return the deviation of the rows of ten seconds in percent, from the time when `field` of the controls became the limit."""
    points = []
    for seal in seals(target):
        file = Path(target, "_delta_log", f"{seal.version:020d}.json")
        info = next(json.loads(line)["commitInfo"] for line in file.read_text().splitlines() if "commitInfo" in line)
        points.append((info["timestamp"] / 1000, seal.state["rowsDone"], seal.state["controls"].get(field)))
    throttled_s = next(at for at, _, value in points if value == limit)
    window = [point for point in points if settled_s <= point[0] - throttled_s <= settled_s + 10.6]
    (first_s, first, _), (last_s, last, _) = window[0], window[-1]
    by_second = [abs((b[1] - a[1]) / (b[0] - a[0]) / rows_per_s - 1) * 100 for a, b in itertools.pairwise(window)]
    bench.extra[f"throttle_worst_second_{limit}_percent"] = round(max(by_second), 2)
    return abs((last - first) / ((last_s - first_s) * rows_per_s) - 1) * 100
