"""Shared by all suites: one embedded Spark a run, and folders that go away."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
JARS = Path(os.environ.get("BACKFILL_JARS_DIR", ROOT / ".cache" / "jars"))


@pytest.fixture(scope="session")
def spark():
    """One session for all tests: starting one takes seconds."""
    from backfill_spark.session import open_session

    session = open_session(
        app_name="tests",
        cores=2,
        memory="2g",
        jars_dir=JARS if JARS.is_dir() else None,
        conf={"spark.databricks.delta.retentionDurationCheck.enabled": "false", "spark.sql.shuffle.partitions": "2"},
    )
    yield session
    session.stop()
