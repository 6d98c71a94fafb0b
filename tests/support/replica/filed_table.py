"""A source with versions whose files have names: each version adds, removes and hides rows and files.

It commits like Delta's writers. They append, they update and delete by hiding rows or by rewriting files, and they run
OPTIMIZE. They purge hidden rows, and RESTORE brings files back under their old names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from support.simulation.tables import Row
from support.simulation.versions import SourceFile, VersionedTable

DATA = ("append", "append", "update", "update", "delete", "rewrite")
REARRANGING = ("optimize", "purge")
DATA_SHARE = 0.75
RESTORED_MAX = 4
"""Maximum number of versions that RESTORE goes back."""


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file of some versions."""

    rows: tuple[Row, ...]
    """All rows, hidden ones included, at their positions."""

    hidden: frozenset[int]
    of: int
    """Number of positions in all."""

    @property
    def live(self) -> tuple[Row, ...]:
        """Return the rows that a reader sees."""
        return tuple(row for position, row in enumerate(self.rows) if position not in self.hidden)

    def hide(self, keys: Iterable[int]) -> NamedFile:
        """Return the file with the rows of some keys hidden."""
        chosen = set(keys)
        positions = {position for position, row in enumerate(self.rows) if row[0] in chosen}
        return replace(self, hidden=self.hidden | positions)


Files = dict[str, NamedFile]


class FiledTable(VersionedTable):
    """See the module; versions are immutable."""

    def __init__(self, seed: int, *, rows: int, sparse: bool, filtered: bool) -> None:
        """Make version 0 with `rows` rows; `sparse` gives each file 20,000 to 200,000 positions."""
        super().__init__(seed, rows=rows, append_only=False, sparse=sparse, filtered=filtered)
        self.made: dict[str, int] = {}
        """Number of commits by kind."""

        self._number = 0
        files: Files = {}
        left = self.rows(0)
        while left:
            count = self._rng.choice([0, 1, 2, 3, 5, 8, 13])
            files |= self._file(left[:count])
            left = left[count:]
        self.files = [files]
        """Files of each version, by name."""

    def _file(self, rows: Iterable[Row]) -> Files:
        held = tuple(rows)
        self._number += 1
        dead = self._rng.randrange(20_000, 200_000) if self.sparse else self._rng.choice([0, 0, 1, 4])
        # The order of names is unrelated to time.
        name = f"{self._rng.randrange(1 << 16):04x}{self._number}"
        return {name: NamedFile(held, frozenset(), len(held) + dead)}

    # ------------------------------------------------------------------ writing
    def commit(self) -> str:
        """Make a random commit; return its description."""
        rng, files = self._rng, dict(self.files[-1])
        data, other = rng.choices(DATA, k=rng.choice([0, 1, 1, 2, 4])), rng.choice([*REARRANGING, "restore"])
        kinds = data if rng.random() < DATA_SHARE else [other]
        for kind in kinds:
            self._do(kind, files)
            self.made[kind] = self.made.get(kind, 0) + 1
        self.files.append(files)
        self._versions.append(dict(row for file in files.values() for row in file.live))
        self.changes.append(())
        return f"version {self.version}: {', '.join(kinds) or 'nothing'}; files {', '.join(sorted(files))}"

    def _do(self, kind: str, files: Files) -> None:
        rng = self._rng
        names = sorted(files)
        some = rng.sample(names, min(len(names), rng.choice([1, 1, 2, 3])))
        live = sorted(row for name in names for row in files[name].live)
        drawn = rng.sample(live, min(len(live), rng.choice([1, 2, 4])))
        match kind:
            case "append":
                files |= self._file((next(self._keys), next(self._stamp)) for _ in range(rng.choice([1, 2, 3])))
            case "update" | "delete":
                for name in names:
                    files[name] = files[name].hide(key for key, _ in drawn)
                    if not files[name].live and rng.random() < 0.5:
                        del files[name]
                if kind == "update":
                    files |= self._file((key, next(self._stamp)) for key, _ in drawn)
            case "rewrite":
                for name in some:
                    rows = files.pop(name).live
                    files |= self._file((key, rng.choice([value, next(self._stamp)])) for key, value in rows)
            case "optimize":
                rows = tuple(row for name in some for row in files.pop(name).live)
                files |= self._file(rows) if rows else {}
            case "purge":
                for name in [file for file in names if files[file].hidden][:1]:
                    rows = files.pop(name).live
                    files |= self._file(rows) if rows else {}
            case "restore":
                files.clear()
                files |= rng.choice(self.files[-RESTORED_MAX:])

    # ------------------------------------------------------------------ reading
    def names(self, version: int) -> list[str]:
        """Return the names of a version's files, in path order."""
        return sorted(self.files[version])

    def layout(self, version: int) -> tuple[SourceFile, ...]:
        """Return the files of a version, in path order."""
        files = self.files[version]
        return tuple(SourceFile(files[name].live, files[name].of) for name in self.names(version))

    def passing(self, version: int, name: str) -> tuple[Row, ...]:
        """Return the transformed rows of a file of a version."""
        return tuple(row for row in self.files[version][name].live if self.passes(row[1]))
