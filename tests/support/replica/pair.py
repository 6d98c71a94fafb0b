"""A source and its replica, run by run: whole jobs that follow the source through changes."""

import json
from pathlib import Path
from typing import Any

from support.tables.jobs import job
from support.tables.oracle import coming_back

from backfill_spark.driver.attempt import RunOutcome, run_driver
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

FOLLOW: dict[str, Any] = {
    "source": {"key": [], "schemaChange": "Follow"},
    "strategy": {"type": "Replica"},
    "after": "Follow",
}


class Pair:
    """Two tables in a folder; the test makes the source."""

    def __init__(self, spark: Any, folder: Path) -> None:
        """Take the session and the folder."""
        self.spark, self.folder = spark, folder
        self.source, self.target = str(folder / "s"), str(folder / "t")

    def sql(self, *statements: str) -> None:
        """Run statements about the source (`{t}`) and the target (`{copy}`)."""
        for statement in statements:
            self.spark.sql(
                statement.replace("{t}", f"delta.`{self.source}`").replace("{copy}", f"delta.`{self.target}`")
            )

    @property
    def head(self) -> int:
        """The newest version of the source."""
        return max(int(file.stem) for file in Path(self.source, "_delta_log").glob("*.json"))

    def run(self, *changes: str | tuple[str, ...], **spec: Any) -> RunOutcome:
        """Follow the source through changes, each after the previous one arrived; then stop."""
        left, stop = [(change,) if isinstance(change, str) else change for change in changes], StopSignal()

        def observe(progress: Any) -> None:
            if progress.consumed_version == self.head and progress.caught_up:
                if left:
                    self.sql(*left.pop(0))
                elif spec.get("after") != "Exit":
                    stop.ask(force=False)

        settings = DriverSettings(cores=2, state_dir=self.folder / "state")
        backfill = job(self.source, self.target, **{**FOLLOW, **spec})
        return run_driver(backfill, settings=settings, spark=self.spark, observe=observe, stop=stop)

    def equal(self, view: str = "SELECT * FROM source") -> bool:
        """Compare columns in their order, and rows."""
        self.spark.read.format("delta").load(self.source).createOrReplaceTempView("source")
        expected, actual = self.spark.sql(view), self.spark.read.format("delta").load(self.target)
        assert coming_back(self.target) == []
        assert [(column.name, column.dataType) for column in actual.schema] == [
            (column.name, column.dataType) for column in expected.schema
        ]
        return bool(expected.exceptAll(actual).isEmpty() and actual.exceptAll(expected).isEmpty())

    def commits(self) -> list[list[dict[str, Any]]]:
        """Return the actions of each version of the target."""
        files = sorted(Path(self.target, "_delta_log").glob("*.json"))
        return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]

    def with_metadata(self) -> list[set[str]]:
        """Return the kinds of actions of each commit of the target after the first that has metadata."""
        return [kinds(commit) for commit in self.commits()[1:] if "metaData" in kinds(commit)]


def kinds(commit: list[dict[str, Any]]) -> set[str]:
    """Return the kinds of actions of a commit, without `commitInfo`."""
    return {kind for action in commit for kind in action} - {"commitInfo"}


def metadata_of(table: str) -> dict[str, Any]:
    """Return the newest metadata in the log of a table without a checkpoint."""
    metadata: dict[str, Any] = {}
    for file in sorted(Path(table, "_delta_log").glob("*.json")):
        for line in file.read_text().split("\n"):
            metadata = json.loads(line or "{}").get("metaData", metadata)
    return metadata
