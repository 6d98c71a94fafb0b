"""Files that are copied and not decoded, in whole jobs; delta-rs or plain Spark reads the target."""

import hashlib
import json
import shutil
from pathlib import Path
from random import Random
from urllib.parse import unquote

import pytest
from deltalake import DeltaTable, QueryBuilder
from support.endings import assert_ending
from support.tables.jobs import job, make_kind, make_orders, vacuum
from support.tables.odd_tables import ID, NoExampleError, OddTable, ticked
from support.tables.odd_transforms import Output, held
from support.tables.oracle import adds_of, columns_of, foreign_files, rows_in, seals

from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.plan import plan_job
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings


@pytest.fixture
def run(spark, tmp_path):
    """Runs a job from `s` to a folder."""

    def run(name="t", **spec):
        # Otherwise the proof of the key reads each file first.
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2, check_unique=False)
        goal = str(tmp_path / name)
        backfill = job(str(tmp_path / "s"), goal, **{"name": name, "verify": "Final", **spec})
        return run_driver(backfill, settings=settings, spark=spark)

    return run


def copied(source, target):
    """Return the files of the source that the target has byte by byte, by their names there."""
    there = {path.rsplit("/", 1)[-1]: path for path in adds_of(target)}
    same = []
    for path in adds_of(source):
        name = f"w-{hashlib.sha256(path.encode()).hexdigest()[:32]}-0.parquet"
        if name in there:
            assert Path(target, there[name]).read_bytes() == Path(source, unquote(path)).read_bytes()
            same.append(path)
    return same


class TestTheBytesOfAFile:
    """Files are copied byte by byte if the transform changes nothing, for any layout of the table."""

    @pytest.mark.parametrize(
        ("kind", "files", "target"),
        [("plain", 5, {}), ("partitioned", 20, {"partitionBy": ["part"]}), ("deleted", 5, {})],
    )
    def test_each_row_of_copied_files_arrives_once(self, spark, tmp_path, run, kind, files, target):
        """A receipt, another engine and a comparison of bytes agree. Rows can be changed afterwards."""
        source, there = str(tmp_path / "s"), str(tmp_path / "t")
        make_kind(spark, source, kind)

        outcome = run("t", target=target)

        assert (outcome.reason, outcome.receipt.equal) == ("Complete", True)
        assert len(copied(source, there)) == files
        assert outcome.receipt.rows == outcome.progress.rows_done == (800 if kind == "deleted" else 900)
        spark.sql(f"UPDATE delta.`{there}` SET name = 'x' WHERE id < 3")
        vacuum(spark, there)
        assert sum(name != "x" for (name,) in columns_of(there, "name")) == outcome.receipt.rows - 3

    def test_statistics_are_those_of_the_source(self, spark, tmp_path, run):
        """A reader skips the same files as in the source."""
        make_orders(spark, str(tmp_path / "s"), 100, files=2)
        run()

        minima = [
            sorted(json.loads(add["stats"])["minValues"]["id"] for add in adds_of(tmp_path / t).values()) for t in "st"
        ]
        assert minima == [[0, 50], [0, 50]]


class TestColumnsOfAFile:
    """Columns are dropped or renamed without decoding the others."""

    def test_a_projection_has_only_the_selected_columns(self, spark, tmp_path, run):
        """Chunks of dropped columns are in no file of the target."""
        make_kind(spark, str(tmp_path / "s"), "deleted")

        outcome = run(transform={"select": ["name AS title", "id"]})
        other = run("u", transform={"select": ["name AS title", "id"], "where": "true"})

        assert (outcome.receipt.equal, other.receipt.equal) == (True, True)
        there = DeltaTable(str(tmp_path / "t"))
        assert [field.name for field in there.schema().fields] == ["title", "id"]
        assert (
            foreign_files(str(tmp_path / "t"), str(tmp_path / "u"))
            == 0
            == foreign_files(str(tmp_path / "u"), str(tmp_path / "t"))
        )
        assert rows_in(str(tmp_path / "t")) == 800


ROWS, FILES = 400, 8
EACH = ROWS // FILES

FILTERS = {
    "part IS NULL OR n >= 350": (3, lambda n: n < 100 or n >= 350),
    "n IS NOT NULL AND id < 225": (0, lambda n: n < 225 and not _is_null(n)),
    "at < '2024-01-01T00:00:50Z' OR name BETWEEN 'v350' AND 'v399'": (2, lambda n: n < 50 or n >= 350),
    "day >= '2024-01-05' AND NOT name LIKE 'v%1'": (0, lambda n: n >= 200 and n % 10 != 1),
}
"""For each filter: the number of copied files, and a predicate of the ids that it keeps."""


def _is_null(n):
    return n < 200 and n % 10 == 3


@pytest.fixture(scope="module")
def clustered(spark, tmp_path_factory):
    """Eight files of 50 rows in the order of the id, with nulls in four, partitions of two, and a deleted row in each."""
    path = str(tmp_path_factory.mktemp("clustered") / "s")
    columns = [
        "id",
        "IF(id < 200 AND id % 10 = 3, NULL, id) AS n",
        "IF(id < 100, NULL, concat('p', id DIV 100)) AS part",
        "concat('v', lpad(id, 3, '0')) AS name",
        "timestamp_seconds(1704067200 + id) AS at",
        "date_add(DATE '2024-01-01', CAST(id DIV 50 AS INT)) AS day",
        "CAST(id AS DOUBLE) AS ratio",
    ]
    rows = spark.range(0, ROWS, 1, FILES).selectExpr(*columns).write.format("delta").partitionBy("part")
    rows.option("delta.enableDeletionVectors", "true").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % {EACH} = 7")
    return path


class TestAFilter:
    """If the log decides a filter for a file, its rows are not read."""

    @pytest.mark.parametrize(("where", "expected"), FILTERS.items(), ids=range(len(FILTERS)))
    def test_a_filter_keeps_the_same_rows(self, tmp_path, clustered, run, where, expected):
        """Filters use partitions, nulls, numbers, times and strings, with deleted rows.

        As many files as possible are copied.
        """
        copies, kept = expected
        shutil.copytree(clustered, tmp_path / "s")
        select = {"select": ["id", "name"]} if "name" in where else {}
        target = {} if select else {"partitionBy": ["part"]}

        outcome = run(transform={"where": where, **select}, target=target, verify="None")

        assert (outcome.reason, outcome.progress.rows_done) == ("Complete", ROWS - FILES)
        there = QueryBuilder().register("t", DeltaTable(str(tmp_path / "t"))).execute("SELECT id FROM t ORDER BY id")
        ids = [n for n in range(ROWS) if kept(n) and n % EACH != 7]
        assert there.read_all()["id"].to_pylist() == ids
        assert sum("/w-" in path for path in adds_of(tmp_path / "t")) == copies

    @pytest.mark.parametrize("throttle", [{}, {"rowsPerSecond": 400}], ids=["at once", "ahead of a limit"])
    def test_a_filter_reads_no_file_that_it_excludes(self, tmp_path, clustered, run, throttle):
        """Such a file may have any size, or be gone."""
        shutil.copytree(clustered, tmp_path / "s")
        for path, add in adds_of(tmp_path / "s").items():
            if add["partitionValues"]["part"] != "p3":
                Path(tmp_path / "s", unquote(path)).unlink()

        outcome = run(transform={"where": "part = 'p3'"}, throttle=throttle, verify="None")

        assert (outcome.reason, rows_in(str(tmp_path / "t"))) == ("Complete", 98)


class TestFilesAheadOfALimit:
    """From 100,000 rows a second, a limit cuts files at positions. Only files that it cuts are decoded."""

    FILES, EACH = 8, 30_000

    @pytest.fixture
    def source(self, spark, tmp_path):
        """Files with deletion vectors, two or three of which are cut in each second."""
        frame = spark.range(0, self.FILES * self.EACH, 1, self.FILES).selectExpr(
            "id", "id % 97 AS customer", "md5(cast(id AS string)) AS note"
        )
        frame.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(tmp_path / "s"))
        spark.sql(f"DELETE FROM delta.`{tmp_path / 's'}` WHERE id % 9 = 4")
        return tmp_path / "s"

    def test_files_within_one_part_are_copied(self, source, tmp_path, run):
        """Rows, receipts by bytes and by rows, and another engine agree.

        A part with its own seal has its own folder.
        """
        outcome = run(throttle={"rowsPerSecond": 100_000})
        there = adds_of(tmp_path / "t")
        whole = [path for path in there if "/w-" in path]

        assert (outcome.reason, outcome.receipt.equal) == ("Complete", True)
        assert 2 <= len(whole) < self.FILES
        assert outcome.receipt.files_by_bytes == len(whole)
        assert sum("/w-" not in path for path in there) >= self.FILES - len(whole)
        assert all("/part=" in path for path in there)
        assert all(there[path]["deletionVector"]["pathOrInlineDv"][:-20] == path.rpartition("/")[0] for path in whole)
        for seal in seals(
            tmp_path / "t"
        ):  # a file that was taken along with another part would be read twice after a crash
            done = sum(stop - start for start, stop in seal.state["snapshot"]["done"])
            assert seal.state["rowsDone"] == pytest.approx(done * 8 / 9, abs=2_000)
        assert foreign_files(str(tmp_path / "t"), str(source)) == foreign_files(str(source), str(tmp_path / "t")) == 0

    def test_files_without_a_vector_are_copied_together(self, spark, source, tmp_path, run):
        """Each file is admitted separately, and its segment is known."""
        spark.sql(f"DELETE FROM delta.`{source}`")
        spark.range(0, self.FILES * self.EACH, 1, self.FILES).selectExpr(
            "id", "id % 97 AS customer", "md5(cast(id AS string)) AS note"
        ).write.format("delta").mode("append").save(str(source))
        outcome = run(throttle={"rowsPerSecond": 120_000})
        whole = [path for path in adds_of(tmp_path / "t") if "/w-" in path]

        assert (outcome.reason, outcome.receipt.equal) == ("Complete", True)
        assert len(whole) >= 4
        assert all("/part=" not in path for path in whole)
        for seal in seals(tmp_path / "t"):
            done = sum(stop - start for start, stop in seal.state["snapshot"]["done"])
            assert seal.state["rowsDone"] == pytest.approx(done, abs=2_000)
        assert foreign_files(str(tmp_path / "t"), str(source)) == foreign_files(str(source), str(tmp_path / "t")) == 0

    def test_the_next_attempt_reads_the_same_rows_again(self, source, tmp_path, spark):
        """Copies without a seal are removed. A file that was sealed in parts continues at the same cut."""
        backfill = job(str(source), str(tmp_path / "t"), verify="FinalByRows", throttle={"rowsPerSecond": 100_000})
        settings, stop = DriverSettings(state_dir=tmp_path / "state", cores=2, check_unique=False), StopSignal()

        def halfway(progress):
            if progress.rows_done:
                stop.ask(force=True)

        first = run_driver(backfill, settings=settings, spark=spark, stop=stop, observe=halfway)
        second = run_driver(backfill, settings=settings, spark=spark)
        named = {path.rpartition("/")[0] for path in adds_of(tmp_path / "t")}
        staged = {
            str(file.parent.relative_to(tmp_path / "t")) for file in (tmp_path / "t").glob("backfill-*/a1/**/*.parquet")
        }

        assert (first.outcome, 0 < first.progress.rows_done < self.FILES * self.EACH * 8 // 9) == ("Stopped", True)
        assert (second.outcome, second.receipt.equal) == ("Complete", True)
        assert staged <= named


class TestAFileThatIsNotWhatItsLogSays:
    """Such a file ends the job by name, and no row of it is visible."""

    @pytest.fixture
    def source(self, spark, tmp_path):
        """A table with deletion vectors."""
        make_kind(spark, str(tmp_path / "s"), "deleted")
        return tmp_path / "s"

    def test_a_file_of_another_size_ends_the_job(self, source, tmp_path, run):
        """Another program overwrote it."""
        path = source / unquote(min(adds_of(source)))
        path.write_bytes(path.read_bytes() + b"x")

        outcome = run()

        assert (outcome.reason, path.name in outcome.message) == ("SourceDamaged", True)
        assert rows_in(str(tmp_path / "t")) == 0

    @pytest.mark.parametrize(
        "select", [["id", "name"], ["*", "concat(name, '!') AS loud"]], ids=["projected", "grafted"]
    )
    def test_a_truncated_file_ends_the_job(self, spark, tmp_path, run, select):
        """Only some columns are copied, so the size is not compared, and the footer is missing."""
        spark.range(0, 10_000, 1, 1).selectExpr("id", "concat('v', id) AS name", "id AS more").write.format(
            "delta"
        ).save(str(tmp_path / "s"))
        path = tmp_path / "s" / unquote(min(adds_of(tmp_path / "s")))
        path.write_bytes(path.read_bytes()[:-100])
        path.with_name(f".{path.name}.crc").unlink()

        outcome = run(transform={"select": select})

        assert (outcome.reason, path.name in outcome.message) == ("SourceDamaged", True), outcome.message
        assert rows_in(str(tmp_path / "t")) == 0

    def test_a_file_with_another_number_of_rows_ends_the_job(self, source, tmp_path, run):
        """Rows would silently be missing."""
        for log in (source / "_delta_log").glob("0*.json"):
            log.write_text(log.read_text().replace('\\"numRecords\\":180', '\\"numRecords\\":181'))

        assert_ending(run(), "AccountingMismatch")
        assert rows_in(str(tmp_path / "t")) == 0

    def test_a_missing_vector_ends_the_job(self, source, tmp_path, run):
        """Deleted rows would come back."""
        for vector in source.glob("deletion_vector_*.bin"):
            vector.unlink()

        assert run().reason == "SnapshotExpired"
        assert rows_in(str(tmp_path / "t")) == 0


class TestThePlan:
    """A plan lists the decoded files with the reason."""

    @pytest.mark.parametrize(
        ("transform", "ways"),
        [
            ({}, {("Whole", 2, "")}),
            ({"select": ["id", "note"]}, {("Projected", 2, "")}),
            (
                {"select": ["id", "upper(note) AS note"]},
                {("Decoded", 2, "a file has too few rows to compute columns separately")},
            ),
            (
                {"select": ["id", "upper(note) AS note", "-amount AS debt"]},
                {("Decoded", 2, "the transform computes more columns than it takes (note)")},
            ),
            ({"where": "id < 50"}, {("Whole", 1, ""), ("Excluded", 1, "")}),
            (
                {"where": "id < 40 AND id % 2 = 0"},
                {("Decoded", 1, "the log does not decide the filter ((id % CAST(2 AS BIGINT)))"), ("Excluded", 1, "")},
            ),
        ],
    )
    def test_a_plan_names_the_way_of_each_file(self, spark, tmp_path, transform, ways):
        """A user who expects a copy sees the reason against it."""
        make_orders(spark, str(tmp_path / "s"), 100, files=2)
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)

        plan = plan_job(
            job(str(tmp_path / "s"), str(tmp_path / "t"), transform=transform), settings=settings, spark=spark
        )

        assert {(way.way, way.files, way.reason) for way in plan.ways} == ways
        assert plan.estimated_seconds > 0


class TestEachWayGivesTheSameRows:
    """This holds for each engine that wrote the table, and for any content."""

    @pytest.mark.parametrize("seed", range(12))
    def test_a_random_table_has_the_same_rows_in_each_way(self, spark, tmp_path, run, seed):
        """Types, nesting, nulls, names, vectors, partitions and renamed columns are drawn. The model knows the rows."""
        rng = Random(seed)
        try:
            table = OddTable(spark, rng, str(tmp_path / "s"), append_only=False)
        except NoExampleError:
            return
        names = list(table.columns)
        kept = names if seed % 2 else [ID, *rng.sample(names[1:], max(1, len(names) - 3))]
        select = {} if seed % 2 else {"select": [ticked(name) for name in kept]}
        folders = [name for name in table.folders if name in kept]
        goal = {"writeMode": "Append", **({"partitionBy": folders} if folders else {})}
        if set(table.folders) - set(kept):
            goal.pop("partitionBy", None)
        if table.mapped:
            goal["properties"] = {"delta.columnMapping.mode": "name"}
        spec = {"target": goal, "verify": "None"}

        fast = run("fast", **spec, transform=select)
        slow = run("slow", **spec, transform=select | {"where": "true"})

        assert fast.reason == slow.reason, (table.story, fast.message, slow.message)
        if slow.reason == "SourceDamaged":
            return  # delta-rs makes tables that no Spark reads
        assert slow.reason == "Complete", (table.story, slow.message)
        outputs = tuple(
            Output(name, ticked(name), lambda row, name=name: row[name], table.columns[name]) for name in kept
        )
        rows = [held(spark, str(tmp_path / name), outputs) for name in ("fast", "slow")]
        assert rows[0] == rows[1], table.story
