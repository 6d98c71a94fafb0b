"""`python -m backfill_spark` when it cannot start: a line for people, a line for programs, and the code for both."""

import json
import os
import subprocess
import sys

import pytest
from support.tables.jobs import write_yaml


def start(file, **environ):
    """Run the driver to its end; Java is somewhere else, so that none of these ever starts one."""
    return subprocess.run(
        [sys.executable, "-m", "backfill_spark", "-f", str(file)],
        env={**os.environ, "JAVA_HOME": "/nowhere", **environ}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.fixture
def file(tmp_path):
    return write_yaml(tmp_path / "job.yaml", "/s", "/t")


class TestItSaysWhyItDoesNotStart:
    """No stack trace: a program may have started it, or a user who does not read Python."""

    def ends(self, done, code, reason, *facts):
        last = json.loads(done.stdout.splitlines()[-1])
        assert (done.returncode, last["outcome"], last["reason"]) == (code, "Failed", reason)
        assert last["time"].endswith("Z")
        assert done.stderr.startswith(f"error: {reason}: ")
        assert "Traceback" not in done.stderr
        assert [fact for fact in facts if fact not in done.stderr] == []

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("BACKFILL_CORES", "many"),
            ("BACKFILL_CORES", "0"),
            ("BACKFILL_MEMORY", "4 gigabytes"),
            ("BACKFILL_CHECK_UNIQUE", "perhaps"),
            ("BACKFILL_CRASH_AT", "somewhere:1"),
            ("BACKFILL_CRASH_AT", "before_seal:-1"),
        ],
    )
    def test_a_bad_variable(self, file, name, value):
        """It is named, with its value and a hint."""
        self.ends(start(file, **{name: value}), 2, "InvalidSetting", f"{name}={value!r}", f"Correct or unset {name}.")

    def test_a_file_that_is_not_there(self, tmp_path):
        """A ConfigMap that was not mounted."""
        self.ends(start(tmp_path / "none.yaml"), 2, "InvalidSetting", "none.yaml", "No such file")

    def test_a_file_that_is_no_text(self, tmp_path):
        """A Parquet file given by mistake."""
        (tmp_path / "x").write_bytes(b"PAR1\xff\xfe")
        self.ends(start(tmp_path / "x"), 2, "InvalidSetting", "cannot be read")

    def test_a_file_that_is_no_backfill(self, tmp_path):
        """Every error of the file, as the command line says it."""
        wrong = write_yaml(tmp_path / "job.yaml", "/s", "/t", throtle={"rowsPerSecond": 1})
        self.ends(start(wrong), 20, "InvalidSpec", "spec.throtle", "throttle")

    def test_no_java(self, file, tmp_path):
        """What a person must install, and where JAVA_HOME points."""
        self.ends(start(file, BACKFILL_STATE_DIR=str(tmp_path)), 29, "JavaMissing", "Install Java")
