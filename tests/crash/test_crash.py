"""The real driver is killed with SIGKILL while its source changes; no row is lost and no row is doubled.

Some jobs of each strategy live through many deaths (`support/crashes`), two jobs at a time.
"""

import os
from collections import Counter

import pytest
from support.crashes.deaths import ANYWHERE, lives
from support.crashes.fill_job import MODES as OF_FILLS
from support.crashes.fill_job import FillJob
from support.crashes.table_job import TRIALS, TableJob, points_of
from support.crashes.topic_job import MODES as OF_TOPICS
from support.crashes.topic_job import TopicJob
from support.simulation.model import OF_LIVE_TABLES

from backfill_core import strategies
from backfill_spark.crash_points import OF_JOBS
from backfill_spark.crash_points import OF_LIVE_TABLES as OF_FILL_JOBS

KILLS = int(os.environ.get("BACKFILL_KILLS", "60"))
"""Kills per strategy."""

TOPIC = "SourceSplits"
MODES = {
    **{name: trial.modes for name, trial in TRIALS.items()},
    TOPIC: OF_TOPICS,
    **dict.fromkeys(OF_LIVE_TABLES, OF_FILLS),
}


@pytest.fixture(scope="module", params=[*MODES])
def strategy(request):
    return request.param


@pytest.fixture(scope="module")
def reports(request, strategy, spark, tmp_path_factory):
    """Let drivers of a strategy die until the requested number of deaths is reached, with at least one of each mode."""
    tmp_path_factory.getbasetemp()  # two concurrent threads would make two
    place = [request.getfixturevalue("broker").address] if strategy == TOPIC else []
    return lives(
        lambda seed: kind_of(strategy)(spark, tmp_path_factory.mktemp(f"{strategy}-{seed}"), strategy, seed, *place),
        KILLS,
        len(MODES[strategy]),
    )


def kind_of(strategy):
    """Return the class of a strategy's jobs."""
    return TopicJob if strategy == TOPIC else FillJob if strategy in OF_LIVE_TABLES else TableJob


class TestDeathChangesNothing:
    """Delivery stays exactly once, whichever process dies and whenever."""

    def test_every_seal_and_every_end_matches_its_state(self, reports):
        """R-SNAP-37 to 39, R-ARR-38, R-ARR-42, R-CHAIN-15, R-SRC-40: 0 rows lost, 0 doubled."""
        assert [problem for report in reports for problem in report.problems] == []
        assert sum(report.seals_checked for report in reports) >= KILLS / 2

    def test_a_driver_died_at_each_named_point(self, reports, strategy):
        """A crash point that is never reached proves nothing."""
        died = sum((report.kills for report in reports), Counter())
        others = {TOPIC: (*TopicJob.POINTS, *TopicJob.OF_MERGES), **dict.fromkeys(OF_LIVE_TABLES, FillJob.POINTS)}
        points = others.get(strategy) or points_of(strategy)

        assert ANYWHERE | {point.split(":")[0] for point in points} <= set(died)

    def test_a_woken_driver_meets_the_fence(self, reports):
        """A driver that is killed before it tries to commit proves nothing."""
        assert sum(report.fenced for report in reports) > 0

    def test_a_driver_of_each_write_mode_died(self, reports, strategy):
        """An append fails where a MERGE still succeeds."""
        assert {report.mode for report in reports if report.kills} == set(MODES[strategy])

    def test_the_requested_number_of_drivers_died(self, reports):
        """The suite reports the deaths that happened, not those that it planned."""
        assert sum(report.kills.total() for report in reports) >= KILLS


class TestNothingIsLeftOut:
    """A new strategy or a new crash point joins this suite."""

    def test_each_strategy_has_jobs_that_die(self):
        """Strategies are discovered, not listed."""
        assert MODES.keys() == set(strategies.discover())

    def test_each_crash_point_belongs_to_tables_or_topics(self):
        """A table has no bad records; commands die in `tests/kills`."""
        points = (*TableJob.POINTS, *TopicJob.POINTS, *TopicJob.OF_MERGES, *FillJob.POINTS)
        assert {point.split(":")[0] for point in points} == {*OF_JOBS, *OF_FILL_JOBS}
