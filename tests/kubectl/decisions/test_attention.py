"""A list shows jobs that need a person first, each with the reason for its state."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.plugin.objects import condition, running, stored

from backfill_api.names import CHANGED_BY_ANNOTATION
from backfill_kubectl.decisions.attention import in_order, job_line, needs_a_person, summary

NOW = datetime.fromisoformat("2026-11-26T22:00:00Z")


def line(*args, **fields):
    return job_line(stored(*args, **fields), NOW)


def failed(name, reason="KeyNotUnique", **status):
    conditions = [condition(type_, reason=reason, message="two rows have the key 5") for type_ in ("Failed", "Stalled")]
    return line(name, status={"phase": "Failed", "conditions": conditions, **status})


class TestWhoNeedsAPerson:
    """The operator cannot continue, or waits for a decision."""

    @pytest.mark.parametrize(
        "given_condition",
        [
            condition("Stalled", reason="SpecRefused"),
            condition("AwaitingApproval", reason="AwaitingApproval"),
            condition("Verified", "False", reason="VerificationFailed"),
            condition("OverrideIgnored", reason="OverrideIgnored"),
            condition("SharedTarget", reason="SharedTarget"),
            condition("ControlSynced", "False", reason="CommandRefused"),
            condition("DriverReady", "False", reason="DriverUnreachable"),
        ],
        ids=lambda each: each["type"],
    )
    def test_condition_needs_a_person(self, given_condition):
        """Its reason is the reason of the line."""
        shown = line(
            status=running(conditions=[given_condition])
            if given_condition["type"] != "DriverReady"
            else {"conditions": [given_condition]}
        )

        assert shown.group == "needs a person"
        assert given_condition["reason"] in shown.why

    @pytest.mark.parametrize(
        "given_condition",
        [
            condition("Verified", "Unknown", reason="PartialReceipt"),
            condition("ControlSynced", "False", reason="AcknowledgementPending"),
            condition("Stalled", "False", reason="SpecRefused"),
        ],
        ids=lambda each: each["reason"],
    )
    def test_condition_that_passes_needs_no_person(self, given_condition):
        """The operator continues by itself."""
        assert needs_a_person(stored(status=running(conditions=[given_condition]))) is None


class TestReasons:
    """The last column tells why a job is where it is."""

    def test_failed_job_has_the_reason_of_its_last_attempt_and_their_number(self):
        """`BackoffLimitExceeded` does not name the cause."""
        shown = failed("orders", "BackoffLimitExceeded", attempts=4, history=[{"number": 4, "reason": "KeyNotUnique"}])

        assert shown.why == "KeyNotUnique (4 attempts): two rows have the key 5"

    def test_paused_job_has_its_origin_and_the_claimed_note(self):
        """The time is that of the pause."""
        pause = condition("Paused", reason="Override", since="2026-11-26T20:00:00Z")
        annotations = {CHANGED_BY_ANNOTATION: '{"by":"anna","note":"incident 4711"}'}
        shown = line(status={"phase": "Paused", "conditions": [pause]}, annotations=annotations)

        assert (shown.why, shown.since_s, shown.group) == ('override, "incident 4711"', 7200, "paused")

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"note": 5}', "null"])
    def test_unreadable_claim_is_no_note(self, text):
        """Users may write anything into an annotation."""
        pause = condition("Paused", reason="AsRequested")

        assert (
            line(status={"phase": "Paused", "conditions": [pause]}, annotations={CHANGED_BY_ANNOTATION: text}).why
            == "spec"
        )

    def test_running_job_has_the_reason_of_its_speed(self):
        """It is the driver's."""
        progress = {
            "percent": 61,
            "rowsDone": 61,
            "rowsTotal": 98,
            "reason": "throttled by command",
            "eta": "2026-11-26T22:12:00Z",
        }
        shown = line(status=running(progress=progress))

        assert (shown.why, shown.eta_s, shown.percent) == ("throttled by command", 720, 61)

    def test_waiting_job_has_the_reason_of_the_wait(self):
        """No rate and no end are invented."""
        ready = condition("Ready", "False", reason="DriversLimited", message="8 of 8 run")
        shown = line(status={"phase": "Pending", "conditions": [ready]})

        assert (shown.why, shown.group, shown.eta_s, shown.rows_per_second) == (
            "DriversLimited: 8 of 8 run",
            "waits",
            None,
            None,
        )

    @pytest.mark.parametrize(("reason", "stalls"), [("WaitingForDependency", False), ("DependencyFailed", True)])
    def test_job_that_waits_for_another_names_it(self, reason, stalls):
        """A failed dependency needs a person."""
        text = "Backfill items failed with SourceDamaged" if stalls else "Backfill items is not Complete yet (Running)"
        shown = [condition("Ready", "False", reason=reason, message=text)]
        shown += [condition("Stalled", "True", reason=reason, message=text)] if stalls else []
        made = line(status={"phase": "Pending", "conditions": shown})

        assert (made.why, made.group) == (f"{reason}: {text}", "needs a person" if stalls else "waits")

    @pytest.mark.parametrize("phase", ["Suspended", "Retrying", "Pending", "Failed", "Succeeded"])
    def test_job_without_a_driver_has_no_lag(self, phase):
        """Nothing measures it: the lag of the last driver would stay at 5 s for days."""
        ended = {"number": 1, "state": "Ended", "podName": "orders-1-driver"}
        progress = {"percent": 61, "lagSeconds": 5}

        assert line(status=running(progress=progress)).lag_s == 5
        assert line(status=running(progress=progress, phase=phase, attempt=ended)).lag_s is None
        assert line(status=running(progress=progress, phase=phase, attempt=None)).lag_s is None

    def test_job_without_an_operator_has_that_reason(self):
        """It has no condition."""
        assert line(status={"observedGeneration": -1}).why == "no operator has seen it"


class TestOrder:
    """Jobs that need a person, then by the time left, then by name."""

    def test_needy_jobs_come_first_and_the_next_to_end_follows(self):
        """Jobs without an end come last, by group and name."""
        soon = line("b", status=running(progress={"eta": "2026-11-26T22:01:00Z"}))
        late = line("a", status=running(progress={"eta": "2026-11-26T23:00:00Z"}))
        lines = [line("d"), line("c", status={"phase": "Succeeded"}), late, soon, failed("z")]

        assert [each.key for each in in_order(lines)] == ["shop/z", "shop/b", "shop/a", "shop/d", "shop/c"]
        assert summary(lines) == "5 jobs: 1 needs a person, 2 run, 1 waits, 1 done"

    def test_empty_list_has_a_message(self):
        """An empty table looks like an error."""
        assert summary([]) == "no Backfills"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=8), below, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["conditions", "progress", "phase", "attempt", "history", "control", "receipt", "override", "observedGeneration"]
)


class TestAnyObjectHasALine:
    """A user, or another version, may write anything into a status."""

    @given(
        status=st.dictionaries(FIELDS, JSON, max_size=4) | JSON,
        metadata=st.dictionaries(st.sampled_from(["annotations", "labels", "managedFields", "generation"]), JSON),
    )
    def test_any_json_is_read(self, status, metadata):
        """The readable part of a status is shown."""
        from backfill_kubectl.decisions.stored import read_stored

        shown = job_line(read_stored({"metadata": {"name": "orders", **metadata}, "status": status}), NOW)

        assert shown.key == "/orders"

    def test_unreadable_part_is_named_and_the_others_are_shown(self):
        """A message longer than the models allow is one."""
        shown = line(status=running(progress={"percent": 5, "reason": "x" * 1_000_000}, attempts=3))

        assert shown.why == "cannot read status.progress.reason: another version wrote it"
        assert shown.phase == "Running"

    def test_field_of_a_newer_version_is_ignored(self):
        """The known fields are shown."""
        shown = line(status=running(progress={"percent": 5, "novelty": 1}, novelty={"a": 1}))

        assert (shown.percent, shown.why) == (5, "")
