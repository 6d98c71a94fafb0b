"""Copy, then replay: one pinned version in splits, the proof of the key if it is due, then the changes after that version.

`CopyReplayStrategy` is the complete state machine of the strategies that end the catch-up by a `CatchUpEnd`. A strategy with a rule of
its own owns a `CopyReplay` and forwards every event to it. The proof (`phases/key_proof.py`) waits for the commit of the last split, and all changes wait for the proof: a MERGE would
hide two rows with one key (ADR 0011).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Generic, Self, TypeVar

from backfill_api.spec.params import SplitParams
from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import AccountingError, BackfillError
from backfill_core.job.steps import CATCH_UP, COPY, KEY_PROOF
from backfill_core.phases import view
from backfill_core.phases.change_batch import ChangeMode
from backfill_core.phases.copied_state import CATCH_UP as CATCHING_UP
from backfill_core.phases.copied_state import LIVE, SNAPSHOT, CopiedState, CopyReplayState
from backfill_core.phases.copy import Copy, CopySettings
from backfill_core.phases.key_proof import PROVING, KeyProver
from backfill_core.phases.pending import LimitRule
from backfill_core.phases.replay import CatchUpEnd, Replay
from backfill_core.phases.view import CopyProgress
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import (
    BarrierPassed,
    LimitSet,
    Sealed,
    SourcePolled,
    StrategyEvent,
    WidthSet,
    WorkFinished,
    WorkLost,
)
from backfill_core.protocol.strategy import CommitRequest, Opened, Permits, Pinned, StrategyStatus, StrategyView
from backfill_core.protocol.work import (
    ChangesApplied,
    ChangesCut,
    KeyProven,
    Result,
    SplitStaged,
    VersionsShipped,
    Work,
)

S = TypeVar("S", bound=CopyReplayState)

READS_AHEAD_INTERVAL_MS = 1500


@dataclass(frozen=True, slots=True)
class CopyReplaySettings:
    """Settings of the machine; they do not change its result."""

    merges: bool
    """True if changes are merged (Upsert); otherwise they are staged and sealed like splits (Append, Changelog)."""

    filtered: bool
    """True if the transform drops rows, so that sealed rows may differ from rows of the source."""

    in_flight_max: int = 2
    split_target_s: float = 4.0
    batch_target_s: float = 10.0
    follow: bool = False
    reads_ahead: bool = True
    """True if files may be read ahead of a limit. Slow barriers would have to wait for the few seconds of rows kept ahead."""

    part_bytes: int | None = None
    """Bytes of changed files above which a batch is merged in parts; `None` to merge every batch whole."""

    whole_files: bool = False
    """True if no file is cut, because files of the target stand for files of the source."""

    @property
    def mode(self) -> ChangeMode:
        """Method by which changes enter the target."""
        return ChangeMode.of(merges=self.merges)

    @property
    def copy(self) -> CopySettings:
        """Settings for the copy."""
        return CopySettings(self.filtered, self.in_flight_max, self.split_target_s, self.reads_ahead, self.whole_files)

    @classmethod
    def shared(cls, spec: BackfillSpec) -> Self:
        """Read the shared settings from a spec; settings of one strategy keep their defaults."""
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
            part_bytes=params.part_bytes,
        )


class CopyReplay:
    """Copy and replay of one attempt; see the module."""

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
        """Start without copied rows.

        Args:
            opened: The opened source and target.
            pinned: The pinned version of the job, which may no longer exist.
            settings: Settings of the machine.
            limit: Rule for the pending changes during the catch-up.
            end: The commit that records the catch-up.
            key_proven: True if an earlier attempt proved the key.
        """
        self._settings, self._pinned = settings, pinned
        copy_settings = replace(settings.copy, decodes=opened.decodes)
        self.copy = Copy(pinned.rows, copy_settings, pinned.order, pinned.bytes, pinned.live, pinned.partitions)
        self.replay = Replay(
            pinned.version,
            mode=settings.mode,
            follow=settings.follow,
            batch_target_s=settings.batch_target_s,
            limit=limit,
            end=end,
            part_bytes=settings.part_bytes,
        )
        self.replay.know(opened.pinned.version, opened.pinned.timestamp_ms)
        proven = opened.key_proven or key_proven
        self._key = KeyProver(due=opened.proves_key, proven=proven)
        self._steps = (COPY, *((KEY_PROOF,) if self._key.holds_changes else ()), CATCH_UP)
        self._prepared_at = self._sealed_at = -1
        """Revisions of the stored state: in the newest commit, and in the newest durable one."""

    # -------------------------------------------------------------- state
    @property
    def key_proven(self) -> bool:
        """True if the key is proven, as a state stores it."""
        return self._key.stored

    @property
    def _revision(self) -> int:
        return self.copy.revision + self.replay.revision

    @property
    def _dirty(self) -> bool:
        """True if the newest durable commit lacks a change."""
        return self._revision != self._sealed_at

    def status(self, *, holds_source: bool) -> StrategyStatus:
        """Return the status of the machine."""
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
            # A finished MERGE is committed at once, because the target is ahead of the stored state.
            wants_commit=replay.applied or (ends if copied else copy.all_staged or copy.begins),
            wants_announcement=copied and not due and replay.wants_announcement(dirty=dirty),
            blocks_commit=replay.merging,
            failure=self._failure(),
            between_parts=replay.between_parts,
            holds_source=holds_source,
        )

    def _failure(self) -> BackfillError | None:
        """Return the error if a complete snapshot has another number of rows than the source."""
        copy, pinned = self.copy, self._pinned
        if not copy.complete or self._settings.filtered or copy.rows == pinned.rows_live:
            return None
        return AccountingError(
            f"the snapshot of version {pinned.version} committed {copy.rows} rows, the source has {pinned.rows_live}.",
            hint="The target is incomplete: do not use it, and report this as a bug.",
        )

    # -------------------------------------------------------------- events
    def on(self, event: StrategyEvent, now: Now) -> None:
        """Handle an event; see `Strategy`."""
        match event:
            case LimitSet():
                self.copy.set_limit(event, now)
            case WidthSet(width=width):
                self.copy.set_width(width)
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
            case ChangesApplied() | VersionsShipped() | ChangesCut():
                self.replay.finish(result, now)
            case KeyProven():
                self._key.finish()
            case _:
                pass

    # -------------------------------------------------------------- choosing work
    def propose(self, permits: Permits, now: Now) -> tuple[Work, ...]:
        """Return the work that starts now; see `Strategy`."""
        ids = itertools.count(permits.first_id)
        if not self.copy.complete:
            return self.copy.propose(permits, ids, now)
        if self._key.holds_changes:
            return self._key.propose(permits, ids)
        return self.replay.propose(permits, ids, now, dirty=self._dirty)

    # -------------------------------------------------------------- committing
    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now, *, forgets_polls: bool) -> CommitRequest:
        """Prepare a commit, see `Strategy`; `forgets_polls` to discard polls of the source from before the copy was complete."""
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
        """Describe the work under way once all rows of the pinned version are copied; empty if no work runs."""
        if not self.copy.complete:
            return ""
        if self._key.running:
            return PROVING
        return view.doing(self.replay, self._settings.mode)

    def view(self, phase: str, doing: str, now: Now) -> StrategyView:
        """Return the progress; see `Strategy`."""
        pinned, copied, replay, copying = self._pinned, self._copied(), self.replay, not self.copy.complete
        warnings = view.pinned_warnings(pinned, copied, replay, now, copying=copying)
        return view.PinnedView(pinned, copied, replay, phase, doing, copying).at(now, warnings)

    def _copied(self) -> CopyProgress:
        copy, filtered = self.copy, self.copy.rows_filtered
        return CopyProgress(
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
            position=self.replay.between_parts,
            partitions=copy.tally.counts,
        )


class CopyReplayStrategy(Generic[S]):
    """State machine without a rule of its own; implements `protocol.strategy.Strategy`."""

    def __init__(
        self,
        opened: Opened,
        settings: CopyReplaySettings,
        *,
        resumed: S | None,
        state: type[S],
        limit: LimitRule,
        end: CatchUpEnd = CatchUpEnd.WITH_ITS_COMMIT,
        holds_source: bool = False,
        key_proven: bool = False,
    ) -> None:
        """Start a new job, or resume the committed state of an earlier attempt.

        Args:
            opened: The opened source and target.
            settings: Settings of the machine.
            resumed: The committed state; `None` for a new job.
            state: Class of the stored state.
            limit: Rule for the pending changes during the catch-up.
            end: The commit that records the catch-up.
            holds_source: True if a source with back-pressure waits while the limit admits no version.
            key_proven: True if the strategy never proves the key.

        Raises:
            StateMismatchError: The pinned version no longer consists of the same files.
        """
        self._state, self._holds_source = state, holds_source
        self._pinned = opened.pinned if resumed is None else resumed.copied.recall(opened.pinned)
        proven = key_proven or (resumed is not None and resumed.key_proven)
        self._machine = CopyReplay(opened, self._pinned, settings, limit=limit, end=end, key_proven=proven)
        self._copy, self._replay = self._machine.copy, self._machine.replay
        self._was_live, self._reopened_at = False, None if resumed is None else resumed.reopened_at
        if resumed is not None:
            # The replay resumes at the first version that is not consumed (R-SNAP-39).
            self._was_live = resumed.phase == LIVE
            resumed.copied.resume(self._copy, self._pinned)
            self._replay.resume(resumed.consumed, resumed.merging, opened.last_txn, resumed.parts)
        self._replay.pending.know(opened.pinned.version, opened.pinned.timestamp_ms)

    @property
    def phase(self) -> str:
        """The phase of the state that the next commit stores."""
        if not self._copy.complete:
            return SNAPSHOT
        return LIVE if self._was_live or self._replay.caught_up else CATCHING_UP

    @property
    def stored(self) -> S:
        """See `Strategy`."""
        return self._state(
            copied=CopiedState.of(self._copy, self._pinned),
            phase=self.phase,
            consumed=self._replay.consumed,
            merging=self._replay.announced,
            key_proven=self._machine.key_proven,
            parts=self._replay.parts,
            reopened_at=self._reopened_at,
        )

    @property
    def status(self) -> StrategyStatus:
        """See `Strategy`."""
        # The copy blocks no writer (R-SNAP-10), and a job that follows the source keeps its pace.
        waits = self._copy.complete and not self._replay.caught_up and not self._replay.pending.admits
        return self._machine.status(holds_source=self._holds_source and waits)

    def on(self, event: StrategyEvent, now: Now) -> None:
        """See `Strategy`."""
        if not isinstance(event, SourcePolled):
            self._replay.pending.settle()
        self._machine.on(event, now)

    def propose(self, permits: Permits, now: Now) -> tuple[Work, ...]:
        """See `Strategy`."""
        return self._machine.propose(permits, now)

    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now) -> CommitRequest:
        """See `Strategy`."""
        request = self._machine.prepare_commit(epoch, permits, now, forgets_polls=True)
        if request.columns is not None and request.columns.reopens:
            self._reopened_at = self._replay.consumed
        return request

    def view(self, now: Now) -> StrategyView:
        """See `Strategy`."""
        return self._machine.view(self.phase, self._machine.doing(), now)
