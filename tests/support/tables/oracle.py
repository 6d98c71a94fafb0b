"""Comparison of a target with its state, by an implementation of Delta that shares no code with Spark or with the project."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, QueryBuilder
from support.simulation.model import model_of
from support.tables.logs import actions_in, commit_of, commits_of

from backfill_api.model import member_of

ALL = "SELECT * FROM source"
OURS = ("_op", "_epoch", "_version")
"""Columns of a changelog that the source does not have."""

EMPTY_MAX_S = 10
"""Longest time in seconds that `_last_checkpoint` is empty, on a busy machine."""


@dataclass(frozen=True)
class SeenSeal:
    """A commit with a state in it."""

    version: int
    state: dict[str, Any]

    @property
    def progress(self) -> dict[str, Any]:
        """Return the strategy's part of the state."""
        progress: dict[str, Any] = self.state[member_of(self.state["strategy"])]
        return progress


def opened(path: str, version: int | None = None) -> DeltaTable:
    """Return a table, now or at a version, also while its writer replaces `_last_checkpoint`.

    On a local disk Delta empties that file and then writes it; Delta's readers retry too. A killed driver may leave a Java
    behind that is writing it.
    """
    deadline = time.monotonic() + EMPTY_MAX_S
    while True:
        try:
            return DeltaTable(path, version=version)
        except OSError as error:
            if "Requested range was invalid" not in str(error) or time.monotonic() > deadline:
                raise


def seals(target: str, after: int = -1) -> list[SeenSeal]:
    """Return the seals of a target with a version above `after`, oldest first."""
    found_seals = []
    for version in commits_of(target, after):
        for action in actions_in(commit_of(target, version)):
            domain = action.get("domainMetadata")
            if domain and domain["domain"].startswith("backfill.") and domain["domain"] != "backfill.owner":
                found_seals.append(SeenSeal(version, json.loads(domain["configuration"])))
    return found_seals


def violations(source: str, target: str, seal: SeenSeal, view: str = ALL) -> list[str]:
    """Return the errors of a target at a seal; an empty list if it holds the rows of its state.

    The strategy's model names the compared version of the source, and the rows of it that the target must hold. The target must
    hold exactly those, as a multiset after `view`. If the model cannot name the rows, the target must hold the sealed number of
    rows, each a row of that version. A changelog is replayed first. Rows that are equal in every column are counted on both
    sides; a column that only one side has is a violation too.
    """
    at = model_of(seal.state["strategy"]).compared(seal.progress)
    part = "" if at.complete else "a part of "
    where = f"version {seal.version} ({part}version {at.version} of the source, epoch {seal.state['epoch']})"
    tables = {"target": opened(target, seal.version), "whole": opened(source, at.version)}
    rows = f"WITH source AS (SELECT * FROM whole WHERE {at.reached or 'TRUE'})"
    names = [field.name for field in tables["target"].schema().fields]
    expected = QueryBuilder().register("whole", tables["whole"]).execute(f"{rows} {view} LIMIT 0").schema
    if sorted(set(names) - set(OURS)) != sorted(field.name for field in expected):
        return [f"{where}: columns {names}, should be {[field.name for field in expected]}"]
    columns = ", ".join(f'"{name}"' for name in names if name not in OURS)
    counted = f"""
        SELECT sum(is_) AS is_, sum(should) AS should FROM (
            SELECT {columns}, {_sign(names)} AS is_, 0 AS should FROM target
            UNION ALL SELECT {columns}, 0, 1 FROM ({view})
        ) GROUP BY {columns}"""
    surplus, missing, total = _numbers(
        f"""{rows} SELECT sum(greatest(is_ - should, 0) + greatest(-is_, 0)), sum(greatest(should - is_, 0)), sum(is_)
            FROM ({counted})""",  # fewer than zero: a removal of a row that does not exist
        tables,
    )
    if not at.complete and at.reached is None:
        missing = seal.state["rowsDone"] - total
    return [f"{where}: {surplus} rows too many, {missing} missing"] if surplus or missing else []


def differences(target: str, expected: str) -> list[str]:
    """Return the differences between the rows of a target and those of an expected table; a changelog is replayed."""
    tables = {"target": opened(target), "expected": opened(expected)}
    names, expected_names = ([field.name for field in table.schema().fields] for table in tables.values())
    if sorted(set(names) - set(OURS)) != sorted(expected_names):
        return [f"columns {names}, should be {expected_names}"]
    columns = ", ".join(f'"{name}"' for name in expected_names)
    surplus, missing = _numbers(
        f"""SELECT sum(greatest(count, 0)), sum(greatest(-count, 0)) FROM (
            SELECT sum(row) AS count FROM (
                SELECT {columns}, {_sign(names)} AS row FROM target UNION ALL SELECT {columns}, -1 FROM expected
            ) GROUP BY {columns})""",
        tables,
    )
    return [f"{surplus} rows too many, {missing} missing"] if surplus or missing else []


def _sign(names: list[str]) -> str:
    """Return SQL for the count of a row of a target: -1 if it is a removal in a changelog."""
    return "CASE WHEN _op IN ('delete', 'update_preimage') THEN -1 ELSE 1 END" if "_op" in names else "1"


def adds_of(table: str | Path) -> dict[str, dict[str, Any]]:
    """Return the `add` actions of a table's current files, by path, from a log without a checkpoint."""
    adds: dict[str, dict[str, Any]] = {}
    for file in sorted(Path(table, "_delta_log").glob("*.json")):
        actions = actions_in(file.read_text())
        for gone in (action["remove"]["path"] for action in actions if "remove" in action):
            adds.pop(gone, None)
        adds |= {action["add"]["path"]: action["add"] for action in actions if "add" in action}
    return adds


def coming_back(table: str | Path) -> list[str]:
    """Return the files that a table got under a path and a vector with which it had removed them before.

    A checkpoint of Delta Kernel has the file and its removal then, and Spark treats the file as removed.
    """
    gone: set[tuple[str, str]] = set()
    again: list[str] = []
    for file in sorted(Path(table, "_delta_log").glob("*.json")):
        actions = actions_in(file.read_text())
        again += [action["add"]["path"] for action in actions if "add" in action and _key(action["add"]) in gone]
        gone |= {_key(action["remove"]) for action in actions if "remove" in action}
    return again


def _key(action: dict[str, Any]) -> tuple[str, str]:
    vector = action.get("deletionVector") or {}
    return action["path"], f"{vector.get('storageType')}{vector.get('pathOrInlineDv')}@{vector.get('offset')}"


def columns_of(table: str, *names: str, version: int | None = None) -> list[tuple[Any, ...]]:
    """Return some columns of all rows of a table, now or at a version; none if there is no table."""
    if not commits_of(table):
        return []
    chosen = ", ".join(f'"{name}"' for name in names)
    query = QueryBuilder().register("held", opened(table, version))
    result = query.execute(f"SELECT {chosen} FROM held").read_all()
    return list(zip(*(result.column(name).to_pylist() for name in names), strict=True))


def rows_in(table: str) -> int:
    """Return the current number of rows of a table; its metadata would also count those that deletion vectors hide."""
    (rows,) = _numbers("SELECT count(*) FROM source", {"source": opened(table)})
    return rows


def foreign_files(target: str, other: str) -> int:
    """Return the number of rows of a target that another table lacks, with their multiplicity, in the target's columns."""
    columns = ", ".join(f'"{field.name}"' for field in opened(target).schema().fields)
    surplus = f"SELECT {columns} FROM target EXCEPT ALL SELECT {columns} FROM other"
    (rows,) = _numbers(f"SELECT count(*) FROM ({surplus})", {"target": opened(target), "other": opened(other)})
    return rows


def _numbers(query: str, tables: dict[str, DeltaTable]) -> list[int]:
    builder = QueryBuilder()
    for name, table in tables.items():
        builder.register(name, table)
    (row,) = builder.execute(query).read_all().to_batches()
    return [int(row.column(index)[0].as_py() or 0) for index in range(row.num_columns)]
