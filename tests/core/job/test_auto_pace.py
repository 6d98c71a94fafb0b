"""The automatic limit of a job: it follows the measured commits, below the manual limit, and its reason names the target."""

from support.simulation.hand_driven import HandDriven

from backfill_core.job.auto_pace import COMMIT_SECONDS
from backfill_core.job.phase import JobSettings
from backfill_core.pacing.auto_throttle import AutoSettings, Target
from backfill_core.protocol.commands import Pause, Throttle
from backfill_core.protocol.events import CommandReceived

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
        """Commits of more than 20,000 rows take longer than the target of a second."""
        made = job(capacity=21_000)

        made.let_pass(40, split_s=0.05)
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
