"""Arrangement on real tables, with delta-rs as the reader.

At each commit the target has the rows up to the position, as of the consumed version.
"""

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder
from support.reference.arrangement import Key
from support.tables import other_engine
from support.tables.jobs import job, make_kind, make_orders
from support.tables.oracle import adds_of, seals, violations

from backfill_core.errors import InvalidSpecError
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.plan import plan_job
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def rows_of(table, version=None):
    """Return the rows of a version, as tuples of values that Python compares."""
    result = QueryBuilder().register("t", DeltaTable(table, version=version)).execute("SELECT * FROM t").read_all()
    return [*zip(*(result[name].to_pylist() for name in result.column_names), strict=True)]


def plain(value):
    """Return a value of a column as a state stores it."""
    match value:
        case dt.datetime():
            return round((value - EPOCH).total_seconds() * 1_000_000)
        case dt.date():
            return (value - EPOCH.date()).days
        case Decimal():
            return str(value)
        case bytes():
            return value.hex()
        case float():
            return math.inf if math.isnan(value) else value
        case "nan":
            return math.inf
        case _:
            return value


def wrong_seals(source, target, key):
    """Return the commits at which the target differs from its state (R-ARR-42); all vnodes share one position here."""
    wrong = []
    for seal in seals(target):
        state = seal.progress
        (run,) = state["positions"]
        rows = rows_of(source, state["consumed"])
        if len(run) == 1:
            rows = []
        elif run[1] != "Completed":
            columns = key.columns
            at = key.order(tuple(map(plain, run[1])))
            rows = [row for row in rows if key.order(tuple(plain(row[column]) for column in columns)) <= at]
        if sorted(map(str, rows_of(target, seal.version))) != sorted(map(str, rows)):
            wrong.append((seal.version, state["consumed"], run))
    return wrong


@pytest.fixture
def run(spark, tmp_path):
    """Run a job on `s` to its end; a writer changes the source after the first chunk, statement by statement."""

    def go(*changes, chunk_rows=20, stop=None, target=None, transform=None, limit=None, **arrangement):
        waiting, seen = list(changes), set()

        def change(progress):
            if waiting and progress.rows_done and progress.table_version not in seen:
                seen.add(progress.table_version)
                waiting.pop(0)()

        backfill = job(
            str(tmp_path / "s"), str(tmp_path / "t"), verify="Final", barrier={"intervalMs": 200},
            strategy={"type": "Arrangement", "arrangement": {"chunkRows": chunk_rows, **arrangement}},
            target=target or {}, transform=transform or {}, throttle={"rowsPerSecond": limit} if limit else {},
        )  # fmt: skip
        settings = DriverSettings(cores=2, state_dir=tmp_path / "state")
        outcome = run_driver(backfill, settings=settings, spark=spark, observe=change, stop=stop)
        assert not waiting
        return outcome

    return go


class TestALiveTable:
    """Rows appear while history is read, and stay right."""

    def test_a_live_table_is_right_at_every_commit(self, spark, tmp_path, run):
        """R-ARR-13, 17, 18, 24, 42: inserts, updates and deletes on both sides of the position; the receipt is equal."""
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        make_orders(spark, source, 100, files=5)

        outcome = run(
            lambda: other_engine.update(source, "id IN (1, 90)", amount="amount + 1"),
            lambda: (other_engine.delete(source, "id IN (2, 91)"),),
            lambda: other_engine.insert(source, "SELECT * REPLACE (id + 1000 AS id) FROM now WHERE id < 3"),
            limit=20,
        )

        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert outcome.receipt.equal
        assert wrong_seals(source, target, Key((0,))) == []
        states = [seal.progress for seal in seals(target)]
        rounds = [state for state in states if state["merging"] and state["phase"] == "Reading"]
        assert rounds
        assert max(state["chunks"] for state in states) >= 5
        assert sorted(map(str, rows_of(target))) == sorted(map(str, rows_of(source)))

    @pytest.mark.parametrize("readers", [1, 2])
    def test_a_reader_leaves_a_core_to_changes(self, spark, tmp_path, run, readers):
        """A range is read with its share of the cores: each core has one task, and each task writes one file."""
        make_orders(spark, str(tmp_path / "s"), 100, files=8)

        outcome = run(chunk_rows=1000, maxInFlight=readers)

        assert outcome.receipt.equal
        assert len(adds_of(tmp_path / "t")) == spark.sparkContext.defaultParallelism // readers

    def test_a_changing_order_column_is_right_at_every_commit(self, spark, tmp_path, run):
        """R-ARR-7, 17: an update moves a row across the position; the largest are read first, ties by the key."""
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        make_orders(spark, source, 100, files=2)
        key = Key((2, 0), (True, False))

        outcome = run(
            lambda: other_engine.update(source, "id IN (1, 98)", amount="100 - amount"),
            lambda: other_engine.update(source, "id IN (50, 99)", amount="99 - amount"),
            orderBy=[{"column": "amount", "direction": "Descending"}], chunk_rows=30, maxReadAmplification=100,
        )  # fmt: skip

        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert outcome.receipt.equal
        assert wrong_seals(source, target, key) == []
        assert sorted(map(str, rows_of(target))) == sorted(map(str, rows_of(source)))


class TestAKeyThatComesTwice:
    """A key is doubled after the start, behind the position.

    An Upsert target never has both rows as complete (fault D6).
    """

    @pytest.mark.parametrize(
        "order",
        [pytest.param({}, id="by-the-key"), pytest.param({"orderBy": [{"column": "amount"}]}, id="by-another-column")],
    )
    def test_a_doubled_key_ends_the_job_by_name(self, spark, tmp_path, run, order):
        """With the order of the key both rows are in one range. With another order the target already has the first."""
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        make_orders(spark, source, 100, files=2)
        first = "id = 90" if not order else "amount = (SELECT min(amount) FROM now) LIMIT 1"

        outcome = run(
            lambda: other_engine.insert(source, f"SELECT * REPLACE (amount + 100000 AS amount) FROM now WHERE {first}"),
            limit=20, maxReadAmplification=100, **order,
        )  # fmt: skip

        assert (outcome.outcome, outcome.reason) == ("Failed", "KeyNotUnique"), outcome.message
        assert "(id) is not unique" in outcome.message
        assert not any(seal.state["finished"] for seal in seals(target))


class TestKinds:
    """Tests with columns and tables of all kinds."""

    def test_order_columns_of_each_kind_are_right(self, spark, tmp_path, run):
        """R-ARR-7, 28: NULL, NaN, bytes, dates, decimals and timestamps, in both directions.

        Each commit has a position of all columns.
        """
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        spark.range(0, 40, 1, 3).selectExpr(
            "id",
            "element_at(array(0.5D, double('nan'), -0.0D, null), cast(id % 4 + 1 AS int)) AS ratio",
            "if(id % 5 = 0, null, unhex(if(id % 3 = 0, '80', '7f'))) AS code",
            "if(id % 7 = 0, null, timestamp_micros(1772323200000000 + id % 3)) AS at",
            "cast(if(id % 6 = 0, null, id % 2) + 0.25 AS decimal(20,2)) AS price",
            "date_add(date'1969-12-31', cast(id % 2 AS int)) AS day",
            "element_at(array('Z', 'a', 'é'), cast(id % 3 + 1 AS int)) AS name",
        ).write.format("delta").save(source)
        down = {"ratio": True, "code": False, "at": True, "price": False, "day": True, "name": False}
        order = [{"column": name, "direction": "Descending" if desc else "Ascending"} for name, desc in down.items()]

        outcome = run(chunk_rows=7, orderBy=order)

        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert wrong_seals(source, target, Key((1, 2, 3, 4, 5, 6, 0), (*down.values(), False))) == []
        assert len({str(seal.progress["positions"]) for seal in seals(target)}) >= 5

    def test_a_column_that_was_widened_to_double_orders_the_rows_exactly(self, spark, tmp_path, run):
        """Readers see 0.10000000149011612 where the statistics of an older file have 0.1: no file excludes its own rows."""
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        widens = "'delta.enableTypeWidening' = 'true', 'delta.enableChangeDataFeed' = 'true'"
        spark.sql(f"CREATE TABLE delta.`{source}` (id LONG, f FLOAT) USING delta TBLPROPERTIES ({widens})")
        for first in (0, 20, 40):
            spark.sql(
                f"INSERT INTO delta.`{source}` SELECT id, CAST(id / 10 AS FLOAT) FROM range({first}, {first + 20}, 1, 1)"
            )
        spark.sql(f"ALTER TABLE delta.`{source}` ALTER COLUMN f TYPE DOUBLE")

        outcome = run(chunk_rows=7, orderBy=[{"column": "f"}])

        rows, copied = (spark.read.format("delta").load(path).collect() for path in (source, target))
        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert sorted(copied) == sorted(rows)

    def test_a_table_with_deleted_rows_is_copied_in_two_attempts(self, spark, tmp_path, run):
        """R-ARR-9, 35, 38: stopped under a limit, the job resumes after its last row."""
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        make_kind(spark, source, "deleted")
        stop = StopSignal()

        first = run(lambda: stop.ask(force=False), stop=stop, chunk_rows=1000, limit=150)
        second = run(chunk_rows=500)

        assert (first.outcome, second.outcome, second.message) == ("Stopped", "Complete", "")
        assert wrong_seals(source, target, Key((0,))) == []
        assert 0 < seals(target)[-1].progress["rowsRead"] == 800

    def test_a_changelog_of_a_partitioned_source_is_right(self, spark, tmp_path, run):
        """R-ARR-17: a changelog, of a partitioned source, under a filter; replayed it is the filtered source."""
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        make_kind(spark, source, "partitioned")
        spark.sql(f"ALTER TABLE delta.`{source}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")

        outcome = run(
            lambda: spark.sql(f"UPDATE delta.`{source}` SET part = 3 - part WHERE id % 300 < 3"),
            chunk_rows=300, orderBy=[{"column": "part", "direction": "Descending"}], maxReadAmplification=100,
            target={"writeMode": "Changelog"}, transform={"where": "id % 2 = 0"},
        )  # fmt: skip

        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert outcome.receipt.equal
        (last,) = [seal for seal in seals(target) if seal.state["finished"]]
        assert violations(source, target, last, "SELECT * FROM source WHERE id % 2 = 0") == []


class TestOldFiles:
    """The job needs no old version of the source."""

    def test_old_files_may_be_removed_during_the_run(self, spark, tmp_path, run):
        """Data files of all versions but the newest are removed as soon as there is one; the change feed stays."""
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        make_orders(spark, source, 100, files=5)

        def rewrite():
            other_engine.update(source, "id % 3 = 1", amount="amount + 1")
            kept = {Path(uri).name for uri in DeltaTable(source).file_uris()}
            for file in Path(source).glob("*.parquet"):
                if file.name not in kept:
                    file.unlink()

        # Slow enough for both while rows are read: a receipt needs the files of its version.
        outcome = run(rewrite, rewrite, limit=20)

        assert outcome.message == ""
        assert outcome.outcome == "Complete"
        assert sorted(map(str, rows_of(target))) == sorted(map(str, rows_of(source)))


class TestBeforeTheStart:
    """Slow or wrong settings are reported before the first write."""

    @pytest.fixture
    def plan(self, spark, tmp_path):
        make_orders(
            spark, str(tmp_path / "s"), 100, files=5, **{"delta.deletedFileRetentionDuration": "interval 1 seconds"}
        )

        def go(source=None, **arrangement):
            strategy = {"type": "Arrangement", "arrangement": arrangement}
            spec = job(str(tmp_path / "s"), str(tmp_path / "t"), source=source or {}, strategy=strategy)
            return plan_job(spec, settings=DriverSettings(cores=2), spark=spark)

        return go

    def test_a_plan_shows_its_costs(self, plan):
        """A user chooses this strategy because it keeps no version, so the plan requires no retention."""
        planned = plan()

        assert planned.read_amplification_percent == 100
        assert {warning.reason for warning in planned.warnings} & {"RetentionShort", "KeyUnproven"} == set()

    def test_bad_input_is_refused_by_name(self, plan):
        """The error has the field and a hint."""
        with pytest.raises(InvalidSpecError, match=r"spec\.strategy\.arrangement\.orderBy names 'amout'") as refused:
            plan(orderBy=[{"column": "amout"}])
        assert "amount" in refused.value.hint
        with pytest.raises(InvalidSpecError, match=r"spec\.source\.delta names version 0"):
            plan(source={"version": 0})
