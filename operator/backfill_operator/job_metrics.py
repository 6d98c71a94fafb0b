"""Metrics of each Backfill, rendered as text from the informer's cache at each scrape; docs/metrics.md explains them.

No metric object is stored. So a deleted Backfill has no series, and ten thousand Backfills take memory only during a scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, Literal, NamedTuple

from pydantic_core import from_json

from backfill_operator.informer.cache import Cache, Key, StoredBackfill
from backfill_operator.informer.compact import status_to_measure
from backfill_operator.informer.figures import JobFigures, figures_of, phase_label

PREFIX: Final = "backfill_job"
ROWS_AT_ONCE: Final = 500
ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class JobFamily(NamedTuple):
    """One metric of Backfills; its value is the field of `JobFigures` with the same name."""

    field: str
    help: str
    label: str = ""
    """Label of a figure that is a mapping; empty for a number."""

    type: Literal["gauge", "counter"] = "gauge"

    @property
    def name(self) -> str:
        """Name of the metric."""
        return f"{PREFIX}_{self.field}" + ("_total" if self.type == "counter" else "")

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its labels."""
        return (*JOB_LABELS, self.label) if self.label else JOB_LABELS


JOB_LABELS: Final = ("namespace", "name", "strategy")
INFO: Final = f"{PREFIX}_info"
INFO_LABELS: Final = (*JOB_LABELS, "phase", "step", "reason")
RECEIPT: Final = f"{PREFIX}_receipt"
RECEIPT_LABELS: Final = (*JOB_LABELS, "state")
OMITTED: Final = f"{PREFIX}_series_omitted"

FAMILIES: Final = (
    JobFamily("percent", "Finished part of the whole job, each step weighted by its time."),
    JobFamily("rows", "Rows of the source's pinned version."),
    JobFamily("rows_done", "Rows that are committed, or left out by the filter."),
    JobFamily("rows_per_second", "Rows a second, averaged over the last commits."),
    JobFamily("lag_seconds", "Seconds that the target is behind the source."),
    JobFamily("lag_versions", "Versions that the target is behind the source."),
    JobFamily("lag_records", "Offsets that the target is behind the source."),
    JobFamily("eta_seconds", "Estimated seconds left of the whole job."),
    JobFamily("eta_seconds_low", "Lower bound of the estimate."),
    JobFamily("eta_seconds_high", "Upper bound of the estimate."),
    JobFamily("throttled", "1 while a limit is in force."),
    JobFamily("max_in_flight", "Most pieces of the snapshot that run at the same time."),
    JobFamily("executors", "Requested executors, if a command can change their number."),
    JobFamily("paused", "1 while a pause, or a limit of 0, is in force."),
    JobFamily("attempt", "Number of the current attempt."),
    JobFamily("commit_age_seconds", "Seconds without a commit of a ready driver."),
    JobFamily("command_pending_seconds", "Seconds that the newest command has waited for its acknowledgement."),
    JobFamily("warnings", "1 for each warning of the driver.", "code"),
    JobFamily("failed_attempts", "Failed attempts of the last five.", "reason"),
    JobFamily("drivers_lost", "Drivers that ended without an end of their own.", "reason", "counter"),
    JobFamily("executors_lost", "Executors that ended while a driver needed them.", "reason", "counter"),
)

HEADS: Final = {
    OMITTED: ("Backfills beyond the limit of series.", "gauge"),
    INFO: ("1 for each Backfill, with its state.", "gauge"),
    RECEIPT: ("1 for each Backfill with a receipt, with the receipt's state.", "gauge"),
} | {family.name: (family.help, family.type) for family in FAMILIES}  # fmt: skip
"""Help and type of each metric."""

LABELS: Final = {OMITTED: (), INFO: INFO_LABELS, RECEIPT: RECEIPT_LABELS} | {
    family.name: family.labels for family in FAMILIES
}
"""Labels of each metric."""


class _Row(NamedTuple):
    """One Backfill."""

    labels: str
    """The labels of each of its lines."""

    state: str
    """Further labels of `INFO`."""

    receipt: str
    figures: JobFigures | None
    """`None` for a finished Backfill."""


class JobMetrics:
    """Renders the metrics of Backfills; safe in another thread than the cache's."""

    def __init__(self, cache: Cache, limit: int, *, leads: Callable[[], bool], now_ms: Callable[[], int]) -> None:
        """Take the parts.

        Args:
            cache: The Backfills.
            limit: Maximum number of Backfills with series; unfinished ones come first.
            leads: Returns whether this process leads. A standby renders nothing, so that no series exists twice.
            now_ms: Wall time.
        """
        self._cache = cache
        self._limit = limit
        self._leads = leads
        self._now_ms = now_ms

    def chunks(self) -> Iterator[str]:
        """Yield the metrics in Prometheus' text format, in parts of at most `ROWS_AT_ONCE` Backfills."""
        if not self._leads():
            return
        stored = sorted(self._cache.stored(), key=lambda entry: (entry[1].index.over, entry[0]))
        now_ms = self._now_ms()
        rows = [_row(key, backfill, now_ms) for key, backfill in stored[: self._limit]]
        yield f"{_head(OMITTED)}{OMITTED} {len(stored) - len(rows)}\n"
        yield from _family(INFO, rows, lambda row: f"{INFO}{{{row.labels},{row.state}}} 1\n")
        yield from _family(RECEIPT, rows, _receipt)
        for position, family in enumerate(FAMILIES):
            yield from _family(family.name, rows, partial(_figure, family, position))


def _row(key: Key, backfill: StoredBackfill, now_ms: int) -> _Row:
    index, figures = backfill.index, None
    if not index.over:
        status = status_to_measure(from_json(backfill.packed))
        figures = figures_of(status, active=index.active, now_ms=now_ms)
    step = figures.step if figures else ""
    return _Row(
        labels=f'namespace="{_escaped(key[0])}",name="{_escaped(key[1])}",strategy="{_escaped(index.strategy)}"',
        state=f'phase="{_escaped(phase_label(index.phase))}",step="{_escaped(step)}",reason="{_escaped(index.reason)}"',
        receipt=index.receipt,
        figures=figures,
    )


def _receipt(row: _Row) -> str:
    return f'{RECEIPT}{{{row.labels},state="{_escaped(row.receipt)}"}} 1\n' if row.receipt else ""


def _figure(family: JobFamily, position: int, row: _Row) -> str:
    """Return the lines of one metric of one Backfill; empty if it has no value."""
    value = None if row.figures is None else row.figures[position + 1]
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return "".join(
            f'{family.name}{{{row.labels},{family.label}="{_escaped(label)}"}} {number}\n'
            for label, number in sorted(value.items())
        )
    return f"{family.name}{{{row.labels}}} {value}\n"


def _family(name: str, rows: list[_Row], line: Callable[[_Row], str]) -> Iterator[str]:
    """Yield a metric; nothing if no Backfill has it."""
    head = _head(name)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        if lines := "".join(map(line, rows[start : start + ROWS_AT_ONCE])):
            yield head + lines
            head = ""


def _head(name: str) -> str:
    help_, type_ = HEADS[name]
    return f"# HELP {name} {help_}\n# TYPE {name} {type_}\n"


def _escaped(value: str) -> str:
    """Return a label value of the text format; names of a real API server need no escape."""
    return value if value.isalnum() else value.translate(ESCAPES)
