"""What is worth knowing of one Backfill between looks; none of it is needed for being right."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field

from backfill_core.lifecycle.observation import LaunchFailed

TOKEN_BYTES = 32
HASH_CHARACTERS = 32
"""128 bits: nobody finds a token of this hash, and a status keeps several of them."""


def new_token() -> str:
    """Return a token that nobody had before."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def hash_of(token: str) -> str:
    """Return what everybody may know of a token."""
    return hashlib.sha256(token.encode()).hexdigest()[:HASH_CHARACTERS]


@dataclass(slots=True)
class SoftState:
    """Of one Backfill; lost with the operator."""

    uid: str
    launch_failed: LaunchFailed | None = None
    kept_at: float | None = None
    """When the objects of its attempt were looked for last; monotonic."""

    unanswered: int = 0
    """Launches in a row to which there was no answer."""

    token: str = field(default_factory=new_token, repr=False)
    """Of the next Secret that is made; its hash is on record before it is in any."""

    token_of: int | None = None
    """The attempt whose Secret may hold the token; None: no Secret does."""

    def token_hash(self, planned: int | None) -> str:
        """Return the hash of the token for the next Secret.

        Args:
            planned: The attempt that is on record and may have no Secret yet. A token that another attempt's Secret may
                hold is known to whoever may read that one, so it is not used again.
        """
        if self.token_of not in (None, planned):
            self.token, self.token_of = new_token(), None
        return hash_of(self.token)
