"""Files of a table as a job stages them if Spark computes some of their columns, and their rows as two engines read them."""

from collections import Counter
from pathlib import Path

from deltalake import DeltaTable, QueryBuilder, convert_to_deltalake
from support.tables.layouts import write

from backfill_core.file_copies.copy_modes import of_table
from backfill_core.file_copies.facts import Computed, Taken, TransformFacts
from backfill_spark.delta.added_files import Statistics
from backfill_spark.file_copies.computed_columns import ComputedColumns
from backfill_spark.file_copies.copied_files import PlannedCopy
from backfill_spark.file_copies.copier import FileTransfer
from backfill_spark.file_copies.footers import Footers
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import APPEND
from backfill_spark.sinks.delta.sink import DeltaSink
from backfill_spark.sources.delta.source import DeltaTableSource


class ComputedCopies:
    """One table, and its files as a job would stage them."""

    def __init__(self, spark, folder, target, select, computed=ComputedColumns):
        self.spark, self.select, self.computed = spark, select, computed
        self.transform = Transform(select)
        self.source = DeltaTableSource(spark, str(folder), key=())
        pinned = self.source.pin(None)
        schema = self.transform.output_schema(spark, pinned.schema)
        self.sink = DeltaSink(spark, str(target), write_mode=APPEND, key=(), job_id="ns/job")
        self.sink.prepare(schema)
        taken = self.transform.taken(spark, pinned.schema)
        outputs = {name: Computed(name) if column is None else Taken(column) for name, column in taken.items()}
        facts = TransformFacts(outputs)
        self.mode = of_table(facts, self.source.table_facts(), self.sink.table_facts(schema))
        self.planned = [
            PlannedCopy(file, self.mode, {}, rows)
            for file, rows in zip(self.source.source_files(range(len(pinned.rows))), pinned.rows, strict=True)
        ]
        self.target = target

    def made(self):
        """Return what computes the columns."""
        return self.computed(self.spark, self.transform, self.source, self.sink)

    def stage(self):
        """Stage all files; return the result."""
        measured = {copy.file.name: copy.rows for copy in self.planned}
        footers = Footers(self.spark)

        def measure(path, file):
            assert file.written == footers.read(path).written  # measuring does not read the footer
            return Statistics(0, measured[Path(path).name], None)

        return FileTransfer(
            self.spark, source=self.source.path, target=str(self.target), measure=measure,
            computed=self.made(),
        ).copy(self.planned, "work", check=lambda: None)  # fmt: skip

    def decoded(self):
        """Return the rows that decoding gives, file by file."""
        rows_by_file = {}
        for copy in self.planned:
            rows = self.transform.apply(self.source.rows_of([action(copy)], self.source.version))
            rows_by_file[copy.file.name] = [repr(tuple(row)) for row in rows.collect()]
        return rows_by_file

    def staged(self, done):
        """Return the rows of the staged files, in their order."""
        names = self.sink.table_facts(self.spark.range(0).schema).by_name
        return {
            Path(copy.staged.path).name: [
                repr(tuple(row))
                for row in self.spark.read.parquet(copy.staged.path).select(*(f"`{name}`" for name in names)).collect()
            ]
            for copy in done.copied
        }

    def source_rows(self):
        """Return the rows of the source."""
        return self.spark.read.format("delta").load(self.source.path)


def action(planned):
    """Return the `add` action of a file without a vector."""
    return f'{{"add": {{"path": "{planned.file.path}", "partitionValues": {{}}, "size": {planned.file.size_bytes}, \
"modificationTime": 1, "dataChange": true}}}}'


def by_another_engine(folder):
    """Return the rows of files as delta-rs reads them, from a log that it makes."""
    convert_to_deltalake(str(folder))
    result = QueryBuilder().register("now", DeltaTable(str(folder))).execute("SELECT * FROM now").read_all()
    return Counter(
        zip(*(map(repr, result.column(name).to_pylist()) for name in sorted(result.column_names)), strict=True)
    )


def table(spark, folder, layout, files=1):
    """Make a Delta table of some files of one layout."""
    for number in range(files):
        write(spark, folder / f"part{number}" if files > 1 else folder, layout)
    if not (folder / "_delta_log").exists():
        convert_to_deltalake(str(folder))
