"""The width of a job: how many pieces of history run at the same time, changed by command while it runs."""

from __future__ import annotations

import pytest
from support.simulation.hand_driven import HandDriven
from support.tables.jobs import job as resource

from backfill_api.spec.combinations import fixed_width, width_of
from backfill_core.errors import StateMismatchError
from backfill_core.job.controls import Controls
from backfill_core.job.phase import JobSettings
from backfill_core.job.state import JobState
from backfill_core.protocol.commands import Rescale, Stop
from backfill_core.protocol.events import CommandReceived

TWO = Controls().under_spec(None, None, in_flight_max=2)
FILES = [1_000_000] * 40


def command(revision: int, width: int) -> CommandReceived:
    """Return a command of the first attempt."""
    return CommandReceived(1, revision, Rescale(width))


def stored(job: HandDriven) -> Controls:
    """Return the controls of the newest commit."""
    return JobState.decode(job.states[-1]).controls


class TestAWidth:
    """A command changes the width at a barrier; its acknowledgement follows the commit that holds it."""

    def test_a_wider_job_starts_more_splits_after_the_barrier(self) -> None:
        """Before the barrier nothing changes."""
        job = HandDriven(*FILES, controls=TWO)
        assert len(job.running) == 2

        job.send(command(1, 5))
        assert (len(job.running), job.acks) == (2, [])
        job.let_pass(1.2)

        assert len(job.running) == 5
        assert [(ack.revision, ack.outcome) for ack in job.acks] == [(1, "Applied")]
        assert stored(job).in_flight_max == job.view.controls.in_flight_max == 5

    def test_a_narrower_job_lets_running_splits_end_and_starts_none_beyond_its_width(self) -> None:
        """No split is cancelled, so that no row is read twice."""
        job = HandDriven(*FILES, controls=Controls().under_spec(None, None, in_flight_max=5))
        job.send(command(1, 2))
        job.let_pass(1.2)
        assert (len(job.running), job.cancelled) == (5, [])

        running = []
        for _ in range(6):
            job.finish_split()
            running.append(len(job.running))

        assert running == [4, 3, 2, 2, 2, 2]

    def test_the_newest_width_counts(self) -> None:
        """Two commands before one barrier are both acknowledged."""
        job = HandDriven(*FILES, controls=TWO)
        job.send(command(1, 5))
        job.send(command(2, 1))
        job.let_pass(1.2)

        assert [ack.outcome for ack in job.acks] == ["Applied", "Applied"]
        assert (stored(job).in_flight_max, stored(job).rescaled_by) == (1, 2)

    @pytest.mark.parametrize("rows_per_s", [5_000, 400_000])
    def test_a_narrower_job_keeps_its_width_under_a_limit(self, rows_per_s: int) -> None:
        """Under a limit the quotas of two epochs overlap, each of them with this width."""
        job = HandDriven(*FILES, controls=Controls(rows_per_s=rows_per_s).under_spec(None, rows_per_s, in_flight_max=5))
        job.let_pass(3.0)
        job.send(command(1, 1))
        job.let_pass(2.2)
        for _ in range(20):
            before = len(job.begun)
            if job.running:
                job.finish_split()
            job.let_pass(1.0)

            assert len(job.running) <= 2 or len(job.begun) == before

        assert job.acks[0].outcome == "Applied"
        assert len(job.running) <= 2

    def test_a_job_with_a_fixed_width_refuses_a_change_with_the_reason(self) -> None:
        """Nothing changes, and a later command keeps its revision."""
        job = HandDriven(*FILES, settings=JobSettings(fixed_width="strategy InPlace fills one batch after the other"))
        before = len(job.running)
        job.send(command(1, 5))
        job.send(CommandReceived(1, 2, Stop()))
        job.let_pass(1.2)

        refused, applied = job.acks
        assert (refused.outcome, applied.outcome) == ("Refused", "Applied")
        assert refused.message == (
            "maxInFlight of this job cannot change: strategy InPlace fills one batch after the other"
        )
        assert len(job.begun) == before
        assert stored(job).in_flight_max is None


class TestTheNextAttempt:
    """An attempt starts with the last acknowledged width, unless the spec has another one than before."""

    def test_an_acknowledged_width_stays_in_force_after_a_restart(self) -> None:
        """As a limit does (R-PROG-8)."""
        commanded = TWO.after(Rescale(7), 3, 0)
        resumed = Controls.from_json(commanded.to_json()).under_spec(None, None, in_flight_max=2)

        assert (resumed.in_flight_max, resumed.rescaled_by) == (7, 3)

    def test_an_edited_spec_takes_precedence_over_an_earlier_command(self) -> None:
        """A user who edits the file expects the new value to count."""
        resumed = TWO.after(Rescale(7), 3, 0).under_spec(None, None, in_flight_max=4)

        assert (resumed.in_flight_max, resumed.rescaled_by, resumed.revision) == (4, 0, 3)

    def test_a_state_of_an_earlier_version_takes_the_width_of_the_spec(self) -> None:
        """It stores no width."""
        assert Controls.from_json({"revision": 4}).under_spec(None, None, in_flight_max=3).in_flight_max == 3

    @pytest.mark.parametrize("width", [0, 65, -1, "2", 1.5])
    def test_a_damaged_stored_width_is_refused_with_its_field(self, width: object) -> None:
        """With a width of 0 the job would never end."""
        with pytest.raises(StateMismatchError, match="maxInFlight"):
            Controls.from_json({"maxInFlight": width})


class TestWhichJobsHaveAWidth:
    """A job whose pieces run one after the other has no width that can change; the reason names its strategy."""

    @pytest.mark.parametrize("strategy", ["Snapshot", "Replica", "Arrangement", "RearrangedChain"])
    def test_a_copy_of_a_table_has_the_width_of_its_spec(self, strategy: str) -> None:
        """The default is two pieces."""
        spec = resource("/a", "/b", strategy={"type": strategy}).spec
        assert (width_of(spec.strategy, spec.write_mode), fixed_width(spec.strategy, spec.write_mode)) == (2, "")

    def test_a_job_that_fills_columns_has_a_fixed_width(self) -> None:
        """The batches of its files follow each other."""
        for mode in ("Append", "Upsert", "Changelog"):
            strategy = resource("/a", "/b").spec.strategy.model_copy(update={"type": "InPlace"})
            assert "strategy InPlace fills one batch" in fixed_width(strategy, mode)
            assert width_of(strategy, mode) is None

    def test_a_topic_has_a_width_unless_its_records_are_merged(self) -> None:
        """A MERGE of one batch at a time keeps the order of the records of a key."""
        strategy = resource("/a", "/b").spec.strategy.model_copy(update={"type": "SourceSplits"})

        assert width_of(strategy, "Append") == 2
        assert "Upsert" in fixed_width(strategy, "Upsert")
