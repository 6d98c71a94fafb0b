"""The hash of an attempt's token: the status has it, and the driver proves by the token that it is the attempt's."""

from __future__ import annotations

import hashlib
from typing import Final

HASH_CHARACTERS: Final = 32
"""128 bits: enough against guessing, and short enough for a status that keeps several of them."""


def hash_of(token: str) -> str:
    """Return the hash of a token; it may be public."""
    return hashlib.sha256(token.encode()).hexdigest()[:HASH_CHARACTERS]
