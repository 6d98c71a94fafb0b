"""The class archive saves time and changes nothing: used when it fits, left alone when it does not."""

import subprocess
from pathlib import Path

import pytest
from conftest import JARS

from backfill_spark.jvm.class_archive import java_option, path_of
from backfill_spark.jvm.gateway import java

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
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux says what a process has mapped")
def test_a_session_runs_on_the_archive_that_fits(spark):
    """A JVM maps an archive only after it has found that Java, jars and class path are the same."""
    pid = java(spark).java.lang.ProcessHandle.current().pid()

    assert str(path_of(JARS)) in Path(f"/proc/{pid}/maps").read_text()
