"""Files that a job writes in a caller's session: the writer has the job's settings, not the caller's (fault D2)."""

from pathlib import Path

import pytest
from support.sessions.callers import callers_session
from support.tables.jobs import document

from backfill import Backfill, Settings
from backfill_spark.jvm.gateway import hadoop_conf, items, java

BUILT = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.parquet.compression.codec": "gzip",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    "spark.sql.maxConcurrentOutputFileWriters": "0",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
}


@pytest.fixture
def staged(spark, tmp_path):
    """Return a function that runs a job in a caller's session, which decodes its source, and returns the footers of the new files."""
    source, target = str(tmp_path / "s"), str(tmp_path / "t")
    rows = spark.range(0, 40, 1, 2).selectExpr(
        "id", "timestamp_seconds(1719792000) AS loaded", "date'1500-01-01' AS day"
    )
    rows.write.format("delta").save(source)
    spec = document(
        source,
        target,
        target={"writeMode": "Append"},
        transform={"where": "id % 3 <> 1"},
        source={"key": []},
        verify="Final",
    )

    def run(**own):
        with callers_session(spark, BUILT, own) as caller:
            settings = Settings(state_dir=tmp_path / "state", cores=2)
            outcome = Backfill.of(spec, folder=tmp_path, settings=settings).run(caller, on_progress=lambda _: None)
            assert outcome.receipt.equal
        return [footer_of(spark, path) for path in Path(target).rglob("*.parquet")]

    return run


def footer_of(spark, path):
    """Return the footer of a Parquet file as a Java object."""
    parquet = java(spark).org.apache.parquet.hadoop
    file = parquet.util.HadoopInputFile.fromPath(java(spark).org.apache.hadoop.fs.Path(str(path)), hadoop_conf(spark))
    reader = parquet.ParquetFileReader.open(file)
    try:
        return reader.getFooter()
    finally:
        reader.close()


def columns_of(footer):
    """Return the columns of the first row group of a file, by name."""
    return {str(column.getPath().toDotString()): column for column in items(footer.getBlocks().get(0).getColumns())}


def codecs(footers):
    """Return the codecs of all columns."""
    return {str(column.getCodec()) for footer in footers for column in columns_of(footer).values()}


class TestFilesWrittenInACallersSession:
    """The files are equal to those of the command line."""

    def test_timestamps_have_statistics_and_days_their_calendar(self, staged):
        """An INT96 has no statistics, and Kernel rejects the statistics of a row group in which all values are equal."""
        footers = staged()

        assert footers
        for footer in footers:
            loaded = columns_of(footer)["loaded"]
            assert str(loaded.getPrimitiveType().getPrimitiveTypeName()) == "INT64"
            assert loaded.getStatistics().hasNonNullValue()
            assert "org.apache.spark.legacyDateTime" not in dict(footer.getFileMetaData().getKeyValueMetaData())
        assert codecs(footers) == {"ZSTD"}

    def test_a_codec_that_the_caller_sets_later_is_kept(self, staged):
        """It changes no value."""
        footers = staged(**{"spark.sql.parquet.compression.codec": "snappy"})

        assert codecs(footers) == {"SNAPPY"}
