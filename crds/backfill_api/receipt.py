"""The proof that source and target are equal."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from backfill_api.bounds import Moment
from backfill_api.model import Model


class Mismatch(Model):
    """A vnode in which the sides differ."""

    vnode: int
    """Which one."""

    source_rows: int
    """Rows of the source's view in it."""

    target_rows: int
    """Rows of the target in it."""


class Receipt(Model):
    """Counts and hash sums of both sides by vnode, and where they differ."""

    source_version: int
    """Version of the source that was compared."""

    target_version: int
    """Version of the target that was compared."""

    epoch: int
    """Barrier at which both belong together."""

    rows: int
    """Rows of the source's view."""

    vnodes: int
    """Vnodes that were compared."""

    digest: str
    """Hash over all vnodes' sums of the source side, hexadecimal."""

    mismatches: tuple[Mismatch, ...] = ()
    """Vnodes in which the sides differ; empty: they are equal."""

    verified_at: str | None = None
    """When, RFC 3339."""

    seconds: float
    """How long it took."""


class ReceiptSummary(Model):
    """The newest receipt, short enough for a status."""

    source_version: int
    """Version of the source that was compared."""

    target_version: int
    """Version of the target that was compared."""

    epoch: int | None = None
    """Barrier at which both belong together."""

    rows: int
    """Rows of the source's view."""

    mismatches: int = 0
    """Vnodes in which the sides differ; 0: they are equal."""

    mismatched_vnodes: Annotated[tuple[int, ...], Field(max_length=16)] = ()
    """The first of them."""

    digest: Annotated[str, Field(max_length=128)] = ""
    """Hash over all vnodes' sums of the source side, hexadecimal."""

    verified_at: Moment | None = None
    """When, RFC 3339."""
