"""How far a copy of a pinned version is, and the replay after it, for people and for the operator."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from backfill_core.pacing.eta import Eta, estimate
from backfill_core.pacing.retention import warn, warn_short
from backfill_core.phases.copy import Copy
from backfill_core.phases.key_proof import KeyProof, ProofRunning
from backfill_core.phases.replay import Replay, Running
from backfill_core.protocol.clock import Now
from backfill_core.protocol.strategy import Facts, JobWarning, Pinned, StrategyView

GRID_CELLS_MAX = 64


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a copy and a replay needs to know besides them."""

    pinned: Pinned
    copy: Copy
    replay: Replay
    phase: str
    doing: str
    """Why the job is not faster, in words."""

    copying: bool
    filtered: bool

    def at(self, now: Now) -> StrategyView:
        """Return how far the job is."""
        pinned, copy, replay = self.pinned, self.copy, self.replay
        left, lag = copy.rows_left, replay.lag_versions
        moving = bool(left) and not copy.held
        eta = estimate(left, copy.meter) if left else None
        shown = eta if moving else None
        # The commit time of what is consumed, as far as it is known: that of the pinned version or of a poll.
        consumed_ms = replay.consumed_ms()
        since_ms = pinned.timestamp_ms if consumed_ms is None else consumed_ms
        rows_filtered = self._rows_filtered()
        return StrategyView(
            phase=self.phase,
            rows_total=pinned.rows_live,
            rows_done=copy.rows_sealed + rows_filtered,
            rows_filtered=rows_filtered,
            splits_done=copy.splits,
            splits_left=-(-left // max(1, copy.rows_per_split)),
            consumed=None if self.copying else replay.consumed,
            head=replay.head,
            lag_versions=lag,
            lag_ms=max(0, now.wall_ms - since_ms) if lag else 0,
            rows_per_s=copy.meter.rows_per_s if moving else 0.0,
            eta_s=None if shown is None else shown.seconds,
            eta_low_s=None if shown is None else shown.low,
            eta_high_s=None if shown is None else shown.high,
            caught_up=replay.caught_up,
            non_convergent=replay.trend.non_convergent,
            grid=_grid(copy),
            reason=self.doing,
            facts=_facts(pinned, copy, replay, eta),
            watermark=copy.watermark,
            warnings=(*self._warnings(now, shown), *replay.divergence()),
        )

    def _rows_filtered(self) -> int:
        """Return the rows of the source that were read and are not in the target, as the row index tells: each has its turn."""
        copy = self.copy
        if not self.filtered or not copy.total:
            return 0
        return max(0, self.pinned.rows_live * copy.sealed.size // copy.total - copy.rows_sealed)

    def _warnings(self, now: Now, eta: Eta | None) -> tuple[JobWarning, ...]:
        """Say in time that what is still needed will be gone; after catching up only what is known to be old counts."""
        copy, replay = self.copy, self.replay
        since_ms, head = replay.consumed_ms(), replay.head
        if since_ms is None and not replay.caught_up:
            since_ms = self.pinned.timestamp_ms
        if head is None or since_ms is None:
            return ()
        message = warn(replay.consumed, since_ms, head.position, head.kept_s, now.wall_ms)
        if message is not None:
            return (JobWarning("RetentionEnding", message),)
        if self.copying:
            paces = [copy.rows_left / copy.rate_limit] if copy.rate_limit else []
            longest_s = max([*paces, *([] if eta is None else [eta.seconds])], default=None)
            message = warn_short(longest_s, head.kept_s)
        return () if message is None else (JobWarning("RetentionShort", message),)


def _facts(pinned: Pinned, copy: Copy, replay: Replay, eta: Eta | None) -> Facts:
    return Facts(
        rows=copy.total,
        rows_left=copy.rows_left,
        copy=eta,
        rows_per_s=copy.meter.rows_per_s,
        versions_done=replay.consumed - pinned.version,
        versions_left=replay.lag_versions,
        version_s=replay.version_s,
        versions_per_s=replay.versions_per_s,
    )


def _grid(copy: Copy) -> tuple[int, ...]:
    total = copy.total
    cells = min(GRID_CELLS_MAX, total)
    edges = [total * cell // cells for cell in range(cells + 1)] if cells else [0]
    return tuple(
        100 * (stop - start - copy.sealed.gaps(start, stop).size) // (stop - start)
        for start, stop in itertools.pairwise(edges)
    )


def doing(replay: Replay, key: KeyProof, *, merges: bool) -> str:
    """Say what is under way once all rows of the pinned version are there; empty when nothing is."""
    if isinstance(key, ProofRunning):
        return "proving that each key stands in one row of the target; changes wait"
    if isinstance(replay.batch, Running):
        batch = replay.batch.batch
        verb = "merging" if merges else "reading"
        return f"{verb} the changes of versions {batch.after + 1} to {batch.upto}"
    return "waiting for the first look at the source" if replay.head is None else ""
