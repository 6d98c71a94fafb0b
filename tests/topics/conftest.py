"""Jobs of a topic of the suite's broker."""

import pytest
from support.kafka.jobs import job_of


@pytest.fixture
def run_topic(spark, broker, tmp_path):
    """Run a job of a topic, as `job_of`."""
    return job_of(spark, broker.address, tmp_path)
