"""Automatic switch-overs and repairs of a Backfill, and two requests at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import (
    T0,
    after,
    checked,
    conditions,
    observed,
    reason,
    report,
    running,
    spec,
)
from support.operators.switched_world import (
    DIFFERS,
    EQUAL,
    commands,
    follows,
    launches,
    over,
    stopped,
    switched,
)

from backfill_api.names import (
    REPAIR_ANNOTATION,
    STATE_ANNOTATION,
    SWITCH_ANNOTATION,
    UNDO_SWITCH_ANNOTATION,
)
from backfill_api.spec.change_claim import PauseAll
from backfill_api.status.receipt import ReceiptSummary
from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.observation import Observation


class TestWhenVerified:
    """`switch.when: WhenVerified` requests the switch-over once the target is equal."""

    AUTOMATIC = spec(after="Follow", switch={"when": "WhenVerified"})

    def with_receipt(self, receipt: ReceiptSummary | None, **fields: Any) -> Observation:
        """Return a Backfill that follows, with this receipt."""
        status = STATUSES["running"].model_copy(update={"receipt": receipt, **fields})
        return follows(spec=self.AUTOMATIC, status=status)

    def test_an_equal_receipt_begins_it(self) -> None:
        """It may happen at night."""
        _, begun = stopped(self.with_receipt(EQUAL))

        assert launches(begun) == [(2, "Switch")]
        assert begun.status.switch is not None
        assert begun.status.switch.automatic

    @pytest.mark.parametrize("receipt", [None, EQUAL.model_copy(update={"complete": False})])
    def test_a_receipt_of_everything_is_requested_once(self, receipt: ReceiptSummary | None) -> None:
        """A job that follows takes none by itself."""
        wish = self.with_receipt(receipt)
        asked = checked(wish)
        behind = checked(replace(wish, report=replace(report(caught_up=False), heard_ms=T0)))
        again = checked(after(wish, asked))

        assert commands(asked) == ["Verify"]
        assert commands(behind) == []
        assert asked.status.control is not None
        assert again.status.control is not None
        assert again.status.control.desired_revision == asked.status.control.desired_revision

    def test_a_difference_begins_nothing(self) -> None:
        """It must be repaired first."""
        assert commands(checked(self.with_receipt(DIFFERS))) == []

    @pytest.mark.parametrize("by_all", [False, True])
    def test_a_paused_job_is_not_switched_over_by_itself(self, by_all: bool) -> None:
        """Its target would not get the last changes while writers are refused; with a pause of all jobs it would lose its driver."""
        wish = self.with_receipt(EQUAL)
        pause = PauseAll(enabled=True, by="anna", note="incident")
        paused = replace(wish, pause_all=pause) if by_all else replace(wish, annotations={STATE_ANNOTATION: "Paused"})
        decision = checked(paused)

        assert "Stop" not in commands(decision)
        assert decision.status.switch is None
        goes_on = replace(after(wish, decision), pause_all=PauseAll(enabled=False), pods=wish.pods, report=wish.report)
        assert "Stop" in commands(checked(goes_on))

    def test_a_refused_one_needs_a_newer_receipt(self) -> None:
        """Each try refuses writes for a while, so it is not repeated without a reason."""
        wish, begun = stopped(self.with_receipt(EQUAL))
        gone, refused = over(wish, begun, "Following", 48, reason="VerificationFailed", message="differ.")
        again = checked(after(gone, refused, pods=(), live=True))
        number = again.status.attempts
        report_ = replace(report(number, caught_up=True), heard_ms=T0)
        follows_again = after(gone, again, pods=(running(number),), report=report_)
        quiet = checked(follows_again)
        newer = EQUAL.model_copy(update={"verified_at": "2027-01-15T09:00:00Z"})
        tried = checked(replace(follows_again, status=again.status.model_copy(update={"receipt": newer})))

        assert commands(quiet) == []
        assert commands(tried) == ["Stop"]

    def test_after_an_undo_it_begins_no_more(self) -> None:
        """A user went back on purpose."""
        rests, _ = switched()
        wish = replace(rests, spec=self.AUTOMATIC, annotations={SWITCH_ANNOTATION: "a", UNDO_SWITCH_ANNOTATION: "u"})
        gone, undone = over(wish, checked(wish), "Undone", 0)
        again = checked(after(gone, undone, pods=(), live=True))
        number = again.status.attempts
        report_ = replace(report(number, caught_up=True), heard_ms=T0)
        newer = EQUAL.model_copy(update={"verified_at": "2027-01-16T09:00:00Z"})
        status = again.status.model_copy(update={"receipt": newer})

        assert commands(checked(replace(gone, status=status, pods=(running(number),), report=report_))) == []


class TestARequestedRepair:
    """Each new value of the annotation is one repair."""

    def test_the_job_goes_on_after_it(self) -> None:
        """The repair needs the target for itself."""
        wish, begun = stopped(follows(annotations={REPAIR_ANNOTATION: "a"}))
        gone, done = over(wish, begun, "Repaired", 0, outcome="Stopped", receipt=EQUAL)
        again = checked(after(gone, done, pods=(), live=True))

        assert launches(begun) == [(2, "Repair")]
        assert done.status.repair is not None
        assert (done.status.repair.state, done.status.repair.version) == ("Repaired", 412)
        assert conditions(again.status)["Repaired"] == "True"
        assert launches(again) == [(3, None)]

    def test_a_failed_verification_can_be_repaired(self) -> None:
        """That is what users repair most often."""
        failed = observed(status=STATUSES["failed"], annotations={REPAIR_ANNOTATION: "a"}, live=True)

        assert launches(checked(failed)) == [(2, "Repair")]

    def test_a_complete_job_stays_complete(self) -> None:
        """No further attempt is needed."""
        complete = observed(status=STATUSES["complete"], annotations={REPAIR_ANNOTATION: "a"}, live=True)
        begun = checked(complete)
        gone, done = over(complete, begun, "Equal", 0)

        assert launches(begun) == [(2, "Repair")]
        assert done.status.repair is not None
        assert (done.status.phase, done.status.repair.state) == ("Succeeded", "Equal")
        assert launches(checked(after(gone, done, pods=(), live=True))) == []

    def test_a_refused_one_is_no_failure_of_the_job(self) -> None:
        """The job copies and follows as before."""
        wish, begun = stopped(follows(annotations={REPAIR_ANNOTATION: "a"}))
        gone, refused = over(wish, begun, None, 36, reason="NotRepairable", message="a topic.")
        again = checked(after(gone, refused, pods=(), live=True))

        assert (reason(refused.status, "Repaired"), refused.status.failures) == ("NotRepairable", 0)
        assert launches(again) == [(3, None)]

    def test_without_a_receipt_it_is_refused_without_an_attempt(self) -> None:
        """Nothing states which version both sides should have."""
        decision = checked(follows(annotations={REPAIR_ANNOTATION: "a"}, status=STATUSES["running"]))

        assert (commands(decision), reason(decision.status, "Repaired")) == ([], "NotRepairable")


class TestTwoRequests:
    """Procedures are performed one after the other."""

    def test_the_second_one_begins_after_the_first(self) -> None:
        """No request is lost."""
        wish, begun = stopped(follows(annotations={SWITCH_ANNOTATION: "a", REPAIR_ANNOTATION: "b"}))
        gone, refused = over(wish, begun, "Following", 34, reason="SwitchBlocked", message="blocked.")
        again = checked(after(gone, refused, pods=(), live=True))
        number = again.status.attempts
        ready = replace(report(number, caught_up=True), heard_ms=T0)
        second = checked(after(gone, again, pods=(running(number),), report=ready))

        assert isinstance(second.status, BackfillStatus)
        assert commands(second) == ["Stop"]
        assert second.status.repair is not None
        assert second.status.repair.state == "Running"
