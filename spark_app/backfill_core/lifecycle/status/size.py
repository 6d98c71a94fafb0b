"""Bound of a status in bytes: a cluster stores each version of it, and sends it to every watcher."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic_core import to_json

from backfill_api.status.status import BackfillStatus

STATUS_BYTES_MAX: Final = 24 * 1024
"""With a usual spec and its metadata, the object stays below 32 KiB."""

CUTS: Final = ((1024, 16), (512, 8), (256, 8), (128, 4), (64, 2), (32, 2), (16, 1), (8, 1))
"""Most characters of a text, and most entries of a list, in the order in which they are tried. Only forged reports need the last ones."""

_WHOLE_TEXTS: Final = frozenset(
    {"digest", "mismatchMap", "grid", "eta", "until", "lastCommitTime", "publish", "verifiedAt"}
)
_WHOLE_LISTS: Final = frozenset({"largest", "partitions", "steps"})
"""Fields that are of no use in part."""

_LAST: Final = (("progress", "partitions"), ("progress", "steps"))
"""Fields that are left out if cuts are not enough: only the status of a forged object is that large."""

_ESCAPED: Final = re.compile(r"[<>&\x7f\u2028\u2029]")
"""Characters that an API server stores as six: its JSON can be part of a page."""


def bounded(status: BackfillStatus) -> BackfillStatus:
    """Return a status of at most `STATUS_BYTES_MAX`: messages and lists from drivers, plans and annotations are cut, if they must be.

    Attempts, commands and everything else that a decision depends on are unchanged.
    """
    if _stored_bytes(status.model_dump_json(by_alias=True, exclude_none=True)) <= STATUS_BYTES_MAX:
        return status
    document = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    for characters, entries in CUTS:
        document = _cut_document(document, characters, entries)
        if size_of(document) <= STATUS_BYTES_MAX:
            break
    else:
        for part, name in _LAST:
            if part in document:
                document[part] = {field: value for field, value in document[part].items() if field != name}
    return BackfillStatus.model_validate(document)


def size_of(document: Any) -> int:
    """Return the bytes of a document as an API server stores it."""
    return _stored_bytes(to_json(document).decode())


def _stored_bytes(text: str) -> int:
    return len(text.encode()) + 5 * len(_ESCAPED.findall(text))


def _cut_document(document: dict[str, Any], characters: int, entries: int) -> dict[str, Any]:
    cut = dict(document)
    for name in ("plan", "progress", "receipt"):
        if name in cut:
            cut[name] = _cut(cut[name], characters, entries)
    for name in ("switch", "repair", "closing"):
        if name in cut:
            cut[name] = _with_short(cut[name], ("message", "by", "note"), characters)
    cut["conditions"] = [_with_short(item, ("message",), characters) for item in document.get("conditions", ())]
    if "control" in cut:
        commands = {
            name: [_with_short(item, ("by", "note"), characters) for item in cut["control"].get(name, ())]
            for name in ("acks", "pending")
        }
        cut["control"] = cut["control"] | commands
    return cut


def _with_short(item: dict[str, Any], names: tuple[str, ...], characters: int) -> dict[str, Any]:
    return item | {name: _short(item[name], characters) for name in names if name in item}


def _cut(part: Any, characters: int, entries: int, name: str = "") -> Any:
    if isinstance(part, dict):
        return {field: _cut(value, characters, entries, field) for field, value in part.items()}
    if isinstance(part, list):
        kept = part if name in _WHOLE_LISTS else part[:entries]
        return [_cut(value, characters, entries) for value in kept]
    return _short(part, characters) if isinstance(part, str) and name not in _WHOLE_TEXTS else part


def _short(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"
