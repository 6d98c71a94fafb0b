"""Files of writers that fill the columns of the rows that they append, from a version or a time on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from backfill_api.timestamps import ms_of
from backfill_core.errors import InvalidSpecError
from backfill_spark.delta.log import LOG_ERRORS, commit_files, commit_text, version_at_time
from backfill_spark.in_place.delta.actions import appended_in
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.sinks.delta.failures import explain_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIELD = "spec.strategy.inPlace"


@dataclass(frozen=True, slots=True)
class WritersStart:
    """Version or time from which on writers fill the columns; both `None` if they do not."""

    version: int | None = None
    time: str | None = None


class WritersFiles:
    """Files with only new rows of such writers; each commit of the log is read once."""

    def __init__(self, spark: SparkSession, path: str, start: WritersStart) -> None:
        """Read nothing yet."""
        self._spark, self._path, self._start = spark, path, start
        self._since: int | None = None
        self._read_upto = -1
        self._appended: dict[str, int] = {}

    def upto(self, newest: int) -> tuple[int | None, dict[str, int]]:
        """Return the first version of these writers, and the versions that added their files, by path.

        Raises:
            InvalidSpecError: the version does not exist.
            BackfillError: the log cannot be read.
        """
        if self._start == WritersStart():
            return None, {}
        try:
            if self._since is None:
                first = self._first(newest)
                if first > newest:
                    return first, {}  # a later version may be older than a time in the future
                self._since, self._read_upto = first, first - 1
            for version in range(self._read_upto + 1, newest + 1):
                self._appended |= self._appended_in(version)
                self._read_upto = version
        except LOG_ERRORS as error:
            raise explain_target(error, path=self._path, doing="reading the commits since writersSince") from error
        return self._since, self._appended

    def _first(self, newest: int) -> int:
        version = self._start.version
        if version is None:
            at_ms = ms_of(self._start.time)
            assert at_ms is not None
            # The times of Delta: a copied log has other times of its files than those that its commits contain.
            before, before_ms = version_at_time(self._spark, self._path, at_ms - 1)
            return before if before_ms >= at_ms else before + 1
        oldest = min(commit_files(self._spark, self._path), default=0)
        if version > newest + 1:
            raise InvalidSpecError(
                f"{FIELD}.writersSince is {version}, and the newest version is {newest}.",
                hint="Give a version that exists, or the next one.",
            )
        return max(version, oldest)

    def _appended_in(self, version: int) -> dict[str, int]:
        """Return the files that a version added; none if log cleanup removed its commit, so that its files are checked."""
        try:
            return appended_in(version, commit_text(self._spark, self._path, version))
        except JAVA_ERRORS as error:
            if is_a(error, "FileNotFoundException"):
                return {}
            raise
