"""The two open tables of a job, with the transform between them: everything that work on rows and files needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import BackfillError, InvalidSpecError
from backfill_core.job.commit import describe_suspects
from backfill_spark.opening.failures import Side, explain, explained
from backfill_spark.opening.source import OpenSource, PinnedSource, SubscribedSource
from backfill_spark.ports.committer import Committer
from backfill_spark.ports.sink import Sink
from backfill_spark.ports.source import PinnedTable, Source, SourcePlugin
from backfill_spark.records.quarantine import OpenedQuarantine
from backfill_spark.rows.columns import check_one_row_a_key
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import WriteMode, write_mode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Tables:
    """Source and target of a job, open and checked."""

    spark: SparkSession
    spec: BackfillSpec
    source_plugin: SourcePlugin
    source: Source
    sink: Sink
    committer: Committer
    transform: Transform
    opened: OpenSource
    quarantine: OpenedQuarantine | None = None
    """The table of bad records; `None` if the source names none."""

    @property
    def _sides(self) -> tuple[Side, ...]:
        # The sink comes first: an error that it raises in a row looks like an error of the transform.
        return self.sink, self.transform, self.source

    def explain(self, error: Exception) -> BackfillError:
        """Translate an exception of a Spark job; an unknown error is retryable only if it looks transient."""
        return explain(error, self.spark, "a Spark job", *self._sides)

    @contextmanager
    def jobs_explained(self) -> Iterator[None]:
        """Translate exceptions that Spark jobs on both sides raise inside the block into a `BackfillError`."""
        with explained(self.spark, "a Spark job", *self._sides):
            yield

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders of source and target; a source without files, such as a topic, has none."""
        return (self.sink.path,) if isinstance(self.opened, SubscribedSource) else (self.source.path, self.sink.path)

    @property
    def mode(self) -> WriteMode:
        """Write mode of the target."""
        return write_mode(self.spec.write_mode)

    @property
    def key(self) -> tuple[str, ...]:
        """Key in terms of the target; empty for targets without one."""
        return self.spec.key

    @property
    def pinned(self) -> PinnedTable:
        """The pinned version.

        Raises:
            InvalidSpecError: the strategy requested offsets, so it has no pinned version.
        """
        if not isinstance(self.opened, PinnedSource):
            raise InvalidSpecError("the strategy pins no version of the source.", hint="Use another strategy.")
        return self.opened.table

    @property
    def row_offsets(self) -> tuple[int, ...]:
        """Row index at which each file of the pinned version begins; the last element is the number of all rows."""
        return tuple(accumulate(self.pinned.rows, initial=0))

    @property
    def proves_key(self) -> bool:
        """True if duplicate keys in the source would violate the target's key. Records cannot: the last record of a key wins."""
        return self.mode.merges and isinstance(self.opened, PinnedSource)

    @property
    def suspects(self) -> tuple[str, ...]:
        """Parts of the job that decide which rows the target gets: the filter, partition columns and the pinned version."""
        table = self.opened.table if isinstance(self.opened, PinnedSource) else None
        partitions, version = ((), None) if table is None else (table.partitions, table.version)
        return describe_suspects(self.spec.transform.where, partitions, version)

    def make_target(self) -> None:
        """Create the target if it is missing."""
        with explained(self.spark, "preparing the target", self.sink):
            self.sink.prepare(self.transform.output_schema(self.spark, self.opened.schema))
            if self.quarantine is not None:
                self.quarantine.make()

    def check_one_row_a_key(self) -> None:
        """Prove the key unique in the history of the source, after the transform.

        A key that the transform drops is checked in the source's rows; the transform never drops the key of an Upsert.

        Raises:
            DuplicateKeyError: two rows share a key.
        """
        key, source = self.key, self.opened.all()
        view = self.transform.apply(source)
        check_one_row_a_key(view if set(key) <= set(view.columns) else source, key, what=self.opened.description)
