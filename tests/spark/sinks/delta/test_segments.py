"""Parts of a split are read together and sealed one after another; each equals a separate read (ADR 0026)."""

import itertools
import queue
from collections import Counter
from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support.drivers.opened_job import opened_job
from support.tables.jobs import make_kind, vacuum

from backfill_core.errors import AccountingError
from backfill_core.positions.file_ranges import file_ranges
from backfill_core.protocol.actions import Seal
from backfill_core.protocol.events import WorkFailed, WorkFinished
from backfill_core.protocol.work import ReadSplit
from backfill_spark.driver.action_executor import SparkActionExecutor
from backfill_spark.jvm.gateway import java_session
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import write_mode
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.sink import DeltaSink
from backfill_spark.sources.delta.source import DeltaTableSource

WAITS_S = 240


def rows_of(frame):
    return Counter(map(str, frame.collect()))


MORE = {"with a map": {"m": "map('k', id % 3)"}, "our name": {"__backfill_part": "id % 5"}}


def make(spark, path, kind):
    make_kind(spark, path, kind, **MORE.get(kind, {}))


def opened(spark, path, key=("id",)):
    source = DeltaTableSource(spark, path, key=key)
    source.pin(None)
    return source, [0, *itertools.accumulate(source.pinned.rows)]


class TestAPartIsTheSameAloneAndTogether:
    """Otherwise a part that was staged, not sealed, and read again after a crash would lose or double rows."""

    @pytest.mark.parametrize(
        ("kind", "key"),
        [
            *((kind, ("id",)) for kind in ("plain", "deleted", "partitioned", "renamed", "with a map", "our name")),
            *((kind, ()) for kind in ("partitioned", "with a map", "our name")),
        ],
    )
    def test_a_part_is_the_same_in_any_table(self, spark, tmp_path, kind, key):
        """Deleted rows and odd names must not shift the cut."""
        path = str(tmp_path / "odd path=%20")
        make(spark, path, kind)
        source, prefix = opened(spark, path, key)
        # Within one file; from the middle of one to that of the next; to that of a later one, with whole files between.
        parts = [file_ranges(prefix, start, stop) for start, stop in itertools.pairwise((70, 130, 225, 840))]

        rows, label = source.read_segments(parts)
        each = [source.read(part).withColumn(label, F.lit(number)) for number, part in enumerate(parts)]

        assert [name for name in rows.columns if name != label] == source.pinned.schema.names
        assert each[0].columns[:-1] == source.pinned.schema.names
        # One query for all separate reads: each still has its own plan.
        assert rows_of(rows.select(*each[0].columns)) == rows_of(reduce(DataFrame.unionAll, each))

    def test_all_parts_together_are_the_file(self, spark, tmp_path):
        """No row may be lost between two parts."""
        make(spark, str(tmp_path / "s"), "deleted")
        source, prefix = opened(spark, str(tmp_path / "s"))
        rows, label = source.read_segments([file_ranges(prefix, start, start + 60) for start in range(0, 180, 60)])

        assert rows_of(rows.drop(label)) == rows_of(source.read(file_ranges(prefix, 0, 180)))


@pytest.fixture
def world(spark, tmp_path):
    """Makes a source, a target of any layout and the executor between them."""
    made = []

    class World:
        def __init__(self, kind="deleted", *, transform=None, mode="Append", **target):
            make(spark, str(tmp_path / "s"), kind)
            self.source, self.prefix = opened(spark, str(tmp_path / "s"))
            self.transform = transform or Transform()
            self.sink = DeltaSink(spark, str(tmp_path / "t"), write_mode=write_mode(mode), key=(), job_id="j", **target)
            self.sink.prepare(self.transform.output_schema(spark, self.source.pinned.schema))
            self.committer = DeltaCommitter(spark, self.sink.path, app_id="a", domain="backfill.x")
            self.mode = mode
            self.txn = 0

        def read(self, work_id, start, stop, *cuts, attempt=1):
            """Return the answer to one split."""
            job = opened_job(
                spark, self.source, self.sink, self.committer, mode=write_mode(self.mode), transform=self.transform
            )
            executor, events = SparkActionExecutor(job, attempt=attempt), queue.SimpleQueue()
            self.executor = executor
            made.append(executor)
            executor.start(ReadSplit(work_id, file_ranges(self.prefix, start, stop), start, stop, 1, cuts), events.put)
            return events.get(timeout=WAITS_S)

        def seal(self, *files):
            self.txn += 1
            self.committer.seal(self.txn, files, "s")

        def target(self):
            return spark.read.format("delta").load(self.sink.path)

        def expected(self, start=0, stop=900):
            return self.transform.apply(self.source.read(file_ranges(self.prefix, start, stop)))

    yield World
    for made_executor in made:
        made_executor.close()


LAYOUTS = {
    "partitioned by a column of the folder's name": {"partition_by": ("part",)},
    # 50 partitions: more files at once than Spark keeps open, so that a task sorts the rest.
    "mapped": {"properties": {"delta.columnMapping.mode": "name"}, "partition_by": ("name",)},
    "transformed": {"transform": Transform(("id + 1 AS next", "name"), "id % 3 > 0")},
    "starred": {"transform": Transform(("*", "id + 1 AS next"))},
    "changelog": {"mode": "Changelog"},
}


class TestAPartIsSealedWithoutTheOthers:
    """The parts of one Spark job have separate seals. A part that a crash left unsealed is read again separately."""

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_any_target_has_only_the_rows_of_sealed_parts(self, world, layout):
        """A crash between two commits is the usual case."""
        tested = world(**LAYOUTS[layout])
        event = tested.read(1, 0, 360, 50, 180, 200)
        assert isinstance(event, WorkFinished)
        files = event.result.files
        tested.seal(*(file for file in files if file.segment < 2))
        columns = tested.expected().columns
        assert rows_of(tested.target().select(columns)) == rows_of(tested.expected(0, 180))

        # The process dies. The next one continues after the sealed rows, also from the middle of a file.
        tested.seal(*(file for file in files if file.segment == 2))
        again = tested.read(1, 200, 900, 720, attempt=2).result.files
        tested.seal(*again)
        assert rows_of(tested.target().select(columns)) == rows_of(tested.expected())

    def test_unused_parts_are_removed_when_the_job_is_complete(self, world):
        """A pause and a low limit discard rows that were read ahead. No later run cleans up after a complete job."""
        tested = world()
        files = tested.read(1, 0, 180, 60, 120).result.files
        tested.executor.seal(Seal(1, 1, tuple(file for file in files if file.segment == 1), "s"))
        tested.executor.tidy()

        assert {file.segment for file in files if Path(file.path).exists()} == {1}
        assert rows_of(tested.target()) == rows_of(tested.expected(60, 120))

    def test_a_split_is_one_write_without_a_sort(self, spark, world):
        """A task that sorts its rows by part takes longer than two reads of its file."""
        tested = world("plain")
        files = tested.read(1, 0, 180, 40, 80, 120).result.files
        store = java_session(spark).sharedState().statusStore().executionsList()
        plans = [store.apply(at).physicalPlanDescription() for at in range(store.size())]
        written = [
            plan for plan in plans if "InsertIntoHadoopFsRelationCommand" in plan and tested.sink.staging in plan
        ]

        assert sorted(file.segment for file in files) == [0, 1, 2, 3]
        assert sum(file.rows for file in files) == 180
        assert len(written) == 1
        assert "Sort" not in written[0]

    def test_whole_files_must_yield_the_rows_of_their_metadata(self, world):
        """The count holds for all parts together. A single part has the expected number of rows only on average."""
        tested = world("deleted")
        tested.source.live_rows = lambda _ranges: 999
        event = tested.read(1, 0, 180, 90)

        assert isinstance(event, WorkFailed)
        assert isinstance(event.error, AccountingError)
        assert list(Path(tested.sink.staging).glob("**/*.parquet")) == []


class TestPartsThatWereNeverSealed:
    """Parts without a seal are removed, and sealed ones stay."""

    def left(self, world):
        """Return the folders with files. The target has a column `part`, so the folders of parts have another name."""
        folders = {
            path.parent.relative_to(world.sink.staging) for path in Path(world.sink.staging).glob("**/*.parquet")
        }
        return sorted(map(str, folders))

    def half_sealed(self, world):
        tested = world("plain")
        files = tested.read(1, 0, 180, 60, 120).result.files
        tested.seal(*(file for file in files if file.segment == 1))
        return tested

    def test_unsealed_parts_are_removed_with_the_orphans_of_the_attempt(self, world):
        """A folder may contain sealed and unsealed files of one job."""
        tested = self.half_sealed(world)

        assert tested.sink.remove_orphans(2) == 2
        assert self.left(tested) == ["a1/s1/part_=1"]
        assert rows_of(tested.target()) == rows_of(tested.expected(60, 120))

    def test_unsealed_parts_are_removed_by_a_vacuum(self, spark, world):
        """VACUUM never reads folders with a leading underscore."""
        tested = self.half_sealed(world)
        vacuum(spark, tested.sink.path)

        assert self.left(tested) == ["a1/s1/part_=1"]
