"""A live table as its log describes it, writers that never ask the job, and a shell for the strategy of a job."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from backfill_core.in_place.conflicts import ForeignChanges, Replacement, rebased
from backfill_core.in_place.files import FillScope, LiveFile, is_append
from backfill_core.in_place.work import FilesFilled, ListLiveFiles, LiveFilesListed
from backfill_core.log_shipping.actions import DeletionVector, FileAdded, FileRemoved
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import Sealed, WorkFinished, WorkLost
from backfill_core.protocol.strategy import Permits, Pinned
from backfill_core.protocol.work import StagedFile
from backfill_core.strategies.in_place.stored import InPlaceStored, decode
from backfill_core.strategies.in_place.strategy import InPlaceStrategy

COLUMN, TAG = "norm", "job-1"
STEP_MS = 400
ROW_BYTES = 2**23
"""Bytes of a row, so that a batch has few files, and others wait."""

NULL_EVERY = 5
"""The expression is null for each n-th value."""


def filled(base):
    """Return the value of the expression for a row."""
    return None if base % NULL_EVERY == 0 else f"v{base}"


@dataclass(frozen=True)
class Row:
    """A row as it is stored in a file."""

    number: int
    base: int
    norm: str | None


@dataclass(frozen=True)
class Entry:
    """A file in the current version."""

    rows: tuple[Row, ...]
    hidden: frozenset[int] = frozenset()
    """Positions of deleted rows."""

    vector: DeletionVector | None = None
    tag: str = ""
    changed_ms: int = 0
    appended_at: int | None = None

    @property
    def visible(self):
        """Rows that readers see."""
        return [row for at, row in enumerate(self.rows) if at not in self.hidden]


class FoundWrongError(AssertionError):
    """A reader saw a row wrong, twice or not at all."""


@dataclass
class World:
    """A table; `truth` is what writers alone made of it, kept without reading its files."""

    chance: object
    writers_since: int | None = None
    merges_on_read: bool = True
    now_ms: int = 1_000_000
    version: int = 0
    files: dict[str, Entry] = field(default_factory=dict)
    truth: dict[int, tuple[int, str | None]] = field(default_factory=dict)
    log: dict[int, tuple[list, bool]] = field(default_factory=dict)
    snapshots: dict[int, dict[str, Entry]] = field(default_factory=dict)
    past: list = field(default_factory=list)
    vectors: dict[str, frozenset[int]] = field(default_factory=dict)
    rows_made: int = 0
    paths_made: int = 0
    ours: int = 0

    # -------------------------------------------------------------- commits
    def commit(self, removed=(), added=None, *, redefined=False, operation="WRITE"):
        """Add a version; `added` are entries by path."""
        added = added or {}
        self.version += 1
        self.log[self.version] = (
            [FileRemoved(path, True) for path in removed]
            + [FileAdded(path, 1, len(entry.rows), True, entry.vector, "{}") for path, entry in added.items()],
            redefined,
        )
        for path in removed:
            del self.files[path]
        appended = self.version if is_append(operation, removes=bool(removed)) else None
        self.files |= {path: replace(entry, appended_at=appended) for path, entry in added.items()}
        self.snapshots[self.version] = dict(self.files)
        self.check()

    def new_path(self):
        """Return a path that no file had."""
        self.paths_made += 1
        return f"part-{self.paths_made}"

    def entry(self, rows):
        """Return a new file without a tag."""
        return Entry(tuple(rows), changed_ms=self.now_ms)

    def check(self):
        """Compare what readers see with what the writers wrote."""
        seen = [row for entry in self.files.values() for row in entry.visible]
        if sorted(row.number for row in seen) != sorted(self.truth):
            raise FoundWrongError(f"rows lost or doubled at version {self.version}")
        for row in seen:
            base, norm = self.truth[row.number]
            if row.base != base or row.norm not in ({norm} if norm is not None else {None, filled(base)}):
                raise FoundWrongError(f"{row} is wrong at version {self.version}")

    def unfilled(self, version):
        """Return the rows of a version in which a column is still to fill."""
        seen = (row for entry in self.snapshots[version].values() for row in entry.visible)
        return [row for row in seen if row.norm is None and filled(row.base) is not None]

    # -------------------------------------------------------------- writers
    @property
    def scope(self):
        """Rows that a job fills."""
        return FillScope(TAG, (COLUMN,), writers_since=self.writers_since)

    @property
    def knows(self):
        """True if writers fill the column of their rows in the next version."""
        return self.writers_since is not None and self.version + 1 >= self.writers_since

    def write(self):
        """Let a writer commit once."""
        kinds = [self.append, self.append, self.delete, self.merge, self.optimize, self.alter, self.restore]
        weights = [4, 4, 5, 6, 3, 0.5, 0.7]
        self.past = [*self.past[-3:], (dict(self.files), dict(self.truth), self.version)]
        self.chance.choices(kinds, weights)[0]()

    def append(self):
        """Add a file."""
        rows = []
        for _ in range(self.chance.randint(1, 4)):
            self.rows_made += 1
            base = self.chance.randint(1, 50)
            norm = filled(base) if self.knows else None
            self.truth[self.rows_made] = (base, norm)
            rows.append(Row(self.rows_made, base, norm))
        self.commit(added={self.new_path(): self.entry(rows)})

    def delete(self):
        """Delete a row by a deletion vector, or by a new file."""
        chosen = self._row()
        if chosen is not None:
            path, at = chosen
            del self.truth[self.files[path].rows[at].number]
            self.commit([path], self._without(path, at))

    def merge(self):
        """Change a row, and insert one: the old one is hidden, or its file is written again."""
        chosen = self._row()
        if chosen is None:
            return
        path, at = chosen
        base = self.chance.randint(1, 50)
        changed = Row(self.files[path].rows[at].number, base, filled(base) if self.knows else None)
        self.rows_made += 1
        inserted = replace(changed, number=self.rows_made)
        for row in (changed, inserted):
            self.truth[row.number] = (row.base, row.norm)
        kept = self._without(path, at)
        self.commit([path], {**kept, self.new_path(): self.entry([changed, inserted])})

    def optimize(self):
        """Join two files."""
        if len(self.files) >= 2:
            paths = self.chance.sample(sorted(self.files), 2)
            rows = [row for path in paths for row in self.files[path].visible]
            self.commit(paths, {self.new_path(): self.entry(rows)} if rows else {})

    def alter(self):
        """Change metadata."""
        self.commit(redefined=True)

    def restore(self):
        """Return to an earlier version: its files come back as they were."""
        files, truth, _ = self.chance.choice(self.past)
        self.truth = dict(truth)
        same = {path for path, entry in files.items() if self.files.get(path) == entry}
        back = {path: entry for path, entry in files.items() if path not in same}
        gone = [path for path in self.files if path not in same]
        self.commit(gone, back, operation="RESTORE")

    def _row(self):
        places = [
            (path, at)
            for path, entry in sorted(self.files.items())
            for at in range(len(entry.rows))
            if at not in entry.hidden
        ]
        return self.chance.choice(places) if places else None

    def _without(self, path, at):
        entry = self.files[path]
        if not self.merges_on_read:
            rows = [row for position, row in enumerate(entry.rows) if position != at and position not in entry.hidden]
            return {self.new_path(): self.entry(rows)} if rows else {}
        hidden = entry.hidden | {at}
        place = f"{len(self.vectors):020d}"
        self.vectors[place] = hidden
        return {path: replace(entry, hidden=hidden, vector=DeletionVector("u", place, 1, 8, len(hidden)))}

    # -------------------------------------------------------------- the job's shell
    def listed(self):
        """Return the files of the newest version, as their log entries describe them; some have no statistics."""
        return [
            LiveFile(
                path, ROW_BYTES * len(entry.rows), len(entry.rows), entry.vector, entry.tag,
                {COLUMN: sum(row.norm is None for row in entry.rows)} if int(path[5:]) % 4 else {},
                entry.changed_ms, entry.appended_at,
            )
            for path, entry in self.files.items()
        ]  # fmt: skip

    def foreign(self, after):
        """Return the changes after a version."""
        changes = ForeignChanges()
        for version in range(after + 1, self.version + 1):
            actions, redefined = self.log[version]
            changes = changes.after(actions, redefined=redefined)
        return changes

    def stage(self, files, data):
        """Compute the column of files; `data` are their rows at the listing."""
        staged = []
        for file in files:
            entry, keeps_order = data[file.path], self.chance.random() < 0.8
            hidden = frozenset() if file.vector is None else self.vectors[file.vector.place]
            rows = tuple(
                replace(row, norm=filled(row.base) if row.norm is None else row.norm)
                for at, row in enumerate(entry.rows)
                if keeps_order or at not in hidden
            )
            staged.append(Replacement(file, keeps_order, (StagedFile(file.path, 1, len(rows), rows),)))
        return staged

    def replace_files(self, replacements, after, disturb):
        """Make the job's commit directly after the version that was checked; return that version and the changes."""
        while True:
            checked, foreign = self.version, self.foreign(after)
            kept = rebased(replacements, foreign).kept
            disturb()
            if self.version != checked:
                continue
            added = {}
            for file in kept:
                vector = file.replaced.vector if file.keeps_order else None
                hidden = frozenset() if vector is None else self.vectors[vector.place]
                added[self.new_path()] = Entry(file.files[0].handle, hidden, vector, TAG, self.now_ms)
            self.ours += bool(kept)
            self.commit([file.replaced.path for file in kept], added)
            return self.version, foreign


@dataclass
class Job:
    """A driver that may die at any step, and starts again from its last state; its strategy is the real one."""

    world: World
    writes: float
    """Chance that a writer commits before a step, and while the job commits."""

    dies: float = 0
    fails: float = 0
    """Chance that work is lost, or the answer of a commit."""

    steps: int = 0
    deaths: int = 0
    filled: int = 0
    lost: int = 0
    state: InPlaceStored | None = None
    strategy: InPlaceStrategy | None = None
    work: object = None
    works: int = 0

    @property
    def now(self):
        """Time of both clocks."""
        return Now(self.world.now_ms / 1000, self.world.now_ms)

    def start(self):
        """Begin an attempt."""
        rows = sum(len(entry.visible) for entry in self.world.files.values())
        pinned = Pinned(self.world.version, self.world.now_ms, "table", "", (), rows)
        self.strategy = InPlaceStrategy(pinned, self.world.scope, self.state, conflicts_max=2)
        self.work, self.data = None, {}

    def disturb(self):
        """Let writers commit."""
        while self.world.chance.random() < self.writes:
            self.world.write()

    def step(self):
        """Execute one step; return True at the end."""
        world, chance = self.world, self.world.chance
        self.steps += 1
        world.now_ms += chance.randint(1, STEP_MS)
        self.disturb()
        if self.strategy is None or chance.random() < self.dies:
            self.deaths += self.strategy is not None
            self.start()
        held = chance.random() < self.fails
        permits = Permits(not held, not held, False, Epoch(1, self.steps), self.works + 1, held)
        if self.work is None:
            self.work = next(iter(self.strategy.propose(permits, self.now)), None)
            self.works += self.work is not None
        if self.work is None and world.chance.random() < 0.3:
            world.now_ms += 30_000  # nothing happens until a commit is due
        if self.work is not None and chance.random() < 0.6:
            self.finish()
        else:
            self.barrier(permits)
        return self.ended

    @property
    def ended(self):
        """True if the state of the end is durable; no row of that version is then left to fill."""
        status = self.strategy.status
        if status.complete and self.world.unfilled(status.consumed):
            raise FoundWrongError(f"rows are left to fill at version {status.consumed}")
        return status.complete

    def finish(self):
        """Answer the work in progress."""
        world, work, self.work = self.world, self.work, None
        if world.chance.random() < self.fails:
            self.strategy.on(WorkLost(work.work_id), self.now)
            return
        if isinstance(work, ListLiveFiles):
            self.data = {**self.data, **world.files}
            result = LiveFilesListed(work.work_id, world.version, tuple(world.listed()), world.scope)
        else:
            result = FilesFilled(work.work_id, tuple(world.stage(work.files, self.data)))
        self.strategy.on(WorkFinished(result), self.now)

    def barrier(self, permits):
        """Commit if the strategy has something for a commit."""
        world, strategy = self.world, self.strategy
        request = strategy.prepare_commit(permits.epoch, permits, self.now)
        if not (request.removed or request.changed):
            return
        state, checked = strategy.stored, [file.handle for file in request.removed]
        after = min((handle.after for handle in checked), default=world.version)
        staged = [handle.replacement for handle in checked]
        version, foreign = world.replace_files(staged, after, self.disturb)
        self.state = decode(state.encode())
        if world.chance.random() < self.dies:
            self.strategy, self.deaths = None, self.deaths + 1
            self.start()
            return
        answered = world.chance.random() >= self.fails
        result = rebased(staged, foreign)
        self.filled, self.lost = self.filled + len(result.kept), self.lost + len(result.lost)
        strategy.on(Sealed(permits.epoch.number, version, 0.1, foreign if answered else None), self.now)
        if foreign.redefined and checked:
            self.start()

    def run(self, steps_max):
        """Run until the end, or for some steps; return True at the end."""
        return any(self.step() for _ in range(steps_max))
