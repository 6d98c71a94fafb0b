"""What a metastore stores of a name, read by Spark."""

from __future__ import annotations

from typing import Any

from backfill_spark.jvm.gateway import java_session

HOUSEKEEPING = ("transient_lastDdlTime", "numFilesErasureCoded", "Statistics", "Last Access")
"""Facts that the metastore changes with each statement."""


def stored(spark: Any, database: str, name: str) -> dict[str, str]:
    """Return all facts of a table or view by their names, without those that each statement changes."""
    catalog = java_session(spark).sharedState().externalCatalog().unwrapped()
    facts = {}
    for line in str(catalog.getRawTable(database, name).toString()).splitlines():
        fact, colon, value = line.partition(": ")
        if fact == "Table Properties":
            inner = value.strip("[]").split(", ")
            value = ", ".join(part for part in inner if not part.startswith(HOUSEKEEPING))
        if not fact.startswith(HOUSEKEEPING):
            facts[fact.strip()] = value if colon else ""
    return facts


def by_name(spark: Any, name: str) -> tuple[int, list[str]]:
    """Return rows and columns that a query sees in a session which never saw the name."""
    frame = spark.newSession().table(name)
    return frame.count(), frame.columns
