"""Progress of a source backfill, for users and the operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from backfill_core.pacing.open_transactions import OpenTransactions, TransactionWait
from backfill_core.pacing.retention import warn_short, warn_short_removals
from backfill_core.phases.view import percent_done
from backfill_core.positions.intervals import IntervalSet
from backfill_core.positions.offsets import Largest, Offsets
from backfill_core.protocol.clock import Now
from backfill_core.protocol.eta import Eta, RateMeter, estimate
from backfill_core.protocol.events import Head
from backfill_core.protocol.strategy import Facts, JobWarning, StrategyView
from backfill_core.strategies.source_splits.backlog import Backlog
from backfill_core.strategies.source_splits.split import BACKFILLING, Split

LOOKS_MAX = 64
PARTITIONS_SHOWN_MAX = 20
RETENTION = "the retention of the source"


class LiveLag:
    """Age of the target's lag: the time of the oldest poll that the target has not reached."""

    def __init__(self) -> None:
        """Start without a poll."""
        self._looks: list[Head] = []

    @property
    def since_ms(self) -> int | None:
        """Return the time of that poll; `None` if the target has all polled records."""
        return self._looks[0].timestamp_ms if self._looks else None

    def see(self, head: Head, splits: Mapping[str, Split]) -> None:
        """Add a poll; only the oldest `LOOKS_MAX` unreached polls are kept."""
        if len(self._looks) < LOOKS_MAX and not _reached(head, splits):
            self._looks.append(head)

    def settle(self, splits: Mapping[str, Split]) -> None:
        """Remove the polls that the target has reached."""
        self._looks = [head for head in self._looks if not _reached(head, splits)]


def _reached(head: Head, splits: Mapping[str, Split]) -> bool:
    ends = head.position if head.watermarks is None else head.watermarks
    return all(name in splits and splits[name].live >= end for name, end in ends.items())


@dataclass(frozen=True, slots=True)
class TopicView:
    """Input of a view of the state machine."""

    splits: Mapping[str, Split]
    """Durable positions."""

    head: Head | None
    watermarks: Offsets
    phase: str
    caught_up: bool
    meter: RateMeter
    behind_since_ms: int | None
    backlog: Backlog
    open: OpenTransactions
    wait: TransactionWait | None
    """Open transactions that the job waits for before it has caught up."""

    rate_limit: float | None
    removes_keys: bool
    """True if a record without a value removes a row."""

    missed: str | None
    """Warning about removals of keys that the topic may have dropped while no attempt ran."""


def of(look: TopicView, now: Now) -> StrategyView:
    """Return the current view. Rows are counted as offsets (R-SRC-25), because the number of records is unknown."""
    splits = look.splits.values()
    total = sum(split.end - split.start for split in splits)
    left = sum(split.end - split.next for split in splits)
    lags = {
        name: split.end - split.next + max(0, look.watermarks.get(name, 0) - split.live)
        for name, split in look.splits.items()
    }
    unfinished = sum(split.state == BACKFILLING for split in splits)
    moving = bool(left) and not look.meter.held
    eta = estimate(left, look.meter, now.mono_s) if left else None
    return StrategyView(
        phase=look.phase,
        rows_total=total,
        rows_done=total - left,
        splits_done=len(look.splits) - unfinished,
        splits_left=unfinished,
        consumed=None if unfinished else {name: split.live for name, split in look.splits.items()},
        head=look.head,
        lag_versions=0,
        lag_ms=0 if look.behind_since_ms is None else max(0, now.wall_ms - look.behind_since_ms),
        rows_per_s=look.meter.rows_per_s if moving else 0.0,
        caught_up=look.caught_up,
        non_convergent=look.backlog.trend.non_convergent,
        grid=_grid(look.splits),
        reason=_reason(look, now),
        facts=_facts(look, total, left, eta, new=sum(lags.values()) - left),
        lag_records=sum(lags.values()),
        lag_by_partition=Largest.of(lags, PARTITIONS_SHOWN_MAX),
        warnings=(
            *_retention_warnings(look, left, eta if moving else None),
            *(() if look.missed is None else (JobWarning("RetentionShort", look.missed),)),
            *look.backlog.warnings,
            *look.open.warnings(now.mono_s),
        ),
    )


def _reason(look: TopicView, now: Now) -> str:
    if look.head is None:
        return "waiting for the first poll of the source"
    return "" if look.wait is None else look.wait.reason(now.mono_s)


def _facts(look: TopicView, total: int, left: int, eta: Eta | None, *, new: int) -> Facts:
    """Return the weights of steps. New records are assumed to be read at the unlimited pace of history, if known."""
    pace = look.meter.measured if look.rate_limit is None else look.meter.free
    return Facts(
        rows=total,
        rows_left=left,
        copy=eta,
        rows_per_s=look.meter.measured,
        limit_rows_per_s=look.meter.limit,
        fresh=look.meter.fresh,
        versions_done=sum(split.live - split.end for split in look.splits.values()),
        versions_left=new if pace else 0,
        version_s=1 / pace if pace else None,
    )


def _retention_warnings(look: TopicView, left: int, eta: Eta | None) -> tuple[JobWarning, ...]:
    """Warn if history, or removals of keys in it, may be gone before they are read, at the pace of the last commits or at the limit."""
    if look.head is None or not left:
        return ()
    paces = ([left / look.rate_limit] if look.rate_limit else []) + ([] if eta is None else [eta.seconds])
    needed_s = max(paces, default=None)
    messages = (
        warn_short(needed_s, look.head.kept_s, RETENTION),
        warn_short_removals(needed_s, look.head.removals_kept_s if look.removes_keys else None),
    )
    return tuple(JobWarning("RetentionShort", message) for message in messages if message is not None)


def _grid(splits: Mapping[str, Split]) -> tuple[int, ...]:
    """Return the grid cells of the history, partition after partition."""
    ordered = [splits[name] for name in sorted(splits)]
    starts = [0, *accumulate(split.end - split.start for split in ordered)]
    done = IntervalSet.of((at, at + split.next - split.start) for at, split in zip(starts, ordered, strict=False))
    return percent_done(starts[-1], done)
