"""Copy, then replay: one pinned version in splits, the proof of the key where it is due, then the changes after that version.

What strategies of this kind share. Each owns a `CopyReplay`, tells it every event, and adds its rule of when the job has caught up.
The proof (`phases/key_proof.py`) waits for the commit of the last split and holds all changes: a MERGE would hide two rows with one
key (ADR 0013).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Self

from backfill_api.spec.params import SplitParams
from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import AccountingError, BackfillError
from backfill_core.job.steps import CATCH_UP, COPY, KEY_PROOF
from backfill_core.phases import view
from backfill_core.phases.copy import Copy, CopySettings
from backfill_core.phases.key_proof import PROVING, KeyProver
from backfill_core.phases.pending import LimitRule
from backfill_core.phases.replay import CatchUpEnd, ChangeWay, Replay
from backfill_core.phases.view import Copied
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import (
    BarrierPassed,
    LimitSet,
    Sealed,
    SourcePolled,
    StrategyEvent,
    WorkFinished,
    WorkLost,
)
from backfill_core.protocol.strategy import CommitRequest, Opened, Permits, Pinned, StrategyStatus, StrategyView
from backfill_core.protocol.work import ChangesApplied, KeyProven, Result, SplitStaged, VersionsShipped, Work

READS_AHEAD_INTERVAL_MS = 1500


@dataclass(frozen=True, slots=True)
class CopyReplaySettings:
    """How the machine runs; none of it changes the result."""

    merges: bool
    """Changes are merged (Upsert); else staged and sealed like splits (Append, Changelog)."""

    filtered: bool
    """The transform drops rows, so rows sealed need not equal rows of the source."""

    in_flight_max: int = 2
    split_target_s: float = 4.0
    batch_target_s: float = 10.0
    follow: bool = False
    reads_ahead: bool = True
    """May files be read ahead of a limit? What is kept ahead is a few seconds' worth, which slow barriers would wait for."""

    whole_files: bool = False
    """Is no file cut, because files of the target stand for files of the source?"""

    @property
    def way(self) -> ChangeWay:
        """How changes come into the target."""
        return ChangeWay.of(merges=self.merges)

    @property
    def copy(self) -> CopySettings:
        """What of it the copy needs."""
        return CopySettings(self.filtered, self.in_flight_max, self.split_target_s, self.reads_ahead, self.whole_files)

    @classmethod
    def shared(cls, spec: BackfillSpec) -> Self:
        """Read from a spec what is here; fields of a strategy's own have their defaults."""
        params = spec.strategy.params
        assert isinstance(params, SplitParams)
        return cls(
            merges=spec.write_mode == "Upsert",
            filtered=spec.transform.where is not None,
            in_flight_max=params.max_in_flight,
            split_target_s=params.split_target_seconds,
            batch_target_s=params.change_batch_seconds,
            follow=spec.after == "Follow",
            reads_ahead=spec.barrier.interval_ms <= READS_AHEAD_INTERVAL_MS,
        )


class CopyReplay:
    """See the module."""

    def __init__(
        self,
        opened: Opened,
        pinned: Pinned,
        settings: CopyReplaySettings,
        *,
        limit: LimitRule,
        end: CatchUpEnd,
        key_proven: bool,
    ) -> None:
        """Begin with nothing.

        Args:
            opened: What was found when the job was opened.
            pinned: The pinned version of the job, which may be gone by now.
            settings: How it runs.
            limit: How much may be pending while the job catches up.
            end: Which commit says that the job has caught up.
            key_proven: Did an earlier attempt prove the key?
        """
        self._settings, self._pinned = settings, pinned
        how = replace(settings.copy, decodes=opened.decodes)
        self.copy = Copy(pinned.rows, how, pinned.order, pinned.bytes, pinned.live)
        self.replay = Replay(
            pinned.version,
            way=settings.way,
            follow=settings.follow,
            batch_target_s=settings.batch_target_s,
            limit=limit,
            end=end,
        )
        self.replay.know(opened.pinned.version, opened.pinned.timestamp_ms)
        proven = opened.key_proven or key_proven
        self._key = KeyProver(due=opened.proves_key, proven=proven)
        self._steps = (COPY, *((KEY_PROOF,) if self._key.holds_changes else ()), CATCH_UP)
        self._prepared_at = self._sealed_at = -1
        """Revisions of what is stored: of the newest commit, and of the newest durable one."""

    # -------------------------------------------------------------- what there is
    @property
    def key_proven(self) -> bool:
        """Is the key proven, as a state stores it?"""
        return self._key.stored

    @property
    def _revision(self) -> int:
        return self.copy.revision + self.replay.revision

    @property
    def _dirty(self) -> bool:
        """Does the newest durable commit not say everything?"""
        return self._revision != self._sealed_at

    def status(self, *, holds_source: bool) -> StrategyStatus:
        """Return where it is."""
        copy, replay, dirty = self.copy, self.replay, self._dirty
        follow, copied, due = self._settings.follow, copy.complete, self._key.holds_changes
        ends = replay.caught_up and dirty and not follow
        return StrategyStatus(
            covered=None if copied else copy.covered.spans,
            consumed=replay.consumed if copied else None,
            position=replay.consumed,
            history_complete=copied,
            caught_up=replay.caught_up,
            complete=replay.caught_up and replay.idle and not dirty and not follow,
            step=COPY if not copied else KEY_PROOF if due else CATCH_UP,
            steps=self._steps,
            # A finished MERGE is committed at once: the target is ahead of its state.
            wants_commit=replay.applied or (ends if copied else copy.all_staged or copy.begins),
            wants_announcement=copied and not due and replay.wants_announcement(dirty=dirty),
            blocks_commit=replay.merging,
            failure=self._failure(),
            holds_source=holds_source,
        )

    def _failure(self) -> BackfillError | None:
        """Return the error of a complete snapshot with another number of rows than the source has."""
        copy, pinned = self.copy, self._pinned
        if not copy.complete or self._settings.filtered or copy.rows == pinned.rows_live:
            return None
        return AccountingError(
            f"the snapshot of version {pinned.version} committed {copy.rows} rows, the source has {pinned.rows_live}.",
            hint="The target is incomplete: do not use it, and report this as a bug.",
        )

    # -------------------------------------------------------------- events
    def on(self, event: StrategyEvent, now: Now) -> None:
        """See `Strategy`."""
        match event:
            case LimitSet():
                self.copy.set_limit(event, now)
            case BarrierPassed(scheduled=scheduled):
                if scheduled:
                    self.copy.pass_barrier()
            case SourcePolled():
                self.replay.poll(event, now.wall_ms)
            case WorkFinished(result=result):
                self._finish(result, now)
            case WorkLost(work_id=work_id):
                self.copy.lose(work_id)
                self.replay.lose(work_id)
                self._key.lose(work_id)
            case Sealed(table_version=version):
                self._sealed_at = self._prepared_at
                self._key.seal(version)
                self.replay.seal(now)
                self.copy.seal(now)

    def _finish(self, result: Result, now: Now) -> None:
        match result:
            case SplitStaged():
                self.copy.finish(result, now)
            case ChangesApplied() | VersionsShipped():
                self.replay.finish(result, now)
            case KeyProven():
                self._key.finish()
            case _:
                pass

    # -------------------------------------------------------------- choosing work
    def propose(self, permits: Permits, now: Now) -> tuple[Work, ...]:
        """See `Strategy`."""
        ids = itertools.count(permits.first_id)
        if not self.copy.complete:
            return self.copy.propose(permits, ids, now)
        if self._key.holds_changes:
            return self._key.propose(permits, ids)
        return self.replay.propose(permits, ids, now, dirty=self._dirty)

    # -------------------------------------------------------------- committing
    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now, *, forgets_polls: bool) -> CommitRequest:
        """See `Strategy`; `forgets_polls`: what was seen of the source before the copy was complete counts no more."""
        copy, replay = self.copy, self.replay
        copied, rows = copy.complete, copy.rows
        files = copy.prepare_commit(epoch, permits, now)
        applied = replay.take_applied()
        polls = forgets_polls and copy.complete and not copied
        if polls:
            replay.forget_polls()
        announces = False
        if copy.complete:
            may_merge = permits.changes and not self._key.holds_changes
            announces = replay.announce(epoch.after() if may_merge else None)
        self._prepared_at = self._revision
        files += () if applied is None else applied.files
        return CommitRequest(
            files=files,
            rows=copy.rows - rows,
            changes=0 if applied is None else applied.changes,
            changed=self._dirty,
            announces=announces,
            polls=polls,
            removed=applied.removed if isinstance(applied, VersionsShipped) else (),
            columns=applied.columns if isinstance(applied, VersionsShipped) else None,
        )

    # -------------------------------------------------------------- view
    def doing(self) -> str:
        """Say what is under way once all rows of the pinned version are there; empty when nothing is."""
        if not self.copy.complete:
            return ""
        if self._key.running:
            return PROVING
        return view.doing(self.replay, self._settings.way)

    def view(self, phase: str, doing: str, now: Now) -> StrategyView:
        """See `Strategy`."""
        pinned, copied, replay, copying = self._pinned, self._copied(), self.replay, not self.copy.complete
        warnings = view.pinned_warnings(pinned, copied, replay, now, copying=copying)
        return view.Look(pinned, copied, replay, phase, doing, copying).at(now, warnings)

    def _copied(self) -> Copied:
        copy, filtered = self.copy, self.copy.rows_filtered
        return Copied(
            rows=copy.total,
            rows_left=copy.rows_left,
            rows_total=self._pinned.rows_live,
            rows_done=copy.rows_sealed + filtered,
            rows_filtered=filtered,
            splits=copy.splits,
            rows_per_split=copy.rows_per_split,
            done=copy.sealed,
            meter=copy.meter,
            rate_limit=copy.rate_limit,
            watermark=copy.watermark,
        )
