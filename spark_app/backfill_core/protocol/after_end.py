"""What an edit of the spec asks of a job that has ended: the driver refuses it, and the operator reports it."""

from __future__ import annotations

from typing import Literal, Protocol, Self, TypeVar, runtime_checkable

from backfill_api.spec.spec import BackfillSpec

P = TypeVar("P")
Unmet = Literal["Follow", "Receipt", "ReceiptByRows"]


def unmet_after_end(spec: BackfillSpec, *, compared: bool, files_by_bytes: int) -> Unmet | None:
    """Return what the spec requests and a job that has ended does not do; `None` if nothing is missing.

    Args:
        spec: The spec as it is now.
        compared: The last receipt is of all rows that the job could read. So is one that open transactions cut off.
        files_by_bytes: Files that this receipt compared by their bytes.
    """
    if spec.after == "Follow":
        return "Follow" if spec.strategy.params.ENDS_FOR_GOOD else None
    if spec.verify != "None" and not compared:
        return "Receipt"
    return "ReceiptByRows" if spec.verify == "FinalByRows" and files_by_bytes else None


def refused_refresh(spec: BackfillSpec) -> str:
    """Return why a job that has ended cannot run again; empty if it can."""
    return spec.strategy.params.ENDS_FOR_GOOD


def follows_after_end(spec: BackfillSpec) -> bool:
    """Return whether a job that has ended continues from its last position because of `after: Follow`."""
    return spec.after == "Follow" and not spec.strategy.params.ENDS_FOR_GOOD


@runtime_checkable
class Reopens(Protocol):
    """Stored progress of a strategy that records its end, so that an attempt that resumes it would end at once."""

    def reopened(self) -> Self:
        """Return the progress of a job that has not caught up with the later records."""


def progress_after_end(stored: P, *, finished: bool) -> P:
    """Return the progress from which an attempt resumes; `finished` if the job had ended and continues."""
    return stored.reopened() if finished and isinstance(stored, Reopens) else stored
