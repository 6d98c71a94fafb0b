"""The width of a job: number and size of its pieces of history, and its executors, changed by command while it runs."""

from __future__ import annotations

import pytest
from support.simulation.hand_driven import HandDriven
from support.tables.jobs import job as resource

from backfill_api.spec.override import Width
from backfill_api.spec.pods import DynamicExecutors, ExecutorSpec
from backfill_api.width import fixed_width, width_of
from backfill_core.errors import StateMismatchError
from backfill_core.job.controls import Controls
from backfill_core.job.phase import JobSettings
from backfill_core.job.state import JobState
from backfill_core.protocol.commands import Rescale, Stop
from backfill_core.protocol.events import CommandReceived

FILES = [1_000_000] * 40


def of_spec(width: int = 2, **values: int) -> Controls:
    """Return the controls of a first attempt, whose spec has this width."""
    return Controls().under_spec(None, None, width=Width(max_in_flight=width, **values))


TWO = of_spec()


def command(revision: int, width: int | None = None, **values: int) -> CommandReceived:
    """Return a command of the first attempt."""
    return CommandReceived(1, revision, Rescale(Width(max_in_flight=width, **values)))


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
        assert stored(job).width == job.view.controls.width == Width(max_in_flight=5)

    def test_a_narrower_job_lets_running_splits_end_and_starts_none_beyond_its_width(self) -> None:
        """No split is cancelled, so that no row is read twice."""
        job = HandDriven(*FILES, controls=of_spec(5))
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
        assert (stored(job).width.max_in_flight, stored(job).rescaled_by) == (1, 2)

    @pytest.mark.parametrize("rows_per_s", [5_000, 400_000])
    def test_a_narrower_job_keeps_its_width_under_a_limit(self, rows_per_s: int) -> None:
        """Under a limit the quotas of two epochs overlap, each of them with this width."""
        limited = Controls(rows_per_s=rows_per_s)
        job = HandDriven(*FILES, controls=limited.under_spec(None, rows_per_s, width=Width(max_in_flight=5)))
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
        fixed = {"max_in_flight": "strategy InPlace fills one batch after the other"}
        job = HandDriven(*FILES, settings=JobSettings(fixed_width=fixed))
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
        assert stored(job).width == Width()

    def test_a_command_with_one_fixed_value_is_refused_as_a_whole(self) -> None:
        """The message names each fixed value with its reason; the values that could change stay as well."""
        fixed = {"chunk_rows": "strategy Snapshot has no chunkRows", "executors": "it has none"}
        job = HandDriven(*FILES, controls=TWO, settings=JobSettings(fixed_width=fixed))
        job.send(command(1, 5, chunk_rows=9, executors=3))
        job.send(command(2, 3))
        job.let_pass(1.2)

        refused, applied = job.acks
        assert refused.message == (
            "chunkRows of this job cannot change: strategy Snapshot has no chunkRows; "
            "executors of this job cannot change: it has none"
        )
        assert (refused.outcome, applied.outcome, stored(job).width) == ("Refused", "Applied", Width(max_in_flight=3))

    def test_an_absent_value_stays(self) -> None:
        """Two commands change two values, and both are in force."""
        job = HandDriven(*FILES, controls=of_spec(2, split_target_seconds=4))
        job.send(command(1, split_target_seconds=20))
        job.send(command(2, 3))
        job.let_pass(1.2)

        assert stored(job).width == Width(max_in_flight=3, split_target_seconds=20)

    def test_another_target_duration_sizes_the_next_split(self) -> None:
        """The rows follow in proportion; the split that is being read stays as it is."""
        job = HandDriven(*FILES, controls=of_spec(1, split_target_seconds=4))
        for _ in range(4):
            job.let_pass(4.0)
            job.finish_split()
        (before,) = job.running.values()
        job.send(command(1, split_target_seconds=12))
        job.let_pass(1.2)
        assert [*job.running.values()] == [before]

        job.let_pass(2.8)
        job.finish_split()

        (after,) = job.running.values()
        assert after.stop - after.start == 3 * (before.stop - before.start)


class TestTheNextAttempt:
    """An attempt starts with the last acknowledged width, unless the spec has another one than before."""

    def test_an_acknowledged_width_stays_in_force_after_a_restart(self) -> None:
        """As a limit does (R-PROG-8)."""
        spec = Width(max_in_flight=2, split_target_seconds=4, chunk_rows=0, executors=1)
        change = Width(max_in_flight=7, split_target_seconds=9, chunk_rows=500, executors=4)
        commanded = Controls().under_spec(None, None, width=spec).after(Rescale(change), 3, 0)
        resumed = Controls.from_json(commanded.to_json()).under_spec(None, None, width=spec)

        assert (resumed.width, resumed.spec_width, resumed.rescaled_by) == (change, spec, 3)

    def test_an_edited_spec_takes_precedence_over_an_earlier_command(self) -> None:
        """A user who edits the file expects the new value to count."""
        resumed = TWO.after(command(3, 7).command, 3, 0).under_spec(None, None, width=Width(max_in_flight=4))

        assert (resumed.width, resumed.rescaled_by, resumed.revision) == (Width(max_in_flight=4), 0, 3)

    def test_an_edit_of_one_value_keeps_a_command_for_another(self) -> None:
        """Each value is compared with the spec's earlier one."""
        commanded = of_spec(2, executors=1).after(Rescale(Width(max_in_flight=7, executors=5)), 3, 0)
        resumed = commanded.under_spec(None, None, width=Width(max_in_flight=4, executors=1))

        assert (resumed.width, resumed.rescaled_by) == (Width(max_in_flight=4, executors=5), 3)

    def test_a_value_that_can_no_longer_change_is_forgotten(self) -> None:
        """Such as executors whose number follows the load since an edit."""
        commanded = of_spec(2, executors=1).after(Rescale(Width(executors=5)), 3, 0)

        assert commanded.under_spec(None, None, width=Width(max_in_flight=2)).width == Width(max_in_flight=2)

    def test_a_state_of_an_earlier_version_takes_the_width_of_the_spec(self) -> None:
        """It stores no width, or only `maxInFlight`."""
        spec = Width(max_in_flight=3, split_target_seconds=4)
        commanded = Controls.from_json({"revision": 4, "maxInFlight": 7, "specMaxInFlight": 3, "rescaledBy": 2})

        assert Controls.from_json({"revision": 4}).under_spec(None, None, width=spec).width == spec
        assert commanded.under_spec(None, None, width=spec).width == Width(max_in_flight=7, split_target_seconds=4)

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            *(("maxInFlight", value) for value in (0, 65, -1, "2", 1.5)),
            *(("specMaxInFlight", 0), ("splitTargetSeconds", 0), ("specSplitTargetSeconds", 601)),
            *(("chunkRows", -1), ("specChunkRows", True), ("executors", 0), ("specExecutors", 10_001)),
        ],
    )
    def test_a_damaged_stored_width_is_refused_with_its_field(self, field: str, value: object) -> None:
        """With a width of 0 the job would never end."""
        with pytest.raises(StateMismatchError, match=rf"state\.controls\.{field} "):
            Controls.from_json({field: value})


class TestWhichValuesCanChange:
    """A value without an effect, or one that others decide, is fixed; the reason names the strategy or the field."""

    @pytest.mark.parametrize(
        ("strategy", "sizes"),
        [
            *((name, {"split_target_seconds": 4}) for name in ("Snapshot", "Replica", "RearrangedChain")),
            ("Arrangement", {"chunk_rows": 0}),
        ],
    )
    def test_a_copy_of_a_table_has_the_width_of_its_spec(self, strategy: str, sizes: dict[str, int]) -> None:
        """The default is two pieces, and one executor."""
        spec = resource("/a", "/b", strategy={"type": strategy}).spec
        (reason,) = (reason for name, reason in fixed_width(spec).items() if name not in sizes)

        assert width_of(spec).given == {"max_in_flight": 2, **sizes, "executors": 1}
        assert f"strategy {strategy} has no " in reason

    def test_a_job_that_fills_columns_has_a_fixed_width(self) -> None:
        """The batches of its files follow each other; executors may come and go."""
        spec = resource("/a", "/b").spec
        for mode in ("Append", "Upsert", "Changelog"):
            filling = spec.strategy.model_copy(update={"type": "InPlace"})
            target = spec.target.model_copy(update={"delta": spec.target.delta.model_copy(update={"write_mode": mode})})
            fills = spec.model_copy(update={"strategy": filling, "target": target})
            assert fills.write_mode == mode
            assert "strategy InPlace fills one batch" in fixed_width(fills)["max_in_flight"]
            assert width_of(fills).given == {"executors": 1}

    def test_a_topic_has_a_width_unless_its_records_are_merged(self) -> None:
        """A MERGE of one batch at a time keeps the order of the records of a key."""
        spec = resource("/a", "/b").spec
        merged = spec.model_copy(update={"strategy": spec.strategy.model_copy(update={"type": "SourceSplits"})})
        target = spec.target.model_copy(update={"delta": spec.target.delta.model_copy(update={"write_mode": "Append"})})
        appended = merged.model_copy(update={"target": target})

        assert width_of(appended).given == {"max_in_flight": 2, "split_target_seconds": 4, "executors": 1}
        assert "Upsert" in fixed_width(merged)["max_in_flight"]
        assert "Upsert" in fixed_width(merged)["split_target_seconds"]
        assert width_of(merged).given == {"executors": 1}

    def test_executors_that_others_count_are_fixed(self) -> None:
        """Their number follows the load, they do not exist, or a queue admitted them."""
        spec = resource("/a", "/b").spec
        for change, reason in (
            ({"executor": ExecutorSpec(dynamic=DynamicExecutors(max=3))}, "follows the load"),
            ({"executor": ExecutorSpec(instances=0)}, "executor.instances is 0"),
            ({"queue": "team-a"}, "the queue admitted"),
        ):
            assert reason in fixed_width(spec.model_copy(update=change))["executors"]
        four = spec.model_copy(update={"executor": ExecutorSpec(instances=4)})
        assert width_of(four).executors == 4
