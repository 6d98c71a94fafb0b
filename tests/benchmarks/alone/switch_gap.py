"""Measure how long a switch-over keeps writers waiting: a source with one commit a second, a driver that follows, incremental files.

    python tests/benchmarks/alone/switch_gap.py --switches 20

Two figures for each switch: the time that the command reports, and the time between the last order that the source accepted and the first
that the target accepted, of a writer that tries again every 200 ms. Then the median and the largest time of each step.
"""

import argparse
import itertools
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from support.drivers.background import Running
from support.switch_over.names import Writer, make_name
from support.tables.jobs import document, make_orders

from backfill import Backfill, Settings, open_session
from backfill_api.load import load_backfill

BARS_S = {"p50": 3.0, "p99": 8.0}
MEASURED = ("reported", "observed")
COMMITS_BEFORE = 3
RETRY_S = 0.2
"""A writer that tries again more often takes the cores from the driver that it waits for."""


def one_switch(spark, folder, strategy, rows):
    """Switch a table over under a writer; return the reported and the observed seconds, and the seconds of each step."""
    source, target = str(folder / "orders"), str(folder / "orders_v2")
    make_orders(spark, source, rows, files=4)
    name, flip = make_name(folder, source)
    written = document(source, target, after="Follow", strategy={"type": strategy}, switch={"flip": flip})
    job = Backfill.of(written, settings=Settings(state_dir=folder / "state", cores=2))
    with Running(spark, load_backfill(written), folder / "state") as running:
        running.until(lambda progress: progress.caught_up)
        with Writer(name, pause_s=1.0, retry_s=RETRY_S) as writer:
            writer.until(COMMITS_BEFORE)
            began = []
            done = job.switch(spark, on_step=lambda step: began.append((step, time.monotonic())))
            began.append(("end", time.monotonic()))
            writer.until(1)
    steps = {step: later - at for (step, at), (_, later) in itertools.pairwise(began)}
    [observed_s] = writer.gaps()
    return done.unavailable_s, observed_s, steps


def quantiles(seconds):
    """Return median and 99th percentile; of few values, the largest."""
    return statistics.median(seconds), max(seconds) if len(seconds) < 100 else statistics.quantiles(seconds, n=100)[98]


def main():
    """Print each switch and the quantiles."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--switches", type=int, default=20)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--strategy", default="Snapshot")
    args = parser.parse_args()
    spark = open_session(Settings(cores=2, memory="2g"))
    seconds = defaultdict(list)
    for number in range(args.switches):
        folder = Path(tempfile.mkdtemp(prefix="switch-gap-"))
        try:
            reported_s, observed_s, steps = one_switch(spark, folder, args.strategy, args.rows)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        for name, value in {"reported": reported_s, "observed": observed_s, **steps}.items():
            seconds[name].append(value)
        print(
            f"{number + 1}: reported {reported_s:.2f} s, observed {observed_s:.2f} s, load {os.getloadavg()[0]:.1f}; "
            + ", ".join(f"{step} {step_s:.2f}" for step, step_s in steps.items()),
            flush=True,
        )
    for name, values in seconds.items():
        p50, p99 = quantiles(values)
        bars = f" (bars {BARS_S['p50']}, {BARS_S['p99']})" if name in MEASURED else ""
        print(f"{name}: p50 {p50:.2f} s, p99 {p99:.2f} s{bars}")


if __name__ == "__main__":
    main()
