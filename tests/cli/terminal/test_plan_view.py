"""The display of a plan on a terminal."""

import re

from support.console.rendered import text

from backfill_api.status.plan import Plan, PlannedPartition, PlannedPartitions, PlannedTarget, PlanWarning
from backfill_cli.terminal.plan_view import show_plan


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
        assert re.search(r"partitions +id ", text(show_plan("j", plan.model_copy(update={"target": parted}))))

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
