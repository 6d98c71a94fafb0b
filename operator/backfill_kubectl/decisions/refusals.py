"""Decides whether a change makes sense for a Backfill, before anything is written."""

from __future__ import annotations

import re
from typing import Final

from backfill_api.names import KIND, PLURAL, SHORT_NAMES, SINGULAR
from backfill_api.spec.override import WIDTH_FIELDS
from backfill_core.command_errors import CommandRefusedError, NotRunningError
from backfill_core.errors import BackfillError
from backfill_kubectl.decisions.changes import (
    Approve,
    Change,
    RepairTarget,
    Rescale,
    Retry,
    RunAgain,
    SwitchOver,
    TakeReceipt,
)
from backfill_kubectl.decisions.stored import StoredBackfill, fixed_values

NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
KINDS: Final = (KIND.lower(), SINGULAR, PLURAL, *SHORT_NAMES)


def parse_name(text: str) -> tuple[str | None, str]:
    """Return the namespace, if one is given, and the name: `orders`, `shop/orders`, `bf/orders`, or what `-o name` prints.

    Raises:
        ValueError: it cannot be the name of an object.
    """
    first, slash, rest = text.rpartition("/")
    kind = first.partition(".")[0].lower()
    namespace = first if slash and kind not in KINDS else None
    name = rest if slash else text
    for part in (name, namespace):
        if part is not None and not NAME.fullmatch(part):
            raise ValueError(
                f"{text!r} is not a name: write NAME or NAMESPACE/NAME, in lower case, with digits, '-' and '.'"
            )
    return namespace, name


def refusal(backfill: StoredBackfill, change: Change) -> BackfillError | None:
    """Return the error of a change that has no effect, or an unexpected one; `None` if it may be written."""
    phase = backfill.status.phase
    if backfill.deleting:
        return NotRunningError(f"{backfill.key} is being deleted.")
    if isinstance(change, SwitchOver | RepairTarget):
        return None  # the operator answers it in every phase
    if phase == "Succeeded" and not isinstance(change, RunAgain):
        hint = (
            "Compare with `backfill verify -f FILE`."
            if isinstance(change, TakeReceipt)
            else f"Take later changes with `kubectl backfill refresh {backfill.key}`, or create a new Backfill to copy again."
        )
        return NotRunningError(f"{backfill.key} has ended: Succeeded.", hint=hint)
    if phase == "Failed" and not isinstance(change, Retry):
        # An edit of the spec would start a failed job again.
        return NotRunningError(
            f"{backfill.key} has failed.", hint=f"Remove the cause, then run `kubectl backfill retry {backfill.key}`."
        )
    if isinstance(change, Approve):
        return _unapprovable(backfill)
    if isinstance(change, Rescale):
        return _fixed(backfill, change)
    return None


def _fixed(backfill: StoredBackfill, change: Rescale) -> BackfillError | None:
    """Return the error of values of a width that cannot change; the operator refuses a spec that cannot be read."""
    fixed = fixed_values(backfill)
    reasons = [f"{WIDTH_FIELDS[name]} cannot change: {fixed[name]}" for name in change.width.given if name in fixed]
    if not reasons:
        return None
    return CommandRefusedError(f"{backfill.key}: {'; '.join(reasons)}.", hint="Nothing was changed.")


def _unapprovable(backfill: StoredBackfill) -> BackfillError | None:
    if backfill.spec.get("approval") != "Manual":
        return CommandRefusedError(f"{backfill.key} needs no approval: spec.approval is not Manual.")
    if backfill.status.phase != "AwaitingApproval":
        phase = backfill.status.phase or "Pending"
        return CommandRefusedError(
            f"{backfill.key} does not wait for an approval: it is {phase}.",
            hint=f"Its plan and its state: `kubectl backfill plan {backfill.key}`.",
        )
    return None
