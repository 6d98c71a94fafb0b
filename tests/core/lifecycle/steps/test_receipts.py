"""Requested receipts survive attempts, and a partial receipt verifies nothing (faults K6 and K7)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import after, checked, conditions, ended, observed, reason, report, running

from backfill_api.status.receipt import ReceiptSummary
from backfill_api.wire import Ack
from backfill_core.lifecycle.actions import Decision, SendCommand
from backfill_core.lifecycle.observation import Observation

UP = observed(
    status=STATUSES["running"], pods=(running(),), report=report(), finalizers=("backfill.dev/drain",),
    annotations={"backfill.dev/verify-requested": "today"},
)  # fmt: skip


def sent(decision: Decision) -> list[str]:
    """Return the types of the commands that are sent."""
    return [action.request.command.type for action in decision.actions if isinstance(action, SendCommand)]


def receipt(epoch: int, **fields: object) -> ReceiptSummary:
    """Return a receipt at this barrier."""
    return ReceiptSummary.model_validate({"target_version": 7, "rows": 33, "epoch": epoch} | fields)


def acknowledged(**fields: object) -> Observation:
    """Return a job whose driver acknowledged the request at barrier 9 and reports this receipt."""
    requested = checked(UP)
    acks = (Ack(attempt=1, epoch=9, revision=1, outcome="Applied"),)
    reported = replace(report(acks=acks, revision=1), **fields)
    return after(UP, requested, report=reported)


class TestARequestedReceipt:
    """A requested receipt is taken exactly once, across attempts."""

    @pytest.mark.parametrize("before", [None, receipt(8)])
    def test_an_acknowledged_request_survives_the_end_of_its_attempt(self, before: ReceiptSummary | None) -> None:
        """The driver once acknowledged the request, the job was suspended, and no receipt ever came."""
        begun = acknowledged(receipt=before)
        stopped = after(begun, checked(begun), pods=(ended(10),), report=None, live=True)
        launched = after(stopped, checked(stopped), live=True)
        up = after(launched, checked(launched), pods=(running(2),), report=report(2, revision=5))

        assert sent(checked(up)) == ["Verify"]

    def test_a_request_with_a_receipt_is_done(self) -> None:
        """The operator does not request it again."""
        done = acknowledged(receipt=receipt(10))
        stopped = after(done, checked(done), pods=(ended(10),), report=None, live=True)
        launched = after(stopped, checked(stopped), live=True)
        up = after(launched, checked(launched), pods=(running(2),), report=report(2, revision=5))

        assert sent(checked(up)) == []

    def test_a_lost_request_and_a_new_one_are_one_command(self) -> None:
        """The status holds one command of each kind: the API server rejects a fifth one."""
        begun = acknowledged()
        stopped = after(begun, checked(begun), pods=(ended(10),), report=None, live=True)
        launched = after(stopped, checked(stopped), live=True)
        again = {"backfill.dev/verify-requested": "tomorrow"}
        up = after(launched, checked(launched), pods=(running(2),), report=report(2, revision=5), annotations=again)

        assert sent(checked(up)) == ["Verify"]

    def test_a_request_is_sent_once_while_the_driver_compares(self) -> None:
        """The comparison takes time."""
        begun = acknowledged()
        waits = after(begun, checked(begun), report=report(revision=1))

        assert sent(checked(waits)) == []


class TestAPartialReceipt:
    """A partial receipt does not verify the job."""

    @pytest.mark.parametrize(
        ("fields", "status", "word"),
        [
            ({"complete": False, "rows_total": 100}, "Unknown", "PartialReceipt"),
            ({"complete": False, "mismatches": 1}, "False", "VerificationFailed"),
            ({}, "True", "Equal"),
        ],
    )
    def test_a_partial_receipt_verifies_nothing(self, fields: dict[str, object], status: str, word: str) -> None:
        """`kubectl wait --for=condition=Verified` once succeeded at 33 %."""
        decision = checked(acknowledged(receipt=receipt(10, **fields)))

        assert (conditions(decision.status)["Verified"], reason(decision.status, "Verified")) == (status, word)

    def test_the_message_names_the_compared_rows(self) -> None:
        """The receipt covers 33 of 100 rows."""
        decision = checked(acknowledged(receipt=receipt(10, complete=False, rows_total=100)))
        verified = next(condition for condition in decision.status.conditions if condition.type == "Verified")

        assert verified.message == "33 of 100 rows are compared and equal; the snapshot is not copied yet"
