"""Maps source files to their copies in the target, and a step of the source to a step of the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from backfill_core.log_shipping.actions import DeletionVector, FileAdded
from backfill_core.log_shipping.folding import ShippedStep
from backfill_core.log_shipping.layers import Layers
from backfill_core.positions.source_names import RowOrder, source_of, tag_of


@dataclass(frozen=True, slots=True)
class TargetFile:
    """A file of the newest version of the target."""

    path: str
    """Path as stored in the log."""

    vector: DeletionVector | None
    action: str
    """The `add` action, as a line of a commit."""

    bytes: int = 0
    partition: Mapping[str, str | None] = field(default_factory=dict)
    """Values of the partition columns as strings, by physical name."""

    rows: int | None = None
    """Number of rows that readers see; `None` if it is unknown."""

    def misfit(self, source: FileAdded, partition: Mapping[str, str | None], *, same_bytes: bool) -> str | None:
        """Describe why this file is no copy of a source file's current log entry; `None` if it may be one.

        Args:
            source: The source file that this file's name refers to.
            partition: The partition values of `source` in the target.
            same_bytes: True if the file was copied whole.
        """
        if same_bytes and self.bytes != source.bytes:
            return f"{source.bytes:,} bytes, and had {self.bytes:,} when it was copied"
        for name in sorted(partition.keys() | self.partition.keys()):
            now, before = partition.get(name), self.partition.get(name)
            if now != before:
                return f"the partition value {name} = {now!r}, and had {before!r} when it was copied"
        return None


@dataclass(frozen=True, slots=True)
class Removal:
    """A file to remove from the target."""

    file: TargetFile
    data_change: bool


@dataclass(frozen=True, slots=True)
class TargetCopy:
    """A source file to copy to the target."""

    file: FileAdded
    data_change: bool


@dataclass(frozen=True, slots=True)
class OtherVector:
    """A target file that gets its source file's current deletion vector."""

    file: TargetFile
    source: FileAdded
    data_change: bool


@dataclass(frozen=True, slots=True)
class TargetStep:
    """Effect of a source step on the target."""

    copies: tuple[TargetCopy, ...]
    vectors: tuple[OtherVector, ...]
    kept: tuple[tuple[TargetFile, FileAdded], ...]
    """Copies that stay, each with its source file in the step; includes copies that get another vector."""

    removals: tuple[Removal, ...]
    missing: tuple[str, ...]
    """Paths of source files with rows but without a target file; valid only if a filter excluded all their rows."""


@dataclass(frozen=True, slots=True)
class TargetFiles:
    """Files of a target, by the tag of the source file they were made of. Immutable: changes return a new value.

    A file of either table may be the copy of one of the other: `copy_back` copies files back. The name of the copy
    contains the tag of the original, in both directions.
    """

    groups: Layers[tuple[TargetFile, ...]] = field(default_factory=lambda: Layers({}))
    originals: Layers[TargetFile] = field(default_factory=lambda: Layers({}))
    """Files whose name contains no tag, by the tag of their own path; only the source can tell whether it has a copy of each."""

    copied: frozenset[str] = frozenset()
    """Paths of originals of which the source has a copy."""

    copies: Layers[TargetFile] = field(default_factory=lambda: Layers({}))
    """Files that are whole copies, by the tag of their own path: after a RESTORE the other table may have a copy of a copy."""

    @classmethod
    def of(cls, files: Iterable[TargetFile]) -> TargetFiles:
        """Group files by the tags in their names."""
        groups: dict[str, list[TargetFile]] = {}
        originals: dict[str, TargetFile] = {}
        copies: dict[str, TargetFile] = {}
        for file in files:
            origin = source_of(file.path)
            if origin is None:
                originals[tag_of(file.path)] = file
                continue
            groups.setdefault(origin.tag, []).append(file)
            if origin.order is RowOrder.KEPT:
                copies[tag_of(file.path)] = file
        grouped = {tag: tuple(group) for tag, group in groups.items()}
        return cls(Layers(grouped), Layers(originals), copies=Layers(copies))

    @property
    def foreign_files(self) -> tuple[str, ...]:
        """Paths of files that are no copies, and of which the source is not known to have one."""
        return tuple(file.path for file in self.originals.values() if file.path not in self.copied)

    def knowing_copies(self, source_paths: Iterable[str]) -> TargetFiles:
        """Return the same files with those originals known of which the source has a copy."""
        origins = (source_of(path) for path in source_paths)
        tags = {origin.tag for origin in origins if origin is not None and origin.order is RowOrder.KEPT}
        copied = (file.path for tag, file in self.originals.items() if tag in tags)
        return replace(self, copied=self.copied.union(copied))

    def of_source_file(self, path: str) -> tuple[TargetFile, ...]:
        """Return the copies of a source file, or the file of which the source file is a copy."""
        group = self.groups.get(tag_of(path), ())
        origin = None if group else source_of(path)
        if origin is None or origin.order is not RowOrder.KEPT:
            return group
        file = self.originals.get(origin.tag) or self.copies.get(origin.tag)
        return () if file is None else (file,)

    def step(self, step: ShippedStep) -> TargetStep:
        """Return the effect of a source step on these files.

        If a source file gets another vector, its copy gets it, too. Decoded rows lost their positions, so their files are removed,
        and the source file is copied again. So is a file whose vector a RESTORE removed. A RESTORE may also replace a file by the one
        whose copy it is: both have the same file here, which stays.
        """
        copies: list[TargetCopy] = []
        vectors: list[OtherVector] = []
        kept: list[tuple[TargetFile, FileAdded]] = []
        removals: list[Removal] = []
        for path, source in step.present.items():
            group, changed = self.of_source_file(path), path in step.changed
            if not group:
                copies.append(TargetCopy(source, changed))
                continue
            if len(group) > 1 or not _in_place(group[0]) or _comes_back(group[0], source):
                removals += [Removal(file, changed) for file in group]
                copies.append(TargetCopy(source, changed))
                continue
            kept.append((group[0], source))
            if not same_vector(group[0].vector, source.vector):
                vectors.append(OtherVector(group[0], source, changed))
        settled = {file.path for file, _ in kept} | {removal.file.path for removal in removals}
        for path in step.absent:
            gone = [file for file in self.of_source_file(path) if file.path not in settled]
            removals += [Removal(file, path in step.changed) for file in gone]
            settled |= {file.path for file in gone}
        missing = tuple(path for path in step.needed if not self.of_source_file(path))
        return TargetStep(tuple(copies), tuple(vectors), tuple(kept), tuple(removals), missing)

    def after(self, removed: Iterable[str], added: Iterable[TargetFile]) -> TargetFiles:
        """Return the files after a commit that removed and added paths; a path in both stays, as added.

        The work depends on these paths alone, not on the number of files.
        """
        removed_paths = set(removed)
        groups: dict[str, tuple[TargetFile, ...]] = {}
        for tag in {origin.tag for path in removed_paths if (origin := source_of(path)) is not None}:
            groups[tag] = tuple(file for file in self.groups.get(tag, ()) if file.path not in removed_paths)
        more = TargetFiles.of(added)
        for tag, files in more.groups.items():
            groups[tag] = (*groups.get(tag, self.groups.get(tag, ())), *files)
        gone = dict.fromkeys(map(tag_of, removed_paths))  # the key of a file's own path
        return TargetFiles(
            self.groups.changed({tag: files or None for tag, files in groups.items()}),
            self.originals.changed({**gone, **more.originals}),
            self.copied - removed_paths,
            self.copies.changed({**gone, **more.copies}),
        )


def _in_place(file: TargetFile) -> bool:
    origin = source_of(file.path)
    return origin is None or origin.order is RowOrder.KEPT


def _comes_back(file: TargetFile, source: FileAdded) -> bool:
    """Return true if the target may have had this file with the same vector before, as after RESTORE.

    Its log then still contains the file's removal. Delta Kernel writes both actions into a checkpoint, and Spark then reads no row
    of the file. A staged vector has a unique name in each step; a missing or inline vector has none.
    """
    if same_vector(file.vector, source.vector) or (source.vector is not None and source.vector.storage != "i"):
        return False
    return file.vector is not None and _hidden(source.vector) <= file.vector.rows


def _hidden(vector: DeletionVector | None) -> int:
    return 0 if vector is None else vector.rows


def same_vector(vector: DeletionVector | None, other: DeletionVector | None) -> bool:
    """Return true if both files certainly hide the same rows; `None` hides no row."""
    return other is None if vector is None else other is not None and vector.hides_the_same(other)
