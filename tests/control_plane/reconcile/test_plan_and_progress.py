"""Results of drivers for users: a plan that waits for approval, and progress in the status."""

import pytest

from backfill_api.names import KIND_LABEL
from backfill_api.status.ending import Ending
from backfill_api.status.plan import Plan, PlanWarning
from backfill_api.status.progress import (
    LimitInForce,
    PartitionProgress,
    ProgressSummary,
    RefreshProgress,
    StepProgress,
    Watermark,
)

PLAN = Plan(
    rows=4000, bytes=123_456, files=3, splits=2, version=7, estimated_seconds=40, estimated_seconds_low=30,
    estimated_seconds_high=60, key_columns=("id",), key_unique=True, key_nulls=0, change_feed=True, retention_seconds=604_800,
    warnings=(PlanWarning(reason="RetentionShort", message="a week is short", hint="make it longer"),),
)  # fmt: skip
PLANNED = Ending(outcome="Planned", reason="Planned", plan=PLAN)

SAID = ProgressSummary(
    phase="Snapshot", step="Copy", percent=40, rows_total=4000, rows_done=1600, rows_filtered=60, splits_total=10, splits_done=4, rows_per_second=321,
    lag_versions=3, lag_records=5, lag_seconds=17, eta="2030-01-01T00:00:00Z", reason="held back by the limit", last_commit_time="2026-01-01T00:00:00Z",
    epoch=77, steps=(StepProgress(name="Copy", state="Running", seconds=4, seconds_left=6),),
    watermark=Watermark(column="at", direction="Descending", value="2026-03-01"),
    bad_records=3, writer_conflicts=2,
    position="rows down to at = 2026-03-01, id = 5",
    changes_done=12, consumed_version=7, head_version=10, eta_seconds=90, eta_seconds_low=60, eta_seconds_high=200,
    warnings=("the source deletes changes soon",), warning_codes=("RetentionEnding",), seal_ms_p50=150, seal_ms_p99=1300,
    limit=LimitInForce(rows_per_second=500, bytes_per_second=7, until="2030-01-01T00:00:00Z", origin="Command", revision=3),
    partitions=(PartitionProgress(partition="day=2026-11-01", rows_done=1, rows_total=9, files_done=1, files_total=2),),
    grid=(100,) * 20 + (40,) + (0,) * 43, max_in_flight=6, split_target_seconds=8, chunk_rows=900, executors=3,
    refresh=RefreshProgress(start="2026-01-01T00:00:00Z", from_version=5, from_position="version 5"),
)  # fmt: skip


def words(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def planned(rig):
    """Create a Backfill with `approval: Manual`, and wait for its plan."""
    rig.create(approval="Manual")
    await rig.until(lambda: rig.double())
    assert rig.store.get("pods", *rig.driver())["metadata"]["labels"][KIND_LABEL] == "Plan"
    rig.kubelet.finish(rig.driver(), ending=PLANNED)
    await rig.until_phase("AwaitingApproval")


def alive(rig):
    return [name for name, phase in rig.pods().items() if phase not in ("Succeeded", "Failed")]


class TestManualApproval:
    async def test_plan_is_shown_and_no_driver_runs(self, rigs):
        """A user reads the plan before any row is written; a plan is not a failure and not a driver."""
        async with rigs() as rig:
            await planned(rig)

            assert {name: rig.status()["plan"][name] for name in words(PLAN)} == words(PLAN)
            assert rig.status().get("failures", 0) == 0
            assert rig.status()["history"][0]["kind"] == "Plan"
            await rig.until(lambda: alive(rig) == [])
            await rig.still(lambda: alive(rig) == [] and rig.attempt() == 1, for_s=1)

    async def test_approved_plan_runs(self, rigs):
        """The next attempt has a working driver, and the plan stays for comparison."""
        async with rigs() as rig:
            await planned(rig)
            rig.edit(approved=True)
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))

            assert rig.store.get("pods", *rig.driver(attempt=2))["metadata"]["labels"][KIND_LABEL] == "Run"
            assert alive(rig) == ["orders-2-driver"]
            assert rig.status()["plan"]["rows"] == 4000

    async def test_approval_beforehand_needs_no_plan(self, rigs):
        """A user who approves in advance wants no plan."""
        async with rigs() as rig:
            rig.create(approval="Manual", approved=True)
            await rig.until_holds("Running")

            assert rig.store.get("pods", *rig.driver(attempt=rig.attempt()))["metadata"]["labels"][KIND_LABEL] == "Run"

    async def test_edit_makes_a_new_plan_that_needs_approval(self, rigs):
        """An approved plan could run with a later spec."""
        async with rigs(allowed_images=("localhost/other:1",)) as rig:
            await planned(rig)
            old = rig.status()["planOf"]
            rig.edit(spark={"image": "localhost/other:1"}, approved=True)
            await rig.until(lambda: rig.double(attempt=2))
            assert rig.condition("Ready") == ("False", "PlanOutdated")
            assert rig.store.get("pods", *rig.driver(attempt=2))["metadata"]["labels"][KIND_LABEL] == "Plan"
            rig.kubelet.finish(rig.driver(attempt=2), ending=PLANNED)
            await rig.until_phase("AwaitingApproval")
            await rig.until(lambda: alive(rig) == [])
            await rig.still(lambda: alive(rig) == [] and rig.attempt() == 2, for_s=1)
            await rig.until(lambda: rig.events().count("PlanOutdated") == 1)
            assert rig.status()["planOf"] != old
            rig.edit(approvedPlan=rig.status()["planOf"])
            await rig.until(lambda: rig.attempt() == 3 and rig.holds("Running"))

            [container] = rig.store.get("pods", *rig.driver(attempt=3))["spec"]["containers"]
            assert container["image"] == "localhost/other:1"

    async def test_approval_of_an_old_plan_launches_no_driver(self, rigs):
        """The condition contains the value that its author must set."""
        async with rigs() as rig:
            await planned(rig)
            rig.edit(approvedPlan="0" * 16)
            await rig.until(lambda: "another plan" in str(rig.status()["conditions"]))
            await rig.still(lambda: alive(rig) == [] and rig.attempt() == 1, for_s=1)
            assert rig.phase() == "AwaitingApproval"

    async def test_plan_is_not_made_twice_if_the_operator_dies(self, rigs):
        """The next operator reads the pod's last message."""
        async with rigs() as rig:
            rig.create(approval="Manual")
            await rig.until(lambda: rig.double())
            rig.kill()
            rig.kubelet.finish(rig.driver(), ending=PLANNED)
            rig.start()
            await rig.until_phase("AwaitingApproval")

            assert rig.status()["plan"]["rows"] == 4000
            assert rig.attempt() == 1

    async def test_failed_plan_is_reported_as_a_failure(self, rigs):
        """A missing source is the same error before and after an approval."""
        async with rigs() as rig:
            rig.create(approval="Manual")
            await rig.until(lambda: rig.double())
            ending = Ending(outcome="Failed", reason="SourceNotFound", message="no table at /data/a")
            rig.kubelet.finish(rig.driver(), exit_code=20, ending=ending)
            await rig.until_phase("Failed")

            assert "no table at /data/a" in str(rig.status()["conditions"])


class TestProgress:
    @pytest.mark.parametrize("field", sorted(words(SAID)))
    def test_each_field_of_progress_is_reported(self, field):
        """A field with its default value would prove nothing in the next test."""
        assert words(SAID)[field] != words(ProgressSummary()).get(field)
        assert set(words(SAID)) == {field.alias for field in ProgressSummary.model_fields.values()}

    async def test_all_progress_reaches_the_status(self, rigs):
        """Percent, rows, rate, lag, ETA, epoch, reason: a real server silently drops fields that are not in the CRD."""
        async with rigs(double={"silent": True}) as rig:
            rig.create()
            await rig.until_holds("Running")
            double = rig.double()
            values = {name: getattr(SAID, name) for name in ProgressSummary.model_fields}
            double.progress = double.progress.model_copy(update=values)
            await rig.until(lambda: rig.progress().get("percent") == SAID.percent)

            assert rig.progress() == words(SAID)
