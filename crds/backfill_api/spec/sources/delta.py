"""A Delta table as a source."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, StrictBool, model_validator

from backfill_api.model import cel, refused
from backfill_api.spec.bounds import Path, Timestamp, Version
from backfill_api.spec.locations import PlaceError, place
from backfill_api.spec.params import SourceAbility, SourceParams, Variant
from backfill_api.spec.tables import PLACE_RULES, LocatedTable, check_no_repeats
from backfill_api.timestamps import ms_of

FOLDER_RULE: Final = (
    "!has(self.allowFilesOutside) || self.allowFilesOutside.all(folder, folder.matches('^(/|[A-Za-z][A-Za-z0-9+.-]*:)'))",
    "allowFilesOutside takes absolute paths and URIs",
)
"""The CEL form of what `_check_folder` checks."""

ONE_START: Final = "names a version too: the job would have two starts"
START_RULE: Final = (
    "!has(self.version) || !has(self.timestamp)",
    "version and timestamp are two starts: remove one of them",
)


class DeltaSource(SourceParams, LocatedTable):
    """A Delta table that keeps changing."""

    model_config = cel(*PLACE_RULES, FOLDER_RULE, START_RULE)
    # SchemaChanged asks for another policy, and a file outside of the table for another folder.
    MAY_CHANGE: ClassVar[frozenset[str]] = frozenset({"schema_change", "allow_files_outside", "hold"})

    version: Version | None = None
    """Version that the snapshot is read from; default: the newest when the job first starts."""

    timestamp: Timestamp | None = None
    """Time in place of `version`, RFC 3339 with a time zone: the snapshot is the table as of then. It is resolved once, at the start."""

    changes_only: StrictBool = False
    """Read no snapshot: the target gets only the changes after the version of `version` or `timestamp`, else after the newest one.
    Works with strategy Snapshot, and with an Upsert target that already has the rows (`existingRows: Keep`)."""

    hold: Literal["Warn", "Extend"] = "Warn"
    """`Extend`: keep removed files and the log of the source for 90 days while the job runs, and restore its own retention at the end.
    Needs the right to write to the source's log. `Warn`: only warn before a version expires. A change counts from the next attempt."""

    schema_change: Literal["Fail", "Ignore", "Follow"] = "Fail"
    """Handling of column changes while the job runs. `Ignore` omits added columns; any other change ends the job. `Follow`, with
    strategy Replica, applies added columns and new names to the target (docs/cloning.md)."""

    allow_files_outside: Annotated[tuple[Path, ...], Field(max_length=16)] = ()
    """Other folders, as absolute paths or URIs, in which the table's log may name files; each counts with all folders below it. A
    shallow clone needs the folder of its origin. Any other file outside of the table's folder is refused before it is read."""

    @property
    def start_version(self) -> int | None:
        """The version, where it is given."""
        return self.version

    @property
    def start_ms(self) -> int | None:
        """The time, where it is given."""
        return ms_of(self.timestamp)

    @property
    def extends_retention(self) -> bool:
        """See `hold`."""
        return self.hold == "Extend"

    @property
    def skips_snapshot(self) -> bool:
        """See `changes_only`."""
        return self.changes_only

    @model_validator(mode="after")
    def _checked(self) -> Self:
        check_no_repeats("key", self.key)
        if self.version is not None and self.timestamp is not None:
            raise refused("timestamp", ONE_START, hint="remove timestamp or version", value=self.timestamp)
        for at, folder in enumerate(self.allow_files_outside):
            _check_folder(f"allowFilesOutside[{at}]", folder)
        return self


def _check_folder(field: str, folder: str) -> None:
    try:
        location = place(folder)
    except PlaceError as error:
        raise refused(field, error.message, hint=error.hint, value=None if "@" in folder else folder) from error
    if not location.is_absolute:
        raise refused(field, "is relative", hint="write an absolute path or a URI", value=folder)


VARIANT = Variant(
    "Delta",
    DeltaSource,
    abilities=frozenset({SourceAbility.PIN, SourceAbility.CHANGES, SourceAbility.KEY_RANGES, SourceAbility.LOG}),
)
