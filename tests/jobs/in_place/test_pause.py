"""A running job that fills a column of a live table is paused and resumed by commands, while delta-rs writes the table."""

from support.drivers.background import Running
from support.tables.jobs import job, make_kind
from support.tables.logs import actions_in, commit_of, commits_of
from support.tables.oracle import columns_of, opened
from support.tables.other_engine import compact, delete

from backfill_core.in_place import rounds

ROWS = 900
SLOW = 150
"""Rows a second, of files with 180 rows, so that a command meets a job in its middle."""

BARRIERS = 4
"""Number of barriers without an effect after which the test concludes that there is none."""


def ours(path, after):
    """Return the versions after one that the job committed."""
    return [
        version
        for version in commits_of(path, after)
        if any("txn" in action for action in actions_in(commit_of(path, version)))
    ]


def filled(path):
    """Return the number of rows with a value."""
    return sum(norm is not None for (norm,) in columns_of(path, "norm"))


class TestAPause:
    """Once it is acknowledged and the staged files are committed, only other writers change the table."""

    def test_commits_the_staged_files_and_then_nothing_until_the_job_resumes(self, spark, tmp_path, monkeypatch):
        """Files that were computed before it are committed with it, so that none waits for the end of the pause.

        In the pause all files of the list are compacted and removed, as by a VACUUM after a long one: the job lists the table again.
        """
        # After a writer's rewrite, commits keep a distance of up to two minutes, longer than the test waits.
        monkeypatch.setattr(rounds, "DISTANCE_MAX_MS", 0)
        path, state = str(tmp_path / "t"), tmp_path / "state"
        make_kind(spark, path, "plain", norm="cast(null AS string)")
        spec = {"source": {"key": []}, "strategy": {"type": "InPlace"}, "transform": {"set": {"norm": "upper(name)"}}}
        spec |= {"verify": "Final", "barrier": {"intervalMs": 200}}

        with Running(spark, job(path, path, throttle={"rowsPerSecond": SLOW}, **spec), state) as running:
            running.until(lambda progress: progress.splits_done)
            running.command("Pause")
            epoch = running.until(lambda progress: progress.quiet).epoch
            held = running.until(lambda progress: progress.epoch > epoch + 1)
            quiet = opened(path).version()
            rows = filled(path)
            delete(path, "id = 200")
            compact(path)
            running.until(lambda progress: progress.epoch >= held.epoch + BARRIERS)
            in_pause = ours(path, quiet)
            running.command("Throttle", rows_per_second=None)
            running.command("Resume")
            outcome = running.outcome()

        assert (held.paused, held.rows_done) == ("History", rows)
        assert 0 < rows < ROWS
        assert in_pause == []
        assert (outcome.outcome, outcome.receipt.equal, outcome.progress.paused) == ("Complete", True, None)
        assert sorted(columns_of(path, "id", "norm")) == [(n, f"N{n % 50}") for n in range(ROWS) if n != 200]
