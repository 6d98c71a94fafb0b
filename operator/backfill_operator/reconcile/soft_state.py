"""The in-memory state of one Backfill between reconciles; correctness never depends on it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from backfill_core.lifecycle.inputs.token_hash import hash_of
from backfill_core.lifecycle.observation import LaunchFailed

TOKEN_BYTES = 32


def new_token() -> str:
    """Return a new random token."""
    return secrets.token_urlsafe(TOKEN_BYTES)


@dataclass(slots=True)
class SoftState:
    """State of one Backfill, which is lost when the process ends."""

    uid: str
    launch_failed: LaunchFailed | None = None
    ensured_at: float | None = None
    """Time of the last check of the attempt's objects, in seconds of the monotonic clock."""

    unanswered: int = 0
    """Consecutive launches without a response."""

    token: str = field(default_factory=new_token, repr=False)
    """Token for the next Secret; the status records its hash before a Secret contains it."""

    token_of: int | None = None
    """The attempt whose Secret may contain the token; `None` if no Secret contains it."""

    def token_hash(self, planned: int | None) -> str:
        """Return the hash of the token for the next Secret.

        Args:
            planned: The recorded attempt that may have no Secret yet. A token that another attempt's Secret may contain
                is not reused, because readers of that Secret have it.
        """
        if self.token_of not in (None, planned):
            self.token, self.token_of = new_token(), None
        return hash_of(self.token)
