"""A job replaces a part of a table that others write elsewhere, in one commit (ADR 0048)."""

import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from support.endings import assert_ending
from support.publication import added_files
from support.tables.jobs import job

from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.offline_verify import verify_offline
from backfill_spark.driver.plan import plan_job
from backfill_spark.driver.release import release
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

SCOPE = "day >= '2026-01-03' AND day < '2026-01-05'"
DAYS = "SELECT value AS id, arrow_cast(CAST(20454 + value % 6 AS INT), 'Date32') AS day, '{name}' AS name FROM range({rows})"
"""Rows of six days from 2026-01-01 on."""

FEED = "delta.enableChangeDataFeed"


def rows_of(query, path=None, version=None):
    """Return the rows of a query as DataFusion computes them; `t` is the table at a path."""
    builder = QueryBuilder()
    if path is not None:
        builder = builder.register("t", DeltaTable(path, version=version))
    return builder.execute(query).read_all()


def write(path, rows, **options):
    write_deltalake(path, rows, mode="append", **options)


def days(rows, name):
    """Return rows with a key, one of six days and a name."""
    return rows_of(DAYS.format(rows=rows, name=name))


@pytest.fixture
def place(spark, tmp_path):
    """A source with six days of new rows, and a target of delta-rs with the same days of old rows, partitioned by day."""

    class Place:
        source, target = str(tmp_path / "source"), str(tmp_path / "target")
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)

        def make(self, **target):
            write(self.source, days(600, "new"))
            write(self.target, days(600, "old"), **(target or {"partition_by": ["day"]}))

        def backfill(self, **spec):
            target = {"publish": "WhenComplete", "scope": SCOPE, **spec.pop("target", {})}
            shared = {"transform": {"where": SCOPE}, "source": {"key": []}, "target": {"writeMode": "Append", **target}}
            return job(self.source, self.target, **{**shared, **spec})

        def run(self, observe=lambda _: None, stop=None, **spec):
            return run_driver(self.backfill(**spec), settings=self.settings, observe=observe, spark=spark, stop=stop)

        def stopped(self, **spec):
            """Run until a part of the rows is staged, and stop there."""
            stop = StopSignal()
            seen = lambda progress: stop.ask(force=False) if progress.rows_done else None  # noqa: E731
            ended = self.run(seen, stop, throttle={"rowsPerSecond": 60}, **spec)
            assert ended.outcome == "Stopped", ended.message

        def names(self, version=None):
            """Return the number of rows by day and name."""
            rows = rows_of("SELECT day, name, count(*) AS n FROM t GROUP BY day, name", self.target, version)
            days, names, counts = ([value.as_py() for value in rows[name]] for name in ("day", "name", "n"))
            return {(day.day, name): count for day, name, count in zip(days, names, counts, strict=True)}

        def add_theirs(self, day=1):
            """Commit a row of another writer; delta-rs cannot write a table that holds a job's state."""
            spark.sql(f"INSERT INTO delta.`{self.target}` SELECT 7000, DATE'2026-01-0{day}', 'theirs'")

    return Place()


OLD = {(day, "old"): 100 for day in (1, 2, 5, 6)}
REPLACED = OLD | {(3, "new"): 100, (4, "new"): 100}
ALL_OLD = OLD | {(3, "old"): 100, (4, "old"): 100}


class TestAReplacedPart:
    """One commit replaces the rows of the scope; every other row stays."""

    def test_rows_of_the_scope_are_replaced_under_a_writer_elsewhere(self, place):
        """A table of delta-rs, with partitions. The writer outside of the scope is neither refused nor lost."""
        place.make()
        place.stopped(target={"publish": "WhenVerified"}, verify="Final")
        place.add_theirs()
        before, version = place.names(), DeltaTable(place.target).version()

        ended = place.run(target={"publish": "WhenVerified"}, verify="Final")

        assert (ended.outcome, ended.message) == ("Complete", "")
        assert (ended.receipt.equal, ended.receipt.rows) == (True, 200)
        theirs = {(1, "theirs"): 1}
        assert (before, place.names()) == (ALL_OLD | theirs, REPLACED | theirs)
        shown = [at for at in range(DeltaTable(place.target).version() + 1) if place.names(at) == REPLACED | theirs]
        assert place.names(shown[0] - 1) == before
        assert shown[0] > version
        assert len([count for count in added_files(place.target)[version + 1 :] if count]) == 1

    def test_a_released_job_replaces_the_part_again(self, spark, place):
        """Its transaction stays in the log, and its files are rows of the target: the next attempt must use other numbers."""
        place.make()
        assert place.run().outcome == "Complete"
        release(place.backfill(), settings=place.settings, spark=spark)
        write(place.source, rows_of("SELECT id, day, 'newer' AS name FROM t", place.source))

        ended = place.run()

        assert (ended.outcome, ended.message) == ("Complete", "")
        assert place.names() == REPLACED | {(3, "newer"): 100, (4, "newer"): 100}

    def test_a_foreign_row_in_the_scope_ends_the_job_before_anything_is_visible(self, place):
        """Its writer is named, and the rows stay as they were."""
        place.make()
        place.stopped()
        place.add_theirs(day=3)

        refused = place.run()

        assert_ending(refused, "TargetChanged")
        assert "inside of spec.target.delta.scope" in refused.message
        assert "(WRITE by Apache-Spark" in refused.message
        assert place.names() == ALL_OLD | {(3, "theirs"): 1}

    def test_a_row_outside_of_the_scope_ends_the_job_with_the_row(self, place):
        """As `replaceWhere` of Delta: a filter would hide a mistake in the transform."""
        place.make()

        refused = place.run(transform={"where": "day >= '2026-01-04'"}, target={"scope": f"{SCOPE} -- two days"})

        assert_ending(refused, "RowOutsideScope")
        assert "day = 2026-01-05" in refused.message or "day = 2026-01-06" in refused.message
        assert place.names() == ALL_OLD

    def test_files_across_the_boundary_are_refused_before_work_begins(self, place):
        """One file has all days; the target gets no commit."""
        place.make(partition_by=None)

        refused = place.run()

        assert_ending(refused, "ScopeNotSeparated")
        assert "1 of 1 files" in refused.message
        assert DeltaTable(place.target).version() == 0

    def test_a_change_feed_is_refused_by_name_and_the_job_completes_without_it(self, spark, place):
        """Delta Kernel records no row changes, so a feed would lack the replaced rows. A retry would fail again."""

        def feed(state):
            spark.sql(f"ALTER TABLE delta.`{place.target}` SET TBLPROPERTIES ('{FEED}' = '{state}')")

        place.make(partition_by=["day"], configuration={FEED: "true"})

        refused = place.run()

        assert_ending(refused, "UnsupportedTargetFeature")
        assert f"{FEED} = true" in refused.message
        assert DeltaTable(place.target).version() == 0
        feed("false")
        place.stopped()
        feed("true")
        late = place.run()
        assert_ending(late, "UnsupportedTargetFeature")
        assert (f"'{FEED}' = 'false'" in late.hint, place.names()) == (True, ALL_OLD)
        feed("false")
        ended = place.run()
        assert (ended.outcome, place.names()) == ("Complete", REPLACED)

    def test_a_plan_names_the_files_and_their_rows(self, spark, place):
        """Before the start, a user sees what the job would remove."""
        place.make()

        scope = plan_job(place.backfill(), settings=place.settings, spark=spark).target.scope

        assert (scope.files, scope.rows, scope.files_kept) == (2, 200, 4)
        assert all(name.startswith("day=2026-01-0") for name in scope.names)


class TestAReceiptOfAPart:
    """Source and target are compared inside of the scope, at the version that was copied."""

    def test_later_rows_of_the_source_and_other_rows_of_the_target_do_not_matter(self, spark, place):
        """An Upsert of one version: the row that the source gets meanwhile waits for another job."""
        place.make()
        upsert = {"source": {"key": ["id"]}, "target": {"writeMode": "Upsert"}, "verify": "Final"}
        place.stopped(**upsert)
        write(place.source, rows_of("SELECT 8000 AS id, CAST('2026-01-03' AS DATE) AS day, 'late' AS name"))
        place.add_theirs()

        ended = place.run(**upsert)
        receipt, *_ = verify_offline(place.backfill(**upsert), settings=place.settings, spark=spark)

        assert (ended.outcome, ended.message) == ("Complete", "")
        assert (ended.receipt.equal, ended.receipt.rows, ended.receipt.complete) == (True, 200, True)
        assert (receipt.equal, receipt.rows) == (True, 200)
        assert place.names() == REPLACED | {(1, "theirs"): 1}


class TestAReplicaOfAPart:
    """Copied files replace files, with deletion vectors and renamed columns."""

    def test_copied_files_replace_those_of_the_scope(self, spark, place):
        """OPTIMIZE of another writer inside the scope moves rows and changes none."""
        for path, name in ((place.source, "new"), (place.target, "old")):
            spark.createDataFrame(
                [(i, f"p{i % 4}", name) for i in range(400)], "id int, part string, title string"
            ).repartition(1).write.format("delta").partitionBy("part").option(
                "delta.enableDeletionVectors", "true"
            ).option("delta.columnMapping.mode", "name").save(path)
            spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN title TO name")
        spark.sql(f"DELETE FROM delta.`{place.source}` WHERE id % 8 = 1")
        for _ in range(2):
            spark.sql(f"INSERT INTO delta.`{place.target}` SELECT 9, 'p1', 'old'")
        target, where = {"scope": "part = 'p1'", "writeMode": None}, {"where": "part = 'p1'"}
        target = {name: value for name, value in target.items() if value is not None}
        spec = {"strategy": {"type": "Replica"}, "transform": where, "verify": "Final"}
        backfill = job(
            place.source, place.target, source={"key": []}, target={"publish": "WhenVerified", **target}, **spec
        )
        stop = StopSignal()
        spark.sql(f"DELETE FROM delta.`{place.target}` WHERE id = 2")

        def observe(progress):
            if not stop.requested:
                stop.ask(force=False)

        run_driver(backfill, settings=place.settings, spark=spark, stop=stop, observe=observe)
        spark.sql(f"OPTIMIZE delta.`{place.target}` WHERE part = 'p1'")
        ended = run_driver(backfill, settings=place.settings, spark=spark)

        assert (ended.outcome, ended.message) == ("Complete", "")
        counts = spark.sql(
            f"SELECT part, name, count(*) AS n FROM delta.`{place.target}` GROUP BY part, name"
        ).collect()
        assert {(row.part, row.name): row.n for row in counts} == {
            ("p0", "old"): 100, ("p1", "new"): 50, ("p2", "old"): 99, ("p3", "old"): 100,
        }  # fmt: skip
        assert (ended.receipt.equal, ended.receipt.rows) == (True, 50)
