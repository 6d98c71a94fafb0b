"""The class archive saves time and changes nothing: used when it fits, left alone when it does not."""

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


def test_java_is_told_nothing_of_an_archive_that_is_not_there(tmp_path):
    """Java would warn about it at each start."""
    assert java_option(tmp_path) == ""


@pytest.mark.skipif(not ARCHIVED, reason=WHY)
def test_java_starts_quietly_with_an_archive_that_it_cannot_use(tmp_path):
    """Another class path, Java or version of a jar: all the same to it."""
    other = f"-cp {tmp_path}/another.jar"

    said = subprocess.run(
        ["java", *java_option(JARS).split(), *other.split(), "-version"], capture_output=True, text=True, check=True
    )

    assert "archive" not in said.stdout + said.stderr


@pytest.mark.skipif(not ARCHIVED, reason=WHY)
@pytest.mark.skipif(not LINUX, reason="only Linux says what a process has mapped")
def test_a_session_runs_on_the_archive_that_fits(spark):
    """A JVM maps an archive only after it has found that Java, jars and class path are the same."""
    pid = java(spark).java.lang.ProcessHandle.current().pid()

    assert str(path_of(JARS)) in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.skipif(not (LINUX and ARCHIVED), reason=WHY)
def test_a_session_that_runs_on_it_says_nothing(spark, caplog):
    """And one of another archive says so once, with what is known."""
    warn_when_unused(spark, JARS)
    assert caplog.messages == []

    warn_when_unused(spark, JARS / "elsewhere")
    [said] = caplog.messages
    assert "start more slowly" in said
    assert "there is no archive at" in said


@pytest.mark.skipif(not LINUX, reason="only Linux says what a process has mapped")
class TestWhyItIsNotUsed:
    """A derived image with one jar more loses it, and all its drivers start more slowly: that is said, and why."""

    @pytest.fixture
    def archive(self, tmp_path):
        """An archive of a class path of three entries, which this process may map."""
        path_of(tmp_path).write_bytes(b"classes")
        remember(tmp_path, "/jars/a.jar:/jars/b.jar:/jars/c.jar")
        return path_of(tmp_path)

    @pytest.mark.parametrize(
        ("class_path", "words"),
        [
            ("/jars/a.jar:/jars/azure.jar:/jars/b.jar:/jars/c.jar", "azure.jar was added to the class path after"),
            ("/jars/a.jar:/jars/c.jar", "b.jar was removed from the class path after"),
            ("/jars/b.jar:/jars/a.jar:/jars/c.jar", "the order of the class path changed after"),
            ("/jars/a.jar:/jars/b.jar:/jars/c.jar", "Java or a jar changed after the archive was made"),
            (":".join(f"/jars/{one}.jar" for one in "abcdefgh"), "d.jar, e.jar, f.jar and 2 more"),
        ],
    )  # fmt: skip
    def test_names_what_is_known(self, archive, class_path, words):
        """The first jars, or what is left to look at."""
        assert words in unused(os.getpid(), class_path, archive.parent)

    def test_is_nothing_where_a_process_has_it(self, archive):
        """Whatever the class path says: Java has looked."""
        with archive.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
            assert unused(os.getpid(), "/jars/other.jar", archive.parent) is None

    def test_is_nothing_where_it_cannot_be_known(self, archive):
        """A process that is gone, or a system without such a folder."""
        assert unused(0, "/jars/a.jar", archive.parent) is None

    def test_is_short_where_no_class_path_is_remembered(self, archive):
        """An archive of a version before."""
        archive.with_suffix(".path").unlink()
        assert "Java, a jar or the class path changed after" in unused(os.getpid(), "/jars/a.jar", archive.parent)
