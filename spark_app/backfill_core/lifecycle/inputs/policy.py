"""The part of a spec that the lifecycle reads; an unreadable spec has the defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from backfill_api.spec.spec import BackfillSpec
from backfill_core.lifecycle.observation import SpecRefused

ACK_TIMEOUT_MS = 30_000
"""Shortest timeout; a driver acknowledges after a commit, so it may need longer if commits are rare."""

COMMITS_WAITED = 3


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits and policies; the defaults are those of the spec's fields."""

    refused: str = ""
    """Reason why the spec cannot be used; empty if it can."""

    backoff_limit: int = 3
    backoff_initial_s: int = 10
    backoff_max_s: int = 600
    deadline_s: int | None = None
    startup_s: int = 600
    drain_s: int = 60
    ttl_s: int | None = None
    drains: bool = True
    retain: Literal["Always", "OnFailure", "Never"] = "OnFailure"
    ack_timeout_ms: int = ACK_TIMEOUT_MS
    """Time after which a command without acknowledgement is late; it is sent again, and the driver continues."""

    @classmethod
    def of(cls, spec: BackfillSpec | SpecRefused) -> Policy:
        """Return the policy of a spec."""
        if isinstance(spec, SpecRefused):
            return cls(refused="; ".join(spec.errors) or "the spec cannot be read")
        return cls(
            backoff_limit=spec.backoff_limit,
            backoff_initial_s=spec.backoff.initial_seconds,
            backoff_max_s=spec.backoff.max_seconds,
            deadline_s=spec.active_deadline_seconds,
            startup_s=spec.startup_timeout_seconds,
            drain_s=spec.drain_timeout_seconds,
            ttl_s=spec.ttl_seconds_after_finished,
            drains=spec.deletion_policy != "Immediate",
            retain=spec.retain_driver,
            ack_timeout_ms=max(ACK_TIMEOUT_MS, COMMITS_WAITED * spec.barrier.interval_ms * spec.barrier.commit_every),
        )
