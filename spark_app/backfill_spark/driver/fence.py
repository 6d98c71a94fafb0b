"""Fences the source of a job, or holds its old versions, and ends both: reads the log, writes the entry that the core decides on, and reads again."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from backfill_api.amounts import counted
from backfill_api.spec.spec import BackfillResource
from backfill_core.errors import (
    BackfillError,
    InvalidSpecError,
    MissingBucketError,
    MissingSchemaError,
    PermissionDeniedError,
    SourceNotFoundError,
    TransientError,
)
from backfill_core.plugins import choose
from backfill_core.protocol.removal import SourceState
from backfill_core.source_fence.fence import (
    LogEntry,
    Purpose,
    Request,
    SourceFence,
    TableHead,
    fence_step,
    unfence_step,
)
from backfill_core.source_fence.hold import WARN_HINT, Held, end_hold_step, hold_step, short_retentions
from backfill_core.switch_over.obstacles import check_not_in_use
from backfill_spark import sources
from backfill_spark.control.wire import format_timestamp
from backfill_spark.crash_points import arm, crash_point
from backfill_spark.jvm.session_scope import session_scope
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.opening.failures import explained
from backfill_spark.ports.source import FencedLog
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

TIMEOUT_S = 60.0
ABSENT: Final = (SourceNotFoundError, MissingSchemaError, MissingBucketError)
"""Errors of a source that was not found; see `check_gone`."""


@dataclass(frozen=True)
class FencedSource:
    """A source that no writer can change."""

    path: str
    fence: SourceFence
    entries: int
    """Entries that this call tried to write; 0 if the job had fenced the source already."""

    protocol_before: str
    protocol: str


@dataclass(frozen=True)
class UnfencedSource:
    """A source that accepts writes."""

    path: str
    version: int
    """Version that was read without a fence."""

    lifted: SourceFence | None
    """The fence that this call lifted; `None` if there was none, or if its property named no job."""

    entries: int
    protocol: str


def fence_source(
    backfill: BackfillResource,
    *,
    settings: DriverSettings,
    reason: str,
    timeout_s: float = TIMEOUT_S,
    spark: SparkSession | None = None,
    stop: StopSignal | None = None,
    starting: Callable[[str], None] = lambda _: None,
) -> FencedSource:
    """Make the source of a job read-only for all writers; return the fence with the version at which the source stands still.

    Args:
        backfill: The job.
        settings: Settings of this process.
        reason: Shown to operators who meet the fence.
        timeout_s: Seconds for which concurrent commits are followed.
        spark: A session to use; by default, a session is opened and closed again.
        stop: A requested stop ends the start.
        starting: Called before each step.

    Raises:
        SourceFencedError: another job holds the fence.
        UnsupportedSourceFeatureError: the table cannot be fenced; names the reason.
        InvalidSpecError: the source is not a table with a log.
        TransientError: other writers committed first until the time was over.
        BackfillError: the log cannot be read or written.
    """
    with _opened(backfill, settings, command="fence", spark=spark, stop=stop, starting=starting) as log:
        request = request_of(backfill, reason)
        starting("fencing the source")
        return fence_log(log, request, timeout_s=timeout_s)


def unfence_source(
    backfill: BackfillResource,
    *,
    settings: DriverSettings,
    force: bool = False,
    timeout_s: float = TIMEOUT_S,
    spark: SparkSession | None = None,
    stop: StopSignal | None = None,
    starting: Callable[[str], None] = lambda _: None,
) -> UnfencedSource:
    """Lift the fence of a job's source; a source without a fence stays unchanged.

    Args:
        backfill: The job.
        settings: Settings of this process.
        force: Lift the fence of any job.
        timeout_s: Seconds for which concurrent commits are followed.
        spark: A session to use; by default, a session is opened and closed again.
        stop: A requested stop ends the start.
        starting: Called before each step.

    Raises:
        The same errors as `fence_source`.
    """
    with _opened(backfill, settings, command="unfence", spark=spark, stop=stop, starting=starting) as log:
        request = request_of(backfill, "")
        starting("lifting the fence of the source")
        return unfence_log(log, request, force=force, timeout_s=timeout_s)


def fence_log(log: FencedLog, request: Request, *, timeout_s: float) -> FencedSource:
    """Fence a table; see `fence_source`."""
    first = log.head()
    answer, last, entries = settled(log, partial(fence_step, request=request), first, timeout_s)
    return FencedSource(last.path, answer.fence, entries, str(first.protocol), str(last.protocol))


def unfence_log(log: FencedLog, request: Request, *, force: bool, timeout_s: float) -> UnfencedSource:
    """Lift the fence of a table; see `unfence_source`."""
    first = log.head()
    answer, last, entries = settled(log, partial(unfence_step, request=request, force=force), first, timeout_s)
    lifted = first.fence if first.protocol.is_fenced else None
    return UnfencedSource(last.path, answer.version, lifted, entries, str(last.protocol))


def settled(
    log: FencedLog, step: Callable[[TableHead], T | LogEntry], head: TableHead, timeout_s: float
) -> tuple[T, TableHead, int]:
    """Write entries until the log needs none; return the answer, the version that gave it, and the number of entries.

    Raises:
        TransientError: other writers committed first until the time was over.
        BackfillError: the log cannot be read or written, or `step` refuses an entry.
    """
    ends_s, entries = time.monotonic() + timeout_s, 0
    while isinstance(answer := step(head), LogEntry):
        if entries == 0:
            log.check()
        elif time.monotonic() > ends_s:
            raise TransientError(
                f"other writers of {head.path} committed first {counted(entries, 'time')} within {timeout_s:g} s.",
                hint="Run the command again, or slow the writers down.",
            )
        crash_point("before_log_entry")
        log.put(answer)
        crash_point("after_log_entry")
        entries += 1
        head = log.head()
    return answer, head, entries


def hold_log(log: FencedLog, backfill: BackfillResource) -> Held:
    """Extend the retention of a job's source, unless the job did so already or it is long enough.

    Raises:
        SourceFencedError: another job fences the source.
        UnsupportedSourceFeatureError: no entry can be added to its log; names the reason.
        PermissionDeniedError: this user may not write to it.
        BackfillError: the log cannot be read or written.
    """
    step = partial(hold_step, request=request_of(backfill, ""), retention=log.retention_s)
    try:
        return settled(log, step, log.head(), TIMEOUT_S)[0]
    except PermissionDeniedError as denied:
        hint = f"{denied.hint} Or {WARN_HINT[:1].lower()}{WARN_HINT[1:]}".strip()
        raise PermissionDeniedError(
            f"spec.source.{backfill.spec.source.member}.hold is Extend, and {denied.message}", hint=hint
        ) from denied


def hold_source(spark: SparkSession, backfill: BackfillResource) -> None:
    """Extend the retention of a source if its spec asks for that; see `hold_log`."""
    if backfill.spec.source.params.extends_retention and (log := source_log(spark, backfill)) is not None:
        hold_log(log, backfill)


def planned_hold(spark: SparkSession, backfill: BackfillResource) -> tuple[str, ...]:
    """Return the retentions of the source that a run would extend; raises the errors of `hold_log`, except for denied writes."""
    log = source_log(spark, backfill) if backfill.spec.source.params.extends_retention else None
    if log is None:
        return ()
    head = log.head()
    entry = isinstance(hold_step(head, request_of(backfill, ""), log.retention_s), LogEntry)
    return short_retentions(head.properties, log.retention_s) if entry else ()


def end_hold(spark: SparkSession, backfill: BackfillResource, *, target: str | None = None) -> bool:
    """Restore the retention of a source if the job extended it; return whether it did.

    Args:
        spark: The session.
        backfill: The job.
        target: Location of the target, if the session reads a table there; see `check_gone`.

    Raises:
        BackfillError: as for `hold_log`, or it is not certain that the source is gone.
    """
    existing = existing_log(spark, backfill, target=target)
    return existing is not None and end_hold_log(existing[0], backfill)


def existing_log(
    spark: SparkSession, backfill: BackfillResource, *, target: str | None
) -> tuple[FencedLog, TableHead] | None:
    """Return the log of a job's source and its newest version; `None` if it is gone, or has no log to which entries can be added."""
    try:
        log = source_log(spark, backfill)
        return None if log is None else (log, log.head())
    except ABSENT as error:
        check_gone(spark, backfill, error, target=target)
        return None


def check_gone(spark: SparkSession, backfill: BackfillResource, error: BackfillError, *, target: str | None) -> None:
    """Raise the error of a source that was not found, unless the source is certainly gone: then it holds nothing for the job.

    Args:
        spark: The session.
        backfill: The job.
        error: One of `ABSENT`.
        target: Location of the target, if the session reads a table there: it proves the address of a store.
    """
    source = backfill.spec.source
    plugin = choose(sources.discover(), source.type, "spec.source.type")
    if hint := plugin.doubt_of_absence(spark, source, error, target):
        raise type(error)(error.message, hint=hint) from error


def end_hold_log(log: FencedLog, backfill: BackfillResource) -> bool:
    """Restore the retention of a table if the job extended it; see `end_hold`."""
    return settled(log, partial(end_hold_step, request=request_of(backfill, "")), log.head(), TIMEOUT_S)[2] > 0


def source_state(spark: SparkSession, backfill: BackfillResource, *, target: str) -> SourceState:
    """Return whether the source of a job exists, and whether this job fences it or switched it over; see `end_hold`."""
    existing = existing_log(spark, backfill, target=target)
    if existing is None:
        plugin = choose(sources.discover(), backfill.spec.source.type, "spec.source.type")
        return "Unknown" if plugin.fenced_log is None else "Missing"
    head = existing[1]
    fence = head.fence
    ours = head.protocol.is_fenced and (fence is None or fence.job == backfill.job_id)
    return "Fenced" if ours else "Open"


def describe_hold_left(spark: SparkSession, backfill: BackfillResource) -> str:
    """Restore the retention at the end of a job whose spec has it extended; return a message for users if that fails."""
    try:
        if backfill.spec.source.params.extends_retention:
            end_hold(spark, backfill)
    except BackfillError as failed:
        return f"the retention of the source is still extended: {failed.message} `backfill release` restores it."
    return ""


def check_not_switched(spark: SparkSession, backfill: BackfillResource, *, target: str, exists: bool) -> None:
    """Refuse a new copy into a table to which the source was switched over; see `check_not_in_use`."""
    if (log := source_log(spark, backfill)) is not None:
        head = log.at(target).head() if exists and backfill.spec.target.type == backfill.spec.source.type else None
        check_not_in_use(log.head(), head, backfill.spec, path=target)


def source_log(spark: SparkSession, backfill: BackfillResource) -> FencedLog | None:
    """Return the log of a job's source; `None` if it has none to which entries can be added."""
    source = backfill.spec.source
    plugin = choose(sources.discover(), source.type, "spec.source.type")
    if plugin.fenced_log is None:
        return None
    with explained(spark, "the log of the source"):
        return plugin.fenced_log(spark, source)


@contextmanager
def _opened(
    backfill: BackfillResource,
    settings: DriverSettings,
    *,
    command: str,
    spark: SparkSession | None,
    stop: StopSignal | None,
    starting: Callable[[str], None],
) -> Iterator[FencedLog]:
    """Open the log of a job's source; only the source is opened, so the target may be gone."""
    spec, stop = backfill.spec, stop or StopSignal()
    plugin = choose(sources.discover(), spec.source.type, "spec.source.type")
    if plugin.fenced_log is None:
        raise InvalidSpecError(
            f"spec.source.type: {plugin.name} has no log to which a fence can be added.",
            hint="Stop its producers, or revoke their right to write.",
        )
    name = f"backfill {command} {backfill.job_id}"
    with session_scope(spec.spark.conf, settings, app_name=name, given=spark, stop=stop) as session:
        if settings.crash_at:
            arm(settings.crash_at)
        starting("reading the log of the source")
        with explained(session, f"the {command} of the source"):
            yield plugin.fenced_log(session, spec.source)


def request_of(backfill: BackfillResource, reason: str, purpose: Purpose = "") -> Request:
    """Return a request of a job, made now, with a new id."""
    now_ms = round(time.time() * 1000)
    return Request(backfill.job_id, format_timestamp(now_ms), now_ms, str(uuid.uuid4()), reason, purpose)
