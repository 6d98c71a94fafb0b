"""What is dangerous to touch is touched in one place."""

import subprocess
import sys

import pytest
from support.repository import ROOT, SPARK, attribute_chains, name, packaged

KERNEL = {
    SPARK / "sinks" / "delta" / "committer.py",
    SPARK / "sinks" / "delta" / "create.py",
    SPARK / "delta" / "log.py",
}
DELTA = {SPARK / "delta" / "spark_internals.py"}
GATEWAY = {SPARK / "jvm" / "gateway.py"}
FRAMES = {SPARK / "delta" / "spark_internals.py", SPARK / "rows" / "columns.py", SPARK / "rows" / "transform.py"}
"""These call Java's own."""

STATISTICS = {SPARK / "delta" / "statistics" / "misstated.py"}
"""Calls pyspark's still."""

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
    """To change how something is done, one file is changed."""

    def test_delta_kernel_is_touched_where_logs_are_read_begun_and_sealed(self):
        """Its API is not stable; a conformance suite guards each of three files."""
        assert users(".delta.kernel.", ".kernel.") == KERNEL

    def test_the_internals_of_delta_in_spark_are_touched_in_one_file(self):
        """A release of Delta may change them without a word; then one file is read."""
        assert users(".spark.sql.delta.", ".forTable", ".getSnapshotAt", ".unsafeVolatileSnapshot") == DELTA

    def test_only_the_session_module_makes_sessions(self):
        """A session found by global lookup has settings that were not chosen."""
        assert users("SparkSession.builder", ".getActiveSession", ".getOrCreate") == SESSION

    def test_only_the_gateway_makes_a_session_active(self):
        """A thread of ours has one active session, the job's: Delta makes frames in it."""
        assert users(".setActiveSession") == GATEWAY

    def test_frames_are_not_made_by_pyspark(self):
        """Its `createDataFrame` makes the job's session the active one of the caller's process."""
        assert users(".createDataFrame") == FRAMES | STATISTICS

    def test_only_settings_read_the_environment(self):
        """A setting read elsewhere cannot be seen, passed or refused."""
        assert users("os.environ", "os.getenv") <= SETTINGS

    def test_no_code_sleeps(self):
        """Waiting is for an event, with a deadline."""
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
    """A ban that catches nothing is decoration."""

    @pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED.keys())
    def test_a_planted_violation_is_caught(self, text):
        """By ruff's banned API."""
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
        """`jvm/gateway.py` is the door to what pyspark hides; a second one would stay unseen."""
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

    def test_the_doors_themselves_exist(self):
        """A renamed door would leave its ban without a hole, or its hole without a door."""
        assert all(path.exists() for path in KERNEL | DELTA | GATEWAY | FRAMES | SESSION)
        assert {name(path) for path in SETTINGS} >= {"spark_app/backfill_spark/settings.py"}
