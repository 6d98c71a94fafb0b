"""The automatic limit of a job: it follows the measured commits, below the manual limit, and its reason names the target."""

from dataclasses import replace

import pytest
from support.simulation.hand_driven import HandDriven
from support.simulation.refusing_store import RefusingStore

from backfill_core.job.auto_pace import COMMIT_SECONDS, LAG_SECONDS_MAX, QUERY, STORE_ERRORS
from backfill_core.job.phase import JobSettings
from backfill_core.pacing.auto_throttle import AutoSettings, Target
from backfill_core.protocol.commands import Pause, Throttle
from backfill_core.protocol.events import CommandReceived, QueryAnswered, StoreCounted

REFUSED = Target("the store refuses", " % of requests", 1.0, is_refused_share=True)
RETURNED = Target("the query returns", "", 80.0)
AUTO = AutoSettings({COMMIT_SECONDS: Target("commits take", " s", 1.0)}, 1_000, 50_000)


def job(*, capacity=None, controls=None):
    """Return a job with an automatic limit; commits take a second per `capacity` rows."""
    made = HandDriven(*[100_000] * 200, settings=JobSettings(auto=AUTO), controls=controls)
    if capacity is not None:
        made.seal_s = lambda rows: 0.05 + rows / capacity
    return made


def rows_per_s(made, seconds):
    """Return the rows that the job commits a second in the next seconds."""
    before, began_s = sum(rows for _, rows in made.sealed), made.now_s
    made.let_pass(seconds, split_s=0.05)
    return (sum(rows for _, rows in made.sealed) - before) / (made.now_s - began_s)


class TestTheLimit:
    def test_a_job_rises_from_the_floor_to_the_ceiling_while_commits_are_fast(self):
        """Nothing is known of the store at the start."""
        made = job()

        assert made.view.auto_rows_per_s == 1_000
        made.let_pass(30, split_s=0.05)
        assert made.view.auto_rows_per_s == 50_000
        assert made.view.reason.startswith("limited to 50,000 rows/s by throttle.auto")

    def test_a_job_settles_at_the_rate_that_its_commits_bear(self):
        """Commits of more than 20,000 rows take longer than the target of a second. It takes 20 seconds from a twentieth of that rate."""
        made = job(capacity=21_000)

        made.let_pass(20, split_s=0.05)
        rate = rows_per_s(made, 60)
        assert 16_000 <= rate <= 20_500
        assert made.view.reason.startswith(f"slowed to {made.view.auto_rows_per_s:,} rows/s: commits take ")
        assert ", target 1 s" in made.view.reason

    def test_a_manual_limit_caps_the_automatic_one(self):
        """A user who limits a job expects at most that rate; without the manual limit the automatic one applies again."""
        made = job()
        made.let_pass(30, split_s=0.05)
        made.send(CommandReceived(1, 1, Throttle(5_000)))
        made.let_pass(3, split_s=0.05)

        assert rows_per_s(made, 20) <= 5_200
        assert made.view.reason == "throttled to 5,000 rows/s by command (revision 1)"
        made.send(CommandReceived(1, 2, Throttle(None)))
        made.let_pass(3, split_s=0.05)
        assert rows_per_s(made, 20) > 40_000

    def test_a_capped_job_does_not_raise_its_automatic_limit(self):
        """A limit that the job does not reach says nothing about the store."""
        made = job()
        made.send(CommandReceived(1, 1, Throttle(1_500)))
        made.let_pass(60, split_s=0.05)

        assert made.view.auto_rows_per_s <= 50_000 / 5 + 1_000

    def test_a_paused_job_keeps_its_automatic_limit(self):
        """The time of the pause does not count as time in which the job was slow."""
        made = job()
        made.let_pass(5, split_s=0.05)
        made.send(CommandReceived(1, 1, Pause()))
        made.let_pass(2, split_s=0.05)
        before = made.view.auto_rows_per_s
        made.let_pass(60, split_s=0.05)

        assert made.view.auto_rows_per_s == before

    def test_a_job_without_targets_has_no_automatic_limit(self):
        """The manual limit alone applies."""
        assert HandDriven(1_000).view.auto_rows_per_s is None


@pytest.mark.parametrize(
    ("floor", "ceiling", "rows_per_request", "rows_of_a_file"),
    [(1_000, 200_000, 100, 100_000), (2_500, 200_000, 100, 100_000), (50_000, 5_000_000, 2_000, 20_000)],
    ids=["far from the floor", "near the floor", "whole files"],
)
class TestAStoreThatRefusesRequests:
    """A store answers 503 above 200 requests a second, and refused requests are sent again after half a second."""

    def test_the_job_settles_within_30_seconds(self, floor, ceiling, rows_per_request, rows_of_a_file):
        """In the next five minutes it uses 80 % of the store, less than 1 % of its requests are refused, and the reason names the target."""
        settings = JobSettings(auto=AutoSettings({STORE_ERRORS: REFUSED}, floor, ceiling))
        made = HandDriven(*[rows_of_a_file] * (120_000_000 // rows_of_a_file), settings=settings)
        store = RefusingStore(made, requests_per_s=200, rows_per_request=rows_per_request)
        store.let_pass(30)

        first, refused_first = store.let_pass(30)
        later, refused_later = store.let_pass(240)
        served, refused = first + later, refused_first + refused_later
        assert first / 30 >= 160
        assert later / 240 >= 160
        assert refused / (served + refused) < 0.01
        assert made.view.reason.startswith(f"slowed to {made.view.auto_rows_per_s:,} rows/s: the store refuses ")
        assert made.view.reason.endswith(" % of requests, target 1 % of requests")


def measured(**targets):
    """Return a job with these targets, from 1,000 rows/s up to 50,000."""
    return HandDriven(*[100_000] * 200, settings=JobSettings(auto=AutoSettings(targets, 1_000, 50_000)))


class TestTheQuery:
    """A monitoring system answers every 15 seconds, or does not."""

    def answered(self, made, seconds, value, problem=""):
        """Let time pass, with the same answer every 15 seconds."""
        for _ in range(seconds // 15):
            made.send(QueryAnswered(value, problem))
            made.let_pass(15, split_s=0.05)

    def test_two_values_above_the_target_lower_the_limit(self):
        """The reason names the value and the target."""
        made = measured(**{QUERY: RETURNED})
        self.answered(made, 90, 20.0)
        before = made.view.auto_rows_per_s
        self.answered(made, 30, 100.0)

        assert made.view.auto_rows_per_s == round(before * 0.95 * 80 / 100)
        assert made.view.reason == f"slowed to {made.view.auto_rows_per_s:,} rows/s: the query returns 100, target 80"

    def test_a_query_that_fails_leaves_the_limit_for_a_minute_and_then_lowers_it_to_the_floor(self):
        """A restart of the monitoring system is no reason to slow down; but without evidence only the floor is safe."""
        made = measured(**{QUERY: RETURNED})
        self.answered(made, 60, 20.0)
        before = made.view.auto_rows_per_s
        self.answered(made, 45, None, "HTTP 500")

        assert before > 1_000
        assert made.view.auto_rows_per_s == before
        assert made.view.reason == (
            f"limited to {before:,} rows/s by throttle.auto, not faster while the query has no value: HTTP 500"
        )
        self.answered(made, 30, None, "HTTP 500")
        assert made.view.auto_rows_per_s == 1_000
        assert made.view.reason == "slowed to 1,000 rows/s: the query has no value for 60 s: HTTP 500"

    def test_the_limit_rises_again_after_the_query_has_a_value(self):
        """The next answers are evidence again."""
        made = measured(**{QUERY: RETURNED})
        self.answered(made, 60, 20.0)
        self.answered(made, 90, None, "HTTP 500")
        self.answered(made, 60, 20.0)

        assert made.view.auto_rows_per_s > 1_000
        assert "HTTP 500" not in made.view.reason

    def test_a_job_without_an_answer_stays_at_the_floor(self):
        """A server that hangs from the start sends no reason."""
        made = measured(**{QUERY: RETURNED})
        made.let_pass(70, split_s=0.05)

        assert made.view.auto_rows_per_s == 1_000
        assert made.view.reason == "slowed to 1,000 rows/s: the query has no value for 60 s"

    def test_fast_commits_alone_raise_nothing(self):
        """Each target needs a measurement under the limit in force."""
        made = measured(**{QUERY: RETURNED}, **AUTO.targets)
        made.let_pass(50, split_s=0.05)

        assert made.view.auto_rows_per_s == 1_000


class TestTheCountsOfAStore:
    def test_requests_that_are_not_counted_any_more_lower_the_limit_to_the_floor(self):
        """A count that stays away is no proof that the store serves all requests."""
        made = measured(**{STORE_ERRORS: REFUSED})
        store = RefusingStore(made, requests_per_s=200, rows_per_request=100)
        store.let_pass(25)
        before, store.reports = made.view.auto_rows_per_s, False
        store.let_pass(65)

        assert before > 1_000
        assert made.view.auto_rows_per_s == 1_000
        assert made.view.reason == "slowed to 1,000 rows/s: the requests to the store are not counted for 60 s"

    def test_a_single_refused_request_of_few_is_no_measurement(self):
        """One of five is 20 %, and says nothing."""
        made = measured(**{STORE_ERRORS: REFUSED})
        for second in range(10):
            made.let_pass(1, split_s=0.05)
            made.send(StoreCounted(second, second // 5))

        assert "refuses" not in made.view.reason


class TestTheLag:
    """Changes arrive while the job copies; their lag is the strategy's."""

    def lagging(self, made, seconds, lag_of):
        """Let time pass with a lag by the seconds that have passed."""
        strategy = made.job._strategy  # noqa: SLF001 - the lag is of the strategy, and this one copies before it merges
        began_s, view = made.now_s, strategy.view
        strategy.view = lambda now: replace(view(now), lag_ms=round(1000 * lag_of(now.mono_s - began_s)))
        made.let_pass(seconds, split_s=0.05)
        strategy.view = view

    def test_a_lag_above_the_target_slows_the_copy_down(self):
        """The copy takes the capacity that changes need."""
        made = measured(**{LAG_SECONDS_MAX: Target("changes lag by", " s", 30.0)})
        self.lagging(made, 60, lambda _: 2.0)
        before = made.view.auto_rows_per_s
        self.lagging(made, 12, lambda second: 40.0 + second)

        assert before == 50_000
        assert made.view.auto_rows_per_s < 0.8 * before
        assert made.view.reason.startswith(f"slowed to {made.view.auto_rows_per_s:,} rows/s: changes lag by 4")
        assert made.view.reason.endswith(" s, target 30 s")

    def test_a_lag_that_falls_does_not_slow_the_copy_down_further(self):
        """The limit in force is low enough; a lower one would only lengthen the job."""
        made = measured(**{LAG_SECONDS_MAX: Target("changes lag by", " s", 30.0)})
        self.lagging(made, 60, lambda _: 2.0)
        self.lagging(made, 12, lambda second: 40.0 + second)
        before = made.view.auto_rows_per_s
        self.lagging(made, 20, lambda second: 45.0 - second / 2)

        assert made.view.auto_rows_per_s == before
