"""Settings of SourceSplits; the API package defines the parameters that users set."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_api.spec.params import OffsetSourceParams, SplitParams
from backfill_api.spec.spec import BackfillSpec


@dataclass(frozen=True, slots=True)
class SourceSplitsSettings:
    """Settings of the state machine; none of them changes the result."""

    in_flight_max: int = 2
    split_target_s: float = 4.0
    batch_target_s: float = 10.0
    follow: bool = False
    sets_aside: bool = False
    """True if bad records go to a quarantine table. A MERGE cannot write to it, so a separate read stages them first."""

    open_transaction_s: float = 900.0
    """Seconds that an attempt with `after: Exit` waits for records behind open transactions, after it read all others."""

    read_max: int = 50_000_000
    """Maximum offsets of one read."""

    share_min: int = 10_000
    """Minimum offsets of one partition in one read, unless fewer are left: each range costs a task, even with few records."""

    @classmethod
    def of(cls, spec: BackfillSpec) -> SourceSplitsSettings:
        """Read the settings from a spec."""
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
