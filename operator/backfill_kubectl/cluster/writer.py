"""Writes a decided change, and waits until it is in force."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from backfill_api.resources import BACKFILLS
from backfill_api.spec.change_claim import ChangeClaim
from backfill_core.command_errors import CommandRefusedError, NotAcknowledgedError
from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.cluster.watch import follow
from backfill_kubectl.decisions.acknowledgement import (
    InForce,
    Recorded,
    Rejected,
    Waiting,
    acknowledgement,
    controls_of,
)
from backfill_kubectl.decisions.changes import Approve, Change, RepairTarget, Retry, RunAgain, SwitchOver, TakeReceipt
from backfill_kubectl.decisions.refusals import refusal
from backfill_kubectl.decisions.stored import StoredBackfill, read_stored
from backfill_kubectl.decisions.writes import How, Write, decide_write
from backfill_kubectl.errors import BackfillNotFoundError, WriteConflictError, WriteRefusedError

TRIES_MAX: Final = 10
"""Each status that the operator writes meanwhile is a conflict: at most one in two seconds."""


@dataclass(frozen=True, slots=True)
class Written:
    """A change that is written, and is perhaps not in force yet."""

    change: Change
    write: Write
    token: str
    before: StoredBackfill
    after: StoredBackfill
    at_s: float
    """Time of the monotonic clock before the write."""


def write_change(
    api: ApiServer, namespace: str, name: str, change: Change, *, how: How | None, claim: ChangeClaim
) -> Written:
    """Write a change with the smallest patch; after a concurrent write, read and decide again.

    Raises:
        BackfillError: the change makes no sense, is forbidden, or conflicts too often.
    """
    for left in range(TRIES_MAX, 0, -1):
        at_s = time.monotonic()
        raw = api.get(BACKFILLS, namespace, name)
        before = read_stored(raw)
        if (error := refusal(before, change)) is not None:
            raise error
        write = decide_write(before, change, how=how, claim=claim)
        if not isinstance(change, Approve | Retry | RunAgain | TakeReceipt | SwitchOver | RepairTarget):
            _check(read_stored(merged(raw, write.patch)))
        try:
            after = api.patch(BACKFILLS, namespace, name, write.patch)
        except WriteConflictError:
            if left == 1:
                raise
            continue
        return Written(change, write, claim.time, before, read_stored(after), at_s)
    raise AssertionError("the loop returns or raises")


def _check(planned: StoredBackfill) -> None:
    """Raise the error that the operator would find in the override."""
    if error := controls_of(planned, _now_ms()).override_error:
        raise WriteRefusedError(f"{planned.key}: {error}.", hint="Nothing was changed.")


def _now_ms() -> int:
    return round(time.time() * 1000)


def merged(document: Any, patch: Any) -> Any:
    """Return a document after a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def await_acknowledgement(
    api: ApiServer, written: Written, *, wait_s: float, on_wait: Callable[[str], None] = lambda _: None
) -> tuple[InForce | Recorded, StoredBackfill, float]:
    """Return the acknowledgement of a change, the object that shows it, and the seconds since the write.

    Args:
        api: The API server.
        written: The change.
        wait_s: Seconds to wait.
        on_wait: Called with each new reason for the wait.

    Raises:
        NotAcknowledgedError: it is not in force in time.
        CommandRefusedError: the operator or the driver refuses it.
    """
    after, why = written.after, ""
    for raw in follow(api, after.namespace, after.name, until_s=written.at_s + wait_s):
        if raw is None:
            raise BackfillNotFoundError(f"{after.key} was deleted meanwhile.")
        now = read_stored(raw)
        answer = acknowledgement(written.change, written.token, after, now, _now_ms())
        match answer:
            case InForce() | Recorded():
                return answer, now, time.monotonic() - written.at_s
            case Rejected():
                raise CommandRefusedError(answer.why, hint=answer.hint)
            case Waiting():
                if answer.why != why:
                    on_wait(answer.why)
                why = answer.why
    raise NotAcknowledgedError(
        f"{after.key} has not acknowledged the change in {wait_s:g} s: {why or 'nothing happened'}.",
        hint=f"It is recorded and stays valid; follow it with `kubectl backfill get {after.key} -w`, or wait longer with --timeout.",
    )
