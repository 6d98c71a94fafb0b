"""Parser of sizes that users type."""

from __future__ import annotations

from backfill import Settings


def parse_memory(text: str) -> str:
    """Return a heap size in Java's notation: `4g`, `512m`.

    Raises:
        ValueError: The size is malformed.
    """
    try:
        return Settings(memory=text).memory
    except ValueError as error:
        raise ValueError(f"invalid memory size {text!r}: write 4g or 512m") from error
