"""Publication: staged files become visible together, in one commit (ADR 0041).

state of the publication                    the target's rows      files of finished work
-----------------------------------------   --------------------   -------------------------------------------------
not published, rows are missing             none of this job       in the manifest of the same commit
not published, all rows are there           none of this job       in the manifest; they are compared if required
published                                   those of the job       in each commit, as without a publication

The manifest consists of parts: files next to the staged ones, written before the commit whose state names them. A part has
the number of that commit, and a digest over path, size and rows of its files. Parts are joined like the levels of a log-structured
tree, so the state names few parts however many commits the job makes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from backfill_core.protocol.stored_fields import StoredFields

if TYPE_CHECKING:
    from backfill_core.protocol.work import StagedFile

JOINED = 8
"""Number of parts of one level that become one part of the next level."""

DIGEST_MOD = 1 << 64


class Publish(StrEnum):
    """Time at which rows of the job become visible: the values of `target.delta.publish`."""

    CONTINUOUSLY = "Continuously"
    WHEN_COMPLETE = "WhenComplete"
    WHEN_VERIFIED = "WhenVerified"


@dataclass(frozen=True, slots=True)
class ManifestPart:
    """One file of a manifest, as a state names it."""

    txn: int
    """Transaction version of the first commit that names it; unique, so it names the file too."""

    level: int
    files: int
    rows: int
    digest: int
    """Sum of the digests of its files; that of joined parts is the sum of theirs."""

    def matches(self, files: Sequence[StagedFile]) -> bool:
        """Return whether a manifest lists exactly the files of this part."""
        listed = len(files), sum(file.rows for file in files), digest_of(files)
        return listed == (self.files, self.rows, self.digest)


@dataclass(frozen=True, slots=True)
class ManifestWrite:
    """A part to write before a commit: the commit's files, and the files of earlier parts that it replaces."""

    part: ManifestPart
    joins: tuple[ManifestPart, ...] = ()


@dataclass(frozen=True, slots=True)
class Publication:
    """Progress of a publication in a stored state."""

    published: bool = False
    parts: tuple[ManifestPart, ...] = ()
    """Parts of the manifest, the oldest first; empty once published."""

    scope_pin: int | None = None
    """Version of the target before the job's first commit, after which the scope belongs to the job; `None` without a scope."""

    def staged(self, files: Sequence[StagedFile], txn: int) -> tuple[Publication, ManifestWrite | None]:
        """Return the publication after a commit of files, and the part to write before it; `None` if nothing is staged."""
        if self.published or not files:
            return self, None
        level = 0
        kept = self.parts
        while len(tail := kept[1 - JOINED :]) == JOINED - 1 and all(part.level == level for part in tail):
            kept, level = kept[: 1 - JOINED], level + 1
        joins = self.parts[len(kept) :]
        part = ManifestPart(
            txn,
            level,
            len(files) + sum(part.files for part in joins),
            sum(file.rows for file in files) + sum(part.rows for part in joins),
            (digest_of(files) + sum(part.digest for part in joins)) % DIGEST_MOD,
        )
        return replace(self, parts=(*kept, part)), ManifestWrite(part, joins)

    def encode(self) -> dict[str, Any]:
        """Return the JSON value; its size grows with the logarithm of the number of commits."""
        parts = [[part.txn, part.level, part.files, part.rows, f"{part.digest:016x}"] for part in self.parts]
        pin = {} if self.scope_pin is None else {"scopePin": self.scope_pin}
        return {"published": self.published, "parts": parts, **pin}

    @classmethod
    def decode(cls, value: Any) -> Publication:
        """Parse the result of `encode`.

        Raises:
            StateMismatchError: names the first field that does not fit.
        """
        stored = StoredFields("state.publication", value)
        return cls(stored.typed("published", bool), stored.parsed("parts", _parts), stored.optional_count("scopePin"))


def digest_of(files: Iterable[StagedFile]) -> int:
    """Return the digest over path, size and rows of files; their order does not matter."""
    return sum(map(_digest, files)) % DIGEST_MOD


def _digest(file: StagedFile) -> int:
    text = f"{file.path}\n{file.size_bytes}\n{file.rows}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _parts(value: Any) -> tuple[ManifestPart, ...]:
    return tuple(_part(*part) for part in value)


def _part(txn: Any, level: Any, files: Any, rows: Any, digest: Any) -> ManifestPart:
    if not all(type(number) is int and number >= 0 for number in (txn, level, files, rows)):
        raise ValueError("no count")
    return ManifestPart(txn, level, files, rows, int(digest, 16) % DIGEST_MOD)
