"""State machine of InPlace: rounds over the newest version of a live table, until one finds no file to do.

phase    work                                      ends when                                  next
------   ---------------------------------------   ----------------------------------------   ------
Fill     one listing, or one batch of files        a listing found no file to do, and the     Filled
                                                   commit that records it is durable
Filled   none                                      the end; a receipt compares that version

`in_place/rounds.py` decides which files are computed, and when they are committed. A commit replaces staged files; it drops those that
other writers removed meanwhile, and reports their changes with its answer (`Sealed.foreign`). The tags of files are the progress: an
attempt that resumes lists the table, and reads of its state only what users see.
"""

from __future__ import annotations

from dataclasses import replace

from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import RECREATED_HINT, SourceReplacedError
from backfill_core.in_place.conflicts import ForeignChanges
from backfill_core.in_place.files import FillScope, LiveFile
from backfill_core.in_place.rounds import CommitStaged, Filled, InPlaceRounds, ListFiles, StageFiles, WaitUntil
from backfill_core.in_place.work import CheckedReplacement, FilesFilled, FillFiles, ListLiveFiles, LiveFilesListed
from backfill_core.in_place.writer_conflicts import WriterConflicts
from backfill_core.job.steps import COPY
from backfill_core.pacing.throttle import TokenBucket
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.eta import RateMeter, estimate
from backfill_core.protocol.events import (
    Head,
    LimitSet,
    Sealed,
    SourcePolled,
    StrategyEvent,
    WorkFinished,
    WorkLost,
)
from backfill_core.protocol.strategy import CommitRequest, Facts, Opened, Permits, Pinned, StrategyStatus, StrategyView
from backfill_core.protocol.work import RemovedFile, Work
from backfill_core.strategies.in_place.params import conflicts_max_of, scope_of
from backfill_core.strategies.in_place.stored import FILLED, FILLING, InPlaceStored

UNKNOWN = ForeignChanges(redefined=True)
"""Foreign changes of a commit whose answer was lost: every staged file is computed again, if a listing still finds it."""


class InPlaceStrategy:
    """See the module; implements `protocol.strategy.Strategy`."""

    def __init__(self, pinned: Pinned, scope: FillScope, stored: InPlaceStored | None, *, conflicts_max: int) -> None:
        """Start with a listing; `conflicts_max` is the limit of writers' failed transactions, in percent.

        Raises:
            SourceReplacedError: Another table is at the path.
        """
        if stored is not None and stored.table_id != pinned.table_id:
            raise SourceReplacedError("the table was replaced by another one since the job began.", hint=RECREATED_HINT)
        self._pinned = pinned
        self._rounds = InPlaceRounds(
            scope, WriterConflicts(conflicts_max) if stored is None else stored.counted(conflicts_max)
        )
        self._undo = pinned.version if stored is None else stored.undo_version
        self._files_before = 0 if stored is None else stored.files
        self._was_filled = stored is not None and stored.filled is not None
        """True if an earlier attempt found no file to do; a later check covers all rows, and a run lists the table again."""

        self._filled: int | None = None
        self._filled_durable: int | None = None
        self._rows_done = 0 if stored is None else stored.rows_done
        self._rows_total = max(pinned.rows_live, self._rows_done)
        stored_bytes = sum(pinned.bytes)
        self._rows_per_byte = pinned.rows_live / stored_bytes if stored_bytes else 0.0
        self._work: ListLiveFiles | FillFiles | None = None
        self._commit: CommitStaged | None = None
        self._overcounted = 0
        """Rows of files that a commit was prepared with, and that it lost."""

        self._stores_first = stored is None
        self._limit, self._bucket, self._meter = LimitSet(None, 0.0), TokenBucket.unlimited(), RateMeter()
        self._head: Head | None = None
        self._reason = ""

    # -------------------------------------------------------------- state
    @property
    def stored(self) -> InPlaceStored:
        """See `Strategy`."""
        return InPlaceStored(
            table_id=self._pinned.table_id,
            undo_version=self._undo,
            columns=self._rounds.scope.columns,
            filled=self._filled,
            rows_total=self._rows_total,
            rows_done=self._rows_done,
            files=self._files_before + self._rounds.files_filled,
            writer_rewrites=self._rounds.conflicts.rewrites,
            writer_conflicts=self._rounds.conflicts.failed,
        )

    @property
    def status(self) -> StrategyStatus:
        """See `Strategy`."""
        over = self._filled_durable is not None
        checked = self._rounds.version
        covers_all = over or (self._was_filled and checked is None)
        position = next(value for value in (self._filled, checked, self._pinned.version) if value is not None)
        return StrategyStatus(
            covered=None if covers_all else (),
            consumed=self._filled_durable,
            position=position,
            history_complete=over,
            caught_up=over,
            complete=over and self._work is None,
            step=COPY,
            steps=(COPY,),
            wants_commit=self._rounds.ends_round or (self._filled is not None and not over),
            wants_announcement=False,
            blocks_commit=False,
            failure=None,
            undo_version=self._undo,
        )

    # -------------------------------------------------------------- events
    def on(self, event: StrategyEvent, now: Now) -> None:
        """See `Strategy`."""
        match event:
            case LimitSet():
                self._set_limit(event, now)
            case SourcePolled(head=head):
                self._head = head
            case WorkFinished(result=LiveFilesListed() as listed) if self._runs(listed.work_id):
                self._work = None
                self._rounds.scope = listed.scope
                files = [self._estimated(file) for file in listed.listed]
                self._rounds.listed(listed.version, files, now.wall_ms, recent_rewrites=listed.recent_rewrites)
                self._count()
            case WorkFinished(result=FilesFilled() as filled) if self._runs(filled.work_id):
                assert isinstance(self._work, FillFiles)
                self._rounds.staged(StageFiles(self._work.files), filled.replacements)
                self._work = None
            case WorkLost(work_id=work_id) if self._runs(work_id):
                self._work = None
                self._rounds.lost()
            case Sealed():
                self._seal(event, now)
            case _:
                pass

    def _estimated(self, file: LiveFile) -> LiveFile:
        """Return a file with an estimate of its rows if the log has no count: otherwise no limit would apply to it."""
        return file if file.rows is not None else replace(file, rows_estimated=round(file.bytes * self._rows_per_byte))

    def _runs(self, work_id: int) -> bool:
        return self._work is not None and self._work.work_id == work_id

    def _set_limit(self, limit: LimitSet, now: Now) -> None:
        self._limit = limit
        rows, live = sum(self._pinned.bytes), self._pinned.rows_live
        in_rows = limit.in_rows(rows / live if live else None)
        self._meter = self._meter.under(in_rows.rows_per_s)
        self._bucket = self._bucket.under(in_rows.rows_per_s, now.mono_s, in_rows.burst_s)

    def _seal(self, event: Sealed, now: Now) -> None:
        self._stores_first = False
        self._filled_durable = self._filled
        if self._commit is None:
            return
        foreign = event.foreign if isinstance(event.foreign, ForeignChanges) else UNKNOWN
        self._commit = None
        result = self._rounds.committed(event.table_version, foreign, now.wall_ms)
        self._overcounted += sum(file.replaced.visible for file in result.lost)
        self._meter = self._meter.observe(sum(file.replaced.visible for file in result.kept), now.mono_s)
        self._count()

    def _count(self) -> None:
        """Update the rows that users see; files that writers rewrite are to do again, and the shown rows never fall."""
        if self._rounds.version is None:
            return  # the files that are left are unknown until the next listing
        seen = self._rounds.rows_seen
        self._rows_done = max(self._rows_done, seen - self._rounds.rows_left)
        self._rows_total = max(seen, self._rows_done)

    # -------------------------------------------------------------- choosing work
    def propose(self, permits: Permits, now: Now) -> tuple[Work, ...]:
        """See `Strategy`: at most one listing or batch at a time."""
        self._meter = self._meter.hold(now.mono_s, held=not permits.history)
        if self._work is not None or not permits.history or self._filled is not None:
            return ()
        available = self._bucket.available(now.mono_s)
        step = self._rounds.next_step(now.wall_ms, rows_max=available)
        self._reason = ""
        match step:
            case ListFiles():
                self._work = ListLiveFiles(permits.first_id, self._pinned.version, first=self._rounds.rounds == 0)
            case StageFiles(files=files):
                if available < 1:
                    return ()
                assert self._rounds.version is not None
                self._bucket = self._bucket.take(sum(file.visible for file in files), now.mono_s)
                self._work = FillFiles(permits.first_id, self._rounds.version, files)
                self._rounds.begin()
            case WaitUntil(at_ms=at_ms):
                wait_s = (at_ms - now.wall_ms) / 1000
                self._reason = f"waiting {wait_s:.0f} s, {self._why()}" if wait_s >= 1 else ""
                return ()
            case Filled(version=version):
                self._filled = version
                return ()
        return (self._work,)

    def _why(self) -> str:
        counts = self._rounds.conflicts
        return (
            f"so that at most {counts.percent_max} % of the transactions of other writers fail (maxWriterConflicts): "
            f"{counts.failed} may have failed, {counts.rewrites} rewrote files"
        )

    # -------------------------------------------------------------- committing
    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now) -> CommitRequest:
        """See `Strategy`; before a pause or an end, staged files are committed without a distance."""
        del epoch
        commit = self._rounds.take_commit(now.wall_ms, early=permits.history_held)
        changed = commit is not None or self._stores_first or self._filled != self._filled_durable
        if commit is None:
            return CommitRequest((), 0, 0, changed=changed, announces=False, polls=False)
        self._commit = commit
        rows = sum(file.replaced.visible for file in commit.files)
        counted = max(0, rows - self._overcounted)
        self._overcounted -= rows - counted
        return CommitRequest(
            files=tuple(staged for file in commit.files for staged in file.files),
            rows=counted,
            changes=0,
            changed=changed,
            announces=False,
            polls=False,
            removed=tuple(
                RemovedFile(file.replaced.path, CheckedReplacement(file, commit.version)) for file in commit.files
            ),
        )

    # -------------------------------------------------------------- view
    def view(self, now: Now) -> StrategyView:
        """See `Strategy`."""
        over, rounds = self._filled_durable is not None, self._rounds
        left = max(0, self._rows_total - self._rows_done)
        moving = not over and not self._meter.held
        return StrategyView(
            phase=FILLED if over else FILLING,
            rows_total=self._rows_total,
            rows_done=self._rows_done,
            splits_done=self._files_before + rounds.files_filled,
            splits_left=rounds.files_left,
            consumed=self._filled_durable,
            head=self._head,
            lag_versions=0,
            lag_ms=0,
            rows_per_s=self._meter.rows_per_s if moving else 0.0,
            caught_up=over,
            non_convergent=False,
            grid=(),
            reason=self._reason,
            writer_conflicts=rounds.conflicts.failed,
            facts=Facts(
                rows=self._rows_total,
                rows_left=left,
                copy=estimate(left, self._meter, now.mono_s) if left else None,
                rows_per_s=self._meter.measured,
                limit_rows_per_s=self._meter.limit,
                fresh=self._meter.fresh,
            ),
        )


def resume(spec: BackfillSpec, stored: InPlaceStored | None, opened: Opened) -> InPlaceStrategy:
    """Create the state machine of an attempt."""
    return InPlaceStrategy(opened.pinned, scope_of(spec), stored, conflicts_max=conflicts_max_of(spec))
