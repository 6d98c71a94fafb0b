"""Measure how often the true end of a run lies in the interval that the driver reports, with real driver processes.

    python tests/benchmarks/eta.py --out build/bench/eta.json [--runs 10] [--rows 2000000]

Every second run changes its limit three times. An interval counts at a quarter, a half and three quarters of the rows: the first one that
is reported from there on. The bar is 80 % of the intervals. The report has the readings of each run, with the seconds that were left.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.bench_report import write_report  # noqa: E402
from support.tables.jobs import make_orders, write_yaml  # noqa: E402

from backfill.control import find  # noqa: E402
from backfill_api.wire import Command, ThrottleCommand  # noqa: E402
from backfill_core.errors import BackfillError  # noqa: E402
from backfill_spark.jvm.session import open_session  # noqa: E402

QUARTERS = (25, 50, 75)
BARS = {
    "eta_in_interval": ("%", 80, "higher"),
    **{f"eta_in_interval_at_{quarter}": ("%", 80, "higher") for quarter in QUARTERS},
}
READ_EVERY_S, END_S, ACK_S = 0.2, 600, 20
SEED = 11
JARS = Path(os.environ.get("BACKFILL_JARS_DIR", str(ROOT / ".cache" / "jars")))
TRANSFORM = {"select": ["id", "customer", "amount", "concat(note, '') AS note", "concat(status, '') AS status"]}


@dataclass(frozen=True)
class Estimate:
    """An interval of seconds, and the time at which it was read."""

    at_s: float
    low_s: int
    high_s: int

    def contains(self, end_s):
        """Return whether the end lies in the interval; its bounds are whole seconds."""
        return self.low_s - 1 <= end_s - self.at_s <= self.high_s + 1


class Run:
    """One driver process, and the estimates that it reports."""

    def __init__(self, scratch, number, rows, rng):
        self.rows, self.name = rows, f"eta{number}"
        self.state, self.target = scratch / f"state{number}", scratch / f"target{number}"
        file = write_yaml(
            scratch / f"{self.name}.yaml", str(scratch / "source"), str(self.target), name=self.name, transform=TRANSFORM,
            verify="Final",
        )  # fmt: skip
        env = {**os.environ, "BACKFILL_STATE_DIR": str(self.state), "BACKFILL_JARS_DIR": str(JARS)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "backfill_spark", "-f", str(file)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env,
        )  # fmt: skip
        changes = sorted(rng.sample(range(10, 70), 3)) if number % 2 else []
        self.changes = [(percent, rng.choice([0.3, 0.6, None])) for percent in changes]
        self.estimates = {}
        self.readings = []
        self.rate = 0

    def estimated(self):
        """Follow the driver to its end; return the estimates by percent of the rows, and the time of the end."""
        pause, deadline_s = threading.Event(), time.monotonic() + END_S
        while self.process.poll() is None and time.monotonic() < deadline_s:
            with suppress(BackfillError):  # the driver starts or ends
                self.read(find(self.state, f"default/{self.name}"))
            pause.wait(READ_EVERY_S)
        end_s = time.monotonic()
        if self.process.poll() is None:
            self.process.kill()
        if self.process.wait() != 0:
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}")
        return self.estimates, end_s

    def read(self, client):
        """Record an estimate, and change the limit when it is due."""
        progress, at_s = client.progress(), time.monotonic()
        done = 100 * progress.rows_done // self.rows
        self.rate = max(self.rate, progress.rows_per_second or 0)
        self.readings.append((at_s, progress))
        if progress.eta_seconds_low is not None and progress.eta_seconds_high is not None:
            estimate = Estimate(at_s, progress.eta_seconds_low, progress.eta_seconds_high)
            for quarter in QUARTERS:
                if done >= quarter:
                    self.estimates.setdefault(quarter, estimate)
        if self.changes and done >= self.changes[0][0]:
            _, share = self.changes.pop(0)
            limit = None if share is None else max(10_000, round(self.rate * share))
            client.apply(Command(type="Throttle", throttle=ThrottleCommand(rows_per_second=limit)), ACK_S)


def of_reading(progress, left_s):
    """Return the numbers of a reading that an estimate is judged by."""
    steps = {step.name: [step.state, step.seconds, step.seconds_left] for step in progress.steps}
    return {
        "left_s": round(left_s, 1), "rows": progress.rows_done, "rows_per_s": progress.rows_per_second,
        "limit": None if progress.limit is None else progress.limit.rows_per_second, "step": progress.step, "steps": steps,
        "eta": [progress.eta_seconds_low, progress.eta_seconds, progress.eta_seconds_high],
    }  # fmt: skip


def of_run(scratch, number, rows, rng):
    """Return for each quarter of a run whether its end was in the interval, `False` without an interval; and its readings."""
    run = Run(scratch, number, rows, rng)
    limits = "limit changes" if run.changes else "no limit"
    estimates, end_s = run.estimated()
    shutil.rmtree(run.target)
    inside = {}
    for quarter in QUARTERS:
        estimate = estimates.get(quarter)
        inside[quarter] = estimate is not None and estimate.contains(end_s)
        shown = (
            "none"
            if estimate is None
            else f"{estimate.low_s} to {estimate.high_s} s, {end_s - estimate.at_s:.0f} s were left"
        )
        verdict = "inside" if inside[quarter] else "OUTSIDE"
        print(f"run {number} ({limits}) at {quarter} %: {shown}: {verdict}, load {os.getloadavg()[0]:.1f}", flush=True)
    return inside, [of_reading(progress, end_s - at_s) for at_s, progress in run.readings]


def percent(inside):
    """Return the share of true values."""
    return round(100 * sum(inside) / len(inside), 1)


def main():
    """Measure the runs one after the other; write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--out", default="build/bench/eta.json")
    args = parser.parse_args()
    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory(prefix="backfill-eta-") as folder:
        scratch = Path(folder)
        spark = open_session(app_name="source", memory="3g", jars_dir=JARS)
        make_orders(spark, str(scratch / "source"), args.rows, files=16)
        spark.stop()
        runs, readings = zip(*(of_run(scratch, number, args.rows, rng) for number in range(args.runs)), strict=True)
    figures = {"eta_in_interval": percent([inside for run in runs for inside in run.values()])}
    figures |= {f"eta_in_interval_at_{quarter}": percent([run[quarter] for run in runs]) for quarter in QUARTERS}
    write_report(args.out, figures, BARS, runs=args.runs, rows=args.rows, readings=readings)


if __name__ == "__main__":
    main()
