"""Tables with a long list of files, of which only the first ones exist: enough for a plan, which samples the first files.

delta-rs writes the first files, with 100,000 rows each. The other entries of the log differ from them only in path, partition and statistics.
"""

import json
import random
from pathlib import Path

from deltalake import DeltaTable, QueryBuilder, write_deltalake

from backfill_core.file_copies.copy_digest import CopyDigest, statistics_digest
from backfill_core.positions.source_names import RowOrder, name_of

COLUMNS = ("id", *(f"c{at}" for at in range(9)))
FILE_ROWS = 100_000
REAL_FILES = 5
COMMIT_FILES = 10_000
DAYS = 336
STATISTICS = '{"numRecords":%d,"minValues":{%s},"maxValues":{%s},"nullCount":{%s}}'
NULLS = ",".join(f'"{name}":0' for name in COLUMNS)
DIGEST = "0a0b0c0d"
"""Digest of the bytes of each copied file."""


def make_listing(path, files):
    """Make a table by day whose log lists this many files: a checkpoint and one commit after it."""
    for at in range(REAL_FILES):
        values = ", ".join(f"value AS {name}" for name in COLUMNS)
        series = f"generate_series(CAST({at * FILE_ROWS} AS BIGINT), {(at + 1) * FILE_ROWS - 1})"
        rows = QueryBuilder().execute(f"SELECT {values}, DATE '2026-01-01' AS day FROM {series}").read_all()
        write_deltalake(path, rows, mode="append", partition_by=["day"])
    size = max(file.stat().st_size for file in Path(path).glob("day=*/*.parquet"))
    order = list(range(REAL_FILES, files))
    random.Random(1).shuffle(order)  # writers name files at random, so the log lists them in no order
    for first in range(0, len(order), COMMIT_FILES):
        commit(path, (add(at, size) for at in order[first : first + COMMIT_FILES]))
    _shorten(path)


def make_copy(source, path, files, folder):
    """Make a table whose log lists a whole copy of each file of such a table that does not exist, in this folder of the table."""
    listed = DeltaTable(source)
    DeltaTable.create(path, listed.schema(), partition_by=listed.metadata().partition_columns)
    size = max(file.stat().st_size for file in Path(source).glob("day=*/*.parquet"))
    for first in range(REAL_FILES, files, COMMIT_FILES):
        numbers = range(first, min(first + COMMIT_FILES, files))
        commit(path, (_copied(json.loads(add(at, size))["add"], folder) for at in numbers))
    _shorten(path)


def _copied(entry, folder):
    """Return the entry of the whole copy of a file, as a job writes it."""
    tags = CopyDigest(DIGEST, statistics_digest(entry["stats"])).tags
    return json.dumps(
        {"add": {**entry, "path": f"{folder}/{name_of(entry['path'], RowOrder.KEPT, '0')}", "tags": tags}}
    )


def _shorten(path):
    """Write a checkpoint and one commit after it, and remove the commits before."""
    DeltaTable(path).create_checkpoint()
    commit(path, ())
    log = Path(path, "_delta_log")
    for logged in sorted(log.glob("*.json"))[:-2]:
        logged.unlink()


def commit(path, lines):
    """Write the next commit of a table, with these actions."""
    log = Path(path, "_delta_log")
    version = 1 + max(int(file.stem) for file in log.glob("*.json"))
    information = json.dumps({"commitInfo": {"timestamp": 1_767_225_600_000 + version, "operation": "WRITE"}})
    (log / f"{version:020d}.json").write_text("".join(f"{line}\n" for line in (information, *lines)))


def add(at, size):
    """Return the entry of a file that does not exist, as a line of a commit."""
    day = 1 + at % DAYS
    day = f"2026-{1 + day // 28 % 12:02d}-{2 + day % 27:02d}"
    low, high = (",".join(f'"{name}":{at * FILE_ROWS + more}' for name in COLUMNS) for more in (0, FILE_ROWS - 1))
    stats = json.dumps(STATISTICS % (FILE_ROWS, low, high, NULLS))
    return (
        f'{{"add":{{"path":"day={day}/part-{at:07d}-6ba7b810-9dad-11d1-80b4-00c04fd430c8-c000.snappy.parquet",'
        f'"partitionValues":{{"day":"{day}"}},"size":{size},"modificationTime":{1_767_225_600_000 + at},'
        f'"dataChange":true,"stats":{stats}}}}}'
    )
