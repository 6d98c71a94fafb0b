"""Log of a source as file actions for a target that takes its files, and checks for features that it cannot take over."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from backfill_core.errors import SourceDamagedError, UnsupportedSourceFeatureError
from backfill_core.file_copies.copy_modes import HARMLESS
from backfill_core.log_shipping.actions import VersionActions
from backfill_core.log_shipping.columns import shape
from backfill_spark.delta.log import NO_ACTION, LoggedTable, action_of, lines_of
from backfill_spark.delta.properties import MAPPING_MODE, ROW_TRACKING, is_on, value
from backfill_spark.log_shipping.file_actions import file_actions
from backfill_spark.sources.delta.log import VersionLog

OTHER_STRATEGY = "Use the strategy Snapshot, which reads rows."


def check_shippable(path: str, table: LoggedTable) -> None:
    """Reject a table version with features that copied files would lose.

    Raises:
        UnsupportedSourceFeatureError: names the feature, and the column if it concerns one.
    """
    if is_on(table.properties, ROW_TRACKING):
        raise _unsupported(path, f"row tracking ({ROW_TRACKING}), and copied files would lose the row ids")
    if value(table.properties, MAPPING_MODE) == "id":
        raise _unsupported(path, f"column mapping by id ({MAPPING_MODE}), and its files may have other column names")


def _unsupported(path: str, feature: str) -> UnsupportedSourceFeatureError:
    return UnsupportedSourceFeatureError(f"the source {path} has {feature}.", hint=OTHER_STRATEGY)


@dataclass(frozen=True)
class ShippedLog:
    """Commits after a pinned version, while they belong to the same table with supported columns."""

    log: VersionLog
    path: str
    pinned: LoggedTable
    layout_at: Callable[[int], LoggedTable]

    def versions(self, after: int, upto: int) -> Iterator[VersionActions]:
        """Yield the file actions of the versions `(after, upto]`, in order; reads each version on demand.

        Raises:
            ChangeFeedExpiredError: a version is gone; names it.
            SourceReplacedError: another table is at the path.
            SchemaChangedError: partitions changed, or columns that are not followed; names them.
            UnsupportedSourceFeatureError: a version added a feature that the target cannot take over.
            SourceDamagedError: a commit cannot be read.
        """
        for number in range(after + 1, upto + 1):
            text = self.log.checked_text(number)
            try:
                actions = replace(file_actions(number, text), layout=self._layout(number, text))
            except NO_ACTION as error:
                raise SourceDamagedError(
                    f"version {number} of {self.path} has an incomplete file action: {error!r}.",
                    hint="Restore the file in the source's _delta_log, or start a new job from a version after it.",
                ) from error
            yield actions

    def _layout(self, number: int, text: str) -> LoggedTable | None:
        """Return a version's layout if its columns or metadata changed and changes are followed; else `None`."""
        # Most commits have no metadata, which a search in the text shows without parsing it again.
        if '"metaData"' not in text and '"protocol"' not in text:
            return None
        layout: LoggedTable | None = None
        for line in lines_of(text):
            action = action_of(line)
            if "protocol" in action:
                self._check_features(number, action["protocol"])
            metadata = action.get("metaData")
            if metadata is None:
                continue
            now = replace(
                self.pinned,
                schema=metadata["schemaString"],
                partitions=tuple(metadata["partitionColumns"]),
                properties=metadata.get("configuration") or {},
                description=metadata.get("description"),
            )
            if self.log.follows:
                layout = self._followed(now, number)
            else:
                check_shippable(self.path, now)
        return layout

    def _followed(self, now: LoggedTable, number: int) -> LoggedTable | None:
        before, after = (shape(json.loads(table.schema)) for table in (self.pinned, now))
        if before != after:
            # Unsupported features are reported later, after the change itself is known to be supported.
            return now
        check_shippable(self.path, now)
        last = self.layout_at(number - 1)
        return None if shape(json.loads(last.schema)) == after else now

    def _check_features(self, number: int, protocol: dict[str, Any]) -> None:
        """Reject a table feature that was added after the pinned version, unless it does not affect reading files."""
        features = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
        added = sorted(features - self.pinned.features - HARMLESS)
        if added:
            raise UnsupportedSourceFeatureError(
                f"the source {self.path} has the table feature {added[0]} since version {number}, but the target does not.",
                hint="Start a new job on a new target.",
            )
