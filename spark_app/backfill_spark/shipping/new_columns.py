"""Columns of the target after a version of the source with other columns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from backfill_core.errors import SchemaChangedError
from backfill_core.log_shipping.actions import VersionActions
from backfill_core.log_shipping.columns import Columns
from backfill_core.log_shipping.schema_changes import NotFollowedError, View, follow
from backfill_core.protocol.work import NewColumns
from backfill_spark.delta.log import LoggedTable
from backfill_spark.delta.properties import MAPPING_MODE, value
from backfill_spark.delta.schemas import schema_of
from backfill_spark.jvm.failures import in_words
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.sink import SupportsShipping
from backfill_spark.ports.source import SupportsLog

if TYPE_CHECKING:
    from backfill_spark.driver.job_context import OpenedJob
    from backfill_spark.ports.work import WorkContext

GONE_HINT = "Undo it, or start a new job on a new target with another spec.transform."


def new_columns(version: VersionActions, before: int, context: WorkContext) -> NewColumns | None:
    """Return what the target gets, or what the job reads otherwise from then on; None: nothing of it concerns the job.

    Args:
        version: Of the source, with another layout.
        before: The version that was shipped last.
        context: Of the work.

    Raises:
        SchemaChangedError: names the column, the version and what to do.
    """
    job, layout = context.job, version.layout
    assert isinstance(layout, LoggedTable)
    source = ability(job.source, SupportsLog)
    target = ability(job.sink, SupportsShipping).columns()
    at, number = job.source.path, version.version
    try:
        last = source.layout_at(before)
        first, shipped, now = (_view(job, one) for one in (source.shippable(), last, layout))
        if follow(first, shipped, target).fields is not None:
            raise SchemaChangedError(
                f"columns of {at} changed up to version {before}, and the target was not told: schemaChange was Ignore then.",
                hint="Start a new job on a new target.",
            )
        followed = follow(first, now, target)
    except NotFollowedError as refused:
        raise SchemaChangedError(f"{refused.what}, in version {number} of {at}.", hint=refused.hint) from refused
    except PySparkException as error:
        words = f"spec.transform cannot be made of the columns of version {number} of {at}: {in_words(error)}"
        raise SchemaChangedError(words, hint=GONE_HINT) from error
    fields = followed.fields
    # Compared with the pinned version, also columns that an earlier version brought are new.
    if fields is None or fields == target.columns.fields:
        return NewColumns(None) if followed.reopens else None
    return NewColumns(json.dumps({"type": "struct", "fields": list(fields)}), followed.last_id, followed.reopens)


def _view(job: OpenedJob, layout: LoggedTable) -> View:
    """Return what the transform makes of a layout."""
    columns = tuple(json.loads(layout.schema)["fields"])
    schema = schema_of(layout.schema)
    outputs = job.transform.output_schema(job.spark, schema)
    return View(
        Columns(columns, mapped=value(layout.properties, MAPPING_MODE) == "name"),
        tuple(json.loads(outputs.json())["fields"]),
        job.transform.taken(job.spark, schema),
        job.transform.asked(job.spark, schema),
    )
