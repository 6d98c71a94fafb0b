"""Values that display themselves: five lines as text, HTML in a notebook."""

import pytest
from support.tables.jobs import document

from backfill import Backfill, Outcome, Plan, Progress, Receipt
from backfill.status import of_running
from backfill_api.status.plan import Plan as PlanOfApi
from backfill_api.status.plan import PlannedStep, PlannedTarget, PlanWarning
from backfill_api.status.receipt import Receipt as ReceiptOfApi
from backfill_api.status.source_head import SourceHead

PROGRESS = Progress(
    attempt=1, epoch=3, phase="Live", percent=100, rows_total=98_000_000, rows_done=97_990_215, rows_filtered=9785, changes_done=2,
    consumed_version=412, table_version=96, finished=True,
)  # fmt: skip
HEAD = SourceHead(version=415, position="version 415", behind=3, committed_at="2026-11-21T12:30:00Z", age_seconds=41)


@pytest.fixture
def job():
    """A job that nothing runs."""
    return Backfill.of(document("s3a://here/orders", "s3a://there/orders", throttle={"rowsPerSecond": 20_000}))


@pytest.fixture
def receipt():
    """A receipt of equal tables."""
    return Receipt.of(
        ReceiptOfApi(
            source_version=412, source_position="version 412", target_version=94, epoch=9, rows=97_990_215, vnodes=256,
            digest="ab" * 32, seconds=9.5, rows_filtered=9785,
        )
    )  # fmt: skip


@pytest.fixture
def plan(job):
    """A plan with a warning."""
    plan = PlanOfApi(
        rows=3_000_000, bytes=210_000_000, files=16, splits=20, estimated_seconds=48, estimated_seconds_low=31,
        estimated_seconds_high=65, key_columns=("order_id",), target=PlannedTarget(columns="order_id bigint, amount bigint"),
        steps=(PlannedStep(name="Start", seconds=9), PlannedStep(name="Copy", seconds=30)),
        warnings=(PlanWarning(reason="ShortRetention", message="it is short.", hint="Raise it."),),
    )  # fmt: skip
    return Plan.of(plan, job.job_id, job.spec)


class TestFiveLines:
    """`print` shows what a user asks first, instead of a raw object with 64 times `100` (fault U17)."""

    def test_a_job_shows_its_tables_and_settings(self, job):
        """The next line of the session may run it."""
        shown = str(job).splitlines()

        assert len(shown) == 5
        for fact in (
            "default/job",
            "s3a://here/orders",
            "s3a://there/orders",
            "20,000 rows/s; at most 2 pieces at a time",
        ):
            assert any(fact in line for line in shown)

    def test_a_plan_shows_its_size_time_and_warnings(self, plan):
        """Each of them may stop a user from running it."""
        assert str(plan).splitlines() == [
            "plan of default/job: s3a://here/orders → s3a://there/orders",
            "rows      3,000,000 in 16 files, 210.0 MB, key order_id",
            "target    will be created, columns order_id bigint, amount bigint",
            "time      about 48 s (31 s to 1 min 5 s): start 9 s ─ copy 30 s",
            "warnings  ShortRetention: it is short.",
        ]

    def test_a_plan_names_a_table_that_is_source_and_target_once(self, plan):
        """A job fills columns of its own source, so an arrow between equal paths tells nothing."""
        filled = Backfill.of(document("s3a://here/orders", "s3a://here/orders"))

        shown = Plan.of(plan, filled.job_id, filled.spec)

        assert str(shown).splitlines()[0] == "plan of default/job: s3a://here/orders"
        assert shown._repr_html_().count("s3a://here/orders") == 1

    def test_a_receipt_shows_verdict_rows_and_versions(self, receipt):
        """It is the proof."""
        assert str(receipt).splitlines() == [
            "receipt   ✔ source and target are equal",
            "rows      97,990,215, 9,785 filtered out",
            "compared  source version 412, target version 94",
            "proof     256 vnodes, digest abababababababab",
            "took      9.5 s",
        ]

    def test_an_outcome_names_newer_versions_of_the_source(self, receipt):
        """`equal` is not true of the newest version (fault U1)."""
        outcome = Outcome("Complete", "Complete", "", PROGRESS, receipt, HEAD, 1082.0)

        assert str(outcome).splitlines() == [
            "outcome  ✔ complete in 18 min 2 s",
            "rows     97,990,215 of 98,000,000 rows, 9,785 filtered out; 2 changes applied",
            "source   version 412; the source is at version 415 now (3 versions, the newest 41 s old, not copied)",
            "target   version 96",
            "receipt  source and target are equal",
        ]

    def test_a_stopped_outcome_shows_its_reason(self):
        """It is not complete, and its message shows why."""
        outcome = Outcome("Stopped", "Stopped", "stopped at a barrier", None, None)

        assert str(outcome).splitlines() == ["outcome  ■ stopped: stopped at a barrier", "receipt  none"]

    def test_a_status_shows_the_block(self):
        """The block of a screen of five lines."""
        running = PROGRESS.model_copy(update={"finished": False, "percent": 61, "rows_per_second": 82_410})
        shown = str(of_running("default/job", running, None)).splitlines()

        assert len(shown) <= 5
        assert shown[0].startswith("default/job  ▶ following changes  61 %")


class TestHtml:
    """A value as the last line of a cell."""

    def test_each_value_has_html(self, job, plan, receipt):
        """The text of the block is in it."""
        outcome = Outcome("Complete", "Complete", "", PROGRESS, receipt, HEAD)
        status = of_running("default/job", PROGRESS, receipt)
        for value, fact in (
            (job, "s3a://here/orders"), (plan, "ShortRetention"), (receipt, "vnodes in 256 parts:"), (outcome, "<summary>receipt</summary>"),
            (status, "97,990,215 of 98,000,000 rows"),
        ):  # fmt: skip
            assert fact in value._repr_html_()

    def test_plans_and_receipts_are_still_those_of_the_api(self, plan, receipt):
        """Programs read the same JSON, and `isinstance` holds."""
        assert isinstance(plan, PlanOfApi)
        assert isinstance(receipt, ReceiptOfApi)
        assert ReceiptOfApi.model_validate_json(receipt.model_dump_json(by_alias=True)).rows == 97_990_215
        assert "jobId" not in plan.model_dump_json(by_alias=True)
