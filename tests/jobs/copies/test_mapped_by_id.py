"""A source that maps its columns by id: its files may have any names for columns, and are read by their ids (fault D12)."""

import json
from pathlib import Path

import pytest
from support.sessions.callers import callers_session
from support.tables.foreign_files import write_file
from support.tables.jobs import document, job
from support.tables.oracle import differences

from backfill import Backfill, Settings
from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.gateway import java
from backfill_spark.settings import DriverSettings

ROWS = 40
NAMES_ALONE = {"spark.sql.parquet.fieldId.read.enabled": "false", "spark.sql.parquet.fieldId.write.enabled": "false"}
"""Settings of a session in which Spark reads and writes no ids of columns."""

FOREIGN = "message table { optional binary old_note (UTF8) = 2; optional int64 old_id = 1; }"


def make_source(spark, path):
    """Make a table, and rewrite its file as that of an imported table: the columns have other names and the same ids."""
    properties = "'delta.columnMapping.mode' = 'id', 'delta.enableChangeDataFeed' = 'true'"
    spark.sql(f"CREATE TABLE delta.`{path}` (id LONG, note STRING) USING delta TBLPROPERTIES ({properties})")
    spark.range(0, ROWS, 1, 1).selectExpr("id", "concat('n', id) AS note").write.format("delta").mode("append").save(
        path
    )
    commit = Path(path, "_delta_log", f"{1:020}.json")
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    (added,) = (line["add"] for line in lines if "add" in line)
    file = Path(path, added["path"])
    file.unlink()
    write_file(spark, str(file), FOREIGN, [{"old_id": number, "old_note": f"n{number}"} for number in range(ROWS)])
    added["size"] = file.stat().st_size
    commit.write_text("\n".join(map(json.dumps, lines)) + "\n")
    for sums in commit.parent.glob("*.crc"):  # hidden files, too
        sums.unlink()
    java(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()


class TestSourceMappedById:
    """Its rows arrive as plain Spark reads them, and so do its changes."""

    @pytest.mark.parametrize(
        ("strategy", "source"),
        [("Snapshot", {"version": 1}), ("Snapshot", {}), ("Arrangement", {}), ("RearrangedChain", {})],
        ids=["changes after the pin", "a newest version", "ranges of the key", "a chain"],
    )
    def test_rows_and_changes_arrive(self, spark, tmp_path, strategy, source):
        """Delta reads this setting from the active session of the thread; threads of the product had no such session."""
        orders, target, expected = (str(tmp_path / name) for name in ("s", "t", "expected"))
        make_source(spark, orders)
        spark.sql(f"UPDATE delta.`{orders}` SET note = 'new' WHERE id % 9 = 4")

        backfill = job(orders, target, source=source, strategy={"type": strategy}, verify="Final")
        outcome = run_driver(backfill, settings=DriverSettings(state_dir=tmp_path / "state", cores=2), spark=spark)

        spark.read.format("delta").load(orders).write.format("delta").save(expected)
        assert (outcome.reason, outcome.receipt is not None and outcome.receipt.equal) == ("Complete", True), (
            outcome.message
        )
        assert differences(target, expected) == []

    @pytest.mark.parametrize(
        ("strategy", "built", "own"),
        [("Snapshot", NAMES_ALONE, {}), ("Arrangement", {}, NAMES_ALONE), ("RearrangedChain", NAMES_ALONE, {})],
        ids=["a newest version", "ranges of the key", "a chain"],
    )
    def test_rows_arrive_in_a_callers_session_that_reads_no_ids(self, spark, tmp_path, strategy, built, own):
        """Delta refuses to read such a table in a session with this setting; a job has a session with its own settings."""
        orders, target, expected = (str(tmp_path / name) for name in ("s", "t", "expected"))
        make_source(spark, orders)
        spark.sql(f"UPDATE delta.`{orders}` SET note = 'new' WHERE id % 9 = 4")

        spec = document(orders, target, strategy={"type": strategy}, verify="Final")
        settings = Settings(state_dir=tmp_path / "state", cores=2)
        with callers_session(spark, built, own) as caller:
            outcome = Backfill.of(spec, folder=tmp_path, settings=settings).run(caller, on_progress=lambda _: None)

        spark.read.format("delta").load(orders).write.format("delta").save(expected)
        assert (outcome.state, outcome.receipt.mismatches) == ("Complete", ())
        assert differences(target, expected) == []
