"""A run of a job that has ended: it stays ended, or it continues from the position that its target holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from backfill_api.spec.params import SourceAbility
from backfill_core.errors import BackfillError
from backfill_core.job.after_end import ReadHead, Refuse, Stay, decide_after_end, expired_after_end
from backfill_core.protocol.work import Position
from backfill_spark.driver.job_context import JobContext, OpenedJob
from backfill_spark.driver.offline_verify import head_of_source, source_id_of
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import SupportsChanges


def stay_ended(context: JobContext, *, refresh: bool) -> Stay | None:
    """Return why an ended job stays as it is; `None` if it continues. Only a refresh reads the source.

    Raises:
        InvalidSpecError: the job does not meet its spec, and cannot.
        TargetTakenError: another job fills the target now.
        BackfillError: the source was replaced, or cannot be read.
    """
    state, spec = context.state, context.backfill.spec
    assert state is not None
    decision = decide_after_end(spec, state, refresh=refresh)
    if isinstance(decision, ReadHead):
        head, source_id = head_of_source(context), source_id_of(context)
        decision = decide_after_end(spec, state, refresh=refresh, head=head, source_id=source_id)
    match decision:
        case Refuse(error=error):
            raise error
        case Stay():
            return decision
    context.check_claim()
    return None


@contextmanager
def open_ended(context: JobContext) -> Iterator[OpenedJob]:
    """Open an ended job that continues; nothing is written.

    Raises:
        SnapshotExpiredError, OffsetsExpiredError: changes after the consumed position are gone.
        BackfillError: as for `JobContext.open_job`.
    """
    assert context.state is not None
    consumed = context.state.consumed
    with ExitStack() as opened:
        try:
            job = opened.enter_context(context.open_job())
            if consumed is not None:
                _check_source(job, consumed)
        except BackfillError as error:
            expired = expired_after_end(error, context.format_position(consumed))
            if expired is error:
                raise
            raise expired from error
        yield job


def _check_source(job: OpenedJob, consumed: Position) -> None:
    """Reject later versions or records that are gone, or that the job cannot apply, before anything is written."""
    source = job.tables.source
    with job.explained("reading the source", source):
        head = source.head()
        source.check_kept(consumed, head)
        if SourceAbility.CHANGES in job.backfill.spec.strategy.variant.needs:
            ability(source, SupportsChanges).check_versions(consumed, head.position)
