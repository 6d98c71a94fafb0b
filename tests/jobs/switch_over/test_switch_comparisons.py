"""A comparison of a switch-over reads only changed files, finds damage in them, and otherwise reads everything and says why."""

from dataclasses import replace

import pytest
from support.drivers.background import Running
from support.switch_over.names import ids_in
from support.tables import other_engine
from support.tables.jobs import document, make_orders
from support.tables.oracle import opened

from backfill_api.load import load_backfill
from backfill_core.switch_over.coverage import GONE, Everything, OnlyChanges
from backfill_spark.driver.job_context import JobContext
from backfill_spark.settings import DriverSettings
from backfill_spark.switch_over.comparisons import Comparisons


def files_of(table, version):
    """Return the files of a version, as delta-rs reads the log."""
    return set(opened(table, version).file_uris())


def changed(table, first, last):
    """Return the number of files that only one of two versions has."""
    return len(files_of(table, first) ^ files_of(table, last))


@pytest.fixture
def followed(spark, tmp_path):
    """Return a job whose state has a receipt, and whose target then got later changes of the source."""
    source, target = str(tmp_path / "orders"), str(tmp_path / "orders_v2")
    make_orders(spark, source, 100, files=4)
    job = load_backfill(document(source, target, after="Follow", barrier={"intervalMs": 200}))
    with Running(spark, job, tmp_path / "state") as running:
        running.until(lambda progress: progress.caught_up)
        running.command("Verify")
        running.until(lambda _: running.receipt() is not None)
        other_engine.insert(source, "SELECT * REPLACE (CAST(5000 AS BIGINT) AS id) FROM now LIMIT 1")
        other_engine.delete(source, "id = 7")
        newest = opened(source).version()
        running.until(lambda progress: (progress.consumed_version or 0) >= newest)
        running.command("Stop")
    with JobContext.open(job, DriverSettings(state_dir=tmp_path / "state"), command="switch", spark=spark) as context:
        yield context, source, target


class TestAComparison:
    def test_reads_the_changed_files_and_finds_damage_in_them_alone(self, spark, followed):
        """Files that changed before the receipt, and did not change since, are covered by it."""
        context, source, target = followed

        with Comparisons(context, lambda: None) as comparisons:
            second = comparisons.while_following()
            first = second.earlier
            assert isinstance(first.coverage, OnlyChanges), first.describe()
            assert second.changes.source.count == second.changes.target.count == 0
            base = first.coverage.base
            spark.sql(f"UPDATE delta.`{target}` SET note = 'x' WHERE id = 5")
            damaged = comparisons.of_fenced(first.receipt.source_version, first)
            spark.sql(f"RESTORE delta.`{target}` TO VERSION AS OF {first.receipt.target_version}")
            restored = comparisons.of_fenced(first.receipt.source_version, first)
            whole = comparisons.of_fenced(first.receipt.source_version, None)

        assert first.receipt.equal
        assert first.receipt.rows == len(ids_in(source)) == 100
        versions = (base.source_version, first.receipt.source_version)
        assert first.changes.source.count == changed(source, *versions) > 0
        # Paths alone: a file whose deletion vector changed keeps its path.
        assert first.changes.target.count >= changed(target, base.target_version, first.receipt.target_version) > 0
        assert sorted(ids_in(target)) == sorted(ids_in(source))
        assert f"the receipt of version {base.source_version} covers all others" in first.describe()[0]
        assert isinstance(damaged.coverage, OnlyChanges)
        assert len(damaged.receipt.mismatches) == 1
        assert restored.receipt.equal
        assert (whole.receipt.equal, whole.receipt.rows, whole.changes) == (True, 100, None)

    def test_is_of_everything_if_the_receipt_is_of_other_tables_or_files_are_gone(self, spark, followed):
        """The output contains the reason."""
        context, source, target = followed

        with Comparisons(context, lambda: None) as comparisons:
            first = comparisons.while_following()
            version, basis = first.receipt.source_version, first.receipt.basis
            others = [
                comparisons.of_fenced(version, replace(first, receipt=replace(first.receipt, basis=other)))
                for other in (replace(basis, target_id="x"), replace(basis, transform="x"), None)
            ]
            spark.sql(f"VACUUM delta.`{source}` RETAIN 0 HOURS")
            gone = comparisons.while_following()

        reasons = ["the target was created again", "the transform changed", "the last receipt does not name its tables"]
        assert all(reason in other.describe()[-1] for other, reason in zip(others, reasons, strict=True))
        assert all(other.receipt.equal and other.receipt.rows == 100 for other in others)
        assert gone.earlier.coverage == Everything(GONE)
        assert gone.receipt.equal
        assert len(ids_in(target)) == 100
