"""Dangerous interfaces are used in one place."""

import subprocess
import sys

import pytest
from support.repository import ROOT, SPARK, attribute_chains, name, packaged

KERNEL = {
    SPARK / "sinks" / "delta" / "committer.py",
    SPARK / "sinks" / "delta" / "create.py",
    SPARK / "delta" / "log.py",
    SPARK / "jvm" / "object_store" / "object_batches.py",
}
DELTA = {SPARK / "delta" / "spark_internals.py", SPARK / "delta" / "vectors" / "bitmaps.py"}
GATEWAY = {SPARK / "jvm" / "gateway.py"}
FRAMES = {SPARK / "delta" / "spark_internals.py", SPARK / "rows" / "columns.py", SPARK / "rows" / "transform.py"}
"""These files call Java's own `createDataFrame`."""

STATISTICS = {SPARK / "delta" / "statistics" / "misstated.py"}
"""This file still calls pyspark's `createDataFrame`."""

SESSION = {SPARK / "jvm" / "session.py"}
SETTINGS = {path for path in packaged() if path.name == "settings.py"}


def users(*fragments):
    """Return the packaged files in which an attribute chain contains one of the fragments."""
    return {
        path
        for path in packaged()
        if any(part in f"{chain}." for chain in attribute_chains(path) for part in fragments)
    }


class TestOneDoor:
    """A change of how something is done needs an edit of one file."""

    def test_delta_kernel_is_used_where_logs_are_read_begun_and_sealed(self):
        """Its API is not stable; a conformance suite guards each of three files."""
        assert users(".delta.kernel.", ".kernel.") == KERNEL

    def test_the_internals_of_delta_in_spark_are_used_in_two_files(self):
        """A release of Delta may change them without notice; then these files must be checked."""
        assert users(".spark.sql.delta.", ".forTable", ".getSnapshotAt", ".unsafeVolatileSnapshot") == DELTA

    def test_only_the_session_module_makes_sessions(self):
        """A session from a global lookup has arbitrary settings."""
        assert users("SparkSession.builder", ".getActiveSession", ".getOrCreate") == SESSION

    def test_only_the_gateway_makes_a_session_active(self):
        """Each of our threads has one active session, the job's: Delta makes frames in it."""
        assert users(".setActiveSession") == GATEWAY

    def test_pyspark_makes_no_frames(self):
        """Its `createDataFrame` makes the job's session the active one of the caller's process."""
        assert users(".createDataFrame") == FRAMES | STATISTICS

    def test_only_settings_read_the_environment(self):
        """A setting that is read elsewhere cannot be listed, passed or validated."""
        assert users("os.environ", "os.getenv") <= SETTINGS

    def test_no_code_sleeps(self):
        """Code waits for an event with a deadline."""
        assert users("time.sleep", "asyncio.sleep") == set()


PLANTED = {
    "environ": "import os\nX = os.environ['A']\n",
    "environ by name": "from os import environ\nX = environ['A']\n",
    "getenv": "import os\nX = os.getenv('A')\n",
    "sleep": "import time\ntime.sleep(1)\n",
    "now": "from datetime import UTC, datetime\nX = datetime.now(UTC)\n",
    "builder": "from pyspark.sql import SparkSession\nX = SparkSession.builder\n",
    "active session": "from pyspark.sql import SparkSession\nX = SparkSession.getActiveSession()\n",
    "mock": "from unittest.mock import MagicMock\nX = MagicMock()\n",
}


class TestTheBansBite:
    """A ban that catches nothing is useless."""

    @pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED.keys())
    def test_a_planted_violation_is_caught(self, text):
        """Ruff's banned API catches it."""
        command = [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--select=TID251",
            "--stdin-filename=spark_app/planted.py",
            "-",
        ]

        done = subprocess.run(command, input=text, cwd=ROOT, capture_output=True, text=True, check=False)

        assert done.returncode == 1
        assert "TID251" in done.stdout

    def test_a_private_name_of_another_class_is_caught(self):
        """`jvm/gateway.py` gives access to what pyspark hides; another access would go unnoticed."""
        command = [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--select=SLF001",
            "--stdin-filename=spark_app/planted.py",
            "-",
        ]

        done = subprocess.run(
            command,
            input="def f(spark):\n    return spark._jvm\n",
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

        assert "SLF001" in done.stdout

    def test_the_files_with_exceptions_exist(self):
        """A renamed file would leave its ban without an exception, or its exception without a file."""
        assert all(path.exists() for path in KERNEL | DELTA | GATEWAY | FRAMES | SESSION)
        assert {name(path) for path in SETTINGS} >= {"spark_app/backfill_spark/settings.py"}
