"""The log of a source as file actions, for a target that gets its files; and what of a source such a target cannot have."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from backfill_core.errors import SourceDamagedError, UnsupportedSourceFeatureError
from backfill_core.log_shipping.actions import VersionActions
from backfill_core.log_shipping.columns import shape
from backfill_core.transfer.ways import HARMLESS
from backfill_spark.delta.log import NO_ACTION, LoggedTable, action_of, lines_of
from backfill_spark.delta.properties import MAPPING_MODE, ROW_TRACKING, is_on, value
from backfill_spark.shipping.file_actions import file_actions
from backfill_spark.sources.delta.log import VersionLog

OTHER_STRATEGY = "Use the strategy Snapshot, which reads rows."


def check_shippable(path: str, table: LoggedTable) -> None:
    """Refuse a version of a table whose files alone do not say what a reader sees, or what a copy would lack.

    Raises:
        UnsupportedSourceFeatureError: names the feature, and the column where there is one.
    """
    if is_on(table.properties, ROW_TRACKING):
        raise _unsupported(path, f"row tracking ({ROW_TRACKING}), and the ids of its rows would not be carried over")
    if value(table.properties, MAPPING_MODE) == "id":
        raise _unsupported(
            path, f"column mapping by id ({MAPPING_MODE}), and its files need not have the columns' names"
        )


def _unsupported(path: str, words: str) -> UnsupportedSourceFeatureError:
    return UnsupportedSourceFeatureError(f"the source {path} has {words}.", hint=OTHER_STRATEGY)


@dataclass(frozen=True)
class ShippedLog:
    """The commits after a pinned version, as long as they are of the same files with the same columns."""

    log: VersionLog
    path: str
    pinned: LoggedTable
    layout_at: Callable[[int], LoggedTable]

    def versions(self, after: int, upto: int) -> Iterator[VersionActions]:
        """Yield the file actions of the versions `(after, upto]`, in order; each is read when it is asked for.

        Raises:
            ChangeFeedExpiredError: a version is gone; names it.
            SourceReplacedError: another table is at the path.
            SchemaChangedError: partitions changed, or columns that are not followed; names them.
            UnsupportedSourceFeatureError: a version brought something that is not carried over.
            SourceDamagedError: a commit cannot be read.
        """
        for number in range(after + 1, upto + 1):
            text = self.log.checked_text(number)
            try:
                actions = replace(file_actions(number, text), layout=self._layout(number, text))
            except NO_ACTION as error:
                raise SourceDamagedError(
                    f"version {number} of {self.path} has a file action that says too little: {error!r}.",
                    hint="Restore the file in the source's _delta_log, or start a new job from a version after it.",
                ) from error
            yield actions

    def _layout(self, number: int, text: str) -> LoggedTable | None:
        """Return how a version lays the table out, where that is followed: it has other columns than the pinned one, or new words."""
        # Most commits have no metadata, and their text says so before any of it is parsed again.
        if '"metaData"' not in text and '"protocol"' not in text:
            return None
        found: LoggedTable | None = None
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
                found = self._followed(now, number)
            else:
                check_shippable(self.path, now)
        return found

    def _followed(self, now: LoggedTable, number: int) -> LoggedTable | None:
        before, after = (shape(json.loads(one.schema)) for one in (self.pinned, now))
        if before != after:
            # What of it is not carried over is said once it is known to be followed otherwise.
            return now
        check_shippable(self.path, now)
        last = self.layout_at(number - 1)
        return None if shape(json.loads(last.schema)) == after else now

    def _check_features(self, number: int, protocol: dict[str, Any]) -> None:
        """Refuse a table feature that came since, unless it says nothing of how files are read."""
        has = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
        strange = sorted(has - self.pinned.features - HARMLESS)
        if strange:
            raise UnsupportedSourceFeatureError(
                f"the source {self.path} has the table feature {strange[0]} since version {number}, and the target has it not.",
                hint="Start a new job on a new target.",
            )
