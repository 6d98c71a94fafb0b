"""Other writers change the target, or remove staged files, while a job runs. A complete job is still equal."""

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from support.drivers.background import Running
from support.tables.jobs import job, make_orders
from support.tables.oracle import rows_in, seals, violations

from backfill_core.protocol.work import Verify
from backfill_spark.driver import attempt as driver
from backfill_spark.driver.action_executor import SparkActionExecutor
from backfill_spark.settings import DriverSettings
from backfill_spark.sinks.delta import sink
from backfill_spark.sinks.delta.foreign_commits import commits_of_others, foreign, others_since, touching
from backfill_spark.sinks.delta.staging import StagingFolder

ROWS = 4000


@pytest.fixture
def place(spark, tmp_path):
    """A source, and jobs from it to a target that other writers change."""

    class Place:
        source, target = str(tmp_path / "source"), str(tmp_path / "target")
        views = []

        def __init__(self):
            make_orders(spark, self.source, ROWS, files=4)

        def run(self, observe=lambda _: None, **spec):
            self.views = []

            def collect(progress):
                self.views.append(progress)
                observe(progress)

            settings = DriverSettings(state_dir=tmp_path / "state", cores=2)
            given = job(self.source, self.target, **{"barrier": {"intervalMs": 300}, **spec})
            return driver.run_driver(given, settings=settings, observe=collect, spark=spark)

        def beside(self, **spec):
            return Running(
                spark, job(self.source, self.target, barrier={"intervalMs": 300}, **spec), tmp_path / "state"
            )

    return Place()


class Vacuumed(StagingFolder):
    """Removes the files of one piece of work after Spark wrote them, and those of another just before their commit."""

    taken, times = [], 2

    def files(self, folder):
        files = super().files(folder)
        if not self.taken:
            self._take(files)
        return super().files(folder)

    def check(self, files):
        if len(self.taken) < self.times:
            self._take([file.path for file in files])
        super().check(files)

    def _take(self, paths):
        self.taken.append(paths)
        for path in paths:
            Path(path).unlink()


class TestStagedFilesThatAreTakenAway:
    """A VACUUM of the target without retention: 12,000 of 12,000 rows were missing, and the job was complete."""

    @pytest.mark.parametrize(
        ("where", "times"), [(None, 1), ("id % 2 = 0", 2), ("id >= 0", 2)], ids=["copied", "half", "all"]
    )
    def test_removed_files_are_staged_again(self, place, monkeypatch, where, times):
        """Removed files cost time, but must not cost rows. A copy is checked only before its commit."""
        monkeypatch.setattr(sink, "StagingFolder", Vacuumed)
        monkeypatch.setattr(Vacuumed, "taken", [])
        monkeypatch.setattr(Vacuumed, "times", times)
        outcome = place.run(transform={"where": where} if where else {})

        assert [bool(paths) for paths in Vacuumed.taken] == [True] * times
        assert outcome.reason == "Complete"
        view = f"SELECT * FROM source WHERE {where or 'true'}"
        assert violations(place.source, place.target, seals(place.target)[-1], view) == []


def delete(spark, statement):
    """Delete rows concurrently with the job: Delta refuses a DELETE that another commit overtakes."""
    refused = []
    while True:
        try:
            return spark.sql(statement)
        except PySparkException as error:
            refused.append(error)
            assert len(refused) < 5, refused


class DeletesBeside(SparkActionExecutor):
    """Lets another writer delete rows just after a receipt."""

    spark, path, done = None, "", []

    def _do(self, work):
        answer = super()._do(work)
        if isinstance(work, Verify) and not self.done:
            self.done.append(work)
            delete(self.spark, f"DELETE FROM delta.`{self.path}` WHERE id < 10")
        return answer


class TestARowThatIsDeletedAfterTheReceipt:
    def test_the_next_receipt_finds_the_deleted_row(self, spark, place, monkeypatch):
        """The delete landed unseen between the compared version and the last commit."""
        monkeypatch.setattr(driver, "SparkActionExecutor", DeletesBeside)
        monkeypatch.setattr(DeletesBeside, "spark", spark)
        monkeypatch.setattr(DeletesBeside, "path", place.target)
        monkeypatch.setattr(DeletesBeside, "done", [])
        outcome = place.run(verify="Final")

        assert (outcome.reason, rows_in(place.target)) == ("VerificationFailed", ROWS - 10)
        assert "Other writers committed version" in outcome.message
        assert "(DELETE by Apache-Spark" in outcome.message
        assert "other writers changed the target: version" in place.views[-1].warnings[0]
        assert not seals(place.target)[-1].state["finished"]


class TestACommitOfOthers:
    def test_a_foreign_commit_is_noticed_while_the_job_runs(self, spark, place):
        """The warning has its version, operation and engine. An OPTIMIZE changes no row."""
        with place.beside(throttle={"rowsPerSecond": 100}) as running:
            running.until(lambda progress: progress.rows_done)
            # Files that were staged before a pause are committed by the next barriers.
            running.command("Pause")
            running.until(lambda progress: progress.quiet)
            delete(spark, f"DELETE FROM delta.`{place.target}` WHERE id % 7 = 0")
            running.command("Resume")
            running.command("Throttle", rows_per_second=None)
            outcome = running.outcome()

        [warning] = outcome.progress.warnings
        assert "(DELETE by Apache-Spark" in warning
        newest = seals(place.target)[-1].version
        app = Path(place.target, "_delta_log", f"{newest:020}.json").read_text().split('"appId":"')[1].split('"')[0]
        assert len(commits_of_others(spark, place.target, 1, newest, app)) == 1
        assert commits_of_others(spark, place.target, 1, newest, "x", friends="backfill-")[0].operation == "DELETE"

    def test_foreign_commits_are_found_in_a_folder_with_the_letters_of_a_pattern(self, spark, tmp_path):
        """A replica would take its own target for one whose log was cleaned, and end at its second attempt."""
        path = str(tmp_path / "t[1] {a,b}")
        spark.range(3).write.format("delta").save(path)
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")

        assert [commit.operation for commit in others_since(spark, path, 1, "ours")] == ["WRITE", "DELETE"]

    def test_a_foreign_commit_counts_when_it_changes_rows_or_columns(self):
        """An OPTIMIZE of another engine needs no new comparison."""
        info = '{"commitInfo":{"operation":"OPTIMIZE","engineInfo":"x"}}'
        same = '{"add":{"path":"a","dataChange":false}}'
        for line in ('{"add":{"dataChange":true}}', '{"remove":{"dataChange":true}}', '{"cdc":{}}', '{"metaData":{}}'):
            assert foreign(3, [info, same, line, ""], "ours").operation == "OPTIMIZE"
            assert foreign(3, [info, line, '{"txn":{"appId":"ours"}}'], "ours") is None
        assert foreign(3, [info, same], "ours") is None

    def test_a_commit_touches_a_copied_target_when_it_names_a_file_or_changes_columns(self):
        """An OPTIMIZE counts, too, because it removes the files that the source's log names."""
        info = '{"commitInfo":{"operation":"%s","engineInfo":"x"}}'
        metadata = '{"metaData":{"configuration":{"delta.enableChangeDataFeed":"%s"}}}'
        for line in (
            '{"add":{"dataChange":false}}',
            '{"remove":{"dataChange":false}}',
            '{"cdc":{}}',
            '{"metaData":{}}',
        ):
            assert touching(3, [info % "OPTIMIZE", line]).operation == "OPTIMIZE"
        assert touching(3, [info % "SET TBLPROPERTIES", metadata % "true"]).version == 3
        assert touching(3, [info % "SET TBLPROPERTIES", metadata % "false"]) is None
        ours = [touching(3, [info % name, metadata % "true"]) for name in ("FENCE", "UNFENCE", "SWITCH")]
        assert ours == [None, None, None]  # an undo fences a target with a change feed, and must not count that
        assert touching(3, [info % "VACUUM END", '{"txn":{"appId":"stream"}}', '{"domainMetadata":{}}']) is None

    def test_a_commit_with_null_actions_is_the_same(self):
        """Some writers list each kind of action in each line, all but one as null."""
        nulls = dict.fromkeys(("add", "remove", "cdc", "metaData", "txn", "commitInfo", "domainMetadata"))

        def lines(*actions):
            return [json.dumps({**nulls, **action}) for action in actions]

        info, metadata = {"commitInfo": {"operation": "RENAME COLUMN"}}, {"metaData": {"configuration": {}}}
        assert foreign(3, lines(info, {"txn": {"appId": "stream"}}), "ours") is None
        assert touching(3, lines(info, {"txn": {"appId": "stream"}})) is None
        for commit in (
            foreign(3, lines(info, metadata, {"txn": {"appId": "x"}}), "ours"),
            touching(3, lines(metadata, info)),
        ):
            assert commit.operation == "RENAME COLUMN"
