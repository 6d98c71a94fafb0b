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
from backfill_spark.jvm.failures import describe_error
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.sink import SupportsShipping
from backfill_spark.ports.source import SupportsLog

if TYPE_CHECKING:
    from backfill_spark.opening.tables import Tables
    from backfill_spark.work.context import WorkContext

GONE_HINT = "Undo it, or start a new job on a new target with another spec.transform."


def new_columns(version: VersionActions, before: int, context: WorkContext) -> NewColumns | None:
    """Return the schema change for the target, or for the job's reads; `None` if the change does not affect the job.

    Args:
        version: The version of the source with another layout.
        before: The last shipped version.
        context: Context of the work.

    Raises:
        SchemaChangedError: names the column, the version and what to do.
    """
    tables, layout = context.tables, version.layout
    assert isinstance(layout, LoggedTable)
    source = ability(tables.source, SupportsLog)
    target = ability(tables.sink, SupportsShipping).columns()
    at, number = tables.source.path, version.version
    try:
        last = source.layout_at(before)
        first, shipped, now = (_view(tables, table) for table in (source.shippable(), last, layout))
        if follow(first, shipped, target).fields is not None:
            raise SchemaChangedError(
                f"columns of {at} changed up to version {before}, but not in the target: schemaChange was Ignore then.",
                hint="Start a new job on a new target.",
            )
        followed = follow(first, now, target)
    except NotFollowedError as refused:
        raise SchemaChangedError(f"{refused.what}, in version {number} of {at}.", hint=refused.hint) from refused
    except PySparkException as error:
        message = (
            f"spec.transform cannot be computed from the columns of version {number} of {at}: {describe_error(error)}"
        )
        raise SchemaChangedError(message, hint=GONE_HINT) from error
    fields = followed.fields
    # Compared with the pinned version, also columns that an earlier version brought are new.
    if fields is None or fields == target.columns.fields:
        return NewColumns(None) if followed.reopens else None
    return NewColumns(json.dumps({"type": "struct", "fields": list(fields)}), followed.last_id, followed.reopens)


def _view(tables: Tables, layout: LoggedTable) -> View:
    """Return the view of a layout: its columns, and the transform's output for them."""
    columns = tuple(json.loads(layout.schema)["fields"])
    schema = schema_of(layout.schema)
    outputs = tables.transform.output_schema(tables.spark, schema)
    return View(
        Columns(columns, mapped=value(layout.properties, MAPPING_MODE) == "name"),
        tuple(json.loads(outputs.json())["fields"]),
        tables.transform.taken(tables.spark, schema),
        tables.transform.columns_read(tables.spark, schema),
    )
