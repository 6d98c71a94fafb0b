"""Jobs in a caller's session, drawn from a seed: settings, a source, a transform, a strategy, and changes after the pin."""

from __future__ import annotations

import queue
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from support.tables.jobs import document
from support.tables.logs import commits_of

from backfill import Backfill, Settings

LIMIT_S = 120
"""Seconds after which a job that has not caught up fails its test."""

ZONES = ("America/New_York", "Asia/Kolkata", "Pacific/Apia", "America/St_Johns", "Europe/Berlin")

BUILT = {
    "spark.sql.ansi.enabled": ("false",),
    "spark.sql.caseSensitive": ("true",),
    "spark.sql.parquet.outputTimestampType": ("INT96", "TIMESTAMP_MILLIS"),
    "spark.sql.parquet.compression.codec": ("snappy", "gzip", "uncompressed", "lz4_raw"),
    "spark.sql.parquet.datetimeRebaseModeInWrite": ("LEGACY",),
    "spark.sql.parquet.int96RebaseModeInWrite": ("LEGACY",),
    "spark.sql.parquet.writeLegacyFormat": ("true",),
    "spark.sql.parquet.enableVectorizedReader": ("false",),
    "spark.sql.sources.partitionOverwriteMode": ("dynamic",),
    "spark.sql.sources.default": ("json",),
    "spark.sql.files.maxRecordsPerFile": ("5",),
    "spark.sql.maxConcurrentOutputFileWriters": ("0",),
    "spark.sql.datetime.java8API.enabled": ("false",),
    "spark.sql.timestampType": ("TIMESTAMP_NTZ",),
    "spark.sql.storeAssignmentPolicy": ("LEGACY",),
    "spark.sql.legacy.timeParserPolicy": ("LEGACY",),
    "spark.sql.legacy.castComplexTypesToString.enabled": ("true",),
    "spark.sql.ansi.doubleQuotedIdentifiers": ("true",),
    "spark.sql.parser.escapedStringLiterals": ("true",),
    "spark.sql.adaptive.enabled": ("true",),
    "spark.databricks.delta.schema.autoMerge.enabled": ("true",),
    "spark.databricks.delta.stalenessLimit": ("3600000",),
    "spark.databricks.delta.optimizeWrite.enabled": ("true",),
    "spark.databricks.delta.autoCompact.enabled": ("true",),
}
"""Settings that a caller may have, with values other than those of a job."""

ALWAYS = ("spark.sql.ansi.enabled", "spark.sql.caseSensitive", "spark.sql.parquet.outputTimestampType")

COLUMNS = (
    "id",
    "timestamp_seconds(1719770400 + id * 18000) AS at",
    "timestamp_seconds(1719835200) AS loaded",
    "concat('n', id % 5) AS name",
    "cast(9007199254740993 + id AS string) AS digits",
    "cast(id % 3 AS int) AS part",
    "timestamp_seconds(1719835200 + id % 2 * 86400) AS hour",
    "cast(id AS decimal(9,2)) AS amount",
)
LAYOUTS: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    "by part": ("part",),
    "by hour": ("hour",),
    "renamed": (),
}
MAPPED = {"renamed": "name"}

TRANSFORMS: Mapping[str, dict[str, Any]] = {
    "whole": {},
    "projected": {"select": ["id", "at AS moment", "loaded", "digits", "hour"]},
    "computed": {
        "select": ["id", "at", "loaded", "hour", "cast(at AS string) AS said", "cast(hour AS string) AS said_hour"]
    },
    "decoded": {
        "select": ["id", "date_format(at, 'yyyy-MM-dd HH') AS hour_of_day", "loaded", "name"],
        "where": "name <> 'n4' AND length(digits) > 3",
    },
    "compared": {"where": "at >= '2024-07-01 12:00:00' OR cast(hour AS string) = '2024-07-01 12:00:00'"},
    "added": {"select": ["id", "digits + 1 AS next", "loaded", '"name" AS word', "at"]},
    "other case": {"select": ["ID AS id", "NAME AS name", "At", "loaded"], "where": "PART < 2"},
    "parsed": {
        "select": [
            "id",
            "loaded",
            "to_timestamp(concat('2024-07-01 02:3', id % 10)) AS local",
            "at < date'2024-07-02' AS old",
        ]
    },
}

BY_HOUR = ("whole", "projected", "computed", "compared")
"""Transforms whose rows have the column `hour` of the source."""

KINDS = (
    ("Snapshot", "Upsert"), ("Snapshot", "Append"), ("Snapshot", "Changelog"), ("Arrangement", "Upsert"), ("Replica", "Append"),
    ("RearrangedChain", "Upsert"),
)  # fmt: skip
"""Each strategy of a table, with its write modes."""


def _layouts(strategy: str, transform: str) -> list[str]:
    """Return the layouts of a source that a strategy takes: a replica has its source's partition columns."""
    if strategy != "Replica":
        return list(LAYOUTS)
    return [
        "plain",
        "renamed",
        *(["by hour"] if transform in BY_HOUR else []),
        *(["by part"] if transform == "whole" else []),
    ]


@dataclass(frozen=True)
class World:
    """One job and the session that it runs in."""

    strategy: str
    mode: str
    transform: str
    layout: str
    built: Mapping[str, str]
    own: Mapping[str, str]
    limited: bool
    """Slow the job down, so that files are cut."""

    parted: bool
    """Partition the target by a timestamp."""

    @classmethod
    def drawn(cls, seed: int) -> World:
        """Draw one; any six seeds in a row have every kind, and any eight every transform."""
        rng = Random(seed)
        names = [*ALWAYS, *(name for name in BUILT if name not in ALWAYS and rng.random() < 0.3)]
        settings = {name: rng.choice(BUILT[name]) for name in names}
        settings["spark.sql.session.timeZone"] = rng.choice(ZONES)
        late = {name for name in settings if rng.random() < 0.3}
        (strategy, mode), transform = KINDS[seed % len(KINDS)], list(TRANSFORMS)[seed % len(TRANSFORMS)]
        parted = strategy != "Replica" and transform in BY_HOUR and rng.random() < 0.5
        return cls(
            strategy,
            mode,
            transform,
            rng.choice(_layouts(strategy, transform)),
            {name: value for name, value in settings.items() if name not in late},
            {name: value for name, value in settings.items() if name in late},
            limited=rng.random() < 0.25,
            parted=parted,
        )

    @property
    def spec(self) -> dict[str, Any]:
        """The parts of a spec."""
        keyless = self.strategy == "Replica"
        return {
            "source": {"key": [] if keyless else ["id"]},
            "target": {} if keyless else {"writeMode": self.mode, **({"partitionBy": ["hour"]} if self.parted else {})},
            "strategy": {"type": self.strategy},
            "transform": TRANSFORMS[self.transform],
            "barrier": {"intervalMs": 200},
            "after": "Follow",
            **({"throttle": {"rowsPerSecond": 40}} if self.limited else {}),
        }

    @property
    def changes(self) -> tuple[str, ...]:
        """Statements that change the source (`{t}`), each in a version."""
        grown = "INSERT INTO {t} SELECT id + 1000 AS id, * EXCEPT (id) FROM {t} WHERE id < 4"
        if self.mode == "Append" and self.strategy != "Replica":
            return (grown,)
        return (
            "UPDATE {t} SET digits = '77', at = at + interval 1 day WHERE id % 7 = 1",
            "DELETE FROM {t} WHERE id = 5",
            grown,
        )

    def __str__(self) -> str:
        """Describe it in one line."""
        settings = ", ".join(
            f"{name.removeprefix('spark.sql.')}={value}" for name, value in {**self.built, **self.own}.items()
        )
        limit = (", limited" if self.limited else "") + (", parted by hour" if self.parted else "")
        return f"{self.strategy} {self.mode}, {self.transform}, {self.layout}{limit}; session: {settings}"


class Lake:
    """A source, the target of a job, and the expected rows; a plain session writes all but the target."""

    def __init__(self, spark: Any, folder: Path, world: World) -> None:
        """Write the source."""
        self._spark, self._world, self.folder = spark, world, folder
        self.source, self.target, self.expected = (str(folder / name) for name in ("source", "target", "expected"))
        writer = spark.range(0, 24, 1, 3).selectExpr(*COLUMNS).write.format("delta")
        writer = writer.option("delta.enableDeletionVectors", "true")
        if world.layout in MAPPED:
            writer = writer.option("delta.columnMapping.mode", MAPPED[world.layout])
        writer.partitionBy(*LAYOUTS[world.layout]).save(self.source)
        # Delta rejects the change feed in the write that begins to map columns.
        spark.sql(f"ALTER TABLE delta.`{self.source}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
        self._left = list(world.changes)

    @property
    def head(self) -> int:
        """The newest version of the source."""
        return max(commits_of(self.source, -1))

    def change(self) -> bool:
        """Make the changes; return false if they were made before."""
        left, self._left = self._left, []
        for statement in left:
            self._spark.sql(statement.replace("{t}", f"delta.`{self.source}`"))
        return bool(left)

    def run(self, session: Any) -> None:
        """Run the job in a session until the changes arrive too, which are made when it has caught up for the first time."""
        settings = Settings(state_dir=self.folder / "state", cores=2)
        job = Backfill.of(document(self.source, self.target, **self._world.spec), folder=self.folder, settings=settings)
        updates: queue.SimpleQueue[Any] = queue.SimpleQueue()
        run = job.start(session, on_progress=updates.put)
        progress, stopping = None, False
        while not run.done and not stopping:
            with suppress(queue.Empty):  # the job may have ended
                progress = updates.get(timeout=1)
            if (
                progress is not None
                and progress.caught_up
                and progress.consumed_version == self.head
                and not self.change()
            ):
                run.stop()
                stopping = True
        run.wait(LIMIT_S)

    def expect(self) -> None:
        """Write the expected rows, with plain Spark."""
        rows, transform = self._spark.read.format("delta").load(self.source), TRANSFORMS[self._world.transform]
        rows = rows.where(transform["where"]) if "where" in transform else rows
        rows = rows.selectExpr(*transform["select"]) if "select" in transform else rows
        rows.write.format("delta").save(self.expected)

    def remove(self) -> None:
        """Remove its files."""
        shutil.rmtree(self.folder)
