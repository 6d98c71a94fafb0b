"""How SourceSplits runs; the words that a user sets are in the contract."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_api.spec.params import OffsetSourceParams, SplitParams
from backfill_api.spec.spec import BackfillSpec


@dataclass(frozen=True, slots=True)
class SourceSplitsSettings:
    """How the machine runs; none of it changes the result."""

    in_flight_max: int = 2
    split_target_s: float = 4.0
    batch_target_s: float = 10.0
    follow: bool = False
    sets_aside: bool = False
    """Do bad records go into a table of their own? A MERGE has no place for them, so each read of them comes before it."""

    open_transaction_s: float = 900.0
    """How long an attempt that exits waits for records behind open transactions, once it has read everything else."""

    read_max: int = 50_000_000
    """Offsets of one read, at most."""

    share_min: int = 10_000
    """Offsets of one partition in one read, unless fewer are left: a range costs a task, however few records it has."""

    @classmethod
    def of(cls, spec: BackfillSpec) -> SourceSplitsSettings:
        """Read them from a spec."""
        params, source = spec.strategy.params, spec.source.params
        assert isinstance(params, SplitParams)
        reads = source if isinstance(source, OffsetSourceParams) else OffsetSourceParams()
        return cls(
            in_flight_max=params.max_in_flight,
            split_target_s=params.split_target_seconds,
            batch_target_s=params.change_batch_seconds,
            follow=spec.after == "Follow",
            sets_aside=reads.on_bad_record == "Quarantine",
            open_transaction_s=reads.open_transaction_wait_seconds,
        )
