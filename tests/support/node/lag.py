"""How far a target was behind its source, by the times of both logs as another engine reads them: the job is not asked."""

from deltalake import DeltaTable
from support.tables import oracle


def lags(source, target, *, since):
    """Return for each version of the source how many seconds later a commit of the target had it.

    Args:
        source: Path of the source.
        target: Path of the target.
        since: Versions that were committed before this are left out; in seconds since 1970.

    Raises:
        AssertionError: the target lacks one of them.
    """
    committed, had, seals = _times(source), _times(target), oracle.seals(str(target))
    found = []
    for version, at in sorted(committed.items()):
        if at >= since:
            holders = [one.version for one in seals if one.progress["consumed"] >= version]
            assert holders, f"the target lacks version {version} of its source"
            found.append(round(had[holders[0]] - at, 2))
    return found


def _times(table):
    """Return when each version of a table was committed, in seconds since 1970."""
    return {one["version"]: one["timestamp"] / 1000 for one in DeltaTable(str(table)).history()}
