"""Fields of a status from the report of a driver: progress, the limit in force, and the receipt."""

from __future__ import annotations

from backfill_api.status.grid import rounded_grid
from backfill_api.status.progress import LimitInForce, Progress, ProgressSummary
from backfill_api.status.status import Control
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.status.write_policy import not_less


def reported(context: Context, control: Control) -> dict[str, object]:
    """Return the fields of the status from the driver's report, by name.

    Args:
        context: The classified observation.
        control: Commands and acknowledgements after this decision.
    """
    fields: dict[str, object] = {}
    progress, before = context.progress, context.status.progress
    # Before its fence is committed, a driver reports the state that it read, which another attempt may still change.
    if progress is not None and progress.table_version is not None:
        limit = limit_in_force(context, progress, control)
        fields["progress"] = not_less(_summary(progress, limit), before)
    if context.report is not None and context.report.receipt is not None:
        fields["receipt"] = context.report.receipt
    return fields


def limit_in_force(context: Context, progress: Progress, control: Control) -> LimitInForce | None:
    """Return the limit that a driver reports, with its origin and the author that an annotation claims; `None` without a limit.

    A limit that neither spec nor override sets is one from before, until the driver acknowledges the next one. Otherwise another
    program commanded the driver.
    """
    rows, size_bytes = progress.throttle_rows_per_second, progress.throttle_bytes_per_second
    if (rows, size_bytes) == (None, None):
        return None
    revision = progress.limit.revision if progress.limit is not None else 0
    limit = LimitInForce.model_construct(
        rows_per_second=rows, bytes_per_second=size_bytes, until=progress.throttle_until, revision=revision
    )
    before = context.status.progress.limit if context.status.progress is not None else None
    same = before is not None and before.model_copy(update={"origin": "", "by": ""}) == limit
    origin, desired = before.origin if before is not None and same else "Command", context.desired
    if (rows, size_bytes) == (desired.rows_per_second, desired.bytes_per_second):
        origin = "Override" if desired.throttle_overridden else "Spec"
    by = next((ack.by for ack in control.acks if revision and ack.revision == revision), None)
    if by is None:
        by = before.by if before is not None and same else ""
    return limit.model_copy(update={"origin": origin, "by": by})


def _summary(progress: Progress, limit: LimitInForce | None) -> ProgressSummary:
    """Return the part of a progress that a status keeps."""
    fields = {name: getattr(progress, name) for name in ProgressSummary.model_fields}
    return ProgressSummary.model_construct(**fields | {"grid": rounded_grid(progress.grid), "limit": limit})
