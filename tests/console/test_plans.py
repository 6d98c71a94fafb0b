"""The display of a plan on a terminal."""

import re

import pytest
from support.console.rendered import text

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.plan import (
    Plan,
    PlannedFiles,
    PlannedMover,
    PlannedPartition,
    PlannedPartitions,
    PlannedScope,
    PlannedStep,
    PlannedTarget,
    PlanWarning,
)
from backfill_console.terminal import show_plan

WAYS = (
    PlannedFiles(way="Whole", files=12),
    PlannedFiles(
        way="Decoded", files=4, reason="the log does not decide the filter (region); the write mode adds columns"
    ),
)
STEPS = tuple(PlannedStep(name=name, seconds=seconds) for name, seconds in (
    ("Start", 9), ("Copy", 30), ("KeyProof", 4), ("CatchUp", 0), ("Receipt", 5)
))  # fmt: skip
PLAN = Plan(
    rows=3_000_000, bytes=210_000_000, files=16, splits=20, version=4, estimated_seconds=48, estimated_seconds_low=31,
    estimated_seconds_high=65, key_columns=("order_id",), ways=WAYS, steps=STEPS,
)  # fmt: skip


def spec(**fields):
    """Return a spec with these fields."""
    tables = {
        "source": {"type": "Delta", "delta": {"path": "/lake/orders", "key": ["order_id"]}},
        "target": {"type": "Delta", "delta": {"path": "/lake/copy"}},
    }
    return BackfillSpec.model_validate(tables | fields)


def lines(shown, **fields):
    """Return the lines of an explained plan, without frame and names."""
    return [
        line.strip("│ ") for line in text(show_plan("j", shown, explained_by=spec(**fields)), width=140).splitlines()
    ]


class TestAPlanOfAScope:
    """A user sees what a job removes before it starts."""

    def test_the_plan_shows_the_files_and_rows_that_are_replaced(self):
        """Some files by name, and the number of those that stay."""
        scope = PlannedScope(files=7, rows=9_000, files_kept=93, names=("day=3/a", "day=3/b"))
        plan = PLAN.model_copy(
            update={"target": PlannedTarget(columns="id bigint", publish="WhenVerified", scope=scope)}
        )

        shown = text(show_plan("j", plan), width=140)

        assert re.search(r"replaces +7 files with 9,000 rows: day=3/a, day=3/b and 5 more", shown)
        assert "93 files outside of the scope stay" in shown


class TestAPlan:
    def test_the_plan_shows_the_benefit_and_the_cost_of_arrangement(self):
        """The job retains no version, and may read a file more than once."""
        plan = Plan(
            rows=3_000_000, bytes=210_000_000, files=16, splits=20, estimated_seconds=20, estimated_seconds_low=15,
            estimated_seconds_high=30, target_exists=False, read_amplification_percent=137,
        )  # fmt: skip
        shown = text(show_plan("demo/orders", plan))

        assert "each file 1.4 times, in the order of a key" in shown
        assert "not needed: the newest version is read, and no old one is kept" in shown
        assert "not needed" not in text(show_plan("j", plan.model_copy(update={"read_amplification_percent": None})))

    @pytest.mark.parametrize(
        ("mover", "line"),
        [
            (
                PlannedMover(name="Store", bytes_per_second=120_000_000, requests=1800),
                "by the object store itself: about 1,800 requests, 120.0 MB a second",
            ),
            (PlannedMover(name="Store", requests=9), "by the object store itself: about 9 requests"),
            (
                PlannedMover(name="Driver", reason="the buckets have different endpoints", requests=8),
                "through the driver: the buckets have different endpoints; about 8 requests",
            ),
        ],
    )
    def test_the_plan_names_the_mover_of_copied_files(self, mover, line):
        """Its rate is shown if it was measured; without a mover there is no line."""
        assert f"copies {line}" in " ".join(
            text(show_plan("j", PLAN.model_copy(update={"mover": mover})), width=140).split()
        )
        assert "copies" not in text(show_plan("j", PLAN))

    def test_the_plan_of_a_topic_lists_its_largest_partitions(self):
        """The largest partitions have a line each, and the rest share one line; no line exceeds 80 columns."""
        largest = tuple(
            PlannedPartition(partition=str(900 + number), rows=123_456_789_012 - number) for number in range(10)
        )
        plan = Plan(
            rows=10**12, bytes=0, files=0, splits=20, estimated_seconds=20, estimated_seconds_low=15, estimated_seconds_high=30,
            partitions=PlannedPartitions(largest=largest, others=990, other_rows=765_432_109),
            warnings=(PlanWarning(reason="RetentionEnding", message="510 of 900 offsets may be gone.", hint="Keep them."),),
        )  # fmt: skip
        shown = text(show_plan("demo/events", plan), width=80)

        for fact in (*(f"{partition.partition}:{partition.rows:,}" for partition in largest), "990 more with 765,432,109 in all",
                     "RetentionEnding: 510 of 900 offsets may be gone."):  # fmt: skip
            assert fact in shown
        assert all(len(line) <= 80 for line in shown.splitlines())
        few = text(
            show_plan(
                "j", plan.model_copy(update={"partitions": PlannedPartitions(largest=(), others=0, other_rows=0)})
            )
        )
        assert "more with" not in few

    def test_the_plan_shows_the_layout_of_the_target(self):
        """The job chooses the parts of the layout that the spec omits, and readers need to know them."""
        plan = Plan(
            rows=1, bytes=1, files=1, splits=1, estimated_seconds=1, estimated_seconds_low=1, estimated_seconds_high=1,
            target=PlannedTarget(columns="id bigint, name string", reader_features=("deletionVectors",)),
        )  # fmt: skip
        shown = text(show_plan("j", plan))

        assert re.search(r"columns +id bigint, name string", shown)
        assert re.search(r"partitions +none", shown)
        assert "deletionVectors: readers of the target must support them" in shown
        parted = PlannedTarget(columns="id bigint", partition_by=("id",))
        assert re.search(r"partitions +id\n", text(show_plan("j", plan.model_copy(update={"target": parted}))))

    def test_the_plan_shows_facts_and_warnings(self):
        """Users decide by the duration, the size and the warnings."""
        plan = Plan(
            rows=3_000_000, bytes=210_000_000, files=16, splits=20, version=4, estimated_seconds=20,
            estimated_seconds_low=15, estimated_seconds_high=30, key_columns=("order_id",), change_feed=True,
            target_exists=False, warnings=(PlanWarning(reason="ShortRetention", message="it is short.", hint="Raise it."),),
        )  # fmt: skip
        shown = text(show_plan("demo/orders", plan))
        for fact in ("3,000,000 in 16 files, 210.0 MB", "about 20 s (15 s to 30 s)", "order_id; unique: not checked",
                     "will be created", "ShortRetention: it is short. Raise it."):  # fmt: skip
            assert fact in shown


class TestAnExplainedPlan:
    def test_each_copy_mode_has_all_of_its_reasons_with_their_columns(self):
        """Removing only the first reason leaves the files decoded."""
        shown = lines(PLAN)

        first = shown.index("files      12 of 16 (75 %) copied byte by byte")
        assert shown[first + 1 : first + 5] == [
            "- the target has all of their columns, under the same names",
            "4 of 16 (25 %) decoded",
            "- the log does not decide the filter (region)",
            "- the write mode adds columns",
        ]

    def test_each_step_has_the_settings_and_estimates_behind_its_time(self):
        """Users change the setting that costs the most time."""
        shown = "\n".join(
            lines(PLAN, verify="Final", throttle={"rowsPerSecond": 100_000, "bytesPerSecond": 50_000_000})
        )

        for fact in (
            "nine jobs of ten take 31 s to 1 min 5 s", "copy 30 s", "3,000,000 rows in about 20 splits, on average 100,000 rows/s",
            "limited by throttle.rowsPerSecond, 100,000", "limited by throttle.bytesPerSecond, 50.0 MB",
            "the key (order_id) is proven unique", "the source has no newer changes yet", "because of verify: Final",
        ):  # fmt: skip
            assert fact in shown

    @pytest.mark.parametrize(
        ("fields", "setting"), [({}, "verify: None"), ({"verify": "Final", "after": "Follow"}, "after: Follow")]
    )
    def test_the_setting_that_leaves_out_the_receipt_is_named(self, fields, setting):
        """A job without a receipt proves nothing."""
        assert f"no receipt, because of {setting}" in lines(PLAN.model_copy(update={"steps": STEPS[:-1]}), **fields)

    def test_a_limit_of_zero_is_left_out_of_the_time(self):
        """Such a copy makes no progress at all."""
        shown = "\n".join(lines(PLAN, throttle={"rowsPerSecond": 0}))

        assert "throttle.rowsPerSecond, 0: no rows are copied until it is raised" in shown

    def test_a_resumed_job_is_named_as_such(self):
        """The times are those of the whole job, so the rest takes less."""
        shown = "\n".join(lines(PLAN.model_copy(update={"resumes_attempt": 3})))

        assert "attempt 3 has completed a part of it" in shown

    def test_a_plan_without_copy_modes_reads_all_rows(self):
        """A job in the order of a key has no file of its own in the target."""
        assert any(
            "all of their rows are read and written" in line for line in lines(PLAN.model_copy(update={"ways": ()}))
        )

    def test_without_the_option_a_plan_has_one_line_for_each_copy_mode_and_step(self):
        """Scripts and users know this output."""
        shown = text(show_plan("j", PLAN), width=140)

        assert "4 decoded: the log does not decide the filter (region); the write mode adds columns" in shown
        assert "  - " not in shown
