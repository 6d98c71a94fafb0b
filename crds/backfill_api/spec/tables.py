"""Tables that have a folder or a name in a catalog, as a source or as a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

from pydantic import model_validator

from backfill_api.model import refused
from backfill_api.spec.bounds import Name, Path
from backfill_api.spec.locations import PlaceError, place_of_spec, scheme_rules
from backfill_api.spec.params import TableParams

PLACE_RULES: Final = (
    *scheme_rules("path"),
    ("has(self.path) != has(self.table)", "give exactly one of path and table"),
    ("!has(self.table) || !self.table.contains('/')", "table is a path in the form of a name: give it as path"),
    (
        "!has(self.path) || self.path.matches('(?i)^file:') || !self.path.matches('^[^/]*:/*[^/@]*:[^/@]*@')",
        "path holds a user and a password: give credentials by env or envFrom of the templates, from a Secret",
    ),
)
"""The CEL form of what `LocatedTable` checks."""


class LocatedTable(TableParams):
    """A table that is at a path or in a catalog."""

    path: Path | None = None
    """Folder or URI of the table; give this or `table`."""

    table: Name | None = None
    """Name in Spark's catalog; give this or `path`."""

    @property
    def paths(self) -> Mapping[str, str]:
        """The table's folder."""
        return {} if self.path is None else {"path": self.path}

    @property
    def catalog_name(self) -> str | None:
        """The table's name, where it is given."""
        return self.table

    @property
    def label(self) -> str:
        """The table's folder, or its name in the catalog."""
        return self.path or f"table {self.table}"

    @property
    def dataset(self) -> tuple[str, str]:
        """Bucket and key, host and path, or the catalog's name without a namespace."""
        if self.path is None:
            return "", str(self.table)
        location = place_of_spec(self.path)
        if location.is_local:
            return "file", location.path
        scheme = "s3" if location.scheme == "s3a" else location.scheme
        key = location.path if scheme == "hdfs" else location.path.lstrip("/")
        return f"{scheme}://{location.authority}", key

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.path is None and self.table is None:
            raise refused("path", "is required, where no table is given", hint="add path: <folder> or table: <name>")
        if self.path is not None and self.table is not None:
            raise refused("table", "path is given too", hint="remove path or table", value=self.table)
        if "/" in (self.table or ""):
            # Spark reads the folder, and no check of a path would see it.
            hint = "give the folder as path; no name in a catalog has a slash"
            raise refused("table", "is a path in the form of a name", hint=hint, value=self.table)
        try:
            place_of_spec(self.path or "/")
        except PlaceError as error:
            shown = None if "@" in (self.path or "") else self.path
            raise refused("path", error.message, hint=error.hint, value=shown) from error
        return self


def check_no_repeats(field: str, columns: tuple[str, ...]) -> None:
    """Refuse a column that is named twice in the list of a field.

    Raises:
        PydanticCustomError: with the path of the second one.
    """
    for number, column in enumerate(columns):
        if column in columns[:number]:
            raise refused(f"{field}[{number}]", "is repeated", hint="remove one of them", value=column)
