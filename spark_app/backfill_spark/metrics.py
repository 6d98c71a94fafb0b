"""The driver's metrics, read from the same progress that people see, so that the two cannot disagree."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from backfill_api.progress import Progress

_GAUGES: tuple[tuple[str, str, Callable[[Progress], float | None]], ...] = (
    ("backfill_attempt", "Number of the attempt.", lambda it: it.attempt),
    ("backfill_epoch", "Newest barrier.", lambda it: it.epoch),
    ("backfill_rows", "Rows of the pinned version.", lambda it: it.rows_total),
    ("backfill_rows_done", "Rows of history that are sealed.", lambda it: it.rows_done),
    ("backfill_changes_done", "Row changes applied after the snapshot.", lambda it: it.changes_done),
    ("backfill_bytes_done", "Bytes sealed.", lambda it: it.bytes_done),
    ("backfill_splits", "Splits, sealed and estimated.", lambda it: it.splits_total),
    ("backfill_splits_done", "Splits sealed.", lambda it: it.splits_done),
    ("backfill_rows_per_second", "Mean over the last seals.", lambda it: it.rows_per_second),
    ("backfill_lag_versions", "Versions that the target is behind.", lambda it: it.lag_versions),
    ("backfill_lag_seconds", "Seconds that the target is behind.", lambda it: it.lag_seconds),
    ("backfill_throttle_rows_per_second", "Limit in force.", lambda it: it.throttle_rows_per_second),
    ("backfill_paused", "1 while history or everything is held.", lambda it: it.paused is not None),
    ("backfill_caught_up", "1 once the target has reached the newest version.", lambda it: it.caught_up),
    ("backfill_command_revision", "Newest command in force.", lambda it: it.revision),
    ("backfill_target_version", "Target version of the newest seal.", lambda it: it.table_version),
)


class _Gauges(Collector):
    def __init__(self, job_id: str, progress: Callable[[], Progress]) -> None:
        self._job_id = job_id
        self._progress = progress

    def collect(self) -> Iterator[Metric]:
        """Look once, and say all of it; what is not known yet is left out."""
        progress = self._progress()
        for name, words, value in _GAUGES:
            number = value(progress)
            if number is not None:
                yield self._gauge(name, words, float(number))
        for quantile, seal_ms in (("0.5", progress.seal_ms_p50), ("0.99", progress.seal_ms_p99)):
            if seal_ms is not None:
                yield self._gauge("backfill_seal_seconds", "Time of the last seals.", seal_ms / 1000, quantile=quantile)

    def _gauge(self, name: str, words: str, value: float, **labels: str) -> GaugeMetricFamily:
        family = GaugeMetricFamily(name, words, labels=["job", *labels])
        family.add_metric([self._job_id, *labels.values()], value)
        return family


def progress_registry(job_id: str, progress: Callable[[], Progress]) -> CollectorRegistry:
    """Return a registry that shows one job's progress, read at each scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Gauges(job_id, progress))
    return registry
