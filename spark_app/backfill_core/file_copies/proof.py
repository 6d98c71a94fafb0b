"""Pairs of source and target files that are compared by bytes, and differences between their log entries.

Two files with the same bytes, partition values and hidden rows have the same rows. Such a pair is left out of the comparison by rows;
all other files stay in it. So the receipt proves as much as one that compares all rows.

target file of a file copied whole       comparison
--------------------------------------   -----------------------------------------------------------------
it exists once, and its entry fits       its bytes are read back, and compared with its digest
its entry has another size or count      source and target differ, even if rows agree: engines answer by such counts
another vector or partition value        by rows; named if rows differ
statistics that the job did not write    by rows; its values are compared with them: readers skip files by statistics
it is missing, or is one too many        by rows; named if rows differ
it has no digest                         by rows: an older release copied it, or another engine rewrote it
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from backfill_core.file_copies.copy_digest import CopyDigest
from backfill_core.log_shipping.actions import DeletionVector
from backfill_core.positions.source_names import RowOrder, source_of, tag_of
from backfill_core.protocol.receipt import FileDifference

FileId = tuple[str, DeletionVector | None]
"""Path and deletion vector of a target's file, which together are unique within a version."""


@dataclass(frozen=True, slots=True)
class LoggedCopy:
    """The log entry that the target should have for a source file that is copied whole."""

    path: str
    """Path as stored in the source's log."""

    bytes: int
    rows: int
    """Row count including deleted rows."""

    partition: Mapping[str, str | None]
    """Partition values that the target stores, by its physical names."""

    vector: DeletionVector | None
    """The source's vector."""

    failing: int = 0
    """Number of visible rows that fail the filter; the copy hides them too."""

    @property
    def hidden(self) -> int:
        """Return the number of rows that the copy hides."""
        return _hidden(self.vector) + self.failing

    @property
    def live_rows(self) -> int:
        """Return the number of rows that a reader of the copy sees."""
        return self.rows - self.hidden


@dataclass(frozen=True, slots=True)
class LoggedTargetFile:
    """A file of the target as its log describes it."""

    path: str
    """Path as stored in the log."""

    bytes: int
    rows: int | None
    """Row count including deleted rows; `None` if the log has no count."""

    partition: Mapping[str, str | None]
    """Partition values as readers see them; see `facts.partition_value`."""

    statistics: str
    """Digest of its statistics; see `copy_digest.statistics_digest`. The statistics themselves would fill the memory."""

    vector: DeletionVector | None
    digest: CopyDigest | None

    @property
    def id(self) -> FileId:
        """Return a key that is unique within a version: one path may occur with two vectors."""
        return self.path, self.vector


@dataclass(frozen=True, slots=True)
class Pair:
    """A source file and its copy; they have the same rows if bytes and vectors are the same."""

    source: LoggedCopy
    target: LoggedTargetFile
    digest: CopyDigest

    @property
    def vectors_are_read(self) -> bool:
        """Return true if the vectors must be read to compare their hidden rows. The log contains inline vectors."""
        source, target = self.source.vector, self.target.vector
        if self.source.failing:
            return True
        return source is not None and target is not None and not (source.storage == "i" and source == target)


@dataclass(frozen=True, slots=True)
class Pairing:
    """Result of comparing the logs of source and target."""

    pairs: tuple[Pair, ...]
    wrong: tuple[FileDifference, ...]
    """Differences that count even if rows agree; their files are not in `pairs`."""

    wrong_pairs: tuple[Pair, ...]
    """The pairs of `wrong`; their bytes are not read."""

    notes: tuple[FileDifference, ...]
    """Possible reasons, if rows differ. Missing copies come last: a foreign OPTIMIZE causes them too."""

    doubtful: tuple[LoggedTargetFile, ...] = ()
    """Files whose statistics differ from the ones that the job wrote."""


def paired(source: Iterable[LoggedCopy], target: Sequence[LoggedTargetFile]) -> Pairing:
    """Pair source files with their copies. `source` has only the files that are copied whole; other target files get no pair."""
    copies: dict[str, list[LoggedTargetFile]] = {}
    decoded = set[str]()
    for file in target:
        origin = source_of(file.path)
        if origin is not None and origin.order is RowOrder.KEPT:
            copies.setdefault(origin.tag, []).append(file)
        elif origin is not None:
            decoded.add(origin.tag)
    pairs: list[Pair] = []
    wrong_pairs: list[Pair] = []
    wrong: list[FileDifference] = []
    notes: list[FileDifference] = []
    lost: list[FileDifference] = []
    doubtful: list[LoggedTargetFile] = []
    for copied in source:
        group = copies.get(tag_of(copied.path), [])
        if not group:
            if tag_of(copied.path) not in decoded:  # the file itself, and not the log, may have required decoding
                lost.append(FileDifference(copied.path, "the target has no copy of this file of the source"))
            continue
        # The candidate with the fewest differences is the copy; the other candidates are surplus.
        fitting, *surplus = sorted(group, key=lambda file: len(_misfits(copied, file))) if len(group) > 1 else group
        notes += [
            FileDifference(file.path, f"{copied.path} of the source was copied more than once") for file in surplus
        ]
        if fitting.digest is None:
            continue
        pair = Pair(copied, fitting, fitting.digest)
        counts, misfits = _miscounts(copied, fitting), _misfits(copied, fitting)
        doubtful += [] if counts or _same_statistics(fitting) else [fitting]
        wrong += [FileDifference(fitting.path, what) for what in counts]
        if counts:
            wrong_pairs.append(pair)
        elif misfits:
            notes += [FileDifference(fitting.path, what) for what in misfits]
        else:
            pairs.append(pair)
    return Pairing(tuple(pairs), tuple(wrong), tuple(wrong_pairs), (*notes, *lost), tuple(doubtful))


def _miscounts(expected: LoggedCopy, file: LoggedTargetFile) -> list[str]:
    """Describe the sizes and counts of a log entry that contradict the source's entry of the same bytes."""
    messages = []
    if file.bytes != expected.bytes:
        messages.append(f"its log entry has {file.bytes:,} bytes, and that of the source {expected.bytes:,}")
    if file.rows != expected.rows:
        rows = "no number of" if file.rows is None else f"{file.rows:,}"
        messages.append(f"its log entry has {rows} rows, and that of the source {expected.rows:,}")
    return messages


def _misfits(expected: LoggedCopy, file: LoggedTargetFile) -> list[str]:
    """Describe the other differences between a log entry and the source's entry."""
    messages = []
    for name in sorted(expected.partition.keys() | file.partition.keys()):
        source, target = expected.partition.get(name), file.partition.get(name)
        if source != target:
            messages.append(f"its partition value {name} is {target!r}, and that of the source {source!r}")
    has_vector = expected.vector is not None or expected.failing > 0
    if has_vector != (file.vector is not None) or expected.hidden != _hidden(file.vector):
        hidden, hidden_in_source = _hidden(file.vector), _hidden(expected.vector)
        fail = f", and {expected.failing:,} more fail the filter" if expected.failing else ""
        messages.append(f"its deletion vector hides {hidden:,} rows, and that of the source {hidden_in_source:,}{fail}")
    if not _same_statistics(file):
        messages.append("its statistics differ from the ones that the job wrote")
    return messages


def _same_statistics(file: LoggedTargetFile) -> bool:
    """Return true if the job wrote these statistics, with the copy or with its last deletion vector."""
    return file.digest is not None and file.statistics == file.digest.statistics


def _hidden(vector: DeletionVector | None) -> int:
    return 0 if vector is None else vector.rows


@dataclass(frozen=True, slots=True)
class Same:
    """The files of a pair have the same bytes and hide the same rows."""


@dataclass(frozen=True, slots=True)
class Damaged:
    """The target's file, or its vector, differs from the copied one."""

    what: str


@dataclass(frozen=True, slots=True)
class HidesOthers:
    """The target's vector hides the same number of rows as the source's, but other rows."""


Verdict = Same | Damaged | HidesOthers


def verdict(pair: Pair, *, read_bytes: int, read_digest: str) -> Same | Damaged:
    """Compare the bytes that were read back from the target with the pair's log entry and digest."""
    if read_bytes != pair.target.bytes:
        return Damaged(f"it has {read_bytes:,} bytes, and its log entry has {pair.target.bytes:,}")
    if read_digest != pair.digest.bytes:
        return Damaged(f"its bytes have the digest {read_digest}, and the copied bytes {pair.digest.bytes}")
    return Same()


@dataclass(frozen=True, slots=True)
class ProvenFiles:
    """Part of the proof that needs no comparison by rows."""

    files: int = 0
    """Pairs with the same rows."""

    rows: int = 0
    """Visible source rows in the files that are left out of the comparison by rows."""

    digest: str = ""
    """Digest over those pairs; empty if there is no pair."""

    source_paths: frozenset[str] = frozenset()
    """Source files that are left out of the comparison by rows: pairs with the same rows, and wrong pairs."""

    target_ids: frozenset[FileId] = frozenset()
    """The target files of those pairs, each as `LoggedTargetFile.id`."""

    wrong: tuple[FileDifference, ...] = ()
    notes: tuple[FileDifference, ...] = ()
    """See `Pairing`."""

    @property
    def wrong_copies(self) -> frozenset[str]:
        """Return the paths of copies that differ from their source file, and whose rows are not compared."""
        return frozenset(file.path for file in self.wrong) & {path for path, _ in self.target_ids}

    @property
    def same_ids(self) -> frozenset[FileId]:
        """Return the target files whose bytes were read back and are those of the source."""
        wrong = {file.path for file in self.wrong}
        return frozenset(file for file in self.target_ids if file[0] not in wrong)


def proven(pairing: Pairing, verdicts: Sequence[Verdict]) -> ProvenFiles:
    """Combine a pairing with the verdicts on its pairs, in the order of the pairs."""
    same: list[Pair] = []
    left_out = list(pairing.wrong_pairs)
    wrong, notes = list(pairing.wrong), list[FileDifference]()
    for pair, judged in zip(pairing.pairs, verdicts, strict=True):
        match judged:
            case Same():
                same.append(pair)
            case Damaged(what):
                wrong.append(FileDifference(pair.target.path, what))
                left_out.append(pair)
            case HidesOthers():
                fail = " and the filter" if pair.source.failing else ""
                message = f"its deletion vector hides other rows than that of the source{fail}"
                notes.append(FileDifference(pair.target.path, message))
    left_out += same
    return ProvenFiles(
        files=len(same),
        rows=sum(pair.source.live_rows for pair in left_out),
        digest=_digest(same),
        source_paths=frozenset(pair.source.path for pair in left_out),
        target_ids=frozenset(pair.target.id for pair in left_out),
        wrong=tuple(wrong),
        notes=(*notes, *pairing.notes),
    )


def _digest(pairs: Sequence[Pair]) -> str:
    if not pairs:
        return ""
    lines = sorted(f"{pair.source.path}\0{pair.digest.bytes}\0{pair.source.live_rows}\n" for pair in pairs)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
