"""Settings of Arrangement; the API package defines the parameters that users set."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_api.spec.spec import BackfillSpec
from backfill_api.spec.strategies.arrangement import ArrangementParams
from backfill_core.phases.key_copy_settings import KeyCopySettings


@dataclass(frozen=True, slots=True)
class ArrangementSettings:
    """Settings of the state machine; none of them changes the result."""

    merges: bool
    """True if changes are merged (Upsert); otherwise they are staged and committed like chunks (Append, Changelog)."""

    filtered: bool
    """True if the transform filters rows."""

    in_flight_max: int = 2
    chunk_target_s: float = 4.0
    chunk_rows: int | None = None
    rows_per_cut: int = 1
    batch_target_s: float = 10.0
    follow: bool = False
    part_bytes: int | None = None
    """Bytes of changed files above which a batch is merged in parts; `None` to merge every batch whole."""

    def copy(self, *, proves_key: bool, proven_version: int | None) -> KeyCopySettings:
        """Return the settings of the copy phase."""
        return KeyCopySettings(
            self.in_flight_max, self.chunk_target_s, self.chunk_rows, self.rows_per_cut, proves_key, proven_version
        )

    @classmethod
    def of(cls, spec: BackfillSpec) -> ArrangementSettings:
        """Read the settings from a spec."""
        params = spec.strategy.params
        assert isinstance(params, ArrangementParams)
        return cls(
            merges=spec.write_mode == "Upsert",
            filtered=spec.transform.where is not None,
            in_flight_max=params.max_in_flight,
            chunk_rows=params.chunk_rows,
            rows_per_cut=params.rows_per_cut,
            batch_target_s=params.change_batch_seconds,
            follow=spec.after == "Follow",
            part_bytes=params.part_bytes,
        )
