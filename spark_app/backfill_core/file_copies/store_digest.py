"""Checksums that an object store reports, compared with the digests of copied files."""

from __future__ import annotations

import base64
import binascii

FULL_OBJECT = "FULL_OBJECT"
CRC32C_BYTES = 4


def is_exact(size_bytes: int, digest: str | None, *, copied_bytes: int, copied_digest: str | None) -> bool:
    """Return true if a copy has the size and the digest of its object, as far as the store reports digests of both."""
    return copied_bytes == size_bytes and (None in (digest, copied_digest) or digest == copied_digest)


def full_crc32c(checksum: str | None, kind: str | None) -> str | None:
    """Return the CRC-32C of all bytes of an object, hexadecimal like the digest of a copy; `None` if the store reports none.

    Args:
        checksum: The store's `ChecksumCRC32C`: Base64 of four big-endian bytes; `None` or empty without one. That of an
            object in parts may end with `-` and their number: it is a checksum of checksums.
        kind: The store's `ChecksumType`; older stores report none.
    """
    if not checksum or "-" in checksum or (kind or FULL_OBJECT) != FULL_OBJECT:
        return None
    try:
        content = base64.b64decode(checksum, validate=True)
    except (binascii.Error, ValueError):
        return None
    return content.hex() if len(content) == CRC32C_BYTES else None
