"""Newest position of a source, to compare with the target."""

from __future__ import annotations

from backfill_api.model import Model
from backfill_api.spec.bounds import Count, Message, Moment


class SourceHead(Model):
    """The newest position of a source, read after the end of its job or by `verify`."""

    version: Count | None = None
    """The newest version; absent: the source has no versions."""

    position: Message
    """The newest position, in the source's words."""

    behind: Count
    """Versions, or offsets of a topic, that the target does not hold; 0: it holds the newest ones."""

    committed_at: Moment
    """Commit time of the newest version, or read time of the topic; RFC 3339."""

    age_seconds: Count
    """Seconds since then, when it was read."""
