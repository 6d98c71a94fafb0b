"""Which files of a source and of a target are compared by their bytes, and what of their log entries does not fit.

Two files with the same bytes, partition values and hidden rows have the same rows, and leave both sides of the comparison. Whatever
does not fit stays on both sides, where rows decide. So a receipt is as true as one that compares all rows.

of a file that was copied whole          what follows
--------------------------------------   -----------------------------------------------------------------
it is there once, and its entry fits     its bytes are read back, and compared with its digest
its entry has another size or count      the sides differ, whatever rows say: engines answer by such counts
another vector or partition value        by rows; named when they differ
statistics that it was not given         by rows; and its values are compared with them: readers skip files by statistics
there is no such file, or another one    by rows; named when they differ
it has no digest                         by rows: an older release copied it, or another engine wrote it anew
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from backfill_core.log_shipping.actions import DeletionVector
from backfill_core.positions.source_names import RowOrder, source_of, tag_of
from backfill_core.protocol.receipt import FileMismatch
from backfill_core.transfer.copy_digest import CopyDigest, statistics_digest


@dataclass(frozen=True, slots=True)
class LoggedCopy:
    """A file of the source that is copied whole, as the target's log should have it."""

    path: str
    """As the source's log spells it."""

    bytes: int
    rows: int
    """Deleted ones included."""

    partition: Mapping[str, str | None]
    """As the target stores them, by its physical names."""

    vector: DeletionVector | None

    @property
    def live_rows(self) -> int:
        """Rows that a reader sees."""
        return self.rows - _hidden(self.vector)


@dataclass(frozen=True, slots=True)
class LoggedTargetFile:
    """A file of the target, as its log has it."""

    path: str
    """As the log spells it."""

    bytes: int
    rows: int | None
    """Deleted ones included; None: the log does not say."""

    partition: Mapping[str, str | None]
    """As readers see them; `facts.partition_value`."""

    statistics: str | None
    vector: DeletionVector | None
    digest: CopyDigest | None

    @property
    def id(self) -> tuple[str, DeletionVector | None]:
        """What no other file of a version has: a path may be there under two vectors."""
        return self.path, self.vector


@dataclass(frozen=True, slots=True)
class Pair:
    """Two files that have the same rows, if their bytes and their vectors are the same."""

    source: LoggedCopy
    target: LoggedTargetFile
    digest: CopyDigest

    @property
    def vectors_are_read(self) -> bool:
        """Do their vectors have to be read, to tell that they hide the same rows? An inline one is in the log as it is."""
        mine, theirs = self.source.vector, self.target.vector
        return mine is not None and theirs is not None and not (mine.storage == "i" and mine == theirs)


@dataclass(frozen=True, slots=True)
class Pairing:
    """What the logs of both sides say."""

    pairs: tuple[Pair, ...]
    wrong: tuple[FileMismatch, ...]
    """In which both sides differ, whatever their rows say; none of `pairs`."""

    wrong_pairs: tuple[Pair, ...]
    """The files that are named there; they are not read."""

    notes: tuple[FileMismatch, ...]
    """What may be the reason, if rows differ; last those that an OPTIMIZE of others leaves too."""

    doubtful: tuple[LoggedTargetFile, ...] = ()
    """Files whose statistics are not those that the job gave them."""


def paired(source: Iterable[LoggedCopy], target: Sequence[LoggedTargetFile]) -> Pairing:
    """Return which files are compared by bytes. Files that are not copied whole are in neither list, or in no pair."""
    copies: dict[str, list[LoggedTargetFile]] = {}
    for one in target:
        found = source_of(one.path)
        if found is not None and found.order is RowOrder.KEPT:
            copies.setdefault(found.tag, []).append(one)
    pairs: list[Pair] = []
    wrong_pairs: list[Pair] = []
    wrong: list[FileMismatch] = []
    notes: list[FileMismatch] = []
    lost: list[FileMismatch] = []
    doubtful: list[LoggedTargetFile] = []
    for wanted in source:
        group = copies.get(tag_of(wanted.path), [])
        if not group:
            lost.append(FileMismatch(wanted.path, "the target has no copy of this file of the source"))
            continue
        # Of two, the one that fits best is the copy, and the other one too many.
        fitting, *others = sorted(group, key=lambda one: len(_misfits(wanted, one)))
        notes += [FileMismatch(one.path, f"{wanted.path} of the source was copied more than once") for one in others]
        if fitting.digest is None:
            continue
        pair = Pair(wanted, fitting, fitting.digest)
        counts, misfits = _miscounts(wanted, fitting), _misfits(wanted, fitting)
        doubtful += [] if counts or _same_statistics(fitting) else [fitting]
        wrong += [FileMismatch(fitting.path, what) for what in counts]
        if counts:
            wrong_pairs.append(pair)
        elif misfits:
            notes += [FileMismatch(fitting.path, what) for what in misfits]
        else:
            pairs.append(pair)
    return Pairing(tuple(pairs), tuple(wrong), tuple(wrong_pairs), (*notes, *lost), tuple(doubtful))


def _miscounts(wanted: LoggedCopy, found: LoggedTargetFile) -> list[str]:
    """Return which numbers of a log entry no file with these bytes can have, in words."""
    words = []
    if found.bytes != wanted.bytes:
        words.append(f"its log entry says {found.bytes:,} bytes, and that of the source {wanted.bytes:,}")
    if found.rows != wanted.rows:
        said = "no number of" if found.rows is None else f"{found.rows:,}"
        words.append(f"its log entry says {said} rows, and that of the source {wanted.rows:,}")
    return words


def _misfits(wanted: LoggedCopy, found: LoggedTargetFile) -> list[str]:
    """Return what else of a log entry does not fit, in words."""
    words = []
    for name in sorted(wanted.partition.keys() | found.partition.keys()):
        mine, theirs = (one.get(name) for one in (wanted.partition, found.partition))
        if mine != theirs:
            words.append(f"its partition value {name} is {theirs!r}, and that of the source {mine!r}")
    if (wanted.vector is None) != (found.vector is None) or _hidden(wanted.vector) != _hidden(found.vector):
        hidden = (f"{_hidden(one.vector):,}" for one in (found, wanted))
        words.append("its deletion vector hides {} rows, and that of the source {}".format(*hidden))
    if not _same_statistics(found):
        words.append("its statistics are not those that the job gave it")
    return words


def _same_statistics(found: LoggedTargetFile) -> bool:
    """Are they those that the job gave it, with its copy or with its last deletion vector?"""
    return found.digest is not None and statistics_digest(found.statistics) == found.digest.statistics


def _hidden(vector: DeletionVector | None) -> int:
    return 0 if vector is None else vector.rows


@dataclass(frozen=True, slots=True)
class Same:
    """The files of a pair have the same bytes and hide the same rows."""


@dataclass(frozen=True, slots=True)
class Damaged:
    """The target's file, or its vector, is not what was copied."""

    what: str


@dataclass(frozen=True, slots=True)
class HidesOthers:
    """Its vector hides other rows than that of the source, as many of them."""


Verdict = Same | Damaged | HidesOthers


def verdict(pair: Pair, *, read_bytes: int, read_digest: str) -> Same | Damaged:
    """Judge the bytes of a pair, as they were read back from the target."""
    if read_bytes != pair.target.bytes:
        return Damaged(f"it has {read_bytes:,} bytes, and its log entry says {pair.target.bytes:,}")
    if read_digest != pair.digest.bytes:
        return Damaged(f"its bytes have the digest {read_digest}, and those that were copied {pair.digest.bytes}")
    return Same()


@dataclass(frozen=True, slots=True)
class Proven:
    """What is known without rows."""

    files: int = 0
    """Pairs with the same rows."""

    rows: int = 0
    """Of the source, that a reader sees in the files which are left out."""

    digest: str = ""
    """Over those pairs; empty: there is none."""

    source_paths: frozenset[str] = frozenset()
    """Files that are left out of the comparison by rows: those pairs, and those with a file that is wrong."""

    target_ids: frozenset[tuple[str, DeletionVector | None]] = frozenset()
    """The same in the target, each as `LoggedTargetFile.id`."""

    wrong: tuple[FileMismatch, ...] = ()
    notes: tuple[FileMismatch, ...] = ()
    """See `Pairing`."""


def proven(pairing: Pairing, verdicts: Sequence[Verdict]) -> Proven:
    """Return what a pairing comes to, with a verdict on each of its pairs, in their order."""
    same: list[Pair] = []
    left_out = list(pairing.wrong_pairs)
    wrong, notes = list(pairing.wrong), list[FileMismatch]()
    for pair, found in zip(pairing.pairs, verdicts, strict=True):
        match found:
            case Same():
                same.append(pair)
            case Damaged(what):
                wrong.append(FileMismatch(pair.target.path, what))
                left_out.append(pair)
            case HidesOthers():
                words = "its deletion vector hides other rows than that of the source"
                notes.append(FileMismatch(pair.target.path, words))
    left_out += same
    return Proven(
        files=len(same),
        rows=sum(one.source.live_rows for one in left_out),
        digest=_digest(same),
        source_paths=frozenset(one.source.path for one in left_out),
        target_ids=frozenset(one.target.id for one in left_out),
        wrong=tuple(wrong),
        notes=(*notes, *pairing.notes),
    )


def _digest(pairs: Sequence[Pair]) -> str:
    if not pairs:
        return ""
    lines = sorted(f"{one.source.path}\0{one.digest.bytes}\0{one.source.live_rows}\n" for one in pairs)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
