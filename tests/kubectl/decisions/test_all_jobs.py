"""A job has acknowledged the switch for all jobs once operator and driver confirm this write of it."""

import pytest
from support.plugin.objects import condition, running, stored

from backfill_api.spec.change_claim import PauseAll
from backfill_kubectl.decisions.acknowledgement import InForce, Recorded, Rejected, Waiting
from backfill_kubectl.decisions.all_jobs import describe_missing, summary, switch_answer, unfinished

NOW_MS = 1_795_000_000_000
ON = PauseAll(enabled=True, by="anna", time="2026-11-26T21:37:02.000001Z")
OFF = PauseAll(enabled=False, by="otto", time="2026-11-26T21:39:02.000001Z")
SEEN = {"by": "anna", "time": ON.time}
PAUSED = condition("Paused", reason="AllJobsPaused")
PROGRESS = {"percent": 8, "rowsDone": 246_015}
AT = "at 8 % (246,015 rows)"


def answer(switch, control, *conditions, spec=None, **status):
    """Return the answer of a job with a driver."""
    job = stored(spec=spec, status=running(control, conditions, progress=PROGRESS, **status))
    return switch_answer(switch, job, NOW_MS)


class TestAPause:
    """It is in force after the commit that contains it."""

    def test_confirmed_pause_has_its_epoch(self):
        """Both operator and driver have seen it."""
        assert answer(ON, {"paused": "All", "epoch": 14}, PAUSED, allJobsPause=SEEN) == InForce(
            f"paused {AT}; changes are paused too", "epoch 14"
        )

    def test_earlier_pause_does_not_count(self):
        """Another person paused all jobs an hour ago."""
        earlier = {"by": "anna", "time": "2026-11-26T20:37:02.000001Z"}

        assert isinstance(answer(ON, {"paused": "All"}, PAUSED, allJobsPause=earlier), Waiting)
        assert isinstance(answer(ON, {"paused": "All"}, PAUSED), Waiting)

    def test_driver_that_has_not_confirmed_is_awaited(self):
        """The operator has read the switch, and the command is on its way."""
        pending = [{"revision": 4, "command": {"type": "Pause", "pause": {"scope": "All"}}}]

        assert isinstance(answer(ON, {"paused": "All", "pending": pending}, PAUSED, allJobsPause=SEEN), Waiting)
        assert isinstance(answer(ON, {"paused": "History"}, condition("Paused"), allJobsPause=SEEN), Waiting)

    def test_driver_that_refuses_is_an_error(self):
        """Waiting longer does not help."""
        pending = [{"revision": 4, "command": {"type": "Pause", "pause": {"scope": "All"}}}]
        refused = condition("ControlSynced", "False", "CommandRefused", "Pause (revision 4): unknown field")

        assert isinstance(answer(ON, {"pending": pending}, refused, allJobsPause=SEEN), Rejected)

    @pytest.mark.parametrize(
        "status",
        [{"phase": "Suspended"}, {}, running(allJobsPause=SEEN) | {"attempt": {"number": 1, "state": "Ended"}}],
    )
    def test_job_without_a_driver_has_nothing_to_acknowledge(self, status):
        """The operator holds its next launch."""
        assert isinstance(switch_answer(ON, stored(status=status), NOW_MS), Recorded)

    def test_recorded_attempt_that_is_held_has_no_driver(self):
        """The operator plans an attempt before it starts its pod, and the switch stops it there."""
        held = {
            "phase": "Pending", "attempt": {"number": 1, "state": "Planned"}, "allJobsPause": SEEN,
            "conditions": [condition("Ready", "False", "AllJobsPaused")],
        }  # fmt: skip

        assert isinstance(switch_answer(ON, stored(status=held), NOW_MS), Recorded)
        assert isinstance(switch_answer(ON, stored(status=held | {"conditions": []}), NOW_MS), Waiting)


class TestAResume:
    """Each job returns to the state of its spec and override."""

    def test_job_runs_again(self):
        """The driver has confirmed it."""
        free = condition("Paused", "False", "NotRequested")

        assert answer(OFF, {"epoch": 15}, free) == InForce(f"running {AT}, without a limit", "epoch 15")
        assert isinstance(answer(OFF, {"epoch": 15}, free, allJobsPause=SEEN), Waiting)
        assert isinstance(
            answer(OFF, {"paused": "All"}, condition("Paused", "True", "AcknowledgementPending")), Waiting
        )

    def test_job_that_its_spec_pauses_stays_paused(self):
        """The answer says so."""
        own = condition("Paused", reason="AsRequested")

        assert answer(OFF, {"paused": "History", "epoch": 15}, own, spec={"desiredState": "Paused"}) == InForce(
            f"paused {AT}; changes continue", "epoch 15"
        )


class TestTheSummary:
    """It counts running jobs and jobs without a driver."""

    @pytest.mark.parametrize(
        ("switch", "acknowledged", "held", "shown"),
        [
            (ON, 2, 0, "all jobs are paused: 2 running jobs acknowledged in 1.2 s"),
            (ON, 1, 3, "all jobs are paused: 1 running job acknowledged in 1.2 s, 3 without a driver are held"),
            (ON, 0, 1, "all jobs are paused: none runs, 1 without a driver is held"),
            (OFF, 2, 2, "the pause of all jobs is lifted: 2 running jobs acknowledged in 1.2 s, 2 without a driver start by their own state"),
        ],
    )  # fmt: skip
    def test_summary_has_both_numbers(self, switch, acknowledged, held, shown):
        """A number of zero is left out."""
        assert summary(switch, acknowledged, held, 1.23) == shown

    def test_missing_jobs_are_named_up_to_five(self):
        """A thousand reasons would fill the terminal."""
        answers = [(f"shop/job-{number}", Waiting("it starts")) for number in range(7)]

        shown = describe_missing(answers)

        assert shown.startswith("shop/job-0: it starts; shop/job-1: it starts; ")
        assert shown.endswith("; and 2 more")

    def test_ended_jobs_are_left_out(self):
        """They have no launch to hold."""
        assert [unfinished(stored(status={"phase": phase})) for phase in ("Running", "Pending", "Succeeded", "Failed")] == [
            True, True, False, False,
        ]  # fmt: skip
