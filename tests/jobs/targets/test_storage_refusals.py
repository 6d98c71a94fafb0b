"""A full disk and a folder without write access, on real files: the error is explained, and no row is lost.

The tests limit the size of files that the JVM may write. The same calls fail in the same places as on a full disk, and space
returns at once. A folder refuses root, too, once the process has lost its right to override modes.
"""

import contextlib
import ctypes
import errno
import os
import resource
import subprocess
import sys
import threading

import pytest
from support.tables.jobs import job, make_orders, write_yaml

from backfill_core.errors import PermissionDeniedError, StorageFullError, TransientError
from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.gateway import java
from backfill_spark.rows.write_modes import APPEND
from backfill_spark.settings import DriverSettings
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.sink import DeltaSink
from backfill_spark.sources.delta.source import DeltaTableSource

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
SMALL = 40_000
linux = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of another process are Linux's")


@contextlib.contextmanager
def files_of_at_most(spark, size_bytes):
    """Let the JVM write no file above a size."""
    pid = java(spark).java.lang.ProcessHandle.current().pid()
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def settings(folder):
    return DriverSettings(cores=2, state_dir=folder / "state", check_unique=False)


@linux
class TestAFullDisk:
    """The error is retryable: sealed rows stay, and unfinished work is repeated."""

    def noise(self, spark, rows):
        return spark.range(0, rows, 1, 1).selectExpr("id", "sha2(cast(id AS string), 512) AS noise")

    @pytest.fixture
    def sink(self, spark, tmp_path):
        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode=APPEND, key=(), job_id="j")
        sink.prepare(self.noise(spark, 1).schema)
        # The first file of a JVM unpacks the compressor's library: under the limit it would be broken for good.
        sink.stage(self.noise(spark, 1), attempt=1, work_id=0)
        return sink

    def test_a_full_disk_while_staging_is_retryable(self, spark, sink):
        """Administrators free space on a full disk, so the job retries."""
        source = DeltaTableSource(spark, sink.path, key=())
        source.pin(None)

        with files_of_at_most(spark, SMALL), pytest.raises(Exception) as failure:
            sink.stage(self.noise(spark, 20_000), attempt=1, work_id=1)
        error = source.explain_failure(failure.value)
        assert isinstance(error, StorageFullError), failure.value
        assert error.retryable

    def test_a_full_disk_while_sealing_leaves_the_target_readable(self, spark, sink):
        """A partly written commit is ignored, too."""
        committer = DeltaCommitter(spark, sink.path, app_id="a", domain="backfill.x")
        files = committer.measure(sink.stage(self.noise(spark, 100), attempt=1, work_id=1))

        with files_of_at_most(spark, 100), pytest.raises(StorageFullError):
            committer.seal(1, files, "state")
        assert spark.read.format("delta").load(sink.path).count() == 0
        committer.seal(1, files, "state")
        assert spark.read.format("delta").load(sink.path).count() == 100
        assert committer.read_state().text == "state"

    def test_a_job_continues_when_there_is_space_again(self, spark, tmp_path):
        """No manual start is needed."""
        make_orders(spark, str(tmp_path / "s"), 40_000, files=4)
        # The limit applies to the Java process, which writes the decoded rows.
        backfill = job(str(tmp_path / "s"), str(tmp_path / "t"), verify="Final", transform={"where": "true"})
        reasons, room = [], threading.Event()

        def observe(progress):
            reasons.append(progress.reason)
            if "no space left" in progress.reason:
                room.set()

        with contextlib.ExitStack() as full:
            full.enter_context(files_of_at_most(spark, SMALL))
            waiting = threading.Thread(target=lambda: (room.wait(), full.close()))
            waiting.start()
            try:
                outcome = run_driver(backfill, settings=settings(tmp_path), spark=spark, observe=observe)
            finally:
                room.set()
                waiting.join()

        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert outcome.receipt.equal
        assert outcome.receipt.rows == 40_000
        assert any("no space left" in reason for reason in reasons), set(reasons)

    @pytest.mark.parametrize("transform", [{}, {"select": ["id", "note"]}], ids=["whole", "projected"])
    def test_a_full_disk_while_files_are_copied_delays_the_job(self, spark, tmp_path, transform, monkeypatch):
        """A truncated copy is no file of the target: the job waits and copies the file again."""
        make_orders(spark, str(tmp_path / "s"), 40_000, files=4)
        backfill = job(
            str(tmp_path / "s"),
            str(tmp_path / "t"),
            verify="Final",
            transform=transform,
            target={"writeMode": "Append"},
        )
        reasons, room = [], threading.Event()

        def full_disk(*given):
            # The limit applies to the Java process, so only to copies by Hadoop.
            raise OSError(errno.ENOSPC, "No space left on device")

        def observe(progress):
            reasons.append(progress.reason)
            if "no space left" in progress.reason:
                room.set()

        monkeypatch.setattr("backfill_spark.file_copies.bytes._copied", full_disk)
        with contextlib.ExitStack() as full:
            full.enter_context(files_of_at_most(spark, SMALL))
            waiting = threading.Thread(target=lambda: (room.wait(), full.close()))
            waiting.start()
            try:
                outcome = run_driver(backfill, settings=settings(tmp_path), spark=spark, observe=observe)
            finally:
                room.set()
                waiting.join()

        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert outcome.receipt.equal
        assert any("no space left" in reason for reason in reasons), set(reasons)


@linux
class TestNoWriteAccess:
    """The error is final: an administrator has to grant access."""

    def test_a_log_of_the_target_without_write_access_ends_the_job(self, spark, tmp_path):
        """The target's folder is writable, but its log is not: only the commit finds out."""
        make_orders(spark, str(tmp_path / "s"), 10, files=1)
        DeltaSink(spark, str(tmp_path / "t"), write_mode=APPEND, key=(), job_id="j").prepare(
            spark.read.format("delta").load(str(tmp_path / "s")).schema
        )
        spec = write_yaml(tmp_path / "job.yaml", str(tmp_path / "s"), str(tmp_path / "t"))
        log = tmp_path / "t" / "_delta_log"
        before = sorted(log.glob("*.json"))
        log.chmod(0o555)
        for folder in log.iterdir():
            folder.chmod(0o555)

        done = subprocess.run(
            [sys.executable, "-m", "backfill_spark", "-f", str(spec)],
            env=dict(os.environ, BACKFILL_STATE_DIR=str(tmp_path / "state"), BACKFILL_MEMORY="1g"),
            preexec_fn=self.lose_override, capture_output=True, text=True, check=False,
        )  # fmt: skip
        log.chmod(0o755)

        assert done.returncode == PermissionDeniedError.exit_code, done.stdout + done.stderr
        assert "PermissionDenied" in done.stdout + done.stderr
        assert sorted(log.glob("*.json")) == before

    @pytest.mark.spark
    @pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
    def test_a_disk_that_is_mounted_read_only_ends_the_job(self, spark, tmp_path):
        """Modes let root pass, and the kernel does not (fault D7)."""
        make_orders(spark, str(tmp_path / "s"), 10, files=1)
        disk = tmp_path / "disk"
        disk.mkdir()
        spec = write_yaml(tmp_path / "job.yaml", str(tmp_path / "s"), str(disk / "t"))

        done = subprocess.run(
            ["unshare", "--mount", "sh", "-ec", 'mount --bind "$0" "$0"; mount -o remount,bind,ro "$0"; exec "$@"',
             disk, sys.executable, "-m", "backfill_spark", "-f", spec],
            env=dict(os.environ, BACKFILL_STATE_DIR=str(tmp_path / "state"), BACKFILL_MEMORY="1g"),
            capture_output=True, text=True, check=False,
        )  # fmt: skip

        assert done.returncode == PermissionDeniedError.exit_code, done.stdout + done.stderr
        assert f"{disk} is not writable for this user: the file system is read-only" in done.stdout + done.stderr

    @staticmethod
    def lose_override():
        """Drop the right that lets root override modes. A process without it is stopped by modes already."""
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


class Refusing:
    """A file system that refuses to open any file, with an exception of the JVM."""

    def __init__(self, exception):
        self.exception = exception

    def open(self, path):
        from py4j.protocol import Py4JJavaError

        raise Py4JJavaError("An error occurred", self.exception)


class SourceOnAFailingDisk(DeltaTableSource):
    """A source that at some time can no longer open the files of its log."""

    def fail_with(self, exception):
        self._log.file_system = Refusing(exception)


class TestALogThatCannotBeRead:
    """Only a missing file has expired. After another failure the log may soon be readable again."""

    @pytest.mark.parametrize(
        ("name", "error"),
        [
            ("org.apache.hadoop.security.AccessControlException", PermissionDeniedError),
            ("java.net.SocketTimeoutException", TransientError),
        ],
    )
    def test_an_unreadable_log_is_not_called_expired(self, spark, tmp_path, name, error):
        """Expired ends the job for good."""
        make_orders(spark, str(tmp_path / "s"), 10, files=1)
        source = SourceOnAFailingDisk(spark, str(tmp_path / "s"), key=())
        source.pin(None)
        made = java(spark)
        for part in name.split("."):
            made = getattr(made, part)
        source.fail_with(made("no"))

        with pytest.raises(error):
            source.check_versions(0, 1)
