"""Limits with an end: the driver ends them by its own clock, and the operator neither repeats them nor forgets the next one."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.drivers.commanded_driver import Driver
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import T0, after, checked, conditions, observed, reason, report, running, spec

from backfill_api.names import OVERRIDE_ANNOTATION
from backfill_api.status.progress import Progress
from backfill_api.timestamps import rfc3339
from backfill_api.wire import Ack, Command, ThrottleCommand
from backfill_core.lifecycle.actions import Decision, LaunchDriver, SendCommand
from backfill_core.lifecycle.decide import decide
from backfill_core.lifecycle.inputs.desired import desired_of
from backfill_core.lifecycle.observation import DriverReport, Observation

UP = observed(status=STATUSES["running"], pods=(running(),), report=report(), finalizers=("backfill.dev/drain",))
MINUTE = 60_000
SOON, LATER, BEFORE = rfc3339(T0 + MINUTE), rfc3339(T0 + 2 * MINUTE), rfc3339(T0 - MINUTE)


def overridden(observation: Observation, **throttle: Any) -> Observation:
    """Return the observation with an override of the limit."""
    return replace(observation, annotations={OVERRIDE_ANNOTATION: json.dumps({"throttle": throttle})})


def throttles(decision: Decision) -> list[ThrottleCommand]:
    """Return the limits that a decision sends."""
    requests = [action.request for action in decision.actions if isinstance(action, SendCommand)]
    return [request.command.throttle for request in requests if request.command.throttle is not None]


def condition(decision: Decision, type_: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition."""
    (held,) = [condition for condition in decision.status.conditions if condition.type == type_]
    return held.status, held.reason, held.message


class TestTheLimitInForce:
    """A limit past its end gives way: the override's to the spec's, the spec's to none."""

    @pytest.mark.parametrize(
        ("own", "override", "expected"),
        [
            ({"rowsPerSecond": 9, "until": SOON}, None, (9, None, T0 + MINUTE)),
            ({"rowsPerSecond": 9, "until": BEFORE}, None, (None, None, None)),
            ({"rowsPerSecond": 9}, {"rowsPerSecond": 5, "until": SOON}, (5, None, T0 + MINUTE)),
            ({"rowsPerSecond": 9}, {"rowsPerSecond": 5, "until": BEFORE}, (9, None, None)),
            ({"rowsPerSecond": 9}, {"until": SOON}, (None, None, T0 + MINUTE)),
            ({"rowsPerSecond": 9, "until": BEFORE}, {"bytesPerSecond": 5, "until": BEFORE}, (None, None, None)),
            ({"rowsPerSecond": 9, "until": rfc3339(T0)}, None, (None, None, None)),
        ],
    )
    def test_a_limit_holds_until_its_end(self, own: Any, override: Any, expected: tuple[int | None, ...]) -> None:
        """An override without a limit lifts the spec's limit for the same time."""
        seen = UP if override is None else overridden(UP, **override)

        assert desired_of(spec(throttle=own), seen.annotations, T0).limit == expected

    @pytest.mark.parametrize(
        ("own", "then"),
        [
            ({"rowsPerSecond": 9}, {"rowsPerSecond": 9}),
            ({"rowsPerSecond": 9, "until": LATER}, {"rowsPerSecond": 9, "until": LATER}),
            ({"rowsPerSecond": 9, "until": SOON}, None),
            ({}, None),
        ],
    )
    def test_a_command_contains_the_limit_after_the_end(self, own: Any, then: Any) -> None:
        """An operator that is down at that time cannot send it."""
        (sent,) = throttles(checked(overridden(replace(UP, spec=spec(throttle=own)), rowsPerSecond=5, until=SOON)))

        document = sent.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert document == {"rowsPerSecond": 5, "until": SOON} | ({"then": then} if then else {})

    def test_a_driver_is_launched_with_the_end_of_its_limit(self) -> None:
        """The limit that follows is in the first command, because a driver's spec has one limit."""
        wish = overridden(observed(spec=spec(throttle={"rowsPerSecond": 9})), rowsPerSecond=5, until=SOON)
        launched = checked(wish)
        up = after(wish, launched, pods=(running(),), finalizers=("backfill.dev/drain",))
        started = replace(up, report=report(throttle_rows_per_second=5, throttle_until=SOON))

        (action,) = [action for action in launched.actions if isinstance(action, LaunchDriver)]
        assert (action.rows_per_second, action.until) == (5, SOON)
        (sent,) = throttles(checked(started))
        assert sent.then is not None
        assert sent.then.rows_per_second == 9

    def test_an_edit_of_the_spec_reaches_the_driver_before_the_end(self) -> None:
        """The driver has the limit that follows from the old spec."""
        wish = overridden(replace(UP, spec=spec(throttle={"rowsPerSecond": 9})), rowsPerSecond=5, until=SOON)
        first = checked(wish)
        acks = (Ack(attempt=1, epoch=9, revision=1, outcome="Applied"),)
        held = report(throttle_rows_per_second=5, throttle_until=SOON, revision=1, acks=acks)
        settled = checked(after(wish, first, report=held))
        edited = checked(after(replace(wish, spec=spec(throttle={"rowsPerSecond": 7})), settled, report=held))

        assert throttles(settled) == []
        (sent,) = throttles(edited)
        assert sent.then is not None
        assert sent.then.rows_per_second == 7


class TestAPastEnd:
    """A stored object may have a past end: it is accepted, not in force, and the condition contains it."""

    def test_a_limit_of_the_spec_with_a_past_end_is_explained(self) -> None:
        """Otherwise the spec shows a limit that the job does not have."""
        decision = checked(replace(UP, spec=spec(throttle={"rowsPerSecond": 9, "until": BEFORE})))

        assert throttles(decision) == []
        assert condition(decision, "Throttled") == ("False", "LimitEnded", f"spec.throttle.until {BEFORE} is past")

    def test_the_limit_of_the_spec_holds_again_after_the_override(self) -> None:
        """The message explains why the override has no effect."""
        wish = overridden(replace(UP, spec=spec(throttle={"rowsPerSecond": 9})), rowsPerSecond=5, until=BEFORE)
        decision = checked(replace(wish, report=report(throttle_rows_per_second=9)))

        message = f"override.throttle.until {BEFORE} is past"
        assert throttles(decision) == []
        assert condition(decision, "Throttled") == ("True", "AsRequested", message)

    def test_a_command_that_arrives_after_its_end_sets_the_limit_that_follows(self) -> None:
        """The operator records the newer one at its next decision."""
        wish = overridden(replace(UP, spec=spec(throttle={"rowsPerSecond": 9})), rowsPerSecond=5, until=SOON)
        late = checked(after(wish, checked(wish)), T0 + 2 * MINUTE)

        assert [(sent.rows_per_second, sent.until) for sent in throttles(late)] == [(9, None)]


class TestAtTheEnd:
    """The driver ends the limit by its own clock and at a barrier; no command repeats or replaces the limit then."""

    WISH = overridden(replace(UP, spec=spec(throttle={"rowsPerSecond": 9})), rowsPerSecond=5, until=SOON)

    def settled(self) -> Observation:
        """Return the job whose driver acknowledged the override."""
        acks = (Ack(attempt=1, epoch=9, revision=1, outcome="Applied"),)
        held = report(throttle_rows_per_second=5, throttle_until=SOON, revision=1, acks=acks)
        done = after(self.WISH, checked(self.WISH), report=held)
        return replace(done, status=checked(done).status)

    @pytest.mark.parametrize("late_ms", [0, 1, 20_000, 29_999])
    def test_a_driver_that_has_not_passed_a_barrier_gets_no_command(self, late_ms: int) -> None:
        """It ends the limit at its next barrier."""
        decision = checked(self.settled(), T0 + MINUTE + late_ms)

        assert throttles(decision) == []
        assert decision.status.phase == "Running"

    @pytest.mark.parametrize("early_ms", [1, 20_000, 29_999])
    def test_a_driver_whose_clock_is_ahead_gets_no_command(self, early_ms: int) -> None:
        """The operator once would have sent the old limit again, with each decision under a new number."""
        ended = replace(self.settled(), report=report(throttle_rows_per_second=9, revision=1))

        assert throttles(checked(ended, T0 + MINUTE - early_ms)) == []

    def test_a_driver_that_never_ends_its_limit_is_corrected(self) -> None:
        """Its clock may be an hour behind."""
        (sent,) = throttles(checked(self.settled(), T0 + MINUTE + 30_000))

        assert (sent.rows_per_second, sent.until) == (9, None)

    def test_a_limit_that_another_sender_lifted_is_set_again(self) -> None:
        """The end is a minute away, so the driver's clock does not explain it."""
        lifted = replace(self.settled(), report=report(throttle_rows_per_second=9, revision=2))

        (sent,) = throttles(checked(lifted))
        assert (sent.rows_per_second, sent.until) == (5, SOON)

    def test_the_operator_looks_at_the_end(self) -> None:
        """The condition changes then, without an event of the cluster."""
        decision = checked(self.settled(), T0 + MINUTE - 7_000)

        assert decision.requeue_after_s is not None
        assert decision.requeue_after_s <= 7

    def test_the_spec_is_the_reason_after_the_end(self) -> None:
        """The annotation still exists."""
        ended = replace(self.settled(), report=report(throttle_rows_per_second=9, revision=1))
        decision = checked(ended, T0 + MINUTE + 1_000)

        assert throttles(decision) == []
        assert (conditions(decision.status)["Throttled"], reason(decision.status, "Throttled")) == (
            "True",
            "AsRequested",
        )


ENDS = st.one_of(st.none(), st.integers(-5, 25))
LIMITS = st.one_of(
    st.none(), st.tuples(st.integers(1, 5), ENDS).map(lambda pair: {"rowsPerSecond": pair[0], "seconds": pair[1]})
)


@dataclass
class LoneDriver:
    """One running driver, and an operator that decides each second without faults."""

    seen: Observation
    driver: Driver
    now_ms: int = T0

    def second(self, *, operator: bool) -> list[Command]:
        """Pass one second, and return the commands that the operator sent."""
        self.now_ms += 1000
        self.driver.end_limit(self.now_ms)
        if not operator:
            return []
        progress = Progress(
            phase="Snapshot", table_version=1, revision=self.driver.revision, throttle_rows_per_second=self.driver.limits[0],
            throttle_bytes_per_second=self.driver.limits[1], throttle_until=self.driver.until,
        )  # fmt: skip
        acks = self.seen.report.acks if self.seen.report else ()
        decision = decide(replace(self.seen, report=DriverReport(1, self.now_ms, progress, None, acks)), self.now_ms)
        requests = [action.request for action in decision.actions if isinstance(action, SendCommand)]
        acks = tuple(self.driver.command(request) for request in requests)
        self.driver.end_limit(self.now_ms)
        self.seen = replace(
            self.seen, status=decision.status, report=DriverReport(1, self.now_ms, progress, None, acks)
        )
        return [request.command for request in requests]


def expected(limits: list[dict[str, Any] | None], second: float) -> int | None:
    """Return the rows a second that the limits define, the first one with precedence: a second implementation."""
    for limit in limits:
        if limit is not None and (limit["seconds"] is None or second < limit["seconds"]):
            return int(limit["rowsPerSecond"])
    return None


class TestAnyTwoLimits:
    """Any override over any spec, with any two ends."""

    @settings(max_examples=40, deadline=None, phases=(Phase.generate,))
    @given(own=LIMITS, override=LIMITS, ahead_s=st.integers(-3, 3), dies_after=st.integers(5, 30))
    def test_the_driver_follows_the_limits_and_gets_no_further_command(
        self, own: dict[str, Any] | None, override: dict[str, Any] | None, ahead_s: int, dies_after: int
    ) -> None:
        """This holds with a clock that differs from the operator's, and after the operator died."""

        def written(limit: dict[str, Any]) -> dict[str, Any]:
            end = {} if limit["seconds"] is None else {"until": rfc3339(T0 + limit["seconds"] * 1000)}
            return {"rowsPerSecond": limit["rowsPerSecond"]} | end

        seen = replace(UP, spec=spec(throttle={} if own is None else written(own)), report=None)
        seen = seen if override is None else overridden(seen, **written(override))
        lone = LoneDriver(seen, Driver(1, clock_ahead_ms=ahead_s * 1000))
        ends = [limit["seconds"] for limit in (own, override) if limit and limit["seconds"] is not None]

        for second in range(1, 34):
            sent = lone.second(operator=second < dies_after)
            if second > 3:
                assert sent == []
            if second > 3 and all(abs(second - end) > 4 for end in ends):
                assert lone.driver.limits[0] == expected([override, own], second)
