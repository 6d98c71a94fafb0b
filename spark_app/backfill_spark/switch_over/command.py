"""`backfill switch`: performs one step after the other until the core names an end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from backfill_api.spec.spec import BackfillResource
from backfill_core.copy_back.following import KEEP_HINT
from backfill_core.errors import BackfillError, ReverseEndedError, SwitchBlockedError, VerificationFailedError
from backfill_core.protocol.receipt import TableReceipt
from backfill_core.source_fence.fence import SWITCHING, SourceFence
from backfill_core.source_fence.table_protocol import SWITCHED_FROM
from backfill_core.switch_over.endings import error_of
from backfill_core.switch_over.mark import Mark, Stage, check_marked, mark_of
from backfill_core.switch_over.moment import MOMENT_WAIT_S, Reached, check_drains, is_drained, is_moment
from backfill_core.switch_over.obstacles import check_mark, check_spec, may_pass, obstacles
from backfill_core.switch_over.steps import Answer, End, Goal, Step, SwitchOver, begin
from backfill_spark.crash_points import crash_point
from backfill_spark.jvm.stop_signal import StoppedEarly, StopSignal
from backfill_spark.settings import DriverSettings
from backfill_spark.switch_over.back_comparison import BackComparison
from backfill_spark.switch_over.comparisons import Compared, Comparisons
from backfill_spark.switch_over.copy_back import CopiedBack, CopyBack, caught_up
from backfill_spark.switch_over.follower import Follower
from backfill_spark.switch_over.plan import SwitchOptions, opened
from backfill_spark.switch_over.results import SwitchResult, check_equal, differing
from backfill_spark.switch_over.tables import SwitchTables, check_source, described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_EVERY_S = 0.15
BLOCKED_HINT = "Remove each obstacle, then run `backfill switch` again; nothing was changed."


def switch_over(
    backfill: BackfillResource,
    *,
    settings: DriverSettings,
    goal: Goal,
    options: SwitchOptions,
    stop_other: Callable[[], None],
    spark: SparkSession | None = None,
    stop: StopSignal | None = None,
    starting: Callable[[str], None] = lambda _: None,
    ended: Callable[[End, bool | None], None] = lambda _, __: None,
) -> SwitchResult:
    """Switch readers and writers over to the target, undo that, or complete it.

    Args:
        backfill: The job.
        settings: Settings of this process.
        goal: The request.
        options: Limits.
        stop_other: Stops the driver of another process on this machine.
        spark: A session to use; by default, a session is opened and closed again.
        stop: A requested stop ends a switch-over before the flip.
        starting: Called before each step.
        ended: Called with the end, also before an error about it is raised. If there was nothing to undo or to complete, then also with
            whether the target has the job's state: a target that has replaced the source lacks it. `None` if neither is true.

    Raises:
        InvalidSpecError: no switch-over is possible with this spec.
        SwitchBlockedError: it cannot begin or continue; names each obstacle.
        SourceFencedError, UnsupportedSourceFeatureError: the source cannot be fenced.
        VerificationFailedError: source and target differ; the source accepts writes again.
        FlipFailedError: the name cannot be changed.
        StoppedEarly: a stop was requested before the flip; the source accepts writes again.
        BackfillError: a table cannot be read or written.
    """
    if goal is Goal.SWITCH:
        check_spec(backfill.spec)
    check_source(backfill)
    stop = stop or StopSignal()
    with opened(backfill, settings, spark, stop, starting) as tables:
        head = tables.source.head()
        mark = mark_of(head)
        check_mark(mark, target=tables.context.sink.path, flip=described(backfill.spec.switch.flip))
        fence = head.fence if head.protocol.is_fenced else None
        fenced = fence is not None and (fence.job, fence.purpose) == (backfill.job_id, SWITCHING)
        machine = begin(goal, mark, fenced=fenced, timeout_s=options.timeout_s)
        follower = Follower(tables.context.spark, backfill, settings, stop_other)
        run = _Run(tables, options, stop, mark, follower, Comparisons(tables.context, stop.check))
        return run.to_end(goal, machine, starting, ended)


def go_forward(
    tables: SwitchTables, mark: Mark, settings: DriverSettings, stop: StopSignal, starting: Callable[[str], None]
) -> Mark:
    """Finish a switch-over whose flip is decided; return the mark that the source has then.

    Raises:
        BackfillError: see `switch_over`.
    """
    follower = Follower(tables.context.spark, tables.context.backfill, settings, lambda: None)
    run = _Run(tables, SwitchOptions(), stop, mark, follower, Comparisons(tables.context, stop.check))
    run.to_end(Goal.SWITCH, begin(Goal.SWITCH, mark, fenced=True, timeout_s=0.0), starting, lambda _, __: None)
    assert run.mark is not None
    return run.mark


@dataclass
class _Run:
    """One run of a command, with what its steps found."""

    tables: SwitchTables
    options: SwitchOptions
    stop: StopSignal
    mark: Mark | None
    follower: Follower
    comparisons: Comparisons
    first: Reached = field(default_factory=lambda: Reached(None))
    """State of the target when the command began."""

    before: Compared | None = None
    """Comparison before the fence; `None` if all rows are compared after it."""

    after: Compared | None = None
    copied: CopiedBack | None = None
    """State of the source after the copy back of an undo; `None` if the source does not follow the target."""

    fence: SourceFence | None = None
    fenced_s: float | None = None
    flipped_s: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    decided: Mark | None = None
    """The mark that the comparison allows."""

    errors: list[Exception] = field(default_factory=list)
    pause: threading.Event = field(default_factory=threading.Event)

    def to_end(
        self,
        goal: Goal,
        machine: SwitchOver,
        starting: Callable[[str], None],
        ended: Callable[[End, bool | None], None],
    ) -> SwitchResult:
        """Perform steps until an end; raise the error of an end that is not the goal."""
        if machine.at is Step.CHECK:
            with self.comparisons, self.follower:
                machine = self._steps(machine, starting)
        else:
            machine = self._steps(machine, starting)
        if isinstance(machine.at, End):
            ended(machine.at, self._has_state() if machine.at is End.NOTHING else None)
        error = error_of(goal, machine, self.mark, self.errors[0] if self.errors else None)
        if error is not None:
            raise error
        return self._result(machine)

    def _has_state(self) -> bool | None:
        """Return whether the target has the job's state; `None` if it has none, and has not replaced this source."""
        stored = self.tables.committer.read_state()
        if stored.text is not None:
            return True
        exists = stored.table_version >= 0
        replaced = exists and self.tables.target.head().properties.get(SWITCHED_FROM) == self.tables.source.path
        return False if replaced else None

    def _steps(self, machine: SwitchOver, starting: Callable[[str], None]) -> SwitchOver:
        while isinstance(machine.at, Step):
            starting(machine.at.value)
            crash_point("before_switch_step")
            step, began_s = machine.at, time.monotonic()
            answer = self._answer(step)
            self.seconds[step.value] = round(time.monotonic() - began_s, 3)
            machine = machine.on(answer, time.monotonic())
            crash_point("after_switch_step")
        return machine

    def _answer(self, step: Step) -> Answer:
        try:
            with self.tables.explained():
                return getattr(self, f"_{step.name.lower()}")() or Answer.DONE
        except (BackfillError, StoppedEarly) as error:
            self.errors.append(error)
            return Answer.FAILED

    def _result(self, machine: SwitchOver) -> SwitchResult:
        tables = self.tables
        assert isinstance(machine.at, End)
        source, target = tables.source.path, tables.context.sink.path
        spent = None if self.fenced_s is None or self.flipped_s is None else round(self.flipped_s - self.fenced_s, 3)
        flip = tuple(tables.flip.describe(source, target))
        receipt = None if self.after is None else self.after.receipt
        compared = () if self.after is None else self.after.describe()
        return SwitchResult(machine.at, source, target, flip, self.fence, receipt, spent, compared, self.seconds)

    # ------------------------------------------------------------------ to the target
    def _check(self) -> None:
        if self.first.consumed is None:
            self.first = self.tables.reached()
        ends_s = time.monotonic() + self.options.timeout_s
        while found := obstacles(findings := self.tables.findings(), max_lag_s=self.options.max_lag_s):
            if not self.follower.is_ours or not may_pass(findings) or time.monotonic() > ends_s:
                raise SwitchBlockedError(f"the switch-over cannot begin: {'; '.join(found)}.", hint=BLOCKED_HINT)
            self._wait()
        self.tables.check_logs()

    def _wait(self) -> None:
        self.stop.check()
        self.follower.check()
        self.pause.wait(LOOK_EVERY_S)

    def _compare(self) -> None:
        if self.options.by_rows:
            return  # every row is compared after the fence
        with self.stop.cancels_jobs_of(self.tables.context.spark):
            self.before = self.comparisons.while_following()
        self.follower.check()  # a driver that failed is the cause of a difference
        check_equal(self.before.receipt)
        self._check()

    def _fence(self) -> None:
        began_s, tables = time.monotonic(), self.tables
        while self.fence is None:
            head, waited_s = tables.source.head(), time.monotonic() - began_s
            fenced, reached = head.protocol.is_fenced, tables.reached()
            if not fenced:
                check_drains(head.version, reached)
            if fenced or is_moment(head.version, self.first, reached, waited_s=waited_s):
                self.fenced_s = time.monotonic()
                self.fence = tables.fence_source(head, head.version if waited_s < MOMENT_WAIT_S else None)
            else:
                self._wait()

    def _drain(self) -> None:
        assert self.fence is not None
        ends_s = time.monotonic() + self.options.timeout_s
        while not is_drained(self.fence.version, self.tables.reached()):
            if time.monotonic() > ends_s:
                return  # the core knows the deadline
            self._wait()

    def _verify(self) -> None:
        assert self.fence is not None
        late = threading.Timer(self.options.timeout_s, lambda: self.stop.ask(force=True))
        late.start()
        try:
            with self.stop.cancels_jobs_of(self.tables.context.spark):
                self.after = self.comparisons.of_fenced(self.fence.version, self.before)
        finally:
            late.cancel()
        receipt = self.after.receipt
        check_equal(receipt)
        mark = self.tables.decided(self.fence, "Flipping", receipt)
        others = self.tables.committer.touched_by_others(receipt.target_version, mark.target_version)
        if others:
            raise SwitchBlockedError(
                f"another writer changed the target after the comparison: {', '.join(map(str, others[:5]))}.",
                hint="Stop the writers of the target, then run the switch-over again.",
            )
        self.decided = mark

    def _record(self) -> None:
        assert self.decided is not None
        self._store(self.decided)

    def _release(self) -> None:
        self.follower.stop()
        self._check_marked()  # the stop may take a minute
        self.tables.release_target()

    def _flip(self) -> None:
        self._check_marked()
        self.tables.flip.flip(self.tables.context.sink.path)
        self.flipped_s = time.monotonic()

    def _settle(self) -> None:
        if self.tables.context.backfill.spec.switch.keep_source == "Released":
            self.tables.leave_source(self.mark)
        else:
            self._stage("Switched")

    def _give_up(self) -> None:
        self.tables.give_up(self.mark)

    # ------------------------------------------------------------------ back to the source
    def _check_target(self) -> Answer:
        self.tables.check_logs()
        if not self.tables.follows:
            return self._others()
        self._copy_back()
        self.before = self._compared_back()
        if self.before.receipt.equal:
            return Answer.DONE
        self.errors.append(self._unequal(self.before.receipt))
        return Answer.OTHERS_WROTE

    def _reconsider(self) -> Answer:
        try:
            return self._check_target()
        except ReverseEndedError as error:
            self.errors.append(error)
            return Answer.OTHERS_WROTE

    def _reverse(self) -> None:
        self._stage("Undoing")

    def _hold(self) -> None:
        self._check_marked()
        self.tables.fence_target()

    def _recheck(self) -> Answer:
        if not self.tables.follows:
            return self._others()
        try:
            self._copy_back()
        except ReverseEndedError as error:
            self.errors.append(error)
            return Answer.OTHERS_WROTE
        return Answer.DONE

    def _copy_back(self) -> None:
        self.copied = caught_up(CopyBack(self.tables, self._marked, self.stop.check))

    def _verify_back(self) -> Answer:
        if self.copied is None:
            return Answer.DONE  # no other writer changed the target
        self.after = self._compared_back()
        if self.after.receipt.equal:
            return Answer.DONE
        self.errors.append(self._unequal(self.after.receipt))
        return Answer.OTHERS_WROTE

    def _compared_back(self) -> Compared:
        assert self.copied is not None, "the source follows the target"
        versions = self.copied.source_version, self.copied.version
        return BackComparison(self.tables, self._marked, *versions, self.stop.check, self.before).compared()

    def _unequal(self, receipt: TableReceipt) -> VerificationFailedError:
        return VerificationFailedError(
            f"source and target differ in {differing(receipt)}: the undo was given up, and the target stays in use.",
            hint=KEEP_HINT,
        )

    def _restore(self) -> None:
        self._check_marked()
        self.tables.restore_name(self._marked)

    def _return(self) -> None:
        self._check_marked()
        consumed = None if self.copied is None else self.copied.source_version
        self.tables.return_state(self._marked, consumed=consumed)

    def _last_check(self) -> Answer:
        return self._others()

    def _reopen(self) -> None:
        self.tables.open_source(self.mark)

    def _redo(self) -> None:
        self._stage("Flipping")

    def _complete(self) -> None:
        self.tables.leave_source(self.mark)

    # ------------------------------------------------------------------ the mark
    @property
    def _marked(self) -> Mark:
        assert self.mark is not None
        return self.mark

    def _check_marked(self) -> None:
        check_marked(self.tables.source.head(), self._marked)

    def _stage(self, stage: Stage) -> None:
        self._store(replace(self._marked, stage=stage))

    def _store(self, mark: Mark) -> None:
        before, self.mark = self.mark, mark
        self.tables.record(mark, before)

    def _others(self) -> Answer:
        held = self._marked.target_version if self.copied is None else self.copied.version
        others = self.tables.others_since(held)
        if not others:
            return Answer.DONE
        listed = ", ".join(map(str, others[:5]))
        self.errors.append(
            SwitchBlockedError(
                f"other writers changed the target since the switch-over, and the source lacks these commits: {listed}.",
                hint="Copy these changes to the source by hand after `backfill switch --complete`, or keep the target.",
            )
        )
        return Answer.OTHERS_WROTE
