"""Is a target what its state says it is? Reads the log itself, with none of the product's code."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class SeenSeal:
    """A commit with a state in it."""

    version: int
    state: dict[str, Any]


def seals(target: str, after: int = -1) -> list[SeenSeal]:
    """Return the seals of a target with a version above `after`, oldest first."""
    found = []
    for file in sorted(Path(target, "_delta_log").glob("*.json")):
        if not file.stem.isdigit() or int(file.stem) <= after:
            continue
        for line in file.read_text().splitlines():
            domain = json.loads(line).get("domainMetadata")
            if domain and domain["domain"].startswith("backfill."):
                found.append(SeenSeal(int(file.stem), json.loads(domain["configuration"])))
    return found


def violations(spark: Any, source: str, target: str, seal: SeenSeal, view: Any) -> list[str]:
    """Return what is wrong with the target at a seal; an empty list when it is what the state says.

    Before the snapshot is complete: the sealed number of rows, each a row of the pinned version. After: exactly the
    transformed source as of `consumed`, as a multiset. Of a changelog it is what replaying it arrives at.
    """
    progress = seal.state["snapshot"]
    rows = spark.read.format("delta").option("versionAsOf", seal.version).load(target)
    snapshot_phase = progress["phase"] == "Snapshot"
    at = progress["version"] if snapshot_phase else progress["consumed"]
    wanted = view(spark.read.format("delta").option("versionAsOf", at).load(source))
    rows, unexplained = _replayed(rows) if "_op" in rows.columns else (rows, 0)
    surplus = rows.exceptAll(wanted).count() + unexplained
    if snapshot_phase:
        missing = seal.state["rowsDone"] - rows.count()
    else:
        missing = wanted.exceptAll(rows).count()
    where = (
        f"version {seal.version} ({progress['phase']}, consumed {progress['consumed']}, epoch {seal.state['epoch']})"
    )
    return [f"{where}: {surplus} rows too many, {missing} missing"] if surplus or missing else []


def _replayed(log: Any) -> tuple[Any, int]:
    """Return the rows that a changelog leaves, and how many of its removals remove nothing."""
    added, removed = (
        log.where(f"_op IN {kinds}").drop("_op", "_epoch", "_version")
        for kinds in ("('insert', 'update_postimage')", "('delete', 'update_preimage')")
    )
    return added.exceptAll(removed), removed.exceptAll(added).count()
