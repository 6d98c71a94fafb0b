"""Reads the facts of a source that proposals for a new manifest depend on; writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from backfill_api.spec.sources import Source as SourceSpec
from backfill_core.errors import InvalidSpecError
from backfill_core.plugins import choose
from backfill_core.proposals.propose import likely_key
from backfill_core.proposals.seen import ColumnSeen, SourceSeen, TableSeen, TopicSeen
from backfill_spark import sources
from backfill_spark.delta.types import quoted
from backfill_spark.jvm.session_scope import session_scope
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.opening.failures import explained
from backfill_spark.opening.source import PinnedSource, SubscribedSource
from backfill_spark.ports.abilities import closing
from backfill_spark.ports.source import Source, SupportsOffsets, SupportsPin
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE_ROWS_MAX = 200_000
CANDIDATES_MAX = 8
"""Columns that are searched for repeated values."""

RECORDS_MAX = 100


def read_facts(
    spec: SourceSpec,
    *,
    settings: DriverSettings,
    spark: SparkSession | None = None,
    stop: StopSignal | None = None,
    starting: Callable[[str], None] = lambda _: None,
) -> SourceSeen:
    """Return the facts of a source.

    Args:
        spec: The source.
        settings: Settings of this process.
        spark: A session to use; by default, a session is opened and closed again.
        stop: A requested stop cancels the read.
        starting: Called before each step.

    Raises:
        BackfillError: the source cannot be read.
    """
    plugin, stop = choose(sources.discover(), spec.type, "spec.source.type"), stop or StopSignal()
    with session_scope({}, settings, app_name="backfill init", given=spark, stop=stop) as session:
        starting("looking at the source")
        with stop.cancels_jobs_of(session), explained(session, "reading the source"):
            source = plugin.open(session, spec)
            with closing(source), explained(session, "reading the source", source):
                return _seen(source)


def _seen(source: Source) -> SourceSeen:
    match source:
        case SupportsPin():
            return _table(PinnedSource(source, source.pin(None)), source.kept_seconds())
        case SupportsOffsets():
            return _topic(SubscribedSource(source, source.subscribe(None)))
        case _:
            raise InvalidSpecError("spec.source.type: this source has neither versions nor offsets.")


def _table(opened: PinnedSource, kept_s: int | None) -> TableSeen:
    table = opened.table
    columns = tuple(ColumnSeen(field.name, field.dataType.simpleString()) for field in table.schema)
    sample = opened.sample(SAMPLE_ROWS_MAX)
    candidates = [column.name for column in likely_key(columns)[:CANDIDATES_MAX]] if sample.count else []
    rows, different = 0, dict[str, int]()
    if candidates:
        counts = [F.count_distinct(F.col(quoted(name))).alias(f"c{at}") for at, name in enumerate(candidates)]
        first = sample.rows.limit(SAMPLE_ROWS_MAX).agg(F.count(F.lit(1)).alias("n"), *counts).first()
        assert first is not None
        rows, different = int(first["n"]), {name: int(first[f"c{at}"]) for at, name in enumerate(candidates)}
    return TableSeen(
        columns=tuple(
            ColumnSeen(column.name, column.type, different[column.name] < rows if column.name in different else None)
            for column in columns
        ),
        rows=table.live_rows,
        files=len(table.rows),
        bytes=sum(table.bytes),
        sampled_rows=rows,
        partitions=table.partitions,
        change_feed=table.change_feed,
        kept_s=kept_s,
    )


def _topic(opened: SubscribedSource) -> TopicSeen:
    # One request each: the topic's partitions have records of the same producers.
    records = opened.sample(RECORDS_MAX).rows.select("key", "value").limit(RECORDS_MAX).toLocalIterator()
    pairs = [(record["key"], record["value"]) for record in records]
    return TopicSeen(
        partitions=len(opened.found.newest),
        records=opened.rows,
        compacts=opened.found.compacts,
        keyed=bool(pairs) and all(_is_text(key) for key, _ in pairs),
        values=tuple(bytes(value) for _, value in pairs if value is not None),
    )


def _is_text(key: bytearray | None) -> bool:
    try:
        return key is not None and bool(bytes(key).decode())
    except UnicodeDecodeError:
        return False
