"""A source whose log is damaged: no retry repairs it, so the job ends at once and names the table or its file (fault D5)."""

from pathlib import Path

import pytest
from support.tables.jobs import job, make_orders
from support.tables.logs import forget_sums

from backfill_spark.driver.attempt import run_driver
from backfill_spark.settings import DriverSettings


def commit(path, version):
    """Return the file of a commit."""
    return Path(path, "_delta_log", f"{version:020d}.json")


def rewritten(version, change):
    """Return damage that changes the text of one commit."""

    def damage(path):
        commit(path, version).write_text(change(commit(path, version).read_text()))

    return damage


def without(action):
    """Return a change that drops the lines of one action."""
    return lambda text: "".join(f"{line}\n" for line in text.splitlines() if not line.startswith(f'{{"{action}"'))


ONLY_COMMIT = {
    "empty": rewritten(0, lambda text: ""),
    "cut": rewritten(0, lambda text: text[: len(text) * 2 // 3]),
    "no JSON": rewritten(0, lambda text: text.replace("{", "<", 1)),
    "without a protocol": rewritten(0, without("protocol")),
    "without metadata": rewritten(0, without("metaData")),
}
"""Damage of a table whose log has one commit."""

THREE_COMMITS = {
    "a gap": lambda path: commit(path, 1).unlink(),
    "an empty commit": rewritten(1, lambda text: ""),
}
"""Damage of a table whose log has three commits."""


class TestADamagedLog:
    """A retry reads the same bytes: the end is `SourceDamaged`, and the target is not made."""

    def ending(self, spark, tmp_path, commits, damage):
        source, target = str(tmp_path / "s"), str(tmp_path / "t")
        make_orders(spark, source, 4, files=1)
        for number in range(commits - 1):
            spark.sql(f"DELETE FROM delta.`{source}` WHERE id = {number + 1}")
        for file in Path(source, "_delta_log").glob("*.crc"):
            file.unlink()
        damage(source)
        forget_sums(source)
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)
        outcome = run_driver(job(source, target), settings=settings, spark=spark)
        assert not Path(target).exists()
        return outcome

    @pytest.mark.parametrize("damage", ONLY_COMMIT)
    def test_a_damaged_only_commit_ends_the_job(self, spark, tmp_path, damage):
        """The job retried an empty commit for ever, as `Transient`."""
        outcome = self.ending(spark, tmp_path, 1, ONLY_COMMIT[damage])

        assert (outcome.outcome, outcome.reason) == ("Failed", "SourceDamaged"), outcome.message

    @pytest.mark.parametrize("damage", THREE_COMMITS)
    def test_a_damaged_later_commit_ends_the_job(self, spark, tmp_path, damage):
        """The commits before it are sound."""
        outcome = self.ending(spark, tmp_path, 3, THREE_COMMITS[damage])

        assert (outcome.outcome, outcome.reason) == ("Failed", "SourceDamaged"), outcome.message
