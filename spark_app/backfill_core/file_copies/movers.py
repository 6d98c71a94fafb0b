"""Chooses who moves the bytes of copied files: the object store itself, or the driver; and what an answer of the store means.

The store copies an object without its bytes leaving the store if one client reaches both buckets. Settings decide that before the
first copy, and the first copy tries it: only the store knows the rights of the keys and the policies of its buckets.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

S3 = "s3a"

COPY_MAX_BYTES = 5 << 30
"""Largest object that S3 copies in one request; larger ones are copied in parts."""

PART_BYTES = 512 << 20
"""Size of a part; 10,000 of them, the most that S3 takes, make 5 TB, which is the largest object."""

OWN_KEYS = ("SSE-C", "CSE")
"""Starts of the names of encryptions whose keys the client holds: the store cannot read such an object by itself."""

REQUESTS_OF_A_FILE = 3
"""Requests for one file that the store copies: the footer, the copy and its HEAD; one that is copied alone takes more."""

DRIVER_REQUESTS_OF_A_FILE = 10
"""Requests for one small file that the driver streams: a read, a write, and those for the footers of file and copy."""


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """Settings of the client that reaches a folder; those of its bucket win over those of all buckets."""

    scheme: str
    endpoint: str = ""
    """Address of the store; empty for Amazon's own."""

    region: str = ""
    encryption: str = ""
    """Encryption of new objects, under its name in `fs.s3a.encryption.algorithm`; empty for the bucket's default."""

    credentials: str = ""
    """Fingerprint of the settings that provide credentials."""


@dataclass(frozen=True, slots=True)
class ByStore:
    """The store copies objects itself."""


@dataclass(frozen=True, slots=True)
class ByDriver:
    """Threads of the driver stream the bytes."""

    reason: str = ""
    """Reason why the store does not copy; empty if no folder is on S3."""


Mover = ByStore | ByDriver


def mover_of(source: StoreFacts, target: StoreFacts) -> Mover:
    """Return the mover of files from one folder to another, from settings alone."""
    if S3 not in (source.scheme, target.scheme):
        return ByDriver()
    if source.scheme != target.scheme:
        other = source.scheme if target.scheme == S3 else target.scheme
        return ByDriver(f"one of the two tables is not on S3 ({other})")
    if source.endpoint != target.endpoint:
        return ByDriver("the buckets have different endpoints")
    if source.region != target.region:
        return ByDriver("the buckets have different regions (fs.s3a.endpoint.region)")
    if source.credentials != target.credentials:
        return ByDriver("the buckets have different credentials")
    for facts in (source, target):
        if facts.encryption.upper().startswith(OWN_KEYS):
            return ByDriver(f"the store has no key for the encryption {facts.encryption}")
    return ByStore()


class CopyAnswer(Enum):
    """Meaning of a failed request of a copy."""

    BUSY = "ask again, with fewer requests at once"
    CHANGED = "the object is not the one that was described before"
    REFUSED = "the store does not copy this object; the driver may still read and write it"
    UNCLEAR = "the driver streams this object, and meets the same error or none"


_BUSY_CODES = frozenset({"SlowDown", "ServiceUnavailable", "RequestLimitExceeded", "TooManyRequests"})
_THROTTLED = "Throttling"
"""Part of the codes of a limit, as `KMS.ThrottlingException`: S3 answers with status 400 if its key service has no capacity."""

_PASSING_CODES = frozenset({"InternalError", "RequestTimeout", "OperationAborted", "ConditionalRequestConflict"})
"""Codes of one request that failed; S3 reports an error during a copy with status 200."""

_CHANGED, _NOT_FOUND, _TOO_MANY, _SERVER_ERROR = 412, 404, 429, 500
_UNAVAILABLE, _NOT_IMPLEMENTED = 503, 501


def answer_of(status: int, code: str) -> CopyAnswer:
    """Return the meaning of an error.

    Args:
        status: HTTP status; 0 if no answer came.
        code: S3's code of the error; empty if the answer has none.
    """
    if status == _CHANGED:
        return CopyAnswer.CHANGED
    if status in (_UNAVAILABLE, _TOO_MANY) or code in _BUSY_CODES or _THROTTLED in code:
        return CopyAnswer.BUSY
    if code in _PASSING_CODES or status in (0, _NOT_FOUND) or (status >= _SERVER_ERROR and status != _NOT_IMPLEMENTED):
        return CopyAnswer.UNCLEAR
    return CopyAnswer.REFUSED


def parts_of(size_bytes: int, part_bytes: int = PART_BYTES) -> tuple[tuple[int, int], ...]:
    """Return the first and the last byte of each part of an object, both inclusive."""
    starts = range(0, size_bytes, part_bytes)
    return tuple((start, min(start + part_bytes, size_bytes) - 1) for start in starts)


def requests_of(mover: Mover, sizes: tuple[int, ...] | list[int]) -> int:
    """Return the number of requests that copying objects of these sizes costs."""
    if isinstance(mover, ByDriver):
        return DRIVER_REQUESTS_OF_A_FILE * len(sizes)
    in_parts = [len(parts_of(size)) for size in sizes if size > COPY_MAX_BYTES]
    # A copy in parts begins and ends with one more request each, in place of the single copy.
    return REQUESTS_OF_A_FILE * len(sizes) + sum(parts + 1 for parts in in_parts)
