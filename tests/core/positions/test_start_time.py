"""The version from which a job starts, and jobs without a snapshot."""

import pytest
from support.simulation.hand_driven import HandDriven
from support.tables.jobs import job

from backfill_core.errors import InvalidSpecError, NotRepairableError, SnapshotExpiredError
from backfill_core.job.phase import JobSettings
from backfill_core.job.repair import check_repairable
from backfill_core.job.state import JobState
from backfill_core.positions.start_time import LoggedVersion, check_comparable, check_not_in_future, start_version
from backfill_core.protocol.commands import Throttle, VerifyNow
from backfill_core.protocol.events import CommandReceived
from backfill_core.switch_over import obstacles

NOON = 1_767_268_800_000
WHERE = {"path": "/lake/orders", "field": "spec.source.delta.timestamp"}


class TestATime:
    """A time names one version for the whole job, or none at all."""

    @pytest.mark.parametrize("committed_ms", [NOON, NOON - 1, NOON - 86_400_000])
    def test_a_version_holds_from_its_commit_on(self, committed_ms):
        """The table as of a time includes a commit of exactly that time."""
        assert start_version(NOON, LoggedVersion(7, committed_ms), **WHERE) == 7

    def test_a_time_before_the_first_version_is_refused(self):
        """An empty table would be wrong: there was none."""
        with pytest.raises(InvalidSpecError) as refused:
            start_version(NOON, LoggedVersion(0, NOON + 1), **WHERE)

        assert str(refused.value).startswith(
            "spec.source.delta.timestamp: 2026-01-01T12:00:00.000Z is before the first version of /lake/orders, "
            "which is from 2026-01-01T12:00:00.001Z."
        )

    def test_a_time_whose_version_was_cleaned_up_is_refused(self):
        """The oldest version that is left is of a later time, so it must not be used silently."""
        with pytest.raises(SnapshotExpiredError) as refused:
            start_version(NOON, LoggedVersion(5, NOON + 1), **WHERE)

        assert "can no longer be read: the oldest is 5, from 2026-01-01T12:00:00.001Z" in str(refused.value)
        assert "2026-01-01T12:00:00.001Z" in refused.value.hint

    def test_a_time_in_the_future_is_refused(self):
        """Later commits could still belong to it, so two attempts would find two versions."""
        check_not_in_future(NOON, now_ms=NOON, field=WHERE["field"])
        with pytest.raises(InvalidSpecError) as refused:
            check_not_in_future(NOON + 1, now_ms=NOON, field=WHERE["field"])

        assert "is in the future: the clock of this machine is at 2026-01-01T12:00:00.000Z" in str(refused.value)


class TestAJobWithoutASnapshot:
    """The target lacks the rows that never changed, so nothing may compare it with the source as a whole."""

    @pytest.mark.parametrize(
        ("check", "error", "after"),
        [
            (check_comparable, InvalidSpecError, "Exit"),
            (obstacles.check_spec, InvalidSpecError, "Follow"),
        ],
    )
    def test_comparisons_and_switch_overs_are_refused_by_name(self, check, error, after):
        """Both would report differences that are none."""
        with pytest.raises(error) as refused:
            check(job("/s", "/t", source={"changesOnly": True}, after=after).spec)

        assert str(refused.value).startswith("spec.source.delta.changesOnly")
        check(job("/s", "/t", after=after).spec)

    def test_a_repair_is_refused_by_name(self):
        """A repair would copy all missing rows."""
        spec = job("/s", "/t", source={"changesOnly": True}).spec
        state = JobState(job_id="job", spec_hash="", attempt=1, epoch=1, strategy="Snapshot")

        with pytest.raises(NotRepairableError) as refused:
            check_repairable(spec, state)

        assert str(refused.value).startswith("spec.source.delta.changesOnly")

    def test_a_running_driver_refuses_a_receipt(self):
        """A receipt would report all rows that never changed; other commands are accepted."""
        driver = HandDriven(10, settings=JobSettings(comparable=False))
        driver.send(CommandReceived(1, 1, VerifyNow()))
        driver.send(CommandReceived(1, 2, Throttle(7)))
        driver.let_pass(2.0)

        assert [(ack.revision, ack.outcome) for ack in driver.acks] == [(1, "Refused"), (2, "Applied")]
        assert "changesOnly" in driver.acks[0].message
