"""Access check for the files in a source's log: a job may read the source's folder, and folders that the spec allows.

The writers of a source can put any path into its log, and the job reads with credentials that these writers may not have.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from backfill_core.errors import InvalidSpecError, SourceDamagedError
from backfill_core.log_shipping.file_locations import FileLocations, is_below, local_path, suggested_folder
from backfill_spark.delta.deletion_vectors import VectorDescriptor
from backfill_spark.delta.source_file import LoggedFile, LoggedValues
from backfill_spark.jvm.errors import without_values
from backfill_spark.jvm.gateway import hadoop_conf, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIELD = "spec.source.delta.allowFilesOutside"


@dataclass(frozen=True, slots=True)
class FileAccess:
    """Access check of one source. Thread-safe."""

    source: str
    locations: FileLocations
    real: FileLocations | None
    """The same folders with links resolved; `None` if the source is not a local folder."""

    @classmethod
    def of(cls, spark: SparkSession, source: str, allowed: Sequence[str]) -> Self:
        """Return the check for the source's folder and the allowed folders, each a path or URI."""
        default = str(java(spark).org.apache.hadoop.fs.FileSystem.getDefaultUri(hadoop_conf(spark)).toString())
        locations = FileLocations.of(source, tuple(allowed), default=default)
        permitted = (locations.folder, *locations.allowed)
        folders = [path for location in permitted if (path := local_path(location)) is not None]
        first, *more = map(os.path.realpath, folders) if folders else ("",)
        return cls(source, locations, FileLocations.of(first, tuple(more), default="file:") if folders else None)

    def check_listed(self, version: int, files: Iterable[LoggedFile | LoggedValues]) -> None:
        """Reject files of a version that the job may not read.

        Raises:
            InvalidSpecError: names the file and the field that allows it.
        """
        vector = '"deletionVector"'
        # Parsing each of 100,000 actions would take longer than the rest of the check.
        self._check(
            version,
            (
                json.loads(file.action)["add"] if vector in file.action else {"path": file.path}
                for file in files
            ),
        )  # fmt: skip

    def check_places(self, version: int, places: Iterable[Mapping[str, Any]]) -> None:
        """Reject places of files that the job may not read; see `check_listed`. A place is an `add` action, or only its path."""
        self._check(version, places)

    def check_actions(self, version: int, actions: Iterable[Mapping[str, Any]]) -> None:
        """Reject files of a commit's `add`, `remove` and `cdc` actions; see `check_listed`."""
        self._check(
            version, (action[kind] for action in actions for kind in ("add", "remove", "cdc") if kind in action)
        )

    def _check(self, version: int, files: Iterable[Mapping[str, Any]]) -> None:
        folders: dict[str, str] = {}  # cached for one listing only, because writers may change links
        for file in files:
            path = str(file["path"])
            plain = self.real is None and is_below(path)
            if not plain:
                self._check_location(version, self.locations.of_path(path), folders)
            vector = file.get("deletionVector")
            if vector is not None:
                self._check_vector(version, VectorDescriptor(vector), folders)

    def _check_vector(self, version: int, vector: VectorDescriptor, folders: dict[str, str]) -> None:
        if vector.is_inline:
            return
        if vector.is_absolute:
            self._check_location(version, self.locations.of_path(str(vector.fields["pathOrInlineDv"])), folders)
            return
        try:
            path = vector.file
        except ValueError as error:
            raise SourceDamagedError(
                f"version {version} of {self.source} has a deletion vector without a file: {error}.",
                hint="Restore the file in the source's _delta_log, or start a new job from a version after it.",
            ) from error
        self._check_location(version, self.locations.of_literal_path(path), folders)

    def _check_location(self, version: int, location: str, folders: dict[str, str]) -> None:
        if not self.locations.permits(location):
            raise self._refused(version, f"names {without_values(location)}", location)
        path = local_path(location)
        if path is None:
            return
        real = f"file://{_without_links(path, folders)}"
        if self.real is not None and not self.real.permits(real):
            raise self._refused(version, f"names {without_values(location)}, a link to {without_values(real)}", real)

    def _refused(self, version: int, what: str, location: str) -> InvalidSpecError:
        return InvalidSpecError(
            f"{FIELD}: version {version} of the source {self.source} {what}, which is outside of its folder.",
            hint=f"If this job may read it (as for the origin of a shallow clone), add {suggested_folder(location)} to {FIELD}. "
            "A job that fills columns of a table needs all files in its folder, as in a deep clone.",
        )


def _without_links(path: str, folders: dict[str, str]) -> str:
    """Return a path with its links resolved; resolves each folder once."""
    folder, _, name = path.rpartition("/")
    if folder not in folders:
        folders[folder] = os.path.realpath(folder or "/")
    real = f"{folders[folder].rstrip('/')}/{name}"
    # A `Path` for each of 100,000 files takes three times as long.
    return os.path.realpath(real) if os.path.islink(real) else real  # noqa: PTH114
