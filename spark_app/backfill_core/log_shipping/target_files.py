"""Which files of a target were made of which file of the source, and what a step of the source asks of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from backfill_core.log_shipping.actions import DeletionVector, FileAdded
from backfill_core.log_shipping.folding import Step
from backfill_core.positions.source_names import RowOrder, source_of, tag_of


@dataclass(frozen=True, slots=True)
class TargetFile:
    """A file of the newest version of the target."""

    path: str
    """As the log spells it."""

    vector: DeletionVector | None
    action: str
    """The `add` action, as a line of a commit."""

    bytes: int = 0
    partition: Mapping[str, str | None] = field(default_factory=dict)
    """Values of the partition columns as text, by physical name."""

    def misfit(self, source: FileAdded, partition: Mapping[str, str | None], *, same_bytes: bool) -> str | None:
        """Return what says that this is no copy of a file of the source as it is named now, in words; None: nothing does.

        Args:
            source: Of which this is a copy, by its name.
            partition: Its partition values in the target.
            same_bytes: Was it copied whole?
        """
        if same_bytes and self.bytes != source.bytes:
            return f"{source.bytes:,} bytes, and had {self.bytes:,} when it was copied"
        for name in sorted(partition.keys() | self.partition.keys()):
            now, before = (one.get(name) for one in (partition, self.partition))
            if now != before:
                return f"the partition value {name} = {now!r}, and had {before!r} when it was copied"
        return None


@dataclass(frozen=True, slots=True)
class Removal:
    """A file of the target that goes."""

    file: TargetFile
    data_change: bool


@dataclass(frozen=True, slots=True)
class Copy:
    """A file of the source that the target gets."""

    file: FileAdded
    data_change: bool


@dataclass(frozen=True, slots=True)
class OtherVector:
    """A file of the target that gets the deletion vector that its source file has now."""

    file: TargetFile
    source: FileAdded
    data_change: bool


@dataclass(frozen=True, slots=True)
class TargetStep:
    """What a step of the source comes to in the target."""

    copies: tuple[Copy, ...]
    vectors: tuple[OtherVector, ...]
    kept: tuple[tuple[TargetFile, FileAdded], ...]
    """Copies that stay, with the files of the source as the step names them; also those under another vector."""

    removals: tuple[Removal, ...]
    missing: tuple[str, ...]
    """Paths of source files of which the target should have rows and has no file, unless a filter left them all out."""


@dataclass(frozen=True, slots=True)
class TargetFiles:
    """The files of a target by the tag of the source file that they were made of; a change is a new value."""

    groups: dict[str, tuple[TargetFile, ...]] = field(default_factory=dict)
    strangers: tuple[str, ...] = ()
    """Paths of files whose name says of no source file."""

    @classmethod
    def of(cls, files: Iterable[TargetFile]) -> TargetFiles:
        """Sort files by what their names say."""
        groups: dict[str, tuple[TargetFile, ...]] = {}
        strangers: list[str] = []
        for one in files:
            found = source_of(one.path)
            if found is None:
                strangers.append(one.path)
            else:
                groups[found.tag] = (*groups.get(found.tag, ()), one)
        return cls(groups, tuple(strangers))

    def step(self, step: Step) -> TargetStep:
        """Return what a step of the source asks of these files.

        Another vector changes a copy in place. Decoded rows tell no place, so such a group goes, and is made anew; so does a copy
        whose vector goes, as RESTORE has it.
        """
        copies: list[Copy] = []
        vectors: list[OtherVector] = []
        kept: list[tuple[TargetFile, FileAdded]] = []
        removals: list[Removal] = []
        for path, one in step.present.items():
            group, changed = self.groups.get(tag_of(path), ()), path in step.changed
            if not group:
                copies.append(Copy(one, changed))
                continue
            if len(group) > 1 or not _in_place(group[0]) or _comes_back(group[0], one):
                removals += [Removal(file, changed) for file in group]
                copies.append(Copy(one, changed))
                continue
            kept.append((group[0], one))
            if not _same(group[0].vector, one.vector):
                vectors.append(OtherVector(group[0], one, changed))
        for path in step.absent:
            removals += [Removal(file, path in step.changed) for file in self.groups.get(tag_of(path), ())]
        missing = tuple(path for path in step.needed if tag_of(path) not in self.groups)
        return TargetStep(tuple(copies), tuple(vectors), tuple(kept), tuple(removals), missing)

    def after(self, removed: Iterable[str], added: Iterable[TargetFile]) -> TargetFiles:
        """Return the files after a commit that took some paths out and put others in; a path in both stays, as it is added."""
        gone = set(removed)
        groups = dict(self.groups)
        for tag in {found.tag for path in gone if (found := source_of(path)) is not None}:
            groups[tag] = tuple(one for one in groups.get(tag, ()) if one.path not in gone)
        more = TargetFiles.of(added)
        for tag, files in more.groups.items():
            groups[tag] = (*groups.get(tag, ()), *files)
        strangers = (*(path for path in self.strangers if path not in gone), *more.strangers)
        return TargetFiles({tag: files for tag, files in groups.items() if files}, strangers)


def _in_place(file: TargetFile) -> bool:
    found = source_of(file.path)
    return found is not None and found.order is RowOrder.KEPT


def _comes_back(file: TargetFile, source: FileAdded) -> bool:
    """May the target have had this file under the same vector before, as after RESTORE?

    Then the log still has its removal. Delta Kernel writes both into a checkpoint, and Spark reads no row of such a file. A vector
    that is staged has a name of its own in each step; none, or one in the log itself, has not.
    """
    if _same(file.vector, source.vector) or (source.vector is not None and source.vector.storage != "i"):
        return False
    return file.vector is not None and _hidden(source.vector) <= file.vector.rows


def _hidden(vector: DeletionVector | None) -> int:
    return 0 if vector is None else vector.rows


def _same(one: DeletionVector | None, other: DeletionVector | None) -> bool:
    return other is None if one is None else other is not None and one.hides_the_same(other)
