"""Table metadata that a replica copies: comments, defaults, description and user properties; data files are not involved.

change in the source                    target
-------------------------------------   -----------------------------------------------------------------------
the comment of a column, or of a        the same, if the column is taken
field inside one
the default of a column                 the same, if the column is taken and the target has the table feature
the description of the table            the same
a property of a user                    the same, unless the job's spec sets it
a property of Delta (`delta.`)          nothing: the target's owner configures retention, cleanup and writes

Unchanged metadata of the source is not copied: the target's owner may have set other values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backfill_core.log_shipping.columns import INSIDE, Field, physical
from backfill_core.protocol.new_words import Description, NewWords

OF_DELTA = "delta."
"""Prefix of the properties that configure engines."""


@dataclass(frozen=True, slots=True)
class TableWords:
    """Metadata of one version, columns excluded."""

    description: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of users."""


def of_users(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of users, which no engine interprets."""
    return {name: value for name, value in properties.items() if not name.lower().startswith(OF_DELTA)}


def changed(before: TableWords, after: TableWords, own: Collection[str]) -> NewWords:
    """Return the change that the target copies, without the properties in `own`, which its job sets."""
    was, now = before.properties, after.properties
    names = sorted(name for name in {*was, *now} - {*own} if was.get(name) != now.get(name))
    description = None if before.description == after.description else Description(after.description)
    return NewWords(tuple((name, now.get(name)) for name in names), description)


def with_words(
    old: Mapping[str, Field], new: Mapping[str, Field], targets: Sequence[Field], kinds: Sequence[str]
) -> tuple[Field, ...]:
    """Return the target's columns with the comments and defaults that changed in the source.

    Args:
        old: Columns of the source before the change, by origin; see `schema_changes.View.origins`.
        new: Columns of the source after the change, by origin, under their names in the target.
        targets: Columns of the target after the change, without the new comments and defaults.
        kinds: Metadata keys that the target supports; see `columns.kinds_of_words`.
    """
    origins = {field["name"]: origin for origin, field in new.items()}
    return tuple(
        _with_words(old.get(origins.get(target["name"], "")), new, origins, target, kinds) for target in targets
    )


def _with_words(
    was: Field | None, new: Mapping[str, Field], origins: Mapping[str, str], target: Field, kinds: Sequence[str]
) -> Field:
    if was is None:
        return target  # only the target has the column, or it is new and complete
    now = new[origins[target["name"]]]
    made = {**target, "type": _inside(was["type"], now["type"], target["type"], kinds)}
    changes = {kind: _word(now, kind) for kind in kinds if _word(now, kind) != _word(was, kind)}
    if not changes:
        return made
    metadata = {**(target.get("metadata") or {}), **changes}
    kept = {key: value for key, value in metadata.items() if key not in changes or value is not None}
    return {**made, "metadata": kept}


def _inside(was: Any, now: Any, target: Any, kinds: Sequence[str]) -> Any:
    types = {kind if isinstance(kind, str) else kind["type"] for kind in (was, now, target)}
    if isinstance(target, str) or len(types) > 1:
        return target
    if target["type"] == "struct":
        old, new = ({physical(field): field for field in kind["fields"]} for kind in (was, now))
        return {**target, "fields": list(with_words(old, new, target["fields"], kinds))}
    return {**target, **{part: _inside(was[part], now[part], target[part], kinds) for part in INSIDE[target["type"]]}}


def _word(field: Field, kind: str) -> str | None:
    return (field.get("metadata") or {}).get(kind)
