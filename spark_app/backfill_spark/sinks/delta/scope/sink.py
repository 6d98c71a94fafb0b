"""A Delta target of which a job replaces a part; see `ports.sink.SupportsPublication` (ADR 0048)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backfill_api.status.plan import PlannedScope, PlannedTarget
from backfill_core.errors import TargetNotFoundError, UnsupportedTargetFeatureError
from backfill_core.file_copies.scope import check_replaceable
from backfill_spark.delta.log import LOG_ERRORS, newest_version
from backfill_spark.delta.properties import is_on
from backfill_spark.sinks.delta.failures import explain_target
from backfill_spark.sinks.delta.publishing import PublishingSink
from backfill_spark.sinks.delta.row_changes import APPEND_ONLY
from backfill_spark.sinks.delta.scope.committer import ScopedCommitter
from backfill_spark.sinks.delta.scope.files import FIELD, ScopeListing, TargetScope

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

NAMES_MAX, NAME_CHARACTERS = 5, 255


class ScopedSink(PublishingSink):
    """A target whose rows inside a scope the job replaces; other writers own the rest."""

    def __init__(self, spark: SparkSession, path: str, *, scope: str, **target: Any) -> None:
        """Take the scope, and the arguments of `DeltaSink`."""
        super().__init__(spark, path, **target)
        self._scope = scope

    def committer(self, *, app_id: str, domain: str) -> ScopedCommitter:
        """See `ports.sink.Sink`."""
        return ScopedCommitter(
            self._spark, self._staging, path=self.path, app_id=app_id, domain=domain, scope=self._scope_now, key=self._key
        )  # fmt: skip

    def check(self, schema: StructType, *, source_path: str | None, has_state: bool) -> None:
        """See `ports.sink.Sink`; the target must exist."""
        if self._read() is None:
            raise TargetNotFoundError(
                f"{self.path} is not a Delta table, and {FIELD} replaces rows of an existing one.",
                hint="Remove the scope, or correct spec.target.delta.path.",
            )
        super().check(schema, source_path=source_path, has_state=has_state)

    def _check_rows(self, *, begins: bool) -> None:
        """Reject a scope that one commit cannot replace; rows outside of it may exist."""
        table = self._table
        if is_on(table.properties, APPEND_ONLY):
            raise UnsupportedTargetFeatureError(
                f"{self.path} has {APPEND_ONLY}, and {FIELD} replaces rows.",
                hint=f"Unset it: ALTER TABLE … UNSET TBLPROPERTIES ('{APPEND_ONLY}').",
            )
        scope = TargetScope.of(self._spark, self._scope, table)
        if begins:
            check_replaceable(scope.named, self.path, table.properties, removed=len(self._newest(scope).removed()))

    def _newest(self, scope: TargetScope) -> ScopeListing:
        try:
            version = newest_version(self._spark, self.path).position
        except LOG_ERRORS as error:
            raise explain_target(error, path=self.path, doing="reading the target") from error
        assert isinstance(version, int)
        return scope.listing(version)

    def _scope_now(self) -> TargetScope:
        return TargetScope.of(self._spark, self._scope, self._table)

    def planned(self, schema: StructType) -> PlannedTarget:
        """See `ports.sink.DescribesTarget`."""
        listing = self._newest(self._scope_now())
        removed = listing.removed()
        counts = [None if file.rows is None else file.rows - file.deleted for file in removed]
        known = [rows for rows in counts if rows is not None]
        scope = PlannedScope(
            files=len(removed),
            rows=sum(known) if len(known) == len(counts) else None,
            files_kept=listing.files - len(removed),
            names=tuple(file.path[:NAME_CHARACTERS] for file in removed[:NAMES_MAX]),
        )
        return super().planned(schema).model_copy(update={"scope": scope})
