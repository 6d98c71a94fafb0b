"""The driver's metrics: gauges from the progress that users see, so that both always agree, and counters and times of the loop.

docs/metrics.md lists them, and a test compares the list. If a metric is renamed, alerts on its old name never fire again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from backfill_api.status.progress import Progress, StepProgress, Watermark
from backfill_core.protocol.actions import Acknowledge, Action, Seal, StartWork
from backfill_core.protocol.clock import Now
from backfill_core.protocol.events import Event, PollFailed, Sealed, SealFailed, WorkCancelled, WorkFailed, WorkFinished
from backfill_core.protocol.work import StagedFile, Verify, Work, WorkKind

_GAUGES: tuple[tuple[str, str, Callable[[Progress], float | None]], ...] = (
    ("backfill_attempt", "Number of the attempt.", lambda it: it.attempt),
    ("backfill_epoch", "Newest barrier.", lambda it: it.epoch),
    ("backfill_percent", "Part of the whole job that is done.", lambda it: it.percent),
    ("backfill_rows", "Rows of the pinned version.", lambda it: it.rows_total),
    (
        "backfill_rows_done",
        "Rows of the snapshot that are committed, or excluded by the filter.",
        lambda it: it.rows_done,
    ),
    (
        "backfill_watermark",
        "Value up to which the snapshot is done in its order; a time as Unix time.",
        lambda it: _number(it.watermark),
    ),
    ("backfill_changes_done", "Row changes applied after the snapshot.", lambda it: it.changes_done),
    ("backfill_bytes_done", "Bytes committed.", lambda it: it.bytes_done),
    ("backfill_splits", "Splits, committed and estimated.", lambda it: it.splits_total),
    ("backfill_splits_done", "Splits committed.", lambda it: it.splits_done),
    (
        "backfill_rows_per_second",
        "Average over the last commits; 0 while the snapshot is held.",
        lambda it: it.rows_per_second,
    ),
    ("backfill_eta_seconds", "Estimated time left of the whole job.", lambda it: it.eta_seconds),
    ("backfill_lag_versions", "Versions that the target is behind.", lambda it: it.lag_versions),
    ("backfill_lag_records", "Offsets that the target is behind.", lambda it: it.lag_records),
    ("backfill_lag_seconds", "Seconds that the target is behind.", lambda it: it.lag_seconds),
    (
        "backfill_throttled",
        "1 while a limit is in force.",
        lambda it: (it.throttle_rows_per_second, it.throttle_bytes_per_second) != (None, None),
    ),
    ("backfill_throttle_rows_per_second", "Limit of rows in force.", lambda it: it.throttle_rows_per_second),
    ("backfill_throttle_bytes_per_second", "Limit of bytes in force.", lambda it: it.throttle_bytes_per_second),
    ("backfill_max_in_flight", "Most pieces of the snapshot that run at the same time.", lambda it: it.max_in_flight),
    ("backfill_split_target_seconds", "Target duration of a split.", lambda it: it.split_target_seconds),
    (
        "backfill_chunk_rows",
        "Rows of a chunk, at most; 0: as many as take about four seconds.",
        lambda it: it.chunk_rows,
    ),
    ("backfill_executors", "Executors that the job requests.", lambda it: it.executors),
    ("backfill_paused", "1 while history or everything is held.", lambda it: it.paused is not None),
    ("backfill_quiet", "1 while nothing runs.", lambda it: it.quiet),
    ("backfill_stopping", "1 once the attempt was asked to end.", lambda it: it.stopping),
    ("backfill_caught_up", "1 once the target has reached the newest version.", lambda it: it.caught_up),
    ("backfill_non_convergent", "1 while the lag does not fall.", lambda it: it.non_convergent),
    ("backfill_command_revision", "Newest command in force.", lambda it: it.revision),
    ("backfill_target_version", "Target version of the newest commit.", lambda it: it.table_version),
    (
        "backfill_last_commit_timestamp_seconds",
        "When the newest commit was durable.",
        lambda it: _unix(it.last_commit_time),
    ),
    (
        "backfill_last_barrier_timestamp_seconds",
        "When the newest barrier passed, with a commit or without one.",
        lambda it: _unix(it.last_barrier_time),
    ),
    (
        "backfill_last_look_timestamp_seconds",
        "When the source answered the newest poll.",
        lambda it: _unix(it.last_look_time),
    ),
)
_STEP_GAUGES: tuple[tuple[str, str, Callable[[StepProgress], float | None]], ...] = (
    ("backfill_step_running", "1 for the step that the job is in.", lambda it: it.state == "Running"),
    ("backfill_step_seconds", "Time that the step took so far, pauses left out.", lambda it: it.seconds),
    ("backfill_step_eta_seconds", "Estimated time left of the step.", lambda it: it.seconds_left),
)
_PARTITION_LAG = (
    "backfill_partition_lag_records",
    "Offsets that the target is behind in a partition; at most 21 series.",
)
_SEAL_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5, 5, 10, 30)
_WORK_BUCKETS_S = (0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 900)
_KINDS = {WorkKind.HISTORY: "split", WorkKind.CHANGES: "changes", WorkKind.CHECK: "key"}
_RECEIPT = "receipt"


def _word(work: Work) -> str:
    """Return the label value for a unit of work; a strategy's own kinds of work are labeled by their purpose."""
    return _RECEIPT if isinstance(work, Verify) else _KINDS[work.kind]


def _number(reached: Watermark | None) -> float | None:
    """Return a watermark that is a number, or a time as Unix time; `None` for other strings."""
    if reached is None:
        return None
    with suppress(ValueError):
        return float(reached.value)
    with suppress(ValueError):
        time = datetime.fromisoformat(reached.value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return None


def _unix(timestamp: str | None) -> float | None:
    return None if timestamp is None else datetime.fromisoformat(timestamp).timestamp()


class _Gauges(Collector):
    def __init__(self, job_id: str, progress: Callable[[], Progress]) -> None:
        self._job_id = job_id
        self._progress = progress

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of one view of the progress; unknown values are omitted."""
        progress = self._progress()
        for name, description, value in _GAUGES:
            number = value(progress)
            if number is not None:
                family = GaugeMetricFamily(name, description, labels=["job"])
                family.add_metric([self._job_id], float(number))
                yield family
        family = GaugeMetricFamily(*_PARTITION_LAG, labels=["job", "partition"])
        for lag in progress.lag_by_partition:
            family.add_metric([self._job_id, lag.partition], float(lag.records))
        yield family
        lost = CounterMetricFamily(
            "backfill_executors_lost", "Executors that this driver lost.", labels=["job", "reason"]
        )
        for loss in progress.executors_lost:
            lost.add_metric([self._job_id, loss.reason], float(loss.count))
        yield lost
        for name, description, of_step in _STEP_GAUGES:
            values = [(step.name, of_step(step)) for step in progress.steps]
            family = GaugeMetricFamily(name, description, labels=["job", "step"])
            for step_name, number in values:
                if number is not None:
                    family.add_metric([self._job_id, step_name], float(number))
            yield family


class LoopMeter:
    """Counts and times the events and actions of the loop; only the loop's thread calls it, and a call costs microseconds."""

    def __init__(self, job_id: str, registry: CollectorRegistry) -> None:
        """Add the instruments to a registry."""
        self._job_id = job_id
        self._sealing: dict[int, float] = {}
        self._working: dict[int, tuple[Work, float]] = {}

        def times(name: str, description: str, buckets: tuple[float, ...]) -> Histogram:
            family = Histogram(name, description, labelnames=["job"], buckets=buckets, registry=registry)
            return family.labels(job_id)

        self._barrier_s = times("backfill_barrier_seconds", "From the request of a commit to durable.", _SEAL_BUCKETS_S)
        self._seal_s = times("backfill_commit_seconds", "One commit.", _SEAL_BUCKETS_S)
        self._work_s = {
            "split": times("backfill_split_seconds", "Reading and staging one split.", _WORK_BUCKETS_S),
            "changes": times("backfill_merge_seconds", "One batch of changes: MERGE, or staging.", _WORK_BUCKETS_S),
            _RECEIPT: times("backfill_receipt_seconds", "Comparing source and target.", _WORK_BUCKETS_S),
            "key": times("backfill_key_seconds", "Proving that each key is in only one row.", _WORK_BUCKETS_S),
        }

        def counts(name: str, description: str) -> Counter:
            return Counter(name, description, labelnames=["job"], registry=registry).labels(job_id)

        self._staged_rows = counts("backfill_staged_rows", "Rows staged by this attempt, committed or not.")
        self._staged_bytes = counts("backfill_staged_bytes", "Bytes staged by this attempt, committed or not.")
        self._staged_files = Counter(
            "backfill_staged_files",
            "Files staged by this attempt, committed or not.",
            ["job", "way"],
            registry=registry,
        )
        self._seals_lost = counts("backfill_commit_failures", "Commits that failed and were tried again.")
        self._looks_lost = counts("backfill_look_failures", "Polls of the source that failed.")
        self._work_lost = Counter(
            "backfill_work_failures", "Work that failed or was cancelled.", ["job", "work", "why"], registry=registry
        )
        self._acks = Counter("backfill_acknowledgements", "Commands answered.", ["job", "outcome"], registry=registry)

    def __call__(self, seen: Event | Action, moment: Now) -> None:
        """Record an event before the core gets it, or an action before it is executed."""
        match seen:
            case Seal(epoch=epoch):
                self._sealing.setdefault(epoch, moment.mono_s)  # a retry belongs to the same barrier
            case Sealed(epoch=epoch, seconds=seconds):
                self._seal_s.observe(seconds)
                self._barrier_s.observe(moment.mono_s - self._sealing.pop(epoch, moment.mono_s))
            case SealFailed():
                self._seals_lost.inc()
            case PollFailed():
                self._looks_lost.inc()
            case StartWork(work=work):
                self._working[work.work_id] = (work, moment.mono_s)
            case WorkFinished(result=result) if result.work_id in self._working:
                work, since_s = self._working.pop(result.work_id)
                self._work_s[_word(work)].observe(moment.mono_s - since_s)
                self._count_files(getattr(result, "files", ()))
            case WorkFailed(work_id=work_id):
                self._lose(work_id, "failed")
            case WorkCancelled(work_id=work_id):
                self._lose(work_id, "cancelled")
            case Acknowledge(outcome=outcome):
                self._acks.labels(self._job_id, outcome).inc()
            case _:
                pass

    def _count_files(self, files: tuple[StagedFile, ...]) -> None:
        self._staged_rows.inc(sum(file.rows for file in files))
        self._staged_bytes.inc(sum(file.size_bytes for file in files))
        for file in files:
            if file.rows:  # the file of a deletion vector has no rows
                self._staged_files.labels(self._job_id, file.mode.value).inc()

    def _lose(self, work_id: int, why: str) -> None:
        if work_id in self._working:
            work, _ = self._working.pop(work_id)
            self._work_lost.labels(self._job_id, _word(work), why).inc()


def progress_registry(job_id: str, progress: Callable[[], Progress]) -> CollectorRegistry:
    """Return a registry with one job's progress, which is read at each scrape."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Gauges(job_id, progress))
    return registry
