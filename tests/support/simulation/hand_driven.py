"""A job of the real core, driven by hand: virtual time, seals and polls answered at once, work when the test finishes it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

from backfill_core.errors import BackfillError
from backfill_core.job.controls import Controls
from backfill_core.job.job import Job
from backfill_core.job.phase import JobSettings
from backfill_core.job.state import JobState
from backfill_core.job.view import JobView
from backfill_core.positions.file_order import FileOrder
from backfill_core.protocol.actions import Acknowledge, Action, CancelWork, Finish, PollSource, Seal, StartWork
from backfill_core.protocol.clock import Now
from backfill_core.protocol.events import (
    Event,
    Head,
    Sealed,
    SealFailed,
    SourcePolled,
    Tick,
    WorkCancelled,
    WorkFinished,
)
from backfill_core.protocol.publication import Publication
from backfill_core.protocol.strategy import Opened, Pinned
from backfill_core.protocol.work import ApplyChanges, ProveKey, ReadSplit, SplitStaged, StagedFile, StagedMode, Verify
from backfill_core.strategies.snapshot.params import SnapshotSettings
from backfill_core.strategies.snapshot.stored import SnapshotStored
from backfill_core.strategies.snapshot.strategy import snapshot

STEP_S = 0.05
WALL_MS = 1_700_000_000_000


class HandDriven:
    """One attempt; `acks`, `cancelled` and `finish` are its actions, `sealed` the rows and the time of each seal."""

    def __init__(
        self,
        *rows: int,
        follow: bool = False,
        reads_ahead: bool = True,
        filtered: bool = False,
        proves_key: bool = False,
        settings: JobSettings | None = None,
        controls: Controls | None = None,
        order: FileOrder | None = None,
        stored: SnapshotStored | None = None,
        file_bytes: tuple[int, ...] = (),
        mode: StagedMode = StagedMode.DECODED,
        live: tuple[int, ...] = (),
        decodes: bool = False,
        publication: Publication | None = None,
        part_bytes: int | None = None,
    ) -> None:
        """Make a job over files with these numbers of rows; it has fenced when this returns."""
        self.now_s = 0.0
        self._passing = 10 if filtered else 1
        """One in this many rows passes the filter."""

        self._mode = mode
        """Copy mode of all staged files."""

        self.head = Head(3, WALL_MS)
        self.running: dict[int, ReadSplit] = {}
        self.begun: list[ReadSplit] = []
        self.acks: list[Acknowledge] = []
        self.cancelled: list[int] = []
        self.proofs: list[ProveKey] = []
        self.batches: list[ApplyChanges] = []
        self.receipts: list[Verify] = []
        self.looks: list[PollSource] = []
        self.seals = 0
        self.states: list[str] = []
        self.commits: list[Seal] = []
        self.refused: BackfillError | None = None
        """Error of every commit."""

        self.sealed: list[tuple[float, int]] = []
        self.seal_s: Callable[[int], float] = lambda rows: 0.1
        """Reported duration of a commit by its rows; the answer comes at once."""

        self.finish: Finish | None = None
        self.ends_when_cancelled = True
        """Answer a cancellation at once if true; a MERGE does not."""

        self._offsets, self._live = [0, *accumulate(rows)], live
        pinned = Pinned(3, WALL_MS, "table", "files", rows, sum(live or rows), order, file_bytes, live)
        strategy = snapshot(
            Opened(pinned, proves_key=proves_key, decodes=decodes),
            SnapshotSettings(True, filtered, follow=follow, reads_ahead=reads_ahead, part_bytes=part_bytes),
            stored,
        )
        state = JobState("a/b", "h", 1, 0, "Snapshot", controls=controls or Controls(), publication=publication)
        self.job = Job(state, strategy, settings or JobSettings(), self.now)
        self._execute(self.job.start(self.now))

    @property
    def now(self) -> Now:
        """The virtual time."""
        return Now(self.now_s, WALL_MS + round(self.now_s * 1000))

    @property
    def view(self) -> JobView:
        """The view that users see now."""
        return self.job.view(self.now)

    def send(self, event: Event) -> None:
        """Deliver an event, and carry out the core's actions."""
        self._execute(self.job.on(event, self.now))

    def let_pass(self, seconds: float, *, split_s: float | None = None) -> None:
        """Let time pass; with `split_s` a split ends at that interval."""
        end_s, next_s = self.now_s + seconds, self.now_s + (split_s or 0.0)
        while self.now_s < end_s - 1e-9:
            self.now_s += STEP_S
            if split_s is not None and self.now_s >= next_s - 1e-9 and self.running:
                next_s += split_s
                self.finish_split()
            self.send(Tick())

    def finish_split(self) -> None:
        """Stage the oldest running split."""
        work = self.running.pop(min(self.running))
        files = tuple(
            StagedFile(
                f"s{work.work_id}/{segment}",
                stop - start,
                self._rows(start, stop) // self._passing,
                segment=segment,
                mode=self._mode,
            )
            for segment, (start, stop) in enumerate(work.segments)
        )
        self.send(WorkFinished(SplitStaged(work.work_id, files)))

    def _rows(self, start: int, stop: int) -> int:
        """Return the rows of an interval that are not deleted; those of a file lie evenly in it."""
        return stop - start if not self._live else self._before(stop) - self._before(start)

    def _before(self, position: int) -> int:
        file = min(bisect_right(self._offsets, position), len(self._live)) - 1
        low, high = self._offsets[file], self._offsets[file + 1]
        return sum(self._live[:file]) + (position - low) * self._live[file] // (high - low)

    def _execute(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            match action:
                case StartWork(work=ProveKey() as work):
                    self.proofs.append(work)
                case StartWork(work=ApplyChanges() as work):
                    self.batches.append(work)
                case StartWork(work=Verify() as work):
                    self.receipts.append(work)
                case StartWork(work=ReadSplit() as work):
                    self.running[work.work_id] = work
                    self.begun.append(work)
                case CancelWork(work_id=work_id):
                    self.cancelled.append(work_id)
                    if self.ends_when_cancelled:
                        self.running.pop(work_id, None)
                        self.send(WorkCancelled(work_id))
                case Seal():
                    self.seals += 1
                    self.states.append(action.state)
                    self.commits.append(action)
                    if self.refused is not None:
                        self.send(SealFailed(action.epoch, self.refused))
                        continue
                    self.sealed.append((self.now_s, sum(file.rows for file in action.files)))
                    self.send(Sealed(action.epoch, self.seals, self.seal_s(self.sealed[-1][1])))
                case PollSource():
                    self.looks.append(action)
                    self.send(SourcePolled(self.head))
                case Acknowledge():
                    self.acks.append(action)
                case Finish():
                    self.finish = action
                case _:
                    pass
