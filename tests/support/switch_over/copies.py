"""Two tables that get each other's files, with a writer of either; the contents of files decide whether the tables are equal."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import count

from backfill_core.log_shipping.actions import DeletionVector, FileAdded, FileRemoved, VersionActions
from backfill_core.log_shipping.folding import fold
from backfill_core.log_shipping.target_files import TargetFile, TargetFiles
from backfill_core.positions.source_names import RowOrder, name_of

NUMBERS = count(1)
ROWS = 10


def vector(hidden):
    """Return the vector that hides so many rows of a file; equal numbers hide the same rows."""
    return DeletionVector("u", f"{hidden:020d}", 1, 40, hidden) if hidden else None


@dataclass
class Side:
    """A table: its files with their contents and vectors, and its log."""

    live: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Content and number of hidden rows of each file, by path."""

    log: list[VersionActions] = field(default_factory=list)
    contents: dict[str, int] = field(default_factory=dict)
    """Content of every file that ever existed; it never changes."""

    past: list[dict[str, tuple[int, int]]] = field(default_factory=list)
    """The files of each version."""

    def commit(self, *files):
        """Add a version."""
        self.log.append(VersionActions(len(self.log), tuple(files)))
        self.past.append(dict(self.live))

    def added(self, path):
        """Return the log entry of a file."""
        hidden = self.live[path][1]
        return FileAdded(path, 100, ROWS, True, vector(hidden), "{}")

    def removed(self, path):
        """Remove a file; return its log entry."""
        return FileRemoved(path, True, ROWS - self.live.pop(path)[1])

    def files(self):
        """Return the files as a copy sees them."""
        return TargetFiles.of(TargetFile(path, vector(hidden), path) for path, (_, hidden) in self.live.items())

    @property
    def rows(self):
        """Return the contents that readers see."""
        return Counter(self.live.values())

    def write(self, chance):
        """Commit as a user does: new files, deleted rows, removed or rewritten files, and a file that comes back."""
        existing = sorted(self.live)
        kind = chance.choice(["insert", "insert", "hide", "remove", "optimize", "restore"]) if existing else "insert"
        if kind == "insert":
            self.commit(self.added(self.insert()))
        elif kind == "hide":
            path = chance.choice(existing)
            content, hidden = self.live[path]
            if hidden < ROWS - 1:
                gone = FileRemoved(path, True, ROWS - hidden)
                self.live[path] = content, hidden + 1
                self.commit(gone, self.added(path))
        elif kind == "remove":
            self.commit(self.removed(chance.choice(existing)))
        elif kind == "restore":
            self.restore(chance.choice(self.past))
        else:
            removed = [self.removed(path) for path in chance.sample(existing, min(2, len(existing)))]
            self.commit(*removed, self.added(self.insert()))

    def restore(self, files):
        """Commit as RESTORE does: the files of an earlier version come back under their paths."""
        changed = {path for path in self.live.keys() | files.keys() if self.live.get(path) != files.get(path)}
        removed = [self.removed(path) for path in sorted(changed & self.live.keys())]
        self.live |= {path: files[path] for path in changed & files.keys()}
        self.commit(*removed, *(self.added(path) for path in sorted(changed & files.keys())))

    def insert(self):
        """Add a file with a new content; return its path."""
        path = f"part-{next(NUMBERS)}.parquet"
        self.live[path] = self.contents[path], _ = next(NUMBERS), 0
        return path

    def applied(self, step, source):
        """Apply a step of another table; return the lines that a commit of it would have, as pairs."""
        lines = []
        for removal in step.removals:
            lines.append(("remove", removal.file.path, None))
        for other in step.vectors:
            content, _ = self.live[other.file.path]
            lines.append(("add", other.file.path, (content, source[other.source.path][1])))
        for copy in step.copies:
            path = name_of(copy.file.path, RowOrder.KEPT, str(next(NUMBERS)))
            lines.append(("add", path, source[copy.file.path]))
        return lines

    def take(self, lines):
        """Commit lines of `applied`."""
        files = []
        for kind, path, content in lines:
            if kind == "remove":
                files.append(self.removed(path))
            else:
                if path in self.live:
                    files.append(FileRemoved(path, True, 1))
                self.live[path] = content
                files.append(self.added(path))
        self.commit(*files)


def shipped(here, there, after):
    """Bring `there` to the newest version of `here`, from a version on; return the step."""
    step = there.files().step(fold(here.log[after:]))
    there.take(there.applied(step, here.live))
    return step
