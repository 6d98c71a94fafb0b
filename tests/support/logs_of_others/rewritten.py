"""Logs of other writers: the `add` actions of a table's commits, changed in place, as if another writer had logged the files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backfill_spark.jvm.gateway import java


def rewrite_log(spark: Any, path: str | Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change each `add` action of a table; delete checkpoints and checksums, because they repeat the actions."""
    log = Path(path, "_delta_log")
    for file in log.glob("*.json"):
        actions = [json.loads(line) for line in file.read_text().split("\n") if line]
        for action in actions:
            if "add" in action:
                change(action["add"])
        file.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    for file in log.iterdir():
        if file.suffix == ".crc" or "checkpoint" in file.name:
            file.unlink()
    java(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()


def with_bounds(column: str, low: Any, high: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change of the bounds of a column; each is a value, or a function of the bound in the log."""

    def changed(add: dict[str, Any]) -> None:
        stats = json.loads(add["stats"])
        for name, bound in (("minValues", low), ("maxValues", high)):
            stats[name][column] = bound(stats[name][column]) if callable(bound) else bound
        add["stats"] = json.dumps(stats)

    return changed
