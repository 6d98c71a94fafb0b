"""Override annotations: an emergency brake that GitOps tools do not undo and that a typo does not release."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import after, checked, conditions, observed, reason, report, running, sent, spec

from backfill_api.names import OVERRIDE_ANNOTATION, STATE_ANNOTATION, SUSPEND_ANNOTATION
from backfill_api.wire import Ack
from backfill_core.lifecycle.actions import Decision
from backfill_core.lifecycle.observation import Observation

PAUSED = '{"desiredState":"Paused"}'
UP = observed(status=STATUSES["running"], pods=(running(),), report=report(), finalizers=("backfill.dev/drain",))


def annotated(observation: Observation, **texts: str) -> Observation:
    """Return the observation with exactly these override annotations."""
    names = {"override": OVERRIDE_ANNOTATION, "state": STATE_ANNOTATION, "suspend": SUSPEND_ANNOTATION}
    return replace(observation, annotations={names[name]: text for name, text in texts.items()})


def paused_by(**texts: str) -> Observation:
    """Return a job whose driver acknowledged the pause from these annotations."""
    wish = annotated(UP, **texts)
    acks = (Ack(attempt=1, epoch=9, revision=1, outcome="Applied"),)
    done = after(wish, checked(wish), report=report(acks=acks, revision=1, paused="History"))
    return replace(done, status=checked(done).status)


def message(decision: Decision, type_: str) -> str:
    """Return the message of a condition."""
    return next(condition.message for condition in decision.status.conditions if condition.type == type_)


class TestATypo:
    """A malformed annotation keeps the previous value in force (fault K8)."""

    @pytest.mark.parametrize(
        "bad", [{"override": '{"desiredState":"paused"}'}, {"override": "{"}, {"override": PAUSED + "x"},
                {"override": PAUSED, "state": "paused"}, {"override": "null"}],
    )  # fmt: skip
    def test_a_typo_lifts_no_pause(self, bad: dict[str, str]) -> None:
        """A typo once resumed the job, and only an event reported it."""
        decision = checked(annotated(paused_by(override=PAUSED), **bad))

        assert sent(decision) == []
        assert decision.status.phase == "Paused"
        assert conditions(decision.status)["OverrideIgnored"] == "True"
        assert 'in force is {"desiredState":"Paused"}' in message(decision, "OverrideIgnored")

    def test_a_typo_survives_a_restart_of_the_operator(self) -> None:
        """The status stores the value in force."""
        stored = checked(annotated(paused_by(override=PAUSED), override="{")).status
        again = checked(replace(annotated(paused_by(override=PAUSED), override="{"), status=stored))

        assert (again.status.phase, sent(again)) == ("Paused", [])

    def test_a_typo_in_one_annotation_leaves_the_other(self) -> None:
        """The JSON is truncated, and the button of the GitOps tool still works."""
        decision = checked(annotated(paused_by(override=PAUSED), override="{", state="Running"))

        assert sent(decision) == [(2, "Resume")]
        assert conditions(decision.status)["OverrideIgnored"] == "True"

    def test_a_typo_ends_with_its_annotation(self) -> None:
        """After the annotation is removed or corrected, the spec or the new value is in force."""
        held = annotated(paused_by(override=PAUSED), override="{")
        held = replace(held, status=checked(held).status)
        gone = checked(annotated(held))

        assert sent(gone) == [(2, "Resume")]
        assert "OverrideIgnored" not in conditions(gone.status)
        assert gone.status.override is None

    def test_edits_of_fields_without_an_override_apply(self) -> None:
        """The override holds only its own fields."""
        held = annotated(paused_by(override=PAUSED), override="{")
        decision = checked(replace(held, spec=spec(throttle={"rowsPerSecond": 5})))

        assert sent(decision) == [(2, "Throttle")]

    def test_a_first_annotation_with_a_typo_leaves_the_spec_in_force(self) -> None:
        """No earlier value exists."""
        decision = checked(annotated(UP, suspend="yes"))

        assert "'yes' is neither true nor false; the spec applies" in message(decision, "OverrideIgnored")
        assert decision.status.phase == "Running"


class TestAnnotationsOfOneWord:
    """Tools that cannot write JSON use annotations of one word."""

    @pytest.mark.parametrize(
        ("texts", "phase"),
        [
            ({"state": "Paused"}, "Paused"), ({"override": PAUSED, "state": ""}, "Paused"),
            ({"override": '{"desiredState":"Running"}', "state": "Paused"}, "Paused"),
        ],
    )  # fmt: skip
    def test_a_one_word_annotation_takes_precedence_over_the_json(self, texts: dict[str, str], phase: str) -> None:
        """The newest action is a button; an empty word counts as absent."""
        decision = checked(paused_by(**texts))

        assert (decision.status.phase, reason(decision.status, "Paused")) == (phase, "Override")

    def test_a_one_word_annotation_suspends_and_resumes(self) -> None:
        """The annotation acts like `spec.suspend`."""
        assert checked(annotated(UP, suspend="true")).status.phase == "Suspending"
        assert checked(annotated(replace(UP, spec=spec(suspend=True)), suspend="false")).status.phase == "Running"
