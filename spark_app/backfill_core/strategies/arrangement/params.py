"""How arrangement runs; the words that a user sets are in the contract."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_api.spec.spec import BackfillSpec
from backfill_api.spec.strategies.arrangement import ArrangementParams
from backfill_core.phases.key_copy import KeyCopySettings


@dataclass(frozen=True, slots=True)
class ArrangementSettings:
    """How the machine runs; none of it changes the result."""

    merges: bool
    """Changes are merged (Upsert); else staged and committed like chunks (Append, Changelog)."""

    filtered: bool
    """The transform drops rows."""

    in_flight_max: int = 2
    chunk_target_s: float = 4.0
    chunk_rows: int | None = None
    batch_target_s: float = 10.0
    follow: bool = False

    def copy(self, *, proves_key: bool, proven_version: int | None) -> KeyCopySettings:
        """Return the settings of the copy."""
        return KeyCopySettings(self.in_flight_max, self.chunk_target_s, self.chunk_rows, proves_key, proven_version)

    @classmethod
    def of(cls, spec: BackfillSpec) -> ArrangementSettings:
        """Read them from a spec."""
        params = spec.strategy.params
        assert isinstance(params, ArrangementParams)
        return cls(
            merges=spec.write_mode == "Upsert",
            filtered=spec.transform.where is not None,
            in_flight_max=params.max_in_flight,
            chunk_rows=params.chunk_rows,
            batch_target_s=params.change_batch_seconds,
            follow=spec.after == "Follow",
        )
