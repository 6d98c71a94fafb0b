"""The real driver is killed with SIGKILL while its source changes; no row is lost and no row is doubled.

Some jobs of each strategy live through many deaths (`support/crashes`), two jobs at a time.
"""

import os
from collections import Counter

import pytest
from support.crashes.deaths import ANYWHERE, lives
from support.crashes.table_job import TRIALS, TableJob, points_of
from support.crashes.topic_job import MODES as OF_TOPICS
from support.crashes.topic_job import TopicJob
from support.simulation.model import OF_LIVE_TABLES

from backfill_core import strategies
from backfill_spark.crash_points import OF_JOBS

KILLS = int(os.environ.get("BACKFILL_KILLS", "60"))
"""Kills per strategy."""

TOPIC = "SourceSplits"


@pytest.fixture(scope="module", params=[*TRIALS, TOPIC])
def strategy(request):
    return request.param


@pytest.fixture(scope="module")
def reports(request, strategy, spark, tmp_path_factory):
    """Let drivers of a strategy die until the requested number of deaths is reached, with at least one of each mode."""
    tmp_path_factory.getbasetemp()  # two concurrent threads would make two
    jobs_min = len(OF_TOPICS if strategy == TOPIC else TRIALS[strategy].modes)
    kind, place = (TopicJob, [request.getfixturevalue("broker").address]) if strategy == TOPIC else (TableJob, [])
    return lives(
        lambda seed: kind(spark, tmp_path_factory.mktemp(f"{strategy}-{seed}"), strategy, seed, *place), KILLS, jobs_min
    )


class TestDeathChangesNothing:
    """Delivery stays exactly once, whichever process dies and whenever."""

    def test_every_seal_and_every_end_matches_its_state(self, reports):
        """R-SNAP-37 to 39, R-ARR-38, R-ARR-42, R-CHAIN-15, R-SRC-40: 0 rows lost, 0 doubled."""
        assert [problem for report in reports for problem in report.problems] == []
        assert sum(report.seals_checked for report in reports) >= KILLS / 2

    def test_a_driver_died_at_each_named_point(self, reports, strategy):
        """A crash point that is never reached proves nothing."""
        died = sum((report.kills for report in reports), Counter())
        points = (*TopicJob.POINTS, *TopicJob.OF_MERGES) if strategy == TOPIC else points_of(strategy)

        assert ANYWHERE | {point.split(":")[0] for point in points} <= set(died)

    def test_a_woken_driver_meets_the_fence(self, reports):
        """A driver that is killed before it tries to commit proves nothing."""
        assert sum(report.fenced for report in reports) > 0

    def test_a_driver_of_each_write_mode_died(self, reports, strategy):
        """An append fails where a MERGE still succeeds."""
        modes = set(OF_TOPICS if strategy == TOPIC else TRIALS[strategy].modes)

        assert {report.mode for report in reports if report.kills} == modes

    def test_the_requested_number_of_drivers_died(self, reports):
        """The suite reports the deaths that happened, not those that it planned."""
        assert sum(report.kills.total() for report in reports) >= KILLS


class TestNothingIsLeftOut:
    """A new strategy or a new crash point joins this suite."""

    def test_each_strategy_has_jobs_that_die(self):
        """Strategies are discovered, not listed."""
        # A job that fills its source dies in tests/kills.
        assert {*TRIALS, TOPIC} == set(strategies.discover()) - OF_LIVE_TABLES

    def test_each_crash_point_belongs_to_tables_or_topics(self):
        """A table has no bad records; commands die in `tests/kills`."""
        points = (*TableJob.POINTS, *TopicJob.POINTS, *TopicJob.OF_MERGES)
        assert {point.split(":")[0] for point in points} == set(OF_JOBS)
