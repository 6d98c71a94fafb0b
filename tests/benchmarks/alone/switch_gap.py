"""Measure how long a switch-over keeps writers waiting: a source with one commit a second, a driver that follows, incremental files.

    python tests/benchmarks/alone/switch_gap.py --switches 20

Two figures for each switch: the time that the command reports, and the time between the last order that the source accepted and the first
that the target accepted, of a writer that tries again every 50 ms.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import itertools

from support.drivers.background import Running
from support.switch_over.names import Writer, make_name
from support.tables.jobs import document, make_orders

from backfill import Backfill, Settings, open_session
from backfill_api.load import load_backfill

BARS_S = {"p50": 3.0, "p99": 8.0}
COMMITS_BEFORE = 3


def one_switch(spark, folder, strategy, rows):
    """Switch a table over under a writer; return the reported and the observed seconds."""
    source, target = str(folder / "orders"), str(folder / "orders_v2")
    make_orders(spark, source, rows, files=4)
    name, flip = make_name(folder, source)
    written = document(source, target, after="Follow", strategy={"type": strategy}, switch={"flip": flip})
    job = Backfill.of(written, settings=Settings(state_dir=folder / "state", cores=2))
    with Running(spark, load_backfill(written), folder / "state") as running:
        running.until(lambda progress: progress.caught_up)
        with Writer(name, pause_s=1.0, retry_s=0.05) as writer:
            writer.until(COMMITS_BEFORE)
            began = []
            done = job.switch(spark, on_step=lambda step: began.append((step, time.monotonic())))
            writer.until(1)
    spans = itertools.pairwise(began)
    print(", ".join(f"{step} {later - at:.1f} s" for (step, at), (_, later) in spans), flush=True)
    [observed_s] = writer.gaps()
    return done.unavailable_s, observed_s


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
    reported, observed = [], []
    spark = open_session(Settings(cores=2, memory="2g"))
    for number in range(args.switches):
        folder = Path(tempfile.mkdtemp(prefix="switch-gap-"))
        try:
            for seconds, to in zip(
                one_switch(spark, folder, args.strategy, args.rows), (reported, observed), strict=True
            ):
                to.append(seconds)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{number + 1}: reported {reported[-1]:.2f} s, observed {observed[-1]:.2f} s", flush=True)
    for title, seconds in (("reported", reported), ("observed", observed)):
        p50, p99 = quantiles(seconds)
        print(f"{title}: p50 {p50:.2f} s (bar {BARS_S['p50']}), p99 {p99:.2f} s (bar {BARS_S['p99']})")


if __name__ == "__main__":
    main()
