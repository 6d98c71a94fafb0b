"""Hash of an attempt's token. The status contains the hash, and the driver proves with the token that it belongs to the attempt."""

from __future__ import annotations

import hashlib
from typing import Final

HASH_CHARACTERS: Final = 32
"""128 bits: enough against guessing, and short enough for a status that keeps several of them."""


def hash_of(token: str) -> str:
    """Return the hash of a token; it may be public."""
    return hashlib.sha256(token.encode()).hexdigest()[:HASH_CHARACTERS]
