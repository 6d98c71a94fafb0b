"""A job that reads the newest rows first: at each commit the target has the rows of its watermark, and no row is lost."""

import pytest
from deltalake import DeltaTable, QueryBuilder
from support.tables.jobs import job, make_orders
from support.tables.oracle import rows_in, seals, violations

from backfill_core.errors import InvalidSpecError
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.plan import plan_job
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

ROWS, FILES = 600, 15


def ids_of(target, version):
    result = QueryBuilder().register("t", DeltaTable(target, version=version)).execute("SELECT id FROM t").read_all()
    return set(result["id"].to_pylist())


class TestTheOrderOfHistory:
    """`order: {column: id}`, with a limit that makes the order visible."""

    def test_the_target_has_the_rows_of_its_watermark(self, spark, tmp_path):
        """delta-rs checks each commit. Then the order is reversed in the middle, and no row is lost."""
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        make_orders(spark, source, ROWS, files=FILES)
        settings = DriverSettings(cores=2, state_dir=tmp_path / "state")
        marks: set[tuple[int, str, int]] = set()
        stop = StopSignal()

        def collect(progress):
            mark = progress.watermark
            if mark is not None and progress.table_version is not None:
                marks.add((progress.table_version, mark.direction, int(mark.value)))
            if marks:
                stop.ask(force=False)

        def spec(direction):
            return job(
                source, target,
                strategy={"snapshot": {"order": {"column": "id", "direction": direction}}},
                throttle={"rowsPerSecond": 120}, barrier={"intervalMs": 500}, verify="Final",
            )  # fmt: skip

        first = run_driver(spec("Descending"), settings=settings, spark=spark, observe=collect, stop=stop)
        second = run_driver(spec("Ascending"), settings=settings, spark=spark, observe=collect)

        assert (first.outcome, second.outcome, second.message) == ("Stopped", "Complete", "")
        assert second.receipt.equal
        assert {direction for _, direction, _ in marks} == {"Descending", "Ascending"}
        for version, direction, mark in marks:
            beyond = set(range(mark + 1, ROWS)) if direction == "Descending" else set(range(mark))
            assert beyond <= ids_of(target, version), (version, direction, mark)
        assert [violation for seal in seals(target) for violation in violations(source, target, seal)] == []
        assert rows_in(target) == ROWS

    def test_a_plan_shows_the_order(self, spark, tmp_path):
        """Before the start, a user sees if the order will show in the target."""
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        make_orders(spark, source, ROWS, files=FILES)

        def plan(column, source=source):
            return plan_job(
                job(source, target, strategy={"snapshot": {"order": {"column": column}}}),
                settings=DriverSettings(cores=2), spark=spark,
            )  # fmt: skip

        clustered, scattered = plan("id"), plan("customer")

        assert (clustered.order.overlap_percent, clustered.order.files_unknown) == (0, 0)
        assert "OrderWeak" not in {warning.reason for warning in clustered.warnings}
        assert scattered.order.overlap_percent == 100
        assert "OrderWeak" in {warning.reason for warning in scattered.warnings}
        untold = str(tmp_path / "untold")
        make_orders(spark, untold, 10, files=2, **{"delta.dataSkippingNumIndexedCols": "1"})
        (unknown,) = [warning for warning in plan("customer", untold).warnings if warning.reason == "OrderUnknown"]
        assert "no minimum and maximum of customer for 2 of 2 files" in unknown.message
        assert "delta.dataSkippingStatsColumns" in unknown.hint
        with pytest.raises(InvalidSpecError, match=r"spec\.strategy\.snapshot\.order\.column names 'idd'"):
            plan("idd")
