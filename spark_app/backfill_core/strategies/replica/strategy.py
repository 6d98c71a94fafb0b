"""State machine of Replica: copies the files of one pinned version, then ships the file actions of the source's log.

phase      work                              ends when                                   next
--------   -------------------------------   -----------------------------------------   --------
Snapshot   splits of the row index           every row of it is in a commit              CatchUp
CatchUp    batches of versions; each waits   a batch took all versions that were         Live
           until the last one is durable     pending at its start, or none were pending
Live       the same                          never; Exit may exit once `complete` is set

`phases/copy_replay.py` defines the sequence of splits and batches. A batch removes files of the target, so it starts after all earlier
work is durable. A batch is staged; the next commit contains it completely, with the version that the target then has.
"""

from __future__ import annotations

from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import RECREATED_HINT, SourceReplacedError
from backfill_core.phases.copy_replay import CopyReplayStrategy
from backfill_core.protocol.strategy import Opened
from backfill_core.strategies.replica.params import ReplicaSettings
from backfill_core.strategies.replica.stored import ReplicaStored


def replica(
    opened: Opened, settings: ReplicaSettings, stored: ReplicaStored | None = None
) -> CopyReplayStrategy[ReplicaStored]:
    """Create the state machine; see the module.

    Raises:
        SourceReplacedError: Another table is at the source's path.
    """
    if stored is not None and stored.reopened_at is not None and opened.pinned.table_id != stored.copied.table_id:
        raise SourceReplacedError(
            f"the source was replaced by another table after version {stored.copied.version} was pinned.",
            hint=RECREATED_HINT,
        )
    return CopyReplayStrategy(opened, settings, resumed=stored, state=ReplicaStored, limit="Barriers", key_proven=True)


def resume(spec: BackfillSpec, stored: ReplicaStored | None, opened: Opened) -> CopyReplayStrategy[ReplicaStored]:
    """Create the state machine of an attempt."""
    return replica(opened, ReplicaSettings.of(spec), stored)
