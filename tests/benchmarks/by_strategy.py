"""Compare the strategies: their cost without live changes, Arrangement under live changes, and the cost of a kill for each.

Part of `run.py --only strategies`.
"""

import itertools
import json
import statistics
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from deltalake import DeltaTable, QueryBuilder, write_deltalake
from support.tables.jobs import job
from support.tables.oracle import rows_in, seals

from backfill_core.job.job import Job
from backfill_spark.driver import attempt
from backfill_spark.driver.plan import plan_job

STRATEGIES = ("Snapshot", "Arrangement", "RearrangedChain")
WARM_ROUNDS = 4
COMMIT_EVERY_S = 0.2
BARS = {
    "arrangement_vs_snapshot": ("ratio", 0.9, "higher"), "chain_vs_snapshot": ("ratio", 0.9, "higher"),
    "arrangement_freshness_p50": ("s", 10, "lower"),
    "arrangement_freshness_rounds": ("rounds", 1.0, "lower"), "barrier_during_merge_p99": ("ms", 300, "lower"),
}  # fmt: skip


def strategies(bench):
    """Measure every figure; the driver processes run last, after the session is closed."""
    side_by_side(bench)
    live(bench)
    bench.close()
    killed(bench)


def side_by_side(bench):
    """Measure only the copy, of a table that is clustered by its key and does not change; the strategies take turns."""
    plan = plan_job(
        job(bench.source, bench.fresh("planned"), strategy={"type": "Arrangement"}),
        settings=bench.settings,
        spark=bench.spark,
    )
    bench.extra["read_amplification"] = plan.read_amplification_percent / 100
    for _ in range(WARM_ROUNDS):
        for kind in STRATEGIES:
            bench.ours(strategy={"type": kind})
    splits = {}
    for at in range(bench.runs):
        for kind in (*STRATEGIES[at % 3 :], *STRATEGIES[: at % 3]):
            progress = bench.timed(kind, lambda kind=kind: bench.ours(strategy={"type": kind})).progress
            splits.setdefault(kind, []).append(progress.splits_done)
            states = [len(json.dumps(seal.state)) for seal in seals(f"{bench.scratch}/ours")]
            bench.extra["state_bytes_max"] = max(bench.extra.get("state_bytes_max", 0), *states)
    middle = bench.middle()
    bench.extra["splits"] = splits
    bench.put("arrangement_vs_snapshot", middle["Snapshot"] / middle["Arrangement"])
    bench.put("chain_vs_snapshot", middle["Snapshot"] / middle["RearrangedChain"])


# ---------------------------------------------------------------- under live changes
class BarrierClock(Job):
    """A job that records how late each barrier passes while a MERGE runs."""

    late_s: list[float]

    def on(self, event, now):
        due_s, before = self._times.barrier_s, self._strategy.status.blocks_commit
        actions = super().on(event, now)
        if self._times.barrier_s != due_s and before and self._strategy.status.blocks_commit:
            self.late_s.append(time.monotonic() - due_s)
        return actions


@dataclass
class Newcomers:
    """Rows with the keys -1, -2, … that another engine commits, one per commit: all below any position of an ascending order."""

    path: str
    committed_s: list[float] = field(default_factory=list)
    """Times at which each row was durable, over all runs."""

    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self):
        pattern = f"{self.path}-pattern"
        if not Path(pattern).exists():
            write_deltalake(
                pattern,
                QueryBuilder().register("t", DeltaTable(self.path)).execute("SELECT * FROM t LIMIT 1").read_all(),
            )
        self.rows = QueryBuilder().register("t", DeltaTable(pattern))

    def write(self):
        """Commit rows until `ended` is set."""
        while not self.ended.wait(COMMIT_EVERY_S):
            self.commit()

    def commit(self):
        """Commit one row."""
        key = -len(self.committed_s) - 1
        row = self.rows.execute(f"SELECT * REPLACE (CAST({key} AS BIGINT) AS id) FROM t").read_all()
        write_deltalake(self.path, row, mode="append")
        self.committed_s.append(time.monotonic())


@dataclass
class Arrivals:
    """Versions and new rows of a target, as a reader of its log sees them."""

    path: str
    seen_s: dict[int, float] = field(default_factory=dict)
    """Time at which each version was visible."""

    arrived_s: list[float] = field(default_factory=list)
    """Time at which each new row was visible: a version with one row has all rows before it."""

    ended: threading.Event = field(default_factory=threading.Event)

    def watch(self):
        """Poll the log until `ended` is set."""
        version, last = 0, False
        while not last:
            last = self.ended.wait(0.01)
            while (file := Path(self.path, "_delta_log", f"{version:020d}.json")).exists():
                self.take(version, file.read_text().splitlines(), time.monotonic())
                version += 1

    def take(self, version, lines, visible_s):
        self.seen_s[version] = visible_s
        for line in lines:
            stats = json.loads(line).get("add", {}).get("stats")
            least = json.loads(stats).get("minValues", {}).get("id", 0) if stats else 0
            self.arrived_s += [visible_s] * (-least - len(self.arrived_s))


def live(bench):
    """Measure Arrangement while another engine commits rows behind its position: the time until a reader of the target sees each row."""
    committed_s, fresh_s, rounds_s, BarrierClock.late_s = [], [], [], []
    plain, attempt.Job = attempt.Job, BarrierClock
    try:
        for _ in range(bench.runs):
            bench.timed("Arrangement_live", lambda: one_live_run(bench, committed_s, fresh_s, rounds_s))
    finally:
        attempt.Job = plain
    bench.rows += len(committed_s)
    late_ms = sorted(seconds * 1000 for seconds in BarrierClock.late_s)
    bench.extra["live"] = {
        "newcomers": len(fresh_s), "freshness_max_s": round(max(fresh_s), 2), "round_p50_s": round(statistics.median(rounds_s), 2),
        "rounds": len(rounds_s), "barriers": len(late_ms), "barrier_max_ms": round(late_ms[-1], 1),
    }  # fmt: skip
    bench.put("arrangement_freshness_p50", statistics.median(fresh_s))
    bench.put("arrangement_freshness_rounds", statistics.median(fresh_s) / statistics.median(rounds_s))
    bench.put("barrier_during_merge_p99", late_ms[len(late_ms) * 99 // 100])


def one_live_run(bench, committed_s, fresh_s, rounds_s):
    target = bench.fresh("live")
    before, newcomers, arrivals = len(committed_s), Newcomers(bench.source, committed_s), Arrivals(target)
    threads = [threading.Thread(target=newcomers.write), threading.Thread(target=arrivals.watch)]

    def observe(progress):
        # The changes end with the copy, because a job that exits has to catch up first.
        if progress.phase != "Reading":
            newcomers.ended.set()

    for thread in threads:
        thread.start()
    try:
        backfill = job(bench.source, target, name="live", strategy={"type": "Arrangement"})
        outcome = attempt.run_driver(backfill, settings=bench.settings, observe=observe, spark=bench.spark)
        assert outcome.outcome == "Complete", outcome
    finally:
        newcomers.ended.set()
        threads[0].join()
        arrivals.ended.set()
        threads[1].join()
    assert rows_in(target) == rows_in(bench.source) == bench.rows + len(committed_s)
    read_from, read_to, consumed_s = read_between(target, arrivals)
    rounds_s += [late - early for early, late in itertools.pairwise(consumed_s)]
    for at in range(before, len(committed_s)):
        if read_from <= committed_s[at] <= read_to:
            fresh_s.append(arrivals.arrived_s[at] - committed_s[at])


def read_between(target, arrivals):
    """Return the times of the first rows and of the last rows, and of each batch of changes between them."""
    all_seals = seals(target)
    first = next(seal for seal in all_seals if seal.state["rowsDone"])
    last = next(seal for seal in all_seals if seal.progress["phase"] != "Reading")
    reading = [seal for seal in all_seals if first.version <= seal.version <= last.version]
    moved = [reading[0]] + [
        later for early, later in itertools.pairwise(reading)
        if later.progress["consumed"] != early.progress["consumed"]
    ]  # fmt: skip
    return (
        arrivals.seen_s[first.version],
        arrivals.seen_s[last.version],
        [arrivals.seen_s[seal.version] for seal in moved],
    )


# ---------------------------------------------------------------- killed
def killed(bench):
    """Run driver processes, undisturbed and killed once at half of the rows."""
    for kind in STRATEGIES:
        for kills in (0, 1):
            name = f"{kind.lower()}-{kills}"
            bench.timed(
                f"{kind}_process{'_killed_at_half' * kills}",
                lambda name=name, kind=kind, kills=kills: through(bench, name, kills, strategy={"type": kind}),
            )
    bench.extra["killed_costs"] = {
        kind: round(bench.middle()[f"{kind}_process_killed_at_half"] / bench.middle()[f"{kind}_process"], 2)
        for kind in STRATEGIES
    }


def through(bench, name, kills, **spec):
    """Run a job to its end, and kill its driver this many times once half of the rows are committed."""
    target = bench.fresh(name)
    for _ in range(kills):
        process = bench.driver(name, target, **spec)
        bench.until(lambda: process.poll() is not None or half_done(bench, name), limit_s=900)
        assert process.poll() is None, "it was done before it could be killed: take more ROWS"
        bench.end(process)
    assert bench.driver(name, target, **spec).wait() == 0
    assert seals(target)[-1].state["rowsDone"] == bench.rows


def half_done(bench, name):
    return bench.client(name).progress().rows_done > bench.rows / 2
