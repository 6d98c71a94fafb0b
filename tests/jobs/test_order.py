"""A job that reads the newest rows first: what it says is there is there, at each commit, and nothing is lost by the order."""

import pytest
from deltalake import DeltaTable, QueryBuilder
from support.tables.jobs import job, make_orders
from support.tables.oracle import rows_in, seals, violations

from backfill_core.errors import InvalidSpecError
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.plan import plan_job
from backfill_spark.settings import DriverSettings
from backfill_spark.stop_signal import StopSignal

ROWS, FILES = 600, 15


def ids_of(target, version):
    found = QueryBuilder().register("t", DeltaTable(target, version=version)).execute("SELECT id FROM t").read_all()
    return set(found["id"].to_pylist())


class TestTheOrderOfHistory:
    """`order: {column: id}`, under a limit that lets the order show."""

    def test_holds_what_the_watermark_says(self, spark, tmp_path):
        """Seen at each commit, by delta-rs; then the order is turned round in the middle, and nothing is lost."""
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        make_orders(spark, source, ROWS, files=FILES)
        settings = DriverSettings(cores=2, state_dir=tmp_path / "state")
        told: set[tuple[int, str, int]] = set()
        stop = StopSignal()

        def look(progress):
            mark = progress.watermark
            if mark is not None and progress.table_version is not None:
                told.add((progress.table_version, mark.direction, int(mark.value)))
            if len(told) == 2:
                stop.ask(force=False)

        def spec(direction):
            return job(
                source, target,
                strategy={"snapshot": {"order": {"column": "id", "direction": direction}}},
                throttle={"rowsPerSecond": 120}, barrier={"intervalMs": 500}, verify="Final",
            )  # fmt: skip

        first = run_driver(spec("Descending"), settings=settings, spark=spark, observe=look, stop=stop)
        second = run_driver(spec("Ascending"), settings=settings, spark=spark, observe=look)

        assert (first.outcome, second.outcome, second.message) == ("Stopped", "Complete", "")
        assert second.receipt.equal
        assert {direction for _, direction, _ in told} == {"Descending", "Ascending"}
        for version, direction, mark in told:
            beyond = set(range(mark + 1, ROWS)) if direction == "Descending" else set(range(mark))
            assert beyond <= ids_of(target, version), (version, direction, mark)
        assert [words for seal in seals(target) for words in violations(source, target, seal)] == []
        assert rows_in(target) == ROWS

    def test_is_told_by_the_plan(self, spark, tmp_path):
        """A user sees before the start whether the order will show."""
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        make_orders(spark, source, ROWS, files=FILES)

        def plan(column, source=source):
            return plan_job(
                job(source, target, strategy={"snapshot": {"order": {"column": column}}}),
                settings=DriverSettings(cores=2), spark=spark,
            )  # fmt: skip

        clustered, scattered = plan("id"), plan("customer")

        assert (clustered.order.overlap_percent, clustered.order.files_unknown) == (0, 0)
        assert "OrderWeak" not in {one.reason for one in clustered.warnings}
        assert scattered.order.overlap_percent == 100
        assert "OrderWeak" in {one.reason for one in scattered.warnings}
        untold = str(tmp_path / "untold")
        make_orders(spark, untold, 10, files=2, **{"delta.dataSkippingNumIndexedCols": "1"})
        (unknown,) = [one for one in plan("customer", untold).warnings if one.reason == "OrderUnknown"]
        assert "no minimum and maximum of customer for 2 of 2 files" in unknown.message
        assert "delta.dataSkippingStatsColumns" in unknown.hint
        with pytest.raises(InvalidSpecError, match=r"spec\.strategy\.snapshot\.order\.column names 'idd'"):
            plan("idd")
