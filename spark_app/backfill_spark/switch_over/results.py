"""Result of a command of a switch-over, and what a comparison means for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from backfill_api.amounts import counted
from backfill_core.errors import VerificationFailedError
from backfill_core.protocol.receipt import TableReceipt
from backfill_core.source_fence.fence import SourceFence
from backfill_core.switch_over.steps import End


@dataclass(frozen=True)
class SwitchResult:
    """Result of a command that reached its end."""

    end: End
    source: str
    target: str
    flip: tuple[str, ...]
    """Description of the flip, for users."""

    fence: SourceFence | None = None
    receipt: TableReceipt | None = None
    """Comparison of this run; `None` if an earlier run made it."""

    unavailable_s: float | None = None
    """Seconds from the fence until the target accepted writes under the name; `None` if this run did not switch."""

    compared: tuple[str, ...] = ()
    """Descriptions of the compared parts of both tables: those of the comparisons before the fence, and of the one after it."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each step of this run, in their order."""


def check_equal(receipt: TableReceipt) -> None:
    """Reject a comparison before the flip that found a difference.

    Raises:
        VerificationFailedError: both tables differ.
    """
    if not receipt.equal:
        raise VerificationFailedError(
            f"source and target differ in {differing(receipt)}: the switch-over was given up.",
            hint="Compare them with `backfill verify --explain`. The source accepts writes.",
        )


def differing(receipt: TableReceipt) -> str:
    """Return the parts of both tables that differ, for a message."""
    differing = [f"{len(receipt.mismatches)} of {receipt.vnodes} vnodes"] if receipt.mismatches else []
    differing += [f"{counted(len(receipt.files), 'file')}"] if receipt.files else []
    return " and ".join(differing)
