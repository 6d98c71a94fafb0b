"""The proof that source and target are equal."""

from __future__ import annotations

from backfill_api.model import Model


class Mismatch(Model):
    """A vnode in which the sides differ."""

    vnode: int
    source_rows: int
    target_rows: int


class Receipt(Model):
    """Counts and hash sums of both sides by vnode, and where they differ."""

    source_version: int
    target_version: int
    epoch: int
    rows: int
    vnodes: int
    digest: str
    mismatches: tuple[Mismatch, ...] = ()
    seconds: float
