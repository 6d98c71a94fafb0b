"""The class archive saves start-up time and changes nothing else. Java uses it only if it fits."""

import mmap
import os
import subprocess
from pathlib import Path

import pytest
from conftest import JARS

from backfill_spark.jvm.class_archive import java_option, path_of, remember, unused, warn_when_unused
from backfill_spark.jvm.gateway import java

LINUX = Path("/proc/self/maps").exists()
ARCHIVED, WHY = path_of(JARS).is_file(), "no class archive here; `make setup` makes one"


def test_java_gets_no_option_for_an_archive_that_does_not_exist(tmp_path):
    """Java would print a warning at each start."""
    assert java_option(tmp_path) == ""


@pytest.mark.skipif(not ARCHIVED, reason=WHY)
def test_java_starts_quietly_with_an_archive_that_it_cannot_use(tmp_path):
    """Java treats another class path, another Java and another version of a jar in the same way."""
    other = f"-cp {tmp_path}/another.jar"

    printed = subprocess.run(
        ["java", *java_option(JARS).split(), *other.split(), "-version"], capture_output=True, text=True, check=True
    )

    assert "archive" not in printed.stdout + printed.stderr


@pytest.mark.skipif(not ARCHIVED, reason=WHY)
@pytest.mark.skipif(not LINUX, reason="only Linux lists the mapped files of a process")
def test_a_session_runs_on_the_archive_that_fits(spark):
    """A JVM maps an archive only after it has found that Java, jars and class path are the same."""
    pid = java(spark).java.lang.ProcessHandle.current().pid()

    assert str(path_of(JARS)) in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.skipif(not (LINUX and ARCHIVED), reason=WHY)
def test_a_session_that_runs_on_it_logs_nothing(spark, caplog):
    """A session with another archive logs one warning with the reason."""
    warn_when_unused(spark, JARS)
    assert caplog.messages == []

    warn_when_unused(spark, JARS / "elsewhere")
    [message] = caplog.messages
    assert "start more slowly" in message
    assert "there is no archive at" in message


@pytest.mark.skipif(not LINUX, reason="only Linux lists the mapped files of a process")
class TestWhyItIsNotUsed:
    """A derived image with one more jar does not use the archive, so its drivers start more slowly.

    The warning names the reason.
    """

    @pytest.fixture
    def archive(self, tmp_path):
        """An archive of a class path of three entries, which this process may map."""
        path_of(tmp_path).write_bytes(b"classes")
        remember(tmp_path, "/jars/a.jar:/jars/b.jar:/jars/c.jar")
        return path_of(tmp_path)

    @pytest.mark.parametrize(
        ("class_path", "reason"),
        [
            ("/jars/a.jar:/jars/azure.jar:/jars/b.jar:/jars/c.jar", "azure.jar was added to the class path after"),
            ("/jars/a.jar:/jars/c.jar", "b.jar was removed from the class path after"),
            ("/jars/b.jar:/jars/a.jar:/jars/c.jar", "the order of the class path changed after"),
            ("/jars/a.jar:/jars/b.jar:/jars/c.jar", "Java or a jar changed after the archive was made"),
            (":".join(f"/jars/{jar}.jar" for jar in "abcdefgh"), "d.jar, e.jar, f.jar and 2 more"),
        ],
    )  # fmt: skip
    def test_the_reason_names_the_difference(self, archive, class_path, reason):
        """It lists at most three jars and the number of the others."""
        assert reason in unused(os.getpid(), class_path, archive.parent)

    def test_there_is_no_reason_if_the_process_has_mapped_it(self, archive):
        """The class path does not matter: Java has compared it."""
        with archive.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
            assert unused(os.getpid(), "/jars/other.jar", archive.parent) is None

    def test_there_is_no_reason_if_it_cannot_be_known(self, archive):
        """The process has ended, or the system has no such folder."""
        assert unused(0, "/jars/a.jar", archive.parent) is None

    def test_the_reason_is_short_without_a_stored_class_path(self, archive):
        """An earlier version made the archive."""
        archive.with_suffix(".path").unlink()
        assert "Java, a jar or the class path changed after" in unused(os.getpid(), "/jars/a.jar", archive.parent)
