"""State machine of Snapshot: copies one pinned version in splits, replays the changes after it, and follows the source.

phase      work                              ends when                                   next
--------   -------------------------------   -----------------------------------------   --------
Snapshot   splits of the row index           every row of it is in a commit              CatchUp
CatchUp    the proof of the key, if it is    a batch took all changes that were          Live
           due, then batches of changes      pending at its start, or none were pending
Live       batches of changes                never; Exit may exit once `complete` is set

`phases/copy_replay.py` defines the sequence of splits, proof and batches.
"""

from __future__ import annotations

from backfill_api.spec.spec import BackfillSpec
from backfill_core.phases.copy_replay import CopyReplayStrategy
from backfill_core.phases.replay import CatchUpEnd
from backfill_core.protocol.strategy import Opened
from backfill_core.strategies.snapshot.params import SnapshotSettings
from backfill_core.strategies.snapshot.stored import SnapshotStored


def snapshot(
    opened: Opened, settings: SnapshotSettings, stored: SnapshotStored | None = None
) -> CopyReplayStrategy[SnapshotStored]:
    """Create the state machine; see the module."""
    limit = settings.limit
    end = CatchUpEnd.WITH_ITS_COMMIT if limit == "EpochTime" else CatchUpEnd.AFTER_ITS_COMMIT
    return CopyReplayStrategy(
        opened, settings, resumed=stored, state=SnapshotStored, limit=limit, end=end, holds_source=True
    )


def resume(spec: BackfillSpec, stored: SnapshotStored | None, opened: Opened) -> CopyReplayStrategy[SnapshotStored]:
    """Create the state machine of an attempt."""
    return snapshot(opened, SnapshotSettings.of(spec), stored)
