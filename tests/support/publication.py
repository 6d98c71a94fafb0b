"""What another engine sees of a target whose rows become visible together."""

from pathlib import Path

from deltalake import DeltaTable, QueryBuilder


def rows_at(path, version=None):
    """Return the rows of a version as another engine reads them; 0 without a table."""
    if not DeltaTable.is_deltatable(path):
        return 0
    counted = QueryBuilder().register("t", DeltaTable(path, version=version)).execute("SELECT count(*) AS n FROM t")
    return counted.read_all()["n"][0].as_py()


def added_files(path):
    """Return the number of files that each version adds."""
    log = sorted(Path(path, "_delta_log").glob("*.json"))
    return [sum('"add":{' in line for line in file.read_text().splitlines()) for file in log]
