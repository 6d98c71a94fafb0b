"""The proof that source and target hold the same rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VnodeMismatch:
    """One vnode in which source and target differ."""

    vnode: int
    source_rows: int
    target_rows: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """The proof: per-vnode counts and hash sums of both sides, and where they differ."""

    source_version: int | None
    """None: the source has no versions."""

    target_version: int
    epoch: int
    rows: int
    vnodes: int
    digest: str
    """Hash over all vnodes' sums of the source side, hexadecimal."""

    mismatches: tuple[VnodeMismatch, ...]
    seconds: float
    verified_ms: int | None = None
    """When it was taken; set by the driver, which has the clock."""

    complete: bool = True
    """Is all of the source compared? While history is being copied, only what is sealed is."""

    rows_filtered: int | None = None
    """Rows of the source, of those compared, that the transform's filter left out; None: not known."""

    rows_total: int | None = None
    """Rows of the source in all, with those that are filtered out; None: not known."""

    source_position: str = ""
    """What of the source was compared, in the source's words."""

    @property
    def equal(self) -> bool:
        """Are both sides the same multiset of rows?"""
        return not self.mismatches
