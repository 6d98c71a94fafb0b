"""Events of the API server, in their order, each as one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class EventLine:
    """One event; repeated ones are counted."""

    time: datetime | None
    """Time of the last one; `None` if unreadable."""

    type: str
    reason: str
    count: int
    object: str
    message: str


def event_lines(events: Iterable[Mapping[str, Any]]) -> list[EventLine]:
    """Return the events, the oldest first. Fields of a wrong type count as absent."""
    lines = [_line(event) for event in events]
    return sorted(lines, key=lambda line: (line.time is not None, line.time or datetime.min.replace(tzinfo=UTC)))


def _line(event: Mapping[str, Any]) -> EventLine:
    series, regarding = _mapping(event.get("series")), _mapping(event.get("regarding"))
    count = series.get("count", event.get("deprecatedCount", 1))
    moments = (series.get("lastObservedTime"), event.get("deprecatedLastTimestamp"), event.get("eventTime"))
    return EventLine(
        time=next((moment for text in moments if (moment := _moment(text)) is not None), None),
        type=str(event.get("type") or "Normal"),
        reason=str(event.get("reason") or "-"),
        count=count if isinstance(count, int) and count > 0 else 1,
        object=f"{regarding.get('kind', '?')}/{regarding.get('name', '?')}",
        message=str(event.get("note") or ""),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _moment(text: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
