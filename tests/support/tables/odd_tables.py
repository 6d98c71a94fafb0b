"""Random Delta tables, written by Spark or by delta-rs, with the rows that they must hold, kept as plain Python.

The rows are the model: a commit changes the table by one of the engines, and the model by a loop. The expected result of a job
is computed only from the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import DeltaError
from pyspark.errors import AnalysisException
from support.tables.odd_values import FOLDERS, LONG, STRING, TEXTS, TIMESTAMP, Flat, draw_type

ODD_NAMES = (
    "a b",
    "c,d",
    "e;f",
    "g{h}",
    "i(j)",
    "k=l",
    "dot.ted",
    "ta\tb",
    "UPPER",
    "ümläut",
    "emoji😀",
    "select",
    "u\u2028v",
    "`tick`",
    "per%cent",
)
PLAIN_NAMES = ("c0", "Mixed", "ünï", "select", "_under", "c_9")
ID = "id"
MOVED_BY = 1_000_000

Row = dict[str, Any]


def ticked(name: str) -> str:
    """Quote a column for Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def quoted(name: str) -> str:
    """Quote a column for delta-rs."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def in_utc(spark: Any) -> Iterator[None]:
    """Run Spark's SQL in UTC, whatever the zone of the session is."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


NULL_FOLDERS = ("", "__HIVE_DEFAULT_PARTITION__")
"""Strings that become null in the name of a folder: the empty one for every engine, the other one for Spark."""

FOLDER_MAX = 40
"""Maximum characters of a value in the name of a folder, with all escaped: file systems have no longer names."""


def may_be_a_folder(name: str) -> bool:
    """Return whether Delta accepts a partition column of this name; it rejects names that begin or end with a backtick."""
    return name.strip("`") == name


class NoExampleError(Exception):
    """The engine that should make a table cannot make it."""


class OddTable:
    """A source table and its model; every commit is recorded in `story`.

    `append_only`: only appends after the table is made.
    """

    def __init__(self, spark: Any, rng: Random, path: str, *, append_only: bool) -> None:
        """Make the table, with up to forty rows and some history."""
        self._spark, self._rng, self._path, self._append_only = spark, rng, path, False
        self.by_spark = rng.random() < 0.6
        self.mapped = self.by_spark and rng.random() < 0.6
        self.vectors = self.by_spark and rng.random() < 0.6
        self.feed = not append_only or rng.random() < 0.5
        names = rng.sample(ODD_NAMES if self.mapped else PLAIN_NAMES, rng.randrange(2, 6))
        self.columns: dict[str, Any] = {ID: LONG, "k\u00e9y": STRING} | {name: draw_type(rng) for name in names}
        flat = [name for name in names if self.columns[name] in FOLDERS and may_be_a_folder(name)]
        if not self.by_spark and spark.conf.get("spark.sql.session.timeZone") != "UTC":
            # delta-rs writes the instant of a folder without its zone, and Spark reads it in the session's zone.
            flat = [name for name in flat if self.columns[name] is not TIMESTAMP]
        self.folders = rng.sample(flat, min(len(flat), rng.choice((0, 0, 1, 2))))
        self._pools = {name: [self._draw_folder(self.columns[name]) for _ in range(2)] for name in self.folders}
        self.rows: dict[int, Row] = {}
        self._before: dict[int, dict[int, Row]] = {}
        """The rows of each version that was the newest once."""

        self._next = 0
        made = "Spark" if self.by_spark else "delta-rs"
        types = {name: getattr(column, "spark", column) for name, column in self.columns.items()}
        self.story = [
            f"{made} makes {types}, partitioned by {self.folders}, mapped {self.mapped}, vectors {self.vectors}, feed {self.feed}"
        ]
        try:
            self.append(rng.randrange(0, 40))
        except DeltaError as refused:
            raise NoExampleError(str(refused)) from refused
        if self.mapped and not self.feed:
            self._rename()
        for _ in range(rng.randrange(3)):
            self.change()
        self._append_only = append_only

    def _draw_folder(self, column: Any) -> Any:
        drawn = column.draw(self._rng)
        while isinstance(drawn, str) and len(drawn) > FOLDER_MAX:
            drawn = column.draw(self._rng)
        # delta-rs writes -1.10 as the folder -1.-10, which it cannot read itself.
        return abs(drawn) if isinstance(drawn, Decimal) and not self.by_spark else drawn

    # ------------------------------------------------------------------ commits
    def change(self) -> None:
        """Make one random commit; a commit that the engine cannot make changes nothing."""
        self._before[self._version] = {number: dict(row) for number, row in self.rows.items()}
        kinds = (
            [self.append] if self._append_only else [self.append, self._update, self._update, self._delete, self._move]
        )
        commit = self._rng.choice(kinds) if self._rng.random() < 0.9 else self._compact
        try:
            commit()
        except (DeltaError, ValueError) as refused:  # ValueError: delta-rs cannot read its own statistic
            self.story.append(f"delta-rs refused: {str(refused)[:200]}")
        except AnalysisException as refused:
            if "packedData.`" not in str(refused):  # Delta's own change feed of a name with a backtick
                raise
            self.story.append(f"Spark refused: {str(refused)[:200]}")

    @property
    def _version(self) -> int:
        return int(DeltaTable(self._path).version())

    def rows_at(self, version: int) -> dict[int, Row]:
        """Return the rows of a version that was the newest before a `change`, or is."""
        return self.rows if version == self._version else self._before[version]

    @property
    def ever(self) -> list[Row]:
        """Return the rows of all versions that were the newest once."""
        return [row for rows in (*self._before.values(), self.rows) for row in rows.values()]

    def append(self, count: int | None = None) -> None:
        """Append rows with new ids, in one commit."""
        count = self._rng.randrange(1, 12) if count is None else count
        new = [self._draw_row() for _ in range(count)]
        self.story.append(f"append {count}")
        if self.by_spark:
            self._append_by_spark(new)
        elif new:
            self._append_by_fusion(new)
        else:
            self._append_by_fusion([self._draw_row()])  # an engine without rows has no types
            DeltaTable(self._path).delete()
        self.rows |= {row[ID]: row for row in new}

    def _draw_row(self) -> Row:
        self._next += 1
        row: Row = {ID: self._next, "k\u00e9y": f"{self._rng.choice(TEXTS)}{self._next}"}
        for name in [name for name in self.columns if name not in row]:
            drawn = self._rng.choice(self._pools[name]) if name in self._pools else self.columns[name].draw(self._rng)
            is_null = self._rng.random() < 0.2 or (name in self.folders and drawn in NULL_FOLDERS)
            row[name] = None if is_null else drawn
        return row

    def _append_by_spark(self, new: list[Row]) -> None:
        from pyspark.sql.types import DataType, StructField, StructType

        fields = [StructField(name, DataType.fromDDL(column.spark)) for name, column in self.columns.items()]
        values = [tuple(row[name] for name in self.columns) for row in new]
        with in_utc(self._spark):
            if not Path(self._path).exists():
                self._create_by_spark()
            frame = self._spark.createDataFrame(values, StructType(fields)).coalesce(2)
            frame.write.format("delta").mode("append").save(self._path)

    def _create_by_spark(self) -> None:
        """Make the table with a statement: Delta rejects a frame that makes one with mapped columns and a change feed."""
        properties = {
            "delta.enableChangeDataFeed": str(self.feed).lower(),
            "delta.enableDeletionVectors": str(self.vectors).lower(),
            **({"delta.columnMapping.mode": "name"} if self.mapped else {}),
        }
        columns = ", ".join(f"{ticked(name)} {column.spark}" for name, column in self.columns.items())
        parts = f"PARTITIONED BY ({', '.join(map(ticked, self.folders))})" if self.folders else ""
        settings = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        self._spark.sql(f"CREATE TABLE delta.`{self._path}` ({columns}) USING DELTA {parts} TBLPROPERTIES ({settings})")

    def _append_by_fusion(self, new: list[Row]) -> None:
        selects = [
            "SELECT "
            + ", ".join(f"{column.fusion_sql(row[name])} AS {quoted(name)}" for name, column in self.columns.items())
            for row in new
        ]
        made = QueryBuilder().execute(" UNION ALL ".join(selects)).read_all()
        feed = {"delta.enableChangeDataFeed": str(self.feed).lower()}
        exists = DeltaTable.is_deltatable(self._path)
        write_deltalake(
            self._path, made, mode="append", partition_by=None if exists else self.folders or None,
            configuration=None if exists else feed,
        )  # fmt: skip

    def _some(self) -> list[int]:
        return sorted(self._rng.sample(sorted(self.rows), self._rng.randrange(0, len(self.rows) // 2 + 1)))

    def _update(self) -> None:
        chosen, name = self._some(), self._rng.choice([name for name in self.columns if name not in (ID, "k\u00e9y")])
        column = self.columns[name]
        if not isinstance(column, Flat):
            return
        value = self._rng.choice((None, self._draw_folder(column)))
        if name in self.folders and value == "":
            value = None
        self.story.append(f"update {name!r} = {value!r} where id in {chosen}")
        self._run_update(chosen, name, column, value)
        for id_ in chosen:
            self.rows[id_] = self.rows[id_] | {name: value}

    def _run_update(self, chosen: list[int], name: str, column: Flat, value: Any) -> None:
        where = f"{ID} IN ({', '.join(map(str, [-1, *chosen]))})"
        if self.by_spark:
            with in_utc(self._spark):
                self._spark.sql(
                    f"UPDATE delta.`{self._path}` SET {ticked(name)} = {column.spark_sql(value)} WHERE {where}"
                )
        else:
            DeltaTable(self._path).update(updates={quoted(name): column.fusion_sql(value)}, predicate=where)

    def _delete(self) -> None:
        chosen = self._some()
        self.story.append(f"delete where id in {chosen}")
        where = f"{ID} IN ({', '.join(map(str, [-1, *chosen]))})"
        if self.by_spark:
            self._spark.sql(f"DELETE FROM delta.`{self._path}` WHERE {where}")
        else:
            DeltaTable(self._path).delete(where)
        for id_ in chosen:
            del self.rows[id_]

    def _move(self) -> None:
        """Give rows another id, which is another key."""
        chosen = [id_ for id_ in self._some() if id_ < MOVED_BY]
        self.story.append(f"move ids {chosen}")
        where = f"{ID} IN ({', '.join(map(str, [-1, *chosen]))})"
        if self.by_spark:
            self._spark.sql(f"UPDATE delta.`{self._path}` SET {ID} = {ID} + {MOVED_BY} WHERE {where}")
        else:
            DeltaTable(self._path).update(updates={ID: f"{ID} + {MOVED_BY}"}, predicate=where)
        for id_ in chosen:
            moved = self.rows.pop(id_)
            self.rows[id_ + MOVED_BY] = moved | {ID: id_ + MOVED_BY}

    def _compact(self) -> None:
        self.story.append("compact and checkpoint")
        if self.by_spark:
            self._spark.sql(f"OPTIMIZE delta.`{self._path}`")
        else:
            DeltaTable(self._path).create_checkpoint()
            DeltaTable(self._path).optimize.compact()

    def _rename(self) -> None:
        old = self._rng.choice([name for name in self.columns if name not in (ID, "k\u00e9y", *self.folders)] or [""])
        if old:
            new = f"was {old}"
            self._spark.sql(f"ALTER TABLE delta.`{self._path}` RENAME COLUMN {ticked(old)} TO {ticked(new)}")
            self.columns = {new if name == old else name: column for name, column in self.columns.items()}
            self.rows = {
                id_: {new if name == old else name: value for name, value in row.items()}
                for id_, row in self.rows.items()
            }
            self.story.append(f"rename {old!r}")
