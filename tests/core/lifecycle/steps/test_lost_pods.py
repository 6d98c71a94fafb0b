"""The status counts lost executors and drivers by reason, each once, in a short list."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import T0, after, checked, ended, observed, report, running

from backfill_api.status.losses import OTHER, REASONS_MAX, PodLoss, losses_of
from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.observation import DriverPod

REASONS = st.sampled_from(["OOMKilled", "Evicted", "Deleted", "Killed", "Unknown"])
REPORTS = st.lists(st.dictionaries(REASONS, st.integers(1, 40), max_size=4), max_size=8)


def reported(**counts: int) -> Any:
    """Return a report of a driver that lost these executors."""
    return report(executors_lost=losses_of(counts))


def counts(losses: tuple[PodLoss, ...]) -> dict[str, int]:
    """Return counts by reason."""
    return {loss.reason: loss.count for loss in losses}


def working(**fields: Any) -> Any:
    """Return a Backfill with a running driver."""
    return observed(**({"status": STATUSES["running"], "pods": (running(started=True),)} | fields))


class TestExecutorsThatADriverLost:
    """A driver counts its lost executors; the status has the sum over all attempts (fault K2)."""

    def test_lost_executors_are_in_the_status_and_cause_an_event(self) -> None:
        """The event contains a remedy for a lack of memory."""
        decision = checked(working(report=reported(OOMKilled=2, Evicted=1)))

        assert counts(decision.status.lost_executors) == {"OOMKilled": 2, "Evicted": 1}
        [event] = [event for event in decision.events if event.reason == "ExecutorsLost"]
        assert event.kind == "Warning"
        assert event.message == (
            "3 executors lost so far: 2 OOMKilled, 1 Evicted; Spark reads again what they were reading; "
            "raise spec.executor.resources.limits.memory"
        )

    def test_executors_lost_for_other_reasons_cause_no_memory_hint(self) -> None:
        """A drained node needs no larger limit."""
        decision = checked(working(report=reported(Deleted=1)))

        [event] = [event for event in decision.events if event.reason == "ExecutorsLost"]
        assert event.message == "1 executor lost so far: 1 Deleted; Spark reads again what they were reading"

    def test_repeated_reports_count_an_executor_once(self) -> None:
        """A new leader reads the same report again."""
        seen = working(report=reported(OOMKilled=2))
        again = checked(after(seen, checked(seen)))

        assert counts(again.status.lost_executors) == {"OOMKilled": 2}
        assert again.events == ()

    def test_an_event_follows_when_the_number_doubles(self) -> None:
        """Executors that come and go for days must not fill the list of events."""
        seen, events = working(report=reported(OOMKilled=1)), 0
        for lost in range(1, 1001):
            decision = checked(seen)
            events += sum(event.reason == "ExecutorsLost" for event in decision.events)
            seen = after(seen, decision, report=reported(OOMKilled=lost + 1))

        assert events == 10

    @given(REPORTS)
    def test_the_count_is_the_maximum_that_was_reported(self, reports: list[dict[str, int]]) -> None:
        """A late or repeated report removes nothing and adds nothing twice."""
        seen = working()
        for lost in reports:
            seen = after(seen, checked(seen), report=reported(**lost))
        status = checked(seen).status

        most = {reason: max(lost.get(reason, 0) for lost in reports) for lost in reports for reason in lost}
        assert counts(status.lost_executors) == most
        assert status.attempt is not None
        assert status.attempt.executors_lost == status.lost_executors

    def test_losses_of_the_next_attempt_are_added(self) -> None:
        """The next driver counts from zero."""
        first = checked(working(report=reported(OOMKilled=2)))
        attempt = first.status.attempt
        assert attempt is not None
        begun = attempt.model_copy(update={"executors_lost": ()})
        status = first.status.model_copy(update={"attempt": begun})
        second = checked(working(status=status, report=reported(OOMKilled=1, Killed=1)))

        assert counts(second.status.lost_executors) == {"OOMKilled": 3, "Killed": 1}

    def test_losses_are_counted_when_the_attempt_ends(self) -> None:
        """Its last report may arrive together with its end."""
        decision = checked(working(pods=(ended(137, started=True),), report=reported(OOMKilled=4)))

        assert counts(decision.status.lost_executors) == {"OOMKilled": 4}


PODS = {
    "OOMKilled": {"exit_code": 137, "oom_killed": True, "reason": "OOMKilled"},
    "Evicted": {"exit_code": None, "reason": "Evicted", "started": True},
    "PreemptionByScheduler": {
        "exit_code": 137,
        "disrupted": True,
        "disruption": "PreemptionByScheduler: a pod of more weight",
    },
    "EvictionByEvictionAPI": {"exit_code": 143, "disrupted": True, "disruption": "EvictionByEvictionAPI: drained"},
    "NodeLost": {"exit_code": None, "reason": "NodeLost", "started": True},
    "Deleted": {"exit_code": 137, "deletion_ms": T0},
    "Killed": {"exit_code": 137},
}


class TestDriversThatWereLost:
    """The count of lost drivers includes drivers that the cluster removed or that were killed, but not drivers that
    ended by themselves."""

    @pytest.mark.parametrize("reason", PODS)
    def test_lost_drivers_are_counted_by_reason(self, reason: str) -> None:
        """The pod, its condition or its container contains the reason."""
        status = checked(working(pods=(lost_driver(reason),))).status

        assert status.history[-1].reason == "Infrastructure"
        assert counts(status.lost_drivers) == {reason: 1}

    @pytest.mark.parametrize("code", [0, 3, 20, 40, 64])
    def test_drivers_that_ended_by_themselves_are_not_counted(self, code: int) -> None:
        """An error of the job has its own reason in the history."""
        status = checked(working(pods=(ended(code, started=True),))).status

        assert status.lost_drivers == ()

    @given(st.lists(st.sampled_from(sorted(PODS)), max_size=30))
    def test_lost_drivers_of_all_attempts_are_counted(self, reasons: list[str]) -> None:
        """Each lost attempt counts once."""
        status = STATUSES["running"]
        for reason in reasons:
            over = checked(working(status=status, pods=(lost_driver(reason),))).status
            status = again(over, status)

        assert counts(status.lost_drivers) == Counter(reasons)


def lost_driver(reason: str) -> DriverPod:
    """Return the pod of the first attempt after it was lost."""
    fields = dict(PODS[reason])
    return replace(ended(fields.pop("exit_code"), started=True), **{**fields, "started": True})


def again(over: BackfillStatus, before: BackfillStatus) -> BackfillStatus:
    """Return the status of a next attempt with the losses so far."""
    return before.model_copy(update={"lost_drivers": over.lost_drivers})


class TestTheList:
    """Clusters choose the names of reasons, so their number needs a bound."""

    @given(st.dictionaries(st.from_regex(r"[A-Z][a-z]{1,8}", fullmatch=True), st.integers(1, 2**60), max_size=60))
    def test_the_list_is_short_and_complete(self, given_counts: dict[str, int]) -> None:
        """One entry counts all reasons beyond the bound."""
        losses = losses_of(given_counts)
        named = counts(losses)

        assert len(losses) <= REASONS_MAX
        assert [loss.reason for loss in losses] == sorted(named)
        capped = {reason: min(count, 2**53 - 1) for reason, count in given_counts.items()}
        if len(given_counts) < REASONS_MAX:
            assert named == capped
        assert all(named[reason] == capped[reason] for reason in named if reason != OTHER)
