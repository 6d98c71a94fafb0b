"""Checkpoints of a target's log: readers see only complete ones, and none is built on an incomplete one."""

import json
import os
import re
import shutil
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable
from support.tables.jobs import checkpoint

from backfill_core.errors import BackfillError, TargetDamagedError
from backfill_spark.delta.checkpoints.log_cleanup import LogCleanup
from backfill_spark.delta.log import newest_version
from backfill_spark.jvm.gateway import java, java_context
from backfill_spark.sinks.delta.committer import DeltaCommitter

CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")


def checkpoints(spark, path):
    """Return a table's checkpoints as (protocols, metadata, files) by version, as Spark counts them."""
    counts = {}
    for file in Path(path, "_delta_log").iterdir():
        match = CHECKPOINT.fullmatch(file.name)
        if match:
            rows = spark.read.parquet(str(file)).selectExpr("count(protocol)", "count(metaData)", "count(add)")
            counts[int(match[1])] = tuple(rows.first())
    return counts


def files_at(path, version):
    """Return the number of files that the commits up to a version add; no commit removes a file."""
    commits = (Path(path, "_delta_log", f"{number:020d}.json").read_text() for number in range(version + 1))
    return sum(line.startswith('{"add"') for text in commits for line in text.splitlines())


@contextmanager
def overwritten(file):
    """Overwrite all values of a Parquet file except its footer, and restore it later, as a store that fails for a short time."""
    whole = file.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    file.write_bytes(whole[:4] + b"\xff" * (len(whole) - 4 - footer) + whole[-footer:])
    try:
        yield
    finally:
        file.write_bytes(whole)


def log_file(path, version):
    return Path(path, "_delta_log", f"{version:020d}.checkpoint.parquet")


@pytest.fixture
def filled(spark, table):
    """A target with a function that commits one file and returns the error of its hooks."""
    rows = spark.range(0, 40, 1, 40)
    target = table(rows)
    files = list(target.stage(rows))

    def commit():
        target.committer.seal(41 - len(files), [files.pop()], "state")
        try:
            target.committer.run_hooks()
        except BackfillError as error:
            return error
        return None

    target.commit = commit
    return target


class TestACheckpointThatCannotBeRead:
    """The next checkpoint is built on it, and must not be incomplete (fault B1)."""

    def test_no_half_written_checkpoint_is_left(self, spark, filled):
        """Kernel closes its file after an error, and the part that it wrote looks like a complete checkpoint."""
        for _ in range(12):
            assert filled.commit() is None
        with overwritten(log_file(filled.path, 10)):
            failures = [filled.commit() for _ in range(10)]
            during = checkpoints(spark, filled.path) if log_file(filled.path, 20).exists() else {}
        for _ in range(12):
            filled.commit()
        java(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()

        assert any(failures)
        assert 20 not in during
        expected = {version: (1, 1, files_at(filled.path, version)) for version in checkpoints(spark, filled.path)}
        assert checkpoints(spark, filled.path) == expected
        assert max(expected) == 30
        assert len(DeltaTable(filled.path).file_uris()) == 34
        assert filled.read().count() == 34

    def test_spark_writes_the_checkpoint_that_kernel_cannot_write(self, spark, filled):
        """Only Kernel lacks the codec here.

        Without Spark's checkpoint each reader replays commits until the next one.
        """
        settings = java_context(spark).hadoopConfiguration()
        settings.set("parquet.compression", "no-such-codec")
        try:
            filled.committer = filled.open()
        finally:
            settings.unset("parquet.compression")
        failures = [filled.commit() for _ in range(12)]

        assert failures == [None] * 12
        [version] = checkpoints(spark, filled.path)
        assert version >= 10
        assert checkpoints(spark, filled.path) == {version: (1, 1, files_at(filled.path, version))}


def without(spark, path, version, condition):
    """Rewrite a checkpoint of a table without some of its rows."""
    file, folder = log_file(path, version), Path(path).with_name("rewritten")
    spark.read.parquet(str(file)).where(f"NOT coalesce({condition}, false)").coalesce(1).write.parquet(str(folder))
    [rewritten] = folder.glob("*.parquet")
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.write_bytes(rewritten.read_bytes())


class TestAnIncompleteCheckpoint:
    """An earlier release or another writer made it. A checkpoint that is built on it is incomplete, too."""

    def test_a_checkpoint_without_a_protocol_ends_the_job_before_the_first_write(self, spark, filled):
        """No reader could read rows that are committed now."""
        for _ in range(11):
            filled.commit()
        without(spark, filled.path, 10, "protocol IS NOT NULL")

        with pytest.raises(TargetDamagedError, match=r"0010\.checkpoint\.parquet has no protocol"):
            filled.open().check()

    def test_a_checkpoint_that_is_damaged_while_a_job_runs_ends_the_job(self, spark, filled):
        """No checkpoint is built on it, and the next commit names it."""
        for _ in range(11):
            filled.commit()
        without(spark, filled.path, 10, "metaData IS NOT NULL")
        failures = [filled.commit() for _ in range(9)]

        assert [type(failure) for failure in failures if failure] == [TargetDamagedError]
        assert not log_file(filled.path, 20).exists()
        with pytest.raises(TargetDamagedError, match="has no metadata"):
            filled.commit()

    def test_a_checkpoint_with_fewer_files_than_its_version_is_named_and_not_built_on(self, spark, filled):
        """Either it or the checksum of its version is wrong, so the job continues with a warning."""
        for _ in range(11):
            filled.commit()
        without(spark, filled.path, 10, "add.path LIKE '%part-0003%'")
        java(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
        failures = [filled.commit() for _ in range(10)]

        messages = [str(failure) for failure in failures if failure]
        assert messages
        assert all("0010.checkpoint.parquet has" in text and "counts 10" in text for text in messages)
        assert not log_file(filled.path, 20).exists()


def aged(path, days):
    """Set the times of all files of a log back."""
    for file in Path(path, "_delta_log").iterdir():
        if file.is_file():
            then_s = file.stat().st_mtime - days * 86_400
            os.utime(file, (then_s, then_s))


def names_in_log(path):
    return {file.name for file in Path(path, "_delta_log").iterdir() if file.is_file() and file.name[0] != "."}


class TestTheDistanceOfCheckpoints:
    """A checkpoint lists every file, so a large table gets one after more commits."""

    def test_a_larger_table_gets_its_next_checkpoint_later(self, spark, filled):
        """The hint of the newest checkpoint has the number of its files, here 100,000, which are 20 commits."""
        for _ in range(11):
            filled.commit()
        hint = Path(filled.path, "_delta_log", "_last_checkpoint")
        hint.write_text(json.dumps({**json.loads(hint.read_text()), "size": 100_000}))
        hint.with_name("._last_checkpoint.crc").unlink()
        filled.committer = filled.open()

        failures = [filled.commit() for _ in range(20)]

        assert failures == [None] * 20
        assert sorted(checkpoints(spark, filled.path)) == [10, 30]


class TestExpiredFilesOfTheLog:
    """They are removed as after a checkpoint by Spark (fault B5). Otherwise the log grows forever."""

    @pytest.fixture
    def old(self, spark, table):
        """A target of 39 commits that are 45 days old, and a copy of it; the next commit has a checkpoint."""

        def make(properties=None):
            target = table(spark.range(1), properties=properties)
            for version in range(1, 40):
                target.committer.seal(version, (), f"s{version}")
                target.committer.run_hooks()
            assert target.committer.hooks.cleanup.join(60)
            aged(target.path, 45)
            copy = f"{target.path}-copy"
            shutil.copytree(target.path, copy)
            java(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
            target.committer = target.open()
            return target, copy

        return make

    def commit(self, target):
        target.committer.seal(40, (), "s40")
        target.committer.run_hooks()
        assert target.committer.hooks.cleanup.join(60)

    @pytest.mark.parametrize("alone", [False, True], ids=["shared", "alone"])
    def test_the_removed_files_are_those_that_spark_removes_from_a_copy_of_the_log(self, spark, old, alone):
        """They are commits, checksums and checkpoints. The reference is a commit by Spark to the copy."""
        target, copy = old()
        before = names_in_log(copy)
        target.committer = DeltaCommitter(spark, target.path, app_id="app", domain="backfill.test", alone=alone)
        self.commit(target)
        spark.range(1).write.format("delta").mode("append").save(copy)

        assert names_in_log(target.path) == names_in_log(copy)
        assert len(before - names_in_log(target.path)) > 60
        assert newest_version(spark, target.path).position == 40
        assert target.committer.read_state().text == "s40"

    @pytest.mark.parametrize(
        "properties",
        [{"delta.enableExpiredLogCleanup": "false"}, {"delta.logRetentionDuration": "interval 60 days"}],
        ids=["off", "longer"],
    )
    def test_expired_files_stay_if_the_table_requires_it(self, old, properties):
        """Users keep versions for as long as they configure."""
        target, _ = old(properties)
        before = names_in_log(target.path)
        self.commit(target)

        assert names_in_log(target.path) >= before

    def test_expired_files_are_searched_once_a_day(self, spark, old):
        """A listing of a log with 100,000 commits takes seconds."""
        target, _ = old()
        day = [int(time.time()) // 86_400]
        cleanup = LogCleanup(spark, target.path, lambda: day[0])
        cleanup.start()
        assert cleanup.join(60)
        remaining = names_in_log(target.path)
        checkpoint(spark, target.path, 39)
        aged(target.path, 45)
        for _ in range(2):
            cleanup.start()
            assert cleanup.join(60)
        assert names_in_log(target.path) >= remaining

        day[0] += 1
        cleanup.start()
        assert cleanup.join(60)
        assert not names_in_log(target.path) >= remaining
