"""Checks before a seal that the staged files are unchanged."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.endings import assert_ending

from backfill_core.errors import StagedFilesGoneError, UnexpectedError
from backfill_core.protocol.work import StagedFile
from backfill_spark.jvm.gateway import java_context
from backfill_spark.rows.write_modes import APPEND
from backfill_spark.sinks.delta.sink import DeltaSink
from backfill_spark.sinks.delta.staging import StagingFolder


class TestFilesThatASealNames:
    """They are checked before each seal: on a local disk one after another, elsewhere by a listing."""

    @pytest.mark.parametrize("table", ["{0}", "viewfs://staged{0}"])
    def test_named_files_exist_as_they_were_staged(self, spark, tmp_path, table):
        """A commit that names a missing file breaks the table for each reader."""
        conf = java_context(spark).hadoopConfiguration()
        conf.set(f"fs.viewfs.mounttable.staged.link.{tmp_path}", f"file://{tmp_path}")
        folder = StagingFolder(spark, table.format(tmp_path), "0f")
        paths = [tmp_path / "backfill-0f" / "a1" / f"s{work}" / "d=a b%25é" / f"{work}.parquet" for work in (1, 2)]
        for path in paths:
            path.parent.mkdir(parents=True)
            path.write_bytes(b"rows")
        paths[0].with_name(".1.parquet.crc").write_bytes(b"sum")
        files = [StagedFile(str(path), 4, 1) for path in paths]

        assert folder.files(folder.path) == sorted(map(str, paths))
        assert folder.files(f"{folder.path}/a2") == []
        folder.check(files)
        with pytest.raises(StagedFilesGoneError, match="1 of 2 staged files are gone or changed"):
            folder.check([files[0], replace(files[1], size_bytes=5)])
        paths[0].unlink()
        with pytest.raises(StagedFilesGoneError, match="s1/"):
            folder.check(files)


class VacuumedAtOnce(StagingFolder):
    """A staging folder that removes files immediately after their write."""

    def files(self, folder):
        files = super().files(folder)
        for path in files:
            Path(path).unlink()
        return files


class SinkOnAVacuumedFolder(DeltaSink):
    """A sink that stages into a folder that loses its files at once."""

    def __init__(self, spark, path, **options):
        super().__init__(spark, path, **options)
        self._staging = VacuumedAtOnce(spark, self.path, self.job_hash)


class TestFilesThatGoBeforeTheirFooterIsRead:
    def test_files_without_a_footer_are_staged_again(self, spark, tmp_path):
        """The target is not damaged: no commit names the files yet."""
        sink = SinkOnAVacuumedFolder(spark, str(tmp_path / "t"), write_mode=APPEND, key=(), job_id="j")
        sink.prepare(spark.range(1).schema)

        with pytest.raises(StagedFilesGoneError, match="a staged file is gone") as gone:
            sink.stage(spark.range(5), attempt=1, work_id=1)
        assert_ending(gone.value, "StagedFilesGone")


class TestAFileThatDeltaRefuses:
    """The next attempt would write the same file."""

    def test_a_file_that_delta_refuses_is_no_passing_trouble(self, spark, table):
        """Kernel refuses the statistics of a row group in which all timestamps of the old type are equal (fault D2)."""
        rows = spark.range(0, 5, 1, 1).selectExpr("timestamp_seconds(0) AS at")
        target, old = table(rows), spark.newSession()
        old.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
        folder = f"{target.path}/backfill-0f/a1/s1"
        old.range(0, 5, 1, 1).selectExpr("timestamp_seconds(0) AS at").write.parquet(folder)

        with pytest.raises(UnexpectedError, match=f"rejects a file that this job wrote, {folder}") as refused:
            target.committer.measure([str(path) for path in Path(folder).glob("*.parquet")])

        assert refused.value.reason == "Unexpected"
