"""One real driver of each strategy is killed with SIGKILL and started again; `make crash` kills many, at every point.

A start of a Java costs 20 CPU seconds, so the drivers leave theirs behind: it ends its current work, a commit or a MERGE, while
the next driver already begins.
"""

from dataclasses import replace

import pytest
from support.crashes.deaths import RANDOM, Death
from support.crashes.table_job import HIDDEN, TRIALS, TableJob
from support.crashes.topic_job import TopicJob

SEALS = 3
"""Commits after which the driver dies: the fence and some rows are committed by then."""

RECORDS, RATE = 4_800, 600
SMALL = {
    "Snapshot": replace(TRIALS["Snapshot"], rows=6_000, rate=RATE),
    "Arrangement": replace(TRIALS["Arrangement"], rows=4_800, rate=RATE),
    "Replica": replace(TRIALS["Replica"], rows=6_000, rate=RATE, files=20),
}
"""Jobs for one death: under the limit their copies take eight to ten seconds, and not the time of many deaths."""


@pytest.mark.always
class TestAKilledDriver:
    """The next attempt continues from the last commit: no row is lost or doubled (R-SNAP-37, R-SRC-40)."""

    @pytest.mark.parametrize("strategy", TRIALS)
    def test_a_killed_driver_of_a_table_loses_and_doubles_nothing(self, spark, tmp_path, strategy):
        """Another engine changes the source meanwhile; each commit is compared with it."""
        self.dies_once(TableJob(spark, tmp_path, strategy, 1, trial=SMALL.get(strategy)), with_java=False)

    def test_a_killed_driver_of_a_topic_loses_and_doubles_nothing(self, spark, broker, tmp_path):
        """Producers write meanwhile, in transactions too; each commit is compared with the records of the topic."""
        job = TopicJob(spark, tmp_path, "SourceSplits", 1, broker.address, history=RECORDS, rate=RATE)
        self.dies_once(job, with_java=False)

    @pytest.mark.rest
    def test_a_driver_that_dies_with_its_java_loses_and_doubles_nothing(self, spark, tmp_path):
        """They die together, as in a pod: no commit or MERGE of the dead driver ends later."""
        self.dies_once(TableJob(spark, tmp_path, "Snapshot", 1), with_java=True)

    @pytest.mark.rest
    def test_a_killed_driver_hides_each_failing_row(self, spark, tmp_path):
        """A commit has the vectors of its files, or neither."""
        modes = TRIALS["Replica"].modes
        self.dies_once(TableJob(spark, tmp_path, "Replica", modes.index(HIDDEN)), with_java=False)

    @staticmethod
    def dies_once(job, *, with_java):
        job.planned = (Death(RANDOM, seals=SEALS, with_java=with_java),)

        report = job.run()

        assert report.problems == []
        assert report.kills.total() == 1
        assert report.seals_checked > SEALS
