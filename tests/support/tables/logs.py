"""The log files of a table, read directly: in a folder of this machine, or in a bucket of S3."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.stores.objects import objects_at, text_of

from backfill_spark.jvm.gateway import java

IN_A_BUCKET = "s3a://"

LOST_STATE = "[DELTA_STATE_RECOVER_ERROR] The protocol of your Delta table could not be recovered while Reconstructing version: {}."
"""Delta's message, with a version: it names no table."""


def is_begun(table: str | Path) -> bool:
    """Return whether anything exists at the path of a table."""
    if _is_in_a_bucket(table):
        return next(objects_at(str(table)), None) is not None
    return Path(table).exists()


def has_version(table: str | Path, version: int) -> bool:
    """Return whether a table has this version."""
    return version in commits_of(table, version - 1)


def commits_of(table: str | Path, after: int = -1) -> list[int]:
    """Return the versions above `after` whose commits are in a table's log, in order."""
    if _is_in_a_bucket(table):
        # Keys after `…5.json` are of version 6 or above.
        names: Iterator[str] = objects_at(f"{table}/_delta_log", f"{after:020d}.json" if after >= 0 else "")
    else:
        names = (file.name for file in Path(table, "_delta_log").glob("*.json"))
    versions = (
        int(stem) for stem, dot, end in (name.partition(".") for name in names) if end == "json" and stem.isdigit()
    )
    return sorted(version for version in versions if version > after)


def commit_of(table: str | Path, version: int) -> str:
    """Return the content of a commit."""
    name = f"{table}/_delta_log/{version:020d}.json"
    return text_of(name) if _is_in_a_bucket(table) else Path(name).read_text()


def actions_in(commit: str) -> list[dict[str, Any]]:
    """Return the actions of a commit; a statistic may contain a character that Python, but no Delta reader, treats as the end of a line."""
    return [json.loads(line) for line in commit.split("\n") if line]


def _is_in_a_bucket(table: str | Path) -> bool:
    return str(table).startswith(IN_A_BUCKET)


def forget_sums(path: str | Path) -> None:
    """Remove Hadoop's checksums of files that are edited."""
    for sums in Path(path).rglob(".*.crc"):
        sums.unlink()


def without_action(spark: Any, path: str, kind: str) -> None:
    """Remove an action from the first commit, and the checksum files, which repeat it."""
    log = Path(path, "_delta_log")
    forget_sums(log)
    for checksums in log.glob("*.crc"):
        checksums.unlink()
    first = log / f"{0:020d}.json"
    lines = first.read_text().splitlines(keepends=True)
    first.write_text("".join(line for line in lines if f'"{kind}":' not in line))
    java(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()


def with_other_column(path: str, column: str, other: str) -> None:
    """Rename a column in the only checksum file, so that it differs from the commits."""
    forget_sums(path)
    (checksums,) = Path(path, "_delta_log").glob("*.crc")
    name = '\\"name\\":\\"{}\\"'
    text = checksums.read_text()
    assert name.format(column) in text
    checksums.write_text(text.replace(name.format(column), name.format(other)))
