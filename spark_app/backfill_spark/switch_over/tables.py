"""Both tables and the name of a switch-over: reads and effects, one for each step."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from backfill_core.copy_back.following import adopt_step
from backfill_core.copy_back.reversible import irreversible, unmapped
from backfill_core.errors import ForeignCommit, InvalidSpecError
from backfill_core.job.controls import ALL
from backfill_core.job.state import JobState
from backfill_core.phases.change_batch import AnnouncedMerge
from backfill_core.plugins import choose
from backfill_core.protocol.epochs import txn_version
from backfill_core.source_fence.fence import (
    SWITCHING,
    Fenced,
    LogEntry,
    Open,
    Request,
    SourceFence,
    TableHead,
    fence_step,
)
from backfill_core.switch_over.mark import Mark, Stage, give_up_step, lift_step, record_step
from backfill_core.switch_over.moment import Reached
from backfill_core.switch_over.obstacles import Findings
from backfill_core.switch_over.release import leave_step, return_step
from backfill_core.switch_over.source_name import source_behind
from backfill_spark import flips, sources
from backfill_spark.delta.log import added_at, transaction_of
from backfill_spark.driver.fence import end_hold_log, request_of, settled
from backfill_spark.driver.job_context import JobContext
from backfill_spark.log_shipping.file_actions import file_added
from backfill_spark.ports.committer import StoredState
from backfill_spark.ports.flip import Flip, Previous
from backfill_spark.ports.source import FencedLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_api.spec.sources import Source
    from backfill_api.spec.spec import BackfillResource
    from backfill_core.protocol.receipt import TableReceipt
    from backfill_spark.ports.committer import Committer

T = TypeVar("T")
ENTRY_WAIT_S = 60.0
"""Longest time for which concurrent commits of other writers are followed, for one log entry."""


def check_source(backfill: BackfillResource) -> Callable[[SparkSession, Source], FencedLog]:
    """Return how to open the log of a job's source.

    Raises:
        InvalidSpecError: the source has no log to which a fence can be added.
    """
    plugin = choose(sources.discover(), backfill.spec.source.type, "spec.source.type")
    if plugin.fenced_log is None:
        raise InvalidSpecError(
            f"spec.source.type: {plugin.name} cannot be switched over: it has no log to which a fence can be added.",
            hint="Stop its producers, wait until the target has caught up, and stop the job.",
        )
    return plugin.fenced_log


@dataclass(frozen=True)
class SwitchTables:
    """The source, the target and the name that a job switches over."""

    context: JobContext
    source: FencedLog
    target: FencedLog
    flip: Flip
    reason: str
    """Shown to operators who meet a fence."""

    @classmethod
    def of(cls, context: JobContext) -> SwitchTables:
        """Open the logs and the flip of a job; changes nothing.

        Raises:
            InvalidSpecError: see `check_source`, or the flip is not installed.
        """
        spec = context.backfill.spec
        source = check_source(context.backfill)(context.spark, spec.source)
        chosen = choose(flips.discover(), spec.switch.flip.type, "spec.switch.flip.type")
        flip = chosen.open(context.spark, spec.switch.flip)
        target = context.sink.path
        if spec.source.params.catalog_name is not None:
            source = source.at(source_behind(source.head(), target=target))
        return cls(context, source, source.at(target), flip, f"switch to {target}")

    @property
    def follows(self) -> bool:
        """True if the source follows the target after the switch-over."""
        return self.context.backfill.spec.switch.keep_source == "Following"

    @property
    def committer(self) -> Committer:
        """The committer of the target."""
        return self.context.committer

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Translate exceptions of the block into a `BackfillError`."""
        with self.context.explained("the switch-over"):
            yield

    # ------------------------------------------------------------------ reading
    def state(self) -> JobState | None:
        """Return the job's state in the target; `None` if it has none, or one that the next attempt does not continue."""
        return _state_of(self.committer.read_state())

    def findings(self) -> Findings:
        """Read everything that decides whether a switch-over can begin."""
        source, state, now_s = self.source.head(), self.state(), time.time()
        consumed = None if state is None else state.consumed
        behind = max(0, source.version - consumed) if isinstance(consumed, int) else None
        oldest_ms = self.source.time_of(source.version - behind + 1) if behind else None
        receipt = None if state is None else state.receipt
        verified_ms = None if receipt is None else receipt.verified_ms
        keyed = self.context.backfill.spec.write_mode == "Upsert"
        changes_name = self.context.backfill.spec.switch.flip.type != "None"
        target = None if state is None else self.target.head()
        return Findings(
            source=source,
            target=target,
            job=self.context.backfill.job_id,
            behind=behind,
            lag_s=0.0 if not behind else max(0.0, now_s - (oldest_ms or source.timestamp_ms) / 1000),
            key_proven=not keyed or state is None or state.progress.get("keyProven") is not False,
            name=self.flip.points_to() if changes_name else None,
            has_name=changes_name,
            receipt_s=None if receipt is None else receipt.seconds,
            receipt_age_s=None if verified_ms is None else max(0.0, now_s - verified_ms / 1000),
            paused=state is not None and state.controls.paused == ALL,
            irreversible=self._irreversible(source, target),
        )

    def _irreversible(self, source: TableHead, target: TableHead | None) -> str:
        if not self.follows or target is None:
            return ""
        if problem := irreversible(source, target):
            return problem
        lines = added_at(self.context.spark, target.path, target.version)
        return next(filter(None, (unmapped(file_added(json.loads(line)["add"])) for line in lines)), "")

    def others_since(self, version: int) -> tuple[ForeignCommit, ...]:
        """Return the commits of other writers to the target after a version."""
        return self.committer.touched_by_others(version, self.target.head().version)

    def reached(self) -> Reached:
        """Return the versions of the source that the target holds."""
        stored = self.committer.read_state()
        state = _state_of(stored)
        if state is None or not isinstance(state.consumed, int):
            return Reached(None)
        merging = getattr(self.context.plugins.strategy.decode(state.progress), "merging", None)
        paused = state.controls.paused == ALL
        if not isinstance(merging, AnnouncedMerge):
            return Reached(state.consumed, paused=paused)
        if merging.txn == stored.txn_version:
            return Reached(merging.upto, paused=paused)
        return Reached(state.consumed, merging.upto, paused=paused)

    # ------------------------------------------------------------------ effects
    def check_logs(self) -> None:
        """Check both logs before one of them gets a fence; see `ports.source.FencedLog.check`."""
        self.source.check()
        self.target.check()

    def fence_source(self, newest: TableHead, after: int | None) -> SourceFence | None:
        """Make the source read-only; return the fence, also one of an earlier run.

        Args:
            newest: Newest version of the source, as it was read just now.
            after: Version that the fence must follow: `None` is returned if the source has a newer one. `None` accepts any version.
        """
        request = request_of(self.context.backfill, self.reason, SWITCHING)

        def step(head: TableHead) -> Fenced | Open | LogEntry:
            if after is not None and head.version > after and not head.protocol.is_fenced:
                return Open(head.version)
            return fence_step(head, request)

        answer = settled(self.source, step, newest, ENTRY_WAIT_S)[0]
        return answer.fence if isinstance(answer, Fenced) else None

    def fence_target(self) -> None:
        """Make the target read-only."""
        request = request_of(self.context.backfill, f"undo of the {self.reason}", SWITCHING)
        self._settled(self.target, lambda head: fence_step(head, request))

    def record(self, mark: Mark, before: Mark | None) -> None:
        """Store a mark in the source."""
        request = request_of(self.context.backfill, "")
        self._settled(self.source, lambda head: record_step(head, request, mark, before=before))

    def give_up(self, mark: Mark | None) -> None:
        """Lift the fence of the source if a switch-over set it, and remove the mark."""
        request = request_of(self.context.backfill, "")
        self._settled(self.source, lambda head: give_up_step(head, request, mark))

    def open_source(self, mark: Mark | None) -> None:
        """Lift the fence of the source, and remove the mark."""
        request = request_of(self.context.backfill, "")
        self._settled(self.source, lambda head: lift_step(head, request, mark))

    def leave_source(self, mark: Mark | None) -> None:
        """Restore the retention of the source if the job extended it, then lift the fence: no attempt of the job follows."""
        end_hold_log(self.source, self.context.backfill)
        self.open_source(mark)

    def open_target(self) -> None:
        """Lift a fence that an undo of this job left on the target."""
        request = request_of(self.context.backfill, "")
        self._settled(self.target, lambda head: lift_step(head, request, None))

    def decided(self, fence: SourceFence, stage: Stage, receipt: TableReceipt) -> Mark:
        """Return the mark with everything that an undo needs."""
        stored, spec = self.committer.read_state(), self.context.backfill.spec
        text = stored.text or ""
        if self.follows and stored.text is not None:
            text = replace(JobState.decode(stored.text), receipt=receipt).encode()  # the undo compares later changes
        previous = json.dumps(asdict(self.flip.current()))
        return Mark(
            stage, fence.version, self.context.sink.path, stored.table_version, described(spec.switch.flip), previous,
            text, request_of(self.context.backfill, "").time,
        )  # fmt: skip

    def release_target(self) -> None:
        """Remove the job's state from the target, and the table feature that only it needed.

        The target stores the source's folder instead: the flip may change the name of the source, and no copy may begin again.
        """
        self.open_target()
        request, source = request_of(self.context.backfill, ""), self.source.path
        stored = self.committer.read_state()
        if stored.text is not None:
            attempt = JobState.decode(stored.text).attempt + 1
            self.committer.release(txn_version(attempt, 0), stored)
        domains = self.committer.domains()
        self._settled(self.target, lambda head: leave_step(head, request, source, domains))

    def return_state(self, mark: Mark, *, consumed: int | None = None) -> None:
        """Store the job's state in the target again, above every attempt before, and remove the folder of the source.

        Args:
            mark: The mark, which has the state.
            consumed: Version of the source that equals the target; `None` for the one in the state.
        """
        request, stored = request_of(self.context.backfill, ""), self.committer.read_state()
        state = self._advanced(JobState.decode(mark.state), consumed) if mark.state else None
        held = _state_of(stored)
        returned = state is not None and held is not None and held.is_returned(state, stored.txn_version)
        if consumed is not None and not returned:
            self._adopt_target(request)
        self._settled(self.target, lambda head: return_step(head, request))
        if state is None or returned:
            return
        stored = self.committer.read_state()
        newest = 0 if stored.txn_version is None else stored.txn_version >> 32
        state = replace(state, attempt=newest + 1)
        claim = replace(self.context.claim, begins=False)
        self.committer.fence(txn_version(state.attempt, 0), state.encode(), opened=stored, claim=claim)

    def _adopt_target(self, request: Request) -> None:
        """Make the files that other writers added to the fenced target the job's own."""
        application, stored = self.committer.app_id, self.committer.read_state()
        version = txn_version((0 if stored.txn_version is None else stored.txn_version >> 32) + 1, 0)

        def step(head: TableHead) -> Open | LogEntry:
            now = transaction_of(self.context.spark, head.path, application)
            return adopt_step(head, request, application=application, stored=now, version=version)

        self._settled(self.target, step)

    def _advanced(self, state: JobState, consumed: int | None) -> JobState:
        """Return a state whose position is a later version of the source."""
        if consumed is None:
            return state
        progress = self.context.plugins.strategy.decode(state.progress)
        return replace(state, consumed=consumed, progress=replace(progress, consumed=consumed).encode())

    def restore_name(self, mark: Mark) -> None:
        """Make the name point to the source again."""
        self.flip.undo(Previous(**json.loads(mark.previous)))

    def _settled(self, log: FencedLog, step: Callable[[TableHead], T | LogEntry]) -> T:
        return settled(log, step, log.head(), ENTRY_WAIT_S)[0]


def _state_of(stored: StoredState) -> JobState | None:
    state = None if stored.text is None else JobState.decode(stored.text)
    return None if state is None or state.dropped(stored.txn_version) else state


def described(flip: Any) -> str:
    """Return a flip of a spec as JSON."""
    return json.dumps(
        flip.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True), sort_keys=True
    )
