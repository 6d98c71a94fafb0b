"""`python -m backfill_spark` when it cannot start: a line for users, a line for programs, and the exit code for both."""

import json
import os
import subprocess
import sys

import pytest
from support.console import forked
from support.tables.jobs import write_yaml


def start(file, **environ):
    """Run the driver to its end; JAVA_HOME contains no Java, so no run starts a JVM."""
    environ = {**os.environ, "JAVA_HOME": "/nowhere", **environ}
    return forked.run(["-m", "backfill_spark", "-f", file], env=environ, capture_output=True, text=True, timeout=60)


WRONG = (
    ("BACKFILL_CORES", "many"),
    ("BACKFILL_CORES", "0"),
    ("BACKFILL_MEMORY", "4 gigabytes"),
    ("BACKFILL_CHECK_UNIQUE", "perhaps"),
    ("BACKFILL_CRASH_AT", "somewhere:1"),
    ("BACKFILL_CRASH_AT", "before_seal:-1"),
)


@pytest.fixture
def file(tmp_path):
    return write_yaml(tmp_path / "job.yaml", "/s", "/t")


class TestItSaysWhyItDoesNotStart:
    """It prints no stack trace: a program may have started it, or a user who does not read Python."""

    def ends(self, done, code, reason, *facts):
        last = json.loads(done.stdout.splitlines()[-1])
        assert (done.returncode, last["outcome"], last["reason"]) == (code, "Failed", reason)
        assert last["time"].endswith("Z")
        assert done.stderr.startswith(f"error: {reason}: ")
        assert "Traceback" not in done.stderr
        assert [fact for fact in facts if fact not in done.stderr] == []

    @pytest.mark.parametrize(("name", "value"), WRONG)
    def test_a_wrong_variable_is_named(self, file, name, value):
        """The message contains its value and a hint."""
        done = start(file, **{name: value})
        self.ends(done, 2, "InvalidSetting", f"{name}={value!r}", f"Correct or unset {name}.")

    def test_a_missing_file_is_named(self, tmp_path):
        """A ConfigMap may not be mounted."""
        self.ends(start(tmp_path / "none.yaml"), 2, "InvalidSetting", "none.yaml", "No such file")

    def test_a_binary_file_is_refused(self, tmp_path):
        """A user may give a Parquet file by mistake."""
        (tmp_path / "x").write_bytes(b"PAR1\xff\xfe")
        self.ends(start(tmp_path / "x"), 2, "InvalidSetting", "cannot be read")

    def test_an_invalid_backfill_is_refused(self, tmp_path):
        """The output contains every error of the file, as on the command line."""
        wrong = write_yaml(tmp_path / "job.yaml", "/s", "/t", throtle={"rowsPerSecond": 1})
        self.ends(start(wrong), 20, "InvalidSpec", "spec.throtle", "throttle")

    def test_missing_java_is_reported(self, file, tmp_path):
        """The hint names the package to install, and the value of JAVA_HOME; this process loads its modules itself."""
        environ = {**os.environ, "JAVA_HOME": "/nowhere", "BACKFILL_STATE_DIR": str(tmp_path)}
        command = [sys.executable, "-m", "backfill_spark", "-f", file]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=60)

        self.ends(done, 29, "JavaMissing", "Install Java")
