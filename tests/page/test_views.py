"""Views turn values of a job into the strings of a page; unknown values are left out."""

from dataclasses import replace

import pytest
from support.console.frames import CLUSTER, NOW, ago
from support.page.scripted_source import ROW, seen

from backfill_api.status.plan import Plan
from backfill_api.status.progress import PartitionProgress, Progress, StepProgress
from backfill_api.status.receipt import ReceiptSummary
from backfill_console.frame import JobFrame
from backfill_page.ring import SAMPLES_MAX, Ring
from backfill_page.seen import Ended, JobRow, JobSeen, Listing
from backfill_page.views.cells import grid_cells, partition_views, receipt_cells
from backfill_page.views.ended import ended_view
from backfill_page.views.job import job_view
from backfill_page.views.listing import jobs_view


def listing(*rows):
    """Return the view of these jobs."""
    return jobs_view(Listing(rows, NOW))


class TestTheTable:
    """The person on call reads the first row first."""

    def test_jobs_that_need_a_person_come_first_then_those_that_end_soon(self):
        """A failed job at the end of fifty rows would be overlooked."""
        rows = [
            JobRow("a", "done", "Succeeded"), JobRow("b", "runs", "Running", eta_s=900), JobRow("c", "waits", "Pending"),
            JobRow("d", "runs", "Running", eta_s=60), JobRow("e", "needs a person", "Failed"),
        ]  # fmt: skip

        assert [row.key for row in listing(*rows).rows] == ["e", "d", "b", "c", "a"]

    def test_counts_name_each_group_that_has_jobs(self):
        """A group without jobs would be noise."""
        view = listing(
            JobRow("a", "runs", "Running"), JobRow("b", "runs", "Running"), JobRow("c", "needs a person", "Failed")
        )

        assert view.total == "3 jobs"
        assert [(count.symbol, count.text) for count in view.counts] == [("✖", "1 needs a person"), ("▶", "2 run")]

    def test_unknown_value_is_empty(self):
        """A zero would be a claim."""
        [row] = listing(JobRow("a", "waits", "Pending")).rows

        assert (row.percent, row.rows, row.rate, row.lag, row.eta, row.why) == (None, "", "", "", "", "")

    def test_known_values_are_whole_numbers_with_units(self):
        """The same numbers stand in the terminal."""
        [row] = listing(ROW).rows

        assert (row.percent, row.rows, row.rate) == (61, "61,204,118 of 98,000,000", "82,410")
        assert (row.lag, row.eta) == ("1 min 5 s", "12 min")


class TestOneJob:
    """The page and the terminal show the same values."""

    def test_head_has_state_percent_estimate_and_tables(self):
        """The frame is that of `kubectl backfill get -w`."""
        view = job_view(JobSeen("shop/orders", CLUSTER, NOW))

        assert (view.symbol, view.state, view.percent, view.attempt) == ("▶", "Running", 61, "attempt 2 of 6")
        assert view.eta.endswith("in 12 min (9 min to 18 min)")
        assert (view.source, view.target) == ("s3a://here/orders @412", "s3a://there/orders")
        assert view.why == "throttled by command; about 190,000 rows/s without it"

    def test_running_step_has_the_part_of_its_time_that_is_over(self):
        """11 of about 18 minutes."""
        steps = job_view(JobSeen("k", CLUSTER, NOW)).steps

        assert [(step.name, step.percent) for step in steps] == [
            ("start", 100),
            ("copy", 61),
            ("catch-up", None),
            ("receipt", None),
        ]
        assert steps[1].time == "11 min, about 7 min left"

    def test_time_and_rows_are_two_bars_with_labels(self):
        """61 % of the time is not 61 % of the rows."""
        bars = job_view(JobSeen("k", CLUSTER, NOW)).bars

        assert [(bar.name, bar.percent) for bar in bars] == [("job", 61), ("rows", 62)]
        assert bars[1].label == "61,204,118 of 98,000,000 rows, 9,785 filtered out"

    def test_commands_and_events_are_newest_first_with_their_claim(self):
        """An annotation claims the name."""
        view = job_view(JobSeen("k", CLUSTER, NOW))

        assert [entry.text for entry in view.commands] == [
            "throttle 100000 --for 30m not acknowledged yet, by anna (claimed)",
            "resume applied at epoch 523 in 400 ms, by anna (claimed): fixed",
        ]
        assert view.events[0].text.startswith("Warning ExecutorsWaiting: 1 of 2 executors")

    def test_tree_keeps_the_depth_of_attempts_and_pods(self):
        """A pod stands below its attempt."""
        tree = job_view(JobSeen("k", CLUSTER, NOW)).tree

        assert [(node.depth, node.name) for node in tree][:3] == [
            (0, "orders"),
            (1, "attempt 2"),
            (2, "orders-2-driver"),
        ]

    def test_starting_job_has_no_numbers(self):
        """Nothing is known but the step."""
        view = job_view(JobSeen("k", JobFrame("k", NOW, Progress(reason="starting Spark")), NOW))

        assert (view.percent, view.bars, view.facts, view.eta) == (None, (), (), "")
        assert view.why == "starting Spark"

    @pytest.mark.parametrize(
        "fields", [{"forbidden": "patch backfills.backfill.dev in namespace shop"}, {"unavailable": "No driver runs."}]
    )
    def test_disabled_buttons_name_the_reason(self, fields):
        """A grey button without a reason makes the user try again."""
        buttons = job_view(JobSeen("k", CLUSTER, NOW, **fields)).buttons

        assert buttons.lack in ("You may not patch backfills.backfill.dev in namespace shop.", "No driver runs.")

    def test_paused_job_offers_to_resume(self):
        """Local jobs report the pause in their progress, Backfills in their phase."""
        paused = replace(CLUSTER, progress=CLUSTER.progress.model_copy(update={"paused": "History"}))

        assert job_view(JobSeen("k", paused, NOW)).buttons.paused
        assert job_view(JobSeen("k", replace(CLUSTER, phase="Paused"), NOW)).buttons.paused
        assert not job_view(JobSeen("k", CLUSTER, NOW)).buttons.paused


class TestCells:
    """Each square has a description, so colour is never the only sign."""

    def test_parts_of_the_snapshot_have_three_roles(self):
        """A part with any open row is not green."""
        cells = grid_cells((100, 99, 0), 300)

        assert [cell.role for cell in cells.cells] == ["done", "partial", "open"]
        assert cells.cells[1].text == "part 2 of 3: 99 % committed, about 100 rows"
        assert cells.summary == "1 of 3 parts committed, 1 in part"

    def test_receipt_marks_the_vnodes_that_differ(self):
        """The number of the vnode is what `verify --explain` names."""
        summary = ReceiptSummary(target_version=1, epoch=1, rows=1, mismatches=1, mismatch_map=f"{1 << 255:064x}")
        cells = receipt_cells(summary)

        assert [cell.text for cell in cells.cells if cell.role == "bad"] == ["vnode 0 differs"]
        assert cells.summary == "256 vnodes: 255 equal, 1 different"

    def test_empty_partition_is_complete(self):
        """A division by zero rows would end the page."""
        [part] = partition_views(
            [PartitionProgress(partition="day=1", rows_done=0, rows_total=0, files_done=0, files_total=0)]
        )

        assert part.percent == 100


class TestAnEndedRun:
    """The next morning a person asks how the night went."""

    def test_steps_stand_against_the_plan(self):
        """A step that only the plan or only the run has stays in the table."""
        frame = replace(
            CLUSTER, progress=Progress(attempt=1, steps=(StepProgress(name="Copy", state="Done", seconds=90),))
        )
        plan = Plan(
            rows=1, bytes=1, files=1, splits=1, estimated_seconds=1, estimated_seconds_low=1, estimated_seconds_high=1,
            steps=({"name": "Copy", "seconds": 60}, {"name": "Receipt", "seconds": 5}),
        )  # fmt: skip
        ended = Ended("Complete", True, start=ago(minutes=20), end=ago(minutes=2))
        view = ended_view(seen(frame=frame, plan=plan, ended=ended), ended)

        assert [(step.name, step.took, step.planned) for step in view.steps] == [
            ("copy", "1 min 30 s", "1 min"), ("receipt", "", "5 s"),
        ]  # fmt: skip
        assert (view.outcome, view.role, view.took) == ("Complete", "good", "18 min")

    @pytest.mark.parametrize(("outcome", "role"), [("Failed", "bad"), ("Killed", "bad"), ("Stopped", "dim")])
    def test_stopped_run_is_no_failure(self, outcome, role):
        """A user stopped it, and it can resume."""
        ended = Ended(outcome, False)

        assert ended_view(seen(ended=ended), ended).role == role

    def test_ended_run_shows_no_warnings_and_no_reason_of_its_speed(self):
        """Both are about a job that runs."""
        view = job_view(seen(ended=Ended("Complete", True)))

        assert (view.why, view.warnings) == ("", ())


class TestTheRing:
    """Charts show the samples of the page; a status stores no history."""

    def test_samples_are_two_seconds_apart_and_bounded(self):
        """A browser that watches for a day would get megabytes."""
        ring = Ring()
        for second in range(SAMPLES_MAX * 3):
            ring = ring.after(CLUSTER, NOW.fromtimestamp(second, NOW.tzinfo))

        assert len(ring.samples) == SAMPLES_MAX
        assert {
            after - before for before, after in zip(ring.columns()["at"], ring.columns()["at"][1:], strict=False)
        } == {2}
        assert ring.columns()["limit"][-1] == 100_000

    @pytest.mark.parametrize("phase", ["Suspended", "Retrying", "Pending"])
    def test_job_without_a_driver_has_a_gap(self, phase):
        """Its status keeps the last rate: the line would go on as if the job copied."""
        columns = Ring().after(replace(CLUSTER, phase=phase), NOW).columns()

        assert (columns["rate"], columns["lag"]) == ([None], [None])

    def test_lag_of_a_topic_is_in_seconds_too(self):
        """The heading of the chart says seconds; 500,000 records are not six days."""
        topic = CLUSTER.progress.model_copy(update={"lag_records": 500_000, "lag_seconds": 12})

        assert Ring().after(replace(CLUSTER, progress=topic), NOW).columns()["lag"] == [12]

    def test_starting_driver_gives_no_sample(self):
        """A rate of zero would look like a stall."""
        assert Ring().after(JobFrame("k", NOW), NOW) == Ring()
