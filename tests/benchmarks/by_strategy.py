"""The strategies side by side: their cost without live changes, what Arrangement does under them, and what a kill costs each.

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
    """Take every figure; the driver processes come last, alone."""
    side_by_side(bench)
    live(bench)
    bench.close()
    killed(bench)


def side_by_side(bench):
    """The copy alone, of a table that is clustered by its key and does not change; rounds by turns."""
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
            states = [len(json.dumps(one.state)) for one in seals(f"{bench.scratch}/ours")]
            bench.extra["state_bytes_max"] = max(bench.extra.get("state_bytes_max", 0), *states)
    middle = bench.middle()
    bench.extra["splits"] = splits
    bench.put("arrangement_vs_snapshot", middle["Snapshot"] / middle["Arrangement"])
    bench.put("chain_vs_snapshot", middle["Snapshot"] / middle["RearrangedChain"])


# ---------------------------------------------------------------- under live changes
class BarrierClock(Job):
    """The job, with a note of how late each barrier passes while a MERGE runs."""

    late_s: list[float]

    def on(self, event, now):
        due_s, before = self._times.barrier_s, self._strategy.status.blocks_commit
        actions = super().on(event, now)
        if self._times.barrier_s != due_s and before and self._strategy.status.blocks_commit:
            self.late_s.append(time.monotonic() - due_s)
        return actions


@dataclass
class Newcomers:
    """Rows with the keys -1, -2, … that another engine commits, one a commit: all below any position of an ascending order."""

    path: str
    committed_s: list[float] = field(default_factory=list)
    """When each was durable, over all runs."""

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
        """Go on until `ended`."""
        while not self.ended.wait(COMMIT_EVERY_S):
            self.commit()

    def commit(self):
        """Commit one row."""
        key = -len(self.committed_s) - 1
        one = self.rows.execute(f"SELECT * REPLACE (CAST({key} AS BIGINT) AS id) FROM t").read_all()
        write_deltalake(self.path, one, mode="append")
        self.committed_s.append(time.monotonic())


@dataclass
class Arrivals:
    """What the commits of a target bring, as a reader of its log sees it."""

    path: str
    seen_s: dict[int, float] = field(default_factory=dict)
    """When each version was there."""

    arrived_s: list[float] = field(default_factory=list)
    """When each newcomer was there: a version that has one has all before it."""

    ended: threading.Event = field(default_factory=threading.Event)

    def watch(self):
        """Go on until `ended`."""
        version, last = 0, False
        while not last:
            last = self.ended.wait(0.01)
            while (file := Path(self.path, "_delta_log", f"{version:020d}.json")).exists():
                self.take(version, file.read_text().splitlines(), time.monotonic())
                version += 1

    def take(self, version, lines, moment_s):
        self.seen_s[version] = moment_s
        for line in lines:
            stats = json.loads(line).get("add", {}).get("stats")
            least = json.loads(stats).get("minValues", {}).get("id", 0) if stats else 0
            self.arrived_s += [moment_s] * (-least - len(self.arrived_s))


def live(bench):
    """Arrangement while another engine commits rows behind its position; of each: when does a reader of the target see it?"""
    committed_s, fresh_s, rounds_s, BarrierClock.late_s = [], [], [], []
    plain, attempt.Job = attempt.Job, BarrierClock
    try:
        for _ in range(bench.runs):
            bench.timed("Arrangement_live", lambda: one_live_run(bench, committed_s, fresh_s, rounds_s))
    finally:
        attempt.Job = plain
    bench.rows += len(committed_s)
    late_ms = sorted(one * 1000 for one in BarrierClock.late_s)
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
        # The changes end with the copy: a job that exits has to catch up first.
        if progress.phase != "Reading":
            newcomers.ended.set()

    for one in threads:
        one.start()
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
    """Return when the first rows were there, when the last ones were, and when each batch of changes in between was."""
    found = seals(target)
    first = next(one for one in found if one.state["rowsDone"])
    last = next(one for one in found if one.progress["phase"] != "Reading")
    reading = [one for one in found if first.version <= one.version <= last.version]
    moved = [reading[0]] + [
        later for early, later in itertools.pairwise(reading)
        if later.progress["consumed"] != early.progress["consumed"]
    ]  # fmt: skip
    return (
        arrivals.seen_s[first.version],
        arrivals.seen_s[last.version],
        [arrivals.seen_s[one.version] for one in moved],
    )


# ---------------------------------------------------------------- killed
def killed(bench):
    """Driver processes, undisturbed and killed once at half of the rows."""
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
    """Run a job to its end, and kill its driver so often once half of the rows are there."""
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
