"""Another engine that writes to a source while the job reads it: delta-rs, which shares no code with Spark or with the project.

A second Spark would disturb the drivers under test, which share this machine's cores, and their measurements.
"""

import json
from pathlib import Path

from deltalake import DeltaTable, QueryBuilder, write_deltalake


def append(table: str, rows_of: str, first: int, rows: int) -> None:
    """Append rows in one commit, to a table that is made when missing, with a change feed.

    Args:
        table: Path of the table.
        rows_of: Query of the rows, with the ids from `{first}` to `{last}`, both included.
        first: The first id.
        rows: Number of rows.
    """
    made = QueryBuilder().execute(rows_of.format(first=first, last=first + rows - 1)).read_all()
    write_deltalake(table, made, mode="append", configuration={"delta.enableChangeDataFeed": "true"})


def update(table: str, where: str, **columns: str) -> None:
    """Set columns to expressions in the matching rows, in one commit, recorded in the change feed."""
    DeltaTable(table).update(updates=columns, predicate=where)


def delete(table: str, where: str) -> None:
    """Remove rows in one commit, recorded in the change feed."""
    DeltaTable(table).delete(where)


def insert(table: str, query: str) -> None:
    """Append the rows of a query in one commit; in it `now` is the table itself."""
    rows = QueryBuilder().register("now", DeltaTable(table)).execute(query).read_all()
    write_deltalake(table, rows, mode="append")


def compact(table: str) -> None:
    """Join small files in one commit, and remove at once every file that the newest version does not name."""
    DeltaTable(table).optimize.compact()
    DeltaTable(table).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def commit_actions(table: Path, removed, added) -> None:
    """Commit removals and additions of files to a table, as an engine that checks nothing; each is the entry of an `add`."""
    log = table / "_delta_log"
    version = 1 + max(int(file.stem) for file in log.glob("*.json"))
    gone = [
        {name: add[name] for name in ("path", "partitionValues", "size", "deletionVector") if name in add}
        | {"deletionTimestamp": 1, "dataChange": True, "extendedFileMetadata": True}
        for add in removed
    ]
    actions = [{"remove": action} for action in gone] + [{"add": action} for action in added]
    (log / f"{version:020d}.json").write_text("".join(f"{json.dumps(action)}\n" for action in actions))
