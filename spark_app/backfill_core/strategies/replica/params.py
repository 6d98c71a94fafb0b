"""How a replica runs; the words that a user sets are in the contract, so that the CRD has them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_api.spec.spec import BackfillSpec
from backfill_core.phases.copy_replay import CopyReplaySettings
from backfill_core.phases.replay import ChangeWay


@dataclass(frozen=True, slots=True)
class ReplicaSettings(CopyReplaySettings):
    """How the machine runs; none of it changes the result."""

    @property
    def way(self) -> ChangeWay:
        """The source's log is shipped."""
        return ChangeWay.SHIPPED

    @classmethod
    def of(cls, spec: BackfillSpec) -> ReplicaSettings:
        """Read them from a spec."""
        # A part of a file that was read ahead is a cut, too.
        return replace(cls.shared(spec), whole_files=True, reads_ahead=False)
