"""Lag of a target behind its source, by the times of both logs as another engine reads them: the job is not involved."""

from deltalake import DeltaTable
from support.tables import oracle


def lags(source, target, *, since):
    """Return for each version of the source how many seconds later a commit of the target contained it.

    Args:
        source: Path of the source.
        target: Path of the target.
        since: Versions that were committed before this are left out; in seconds since 1970.

    Raises:
        AssertionError: the target lacks one of them.
    """
    committed, durable, seals = _times(source), _times(target), oracle.seals(str(target))
    lag = []
    for version, at in sorted(committed.items()):
        if at >= since:
            holders = [seal.version for seal in seals if seal.progress["consumed"] >= version]
            assert holders, f"the target lacks version {version} of its source"
            lag.append(round(durable[holders[0]] - at, 2))
    return lag


def _times(table):
    """Return the commit time of each version of a table, in seconds since 1970."""
    return {commit["version"]: commit["timestamp"] / 1000 for commit in DeltaTable(str(table)).history()}
