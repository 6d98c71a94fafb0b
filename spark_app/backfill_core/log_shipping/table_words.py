"""What a table says of itself in words, and what of that a target that follows it says, too; no file has a part in it.

what of the source changed              target
-------------------------------------   -----------------------------------------------------------------------
the comment of a column, or of a        the same, where the column is taken
field inside one
the default of a column                 the same, where it is taken and the target has the table feature
the description of the table            the same
a property of a user                    the same, unless the job's own spec sets it
a property of Delta (`delta.`)          nothing: how it is kept, cleaned and written is for the target's owner to say

What did not change is left alone: the target's owner may have other words.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backfill_core.log_shipping.columns import INSIDE, Field, physical
from backfill_core.protocol.new_words import Description, NewWords

OF_DELTA = "delta."
"""How the names of properties begin that say how engines treat a table."""


@dataclass(frozen=True, slots=True)
class TableWords:
    """Of one version, but for those of its columns."""

    description: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    """Those of users."""


def of_users(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that no engine acts on."""
    return {name: text for name, text in properties.items() if not name.lower().startswith(OF_DELTA)}


def changed(before: TableWords, after: TableWords, own: Collection[str]) -> NewWords:
    """Return what of a change becomes the target's; `own`: names of properties that its job sets."""
    was, now = before.properties, after.properties
    names = sorted(name for name in {*was, *now} - {*own} if was.get(name) != now.get(name))
    description = None if before.description == after.description else Description(after.description)
    return NewWords(tuple((name, now.get(name)) for name in names), description)


def with_words(
    old: Mapping[str, Field], new: Mapping[str, Field], theirs: Sequence[Field], kinds: Sequence[str]
) -> tuple[Field, ...]:
    """Return columns of a target with the words that changed in the source.

    Args:
        old: Columns of the source before, by where their values come from; see `schema_changes.View.origins`.
        new: The same afterwards, under the names that they have in the target.
        theirs: Columns of the target as they are afterwards, but for these words.
        kinds: Of words; those that the target may have, see `columns.kinds_of_words`.
    """
    origins = {one["name"]: origin for origin, one in new.items()}
    return tuple(_with_words(old.get(origins.get(one["name"], "")), new, origins, one, kinds) for one in theirs)


def _with_words(
    was: Field | None, new: Mapping[str, Field], origins: Mapping[str, str], mine: Field, kinds: Sequence[str]
) -> Field:
    if was is None:
        return mine  # the target's alone, or it came with its words
    now = new[origins[mine["name"]]]
    made = {**mine, "type": _inside(was["type"], now["type"], mine["type"], kinds)}
    words = {kind: _word(now, kind) for kind in kinds if _word(now, kind) != _word(was, kind)}
    if not words:
        return made
    said = {**(mine.get("metadata") or {}), **words}
    return {**made, "metadata": {name: word for name, word in said.items() if name not in words or word is not None}}


def _inside(was: Any, now: Any, mine: Any, kinds: Sequence[str]) -> Any:
    types = {kind if isinstance(kind, str) else kind["type"] for kind in (was, now, mine)}
    if isinstance(mine, str) or len(types) > 1:
        return mine
    if mine["type"] == "struct":
        old, new = ({physical(one): one for one in kind["fields"]} for kind in (was, now))
        return {**mine, "fields": list(with_words(old, new, mine["fields"], kinds))}
    return {**mine, **{part: _inside(was[part], now[part], mine[part], kinds) for part in INSIDE[mine["type"]]}}


def _word(one: Field, kind: str) -> str | None:
    return (one.get("metadata") or {}).get(kind)
