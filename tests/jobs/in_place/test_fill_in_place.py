"""Columns of real Delta tables are filled by jobs, while a MERGE of Spark and delta-rs write them; delta-rs is the oracle."""

from pathlib import Path

import pytest
from deltalake.exceptions import CommitFailedError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from support.endings import assert_ending
from support.tables.jobs import job, make_kind, make_orders
from support.tables.logs import actions_in, commit_of, commits_of
from support.tables.oracle import columns_of, opened
from support.tables.other_engine import commit_actions, delete, insert

from backfill_core.in_place import rounds
from backfill_core.in_place.files import TAG
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.offline_verify import verify_offline
from backfill_spark.driver.plan import plan_job
from backfill_spark.driver.release import release
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings
from backfill_spark.sinks.delta.live.sink import LiveSink

ROWS = 900
NO_NORM = "CAST(NULL AS VARCHAR) AS norm"
MERGE = """
    MERGE INTO delta.`{}` AS t USING (SELECT explode(array(10, 500, 3000)) AS id) AS s ON t.id = s.id
    WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, part, name) VALUES (s.id, 1, 'n7')"""
NORM = {"norm": "nullif(upper(name), 'N7')"}


def expected(name):
    """Return the value of `NORM` for a row."""
    return None if name == "n7" else name.upper()


def rows_of(path, version=None):
    """Return the rows that delta-rs reads, by id."""
    names = [field.name for field in opened(path, version).schema().fields]
    table = [dict(zip(names, row, strict=True)) for row in columns_of(path, *names, version=version)]
    rows = {row["id"]: row for row in table}
    assert len(rows) == len(table), "a row is there twice"
    return rows


def commits_that_replace(path, after=-1):
    """Return the versions in which the job replaced files."""
    versions = []
    for version in commits_of(path, after):
        adds = [action["add"] for action in actions_in(commit_of(path, version)) if "add" in action]
        filled = any(name.startswith(TAG) for add in adds for name in add.get("tags") or {})
        versions += [version] if filled else []
    return versions


@pytest.fixture
def settings(tmp_path):
    """Settings of the driver."""
    return DriverSettings(cores=2, state_dir=tmp_path / "state")


@pytest.fixture
def path(tmp_path):
    """The table's path."""
    return str(tmp_path / "t")


def spec_of(path, values=None, where=None, **spec):
    """Return a job that fills columns."""
    transform = {"set": values or NORM, **({} if where is None else {"setWhere": where})}
    strategy = {"type": "InPlace", **({"inPlace": spec.pop("in_place")} if "in_place" in spec else {})}
    return job(path, path, source={"key": []}, strategy=strategy, transform=transform, **{"verify": "Final", **spec})


def written(write, tries=20):
    """Write as other writers do, which start again after a conflict with a commit of the job."""
    try:
        write()
    except (CommitFailedError, PySparkException, Py4JJavaError) as error:
        conflict = isinstance(error, CommitFailedError) or "DELTA_CONCURRENT" in str(error)
        if not conflict or tries == 1:
            raise
        written(write, tries - 1)


@pytest.fixture
def fill(spark, settings, path):
    """Run a job on the table; `writers` write one after the other, once rows are filled."""

    def run(values=None, where=None, writers=(), stop=None, **spec):
        pending = list(writers)

        def observe(progress):
            if progress.splits_done and pending:
                written(pending.pop(0))

        outcome = run_driver(
            spec_of(path, values, where, **spec), settings=settings, spark=spark, observe=observe, stop=stop
        )
        assert not pending
        return outcome

    return run


@pytest.fixture
def quick(monkeypatch):
    """Let commits follow at once: writers of a test are few."""
    monkeypatch.setattr(rounds, "DISTANCE_MAX_MS", 0)


class TestALiveTable:
    """Each row gets its value, and no other value changes."""

    def test_is_filled_while_others_hide_remove_and_add_rows(self, spark, path, fill, quick):
        """A deletion vector goes to the filled copy, and a removed file is found again under its new name."""
        make_kind(spark, path, "deleted")
        before = rows_of(path)
        writers = [
            lambda: spark.sql(MERGE.format(path)),
            lambda: delete(path, "id = 200"),
            lambda: insert(path, f"SELECT id + 2000 AS id, part, name, {NO_NORM} FROM now WHERE id < 9"),
        ]

        outcome = fill(writers=writers, throttle={"rowsPerSecond": 150})

        assert (outcome.outcome, outcome.receipt.equal, outcome.receipt.complete) == ("Complete", True, True)
        rows = rows_of(path)
        added = {2000 + number for number in before if number < 9}
        assert rows.keys() == before.keys() - {10, 200, 500} | {3000} | added
        assert all(row["norm"] == expected(row["name"]) for row in rows.values())
        assert all(rows[number][name] == row[name] for number, row in before.items() if number in rows for name in row)
        assert outcome.progress.writer_conflicts >= 1  # the MERGE begins after a commit of the job, as a retry would
        undo = outcome.receipt.undo_version
        assert f"RESTORE TABLE to version {undo}" in outcome.message
        assert rows_of(path, undo).keys() == before.keys()
        assert outcome.progress.rows_done == outcome.progress.rows_total == len(rows)
        spark.sql(f"OPTIMIZE delta.`{path}`")
        assert rows_of(path) == rows

    def test_is_filled_if_an_expression_fails_only_for_hidden_rows(self, spark, path, fill):
        """A user deletes the row that no value can be computed of. A copy has it too, so its file is decoded."""
        make_kind(spark, path, "deleted")
        before = rows_of(path)
        hidden = min(set(range(ROWS)) - before.keys())

        outcome = fill({"norm": f"cast(1000 div (id - {hidden}) AS string) -- a comment"})

        assert (outcome.outcome, outcome.receipt.equal) == ("Complete", True)
        rows = rows_of(path)
        assert rows.keys() == before.keys()
        assert all(row["norm"] == str(int(1000 / (number - hidden))) for number, row in rows.items())

    def test_resumes_after_a_stop_and_ends_without_a_commit_if_it_is_filled(self, spark, path, fill, settings):
        """The tags of files hold the progress; null results are not computed again."""
        make_kind(spark, path, "partitioned")
        stop = StopSignal()
        limit = {"rowsPerSecond": 200}

        stopped = fill(stop=stop, writers=[lambda: stop.ask(force=False)], throttle=limit)
        half = rows_of(path)
        [staged] = Path(path).glob("backfill-*")
        (staged / "a7").mkdir()  # of a later attempt, before the table was restored from a backup
        outcome = fill()
        newest = opened(path).version()
        verified, _, _ = verify_offline(spec_of(path), settings=settings, spark=spark)
        again = fill(jobId="ns/another")

        assert (stopped.outcome, outcome.outcome, again.outcome) == ("Stopped", "Complete", "Complete")
        assert 0 < len([row for row in half.values() if row["norm"] is not None]) < ROWS * 0.95
        assert all(row["norm"] == expected(row["name"]) for row in rows_of(path).values())
        assert (outcome.receipt.rows, outcome.receipt.equal) == (ROWS, True)
        assert (stopped.progress.attempt, outcome.progress.attempt) == (1, 8)
        assert (verified.equal, verified.undo_version) == (True, outcome.receipt.undo_version)
        assert commits_that_replace(path, newest) == []

    @pytest.mark.parametrize("wrong", ["part + 1 AS part", "'N0' AS norm"])
    def test_has_a_receipt_that_compares_each_file_with_the_one_that_it_replaced(
        self, spark, path, fill, settings, wrong, tmp_path
    ):
        """A wrong value in another column, or a wrong filled one, is no null: a check of nulls alone would miss both."""
        make_kind(spark, path, "plain")
        fill()
        version = commits_that_replace(path)[-1]
        add = next(action["add"] for action in actions_in(commit_of(path, version)) if "add" in action)
        rows = spark.read.parquet(f"{path}/{add['path']}")
        column = wrong.split()[-1]
        changed = rows.selectExpr(*(wrong if name == column else name for name in rows.columns))
        changed.coalesce(1).write.parquet(str(tmp_path / "changed"))
        (file,) = (tmp_path / "changed").glob("*.parquet")
        file.rename(f"{path}/{file.name}")
        size = Path(path, file.name).stat().st_size
        commit_actions(Path(path), [add], [{**add, "path": file.name, "size": size, "stats": None}])

        verified, _, _ = verify_offline(spec_of(path), settings=settings, spark=spark)

        assert (verified.equal, verified.rows) == (False, ROWS)

    def test_is_computed_again_after_a_change_of_its_columns(self, spark, path, fill, quick):
        """Staged files lack the new column's rules."""
        make_kind(spark, path, "plain")
        alter = f"ALTER TABLE delta.`{path}` ADD COLUMNS (later INT)"

        outcome = fill(writers=[lambda: spark.sql(alter)], throttle={"rowsPerSecond": 200})

        assert (outcome.outcome, outcome.receipt.rows, outcome.receipt.equal) == ("Complete", ROWS, True)
        assert all(row["later"] is None and row["norm"] == expected(row["name"]) for row in rows_of(path).values())

    def test_is_opened_again_if_its_columns_changed_before_a_listing(self, spark, path, fill, monkeypatch):
        """No foreign commit follows the listing, so the commit finds none: copies without the new column would lose its values."""
        make_kind(spark, path, "plain", norm="cast(null AS string)")
        wait, listed = LiveSink.live_files, []

        def live_files(sink, opened):
            if not listed:
                spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (later INT)")
                spark.sql(f"INSERT INTO delta.`{path}` VALUES (2000, 1, 'n1', null, 7)")
            listed.append(opened)
            return wait(sink, opened)

        monkeypatch.setattr(LiveSink, "live_files", live_files)

        assert fill().outcome == "Complete"

        rows = rows_of(path)
        assert (rows[2000]["later"], len(rows)) == (7, ROWS + 1)
        assert all(row["norm"] == expected(row["name"]) for row in rows.values())

    def test_is_filled_again_if_the_column_was_dropped_and_added(self, spark, path, fill):
        """Files have the tag of the dropped column, which had the same name."""
        make_kind(spark, path, "renamed")
        fill({"norm": "upper(title)"})
        for change in ("DROP COLUMN norm", "ADD COLUMNS (norm STRING)"):
            spark.sql(f"ALTER TABLE delta.`{path}` {change}")

        outcome = fill({"norm": "upper(title)"}, jobId="ns/second")

        assert (outcome.outcome, outcome.receipt.equal) == ("Complete", True)
        rows = spark.read.format("delta").load(path).collect()
        assert {row["norm"] for row in rows} == {f"N{number}" for number in range(50)}

    def test_keeps_column_mapping_and_values_that_the_condition_excludes(self, spark, path, fill):
        """A renamed column has another name in files."""
        make_kind(spark, path, "renamed")

        outcome = fill({"title": "concat(title, '!')"}, "title LIKE 'n1%' AND title NOT LIKE '%!'")

        titles = {row["id"]: row["title"] for row in spark.read.format("delta").load(path).collect()}
        names = {number: f"n{number % 50}" for number in range(ROWS)}
        assert titles == {number: f"{name}!" if name.startswith("n1") else name for number, name in names.items()}
        assert outcome.receipt.equal

    def test_fills_a_table_with_a_change_feed_by_commits_that_are_rewrites(self, spark, path, fill):
        """The feed has no row of them: its readers asked not to see the values."""
        make_orders(spark, path, 60, files=2)

        outcome = fill({"norm": "upper(note)"}, target={"dataChange": False})

        assert (outcome.outcome, outcome.receipt.equal) == ("Complete", True)
        assert all(norm == note.upper() for note, norm in columns_of(path, "note", "norm"))
        feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(path)
        assert feed.count() == 0

    def test_keeps_the_rows_of_writers_that_fill_the_column_themselves(self, spark, path, fill):
        """A later version has their rows, with other values, and the receipt leaves them out."""
        make_kind(spark, path, "plain", norm="cast(null AS string)")
        insert(path, "SELECT id + 2000 AS id, part, name, NULL AS norm FROM now WHERE id < 5")

        outcome = fill(in_place={"writersSince": 1})

        rows = rows_of(path)
        assert {number for number, row in rows.items() if row["norm"] is None and row["name"] != "n7"} == set(
            range(2000, 2005)
        )
        assert (outcome.receipt.rows, outcome.receipt.equal) == (ROWS, True)

    def test_is_planned_if_the_condition_excludes_rows_without_a_value(self, spark, path, settings):
        """The column is new, so the check of a few rows computes it before it exists."""
        make_kind(spark, path, "plain")
        spec = spec_of(path, {"norm": "cast(10 div part AS string)"}, "part <> 0")

        assert plan_job(spec, settings=settings, spark=spark).rows == ROWS

    def test_is_planned_and_released(self, spark, path, fill, settings):
        """A plan writes nothing, and other writers need no new feature; after a release the job may run again."""
        make_kind(spark, path, "plain")
        before = opened(path).protocol()
        spec = spec_of(path)

        plan = plan_job(spec, settings=settings, spark=spark)
        assert (plan.rows, plan.files, opened(path).version()) == (ROWS, 5, 0)
        assert fill().outcome == "Complete"
        release(spec, settings=settings, spark=spark)

        filled = plan_job(spec_of(path, jobId="ns/second"), settings=settings, spark=spark)

        assert (filled.rows, filled.bytes, filled.files) == (0, 0, 0)
        assert opened(path).protocol() == before
        assert fill().outcome == "Complete"
        assert all(row["norm"] == expected(row["name"]) for row in rows_of(path).values())


class TestAJob:
    """Rejected by name before a file is read."""

    @pytest.mark.parametrize(
        ("values", "named"),
        [
            ({"part": "part + 1"}, "set.part is a partition column"),
            ({"norm": "rand()"}, "set.norm = 'rand()'"),
            ({"norm": "upper(nome)"}, "nome"),
            ({"name": "upper(name)"}, "set.name reads name"),
            ({"norm": "named_struct('a', id)"}, "set.norm has the type struct<a:bigint"),
            ({"norm": "name", "NORM": "name"}, "'norm' and 'NORM'"),
            ({"norm": "interval 1 day"}, "Delta cannot add `norm` interval day"),
        ],
    )
    def test_with_a_column_or_an_expression_that_does_not_fit(self, spark, path, fill, values, named):
        """The table has no new version afterwards."""
        make_kind(spark, path, "partitioned")

        outcome = fill(values)

        assert_ending(outcome, "InvalidTransform")
        assert named in outcome.message
        assert opened(path).version() == 0

    def test_with_a_clustering_column(self, spark, path, fill):
        """Rows are placed by it."""
        spark.sql(f"CREATE TABLE delta.`{path}` (id LONG, name STRING) USING delta CLUSTER BY (name)")

        outcome = fill({"name": "concat('n', id)"})

        assert_ending(outcome, "InvalidTransform")
        assert "name is a clustering column" in outcome.message

    def test_whose_condition_holds_for_filled_rows(self, spark, path, fill):
        """A file that OPTIMIZE rewrites has no tag: its values would change twice."""
        make_kind(spark, path, "plain")

        outcome = fill({"part": "part * 2"}, "part > 0")

        assert_ending(outcome, "InvalidTransform")
        assert "still holds for a row after it is filled" in outcome.message
        assert opened(path).version() == 0

    def test_of_a_table_with_a_constraint_or_another_type(self, spark, path, fill):
        """A commit of files does not check constraints."""
        make_kind(spark, path, "plain")
        outcome = fill({"part": "cast(id AS double)"})
        assert_ending(outcome, "TargetSchemaMismatch")
        assert "part" in outcome.message
        spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT small CHECK (id < 1000)")

        outcome = fill()

        assert_ending(outcome, "UnsupportedTargetFeature")
        assert "small" in outcome.message

    def test_whose_column_another_job_fills(self, spark, path, fill):
        """Both would replace the files of the other; a job for another column may run."""
        make_kind(spark, path, "plain")
        stop = StopSignal()
        fill(stop=stop, writers=[lambda: stop.ask(force=False)], throttle={"rowsPerSecond": 200})

        outcome = fill({"NORM": "lower(name)"}, "norm IS NOT NULL", jobId="ns/second")
        other = fill({"low": "lower(name)"}, jobId="ns/third")

        assert_ending(outcome, "TargetTaken")
        assert "column norm" in outcome.message
        assert "default/job" in outcome.message
        assert (other.outcome, other.receipt.equal) == ("Complete", True)
