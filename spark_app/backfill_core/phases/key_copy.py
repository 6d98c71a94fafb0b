"""Copying in the order of a key: ranges of one version after the other, several side by side, committed as a prefix.

Chunks wait in a queue in the order of their keys. A commit takes them from its front as long as they are staged, so that what the
target holds is always all rows up to one position of each vnode (R-ARR-7, R-ARR-42).

chunk     event                                                       then
-------   ---------------------------------------------------------   ---------------------------------------------------
Waiting   a slot is free, history may be read, a limit has permits    Running
Running   its work is lost                                            Waiting
Running   it finished                                                 Staged; what a limit cut off is a new chunk behind it
Staged    a commit is prepared, all chunks before it are staged       gone: the position of its vnodes moves
any       its version is passed over                                  thrown away; its rows are read again later
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from backfill_core.errors import BackfillError, KeyInvalidError
from backfill_core.pacing.eta import RateMeter
from backfill_core.pacing.sizing import SplitSizer, tapered
from backfill_core.pacing.throttle import TokenBucket
from backfill_core.phases.key_cells import KeyCells
from backfill_core.positions.key_order import KeyPosition
from backfill_core.positions.vnode_positions import Completed, NotStarted, Reached, Span, UpTo, VnodePositions
from backfill_core.protocol.clock import Now
from backfill_core.protocol.events import LimitSet
from backfill_core.protocol.strategy import KeyLine, Permits
from backfill_core.protocol.work import KeyRangeStaged, ReadKeyRange, StagedFile

FIRST_CHUNK_ROWS = 300_000
CHUNK_ROWS_MIN = 50_000
CHUNK_ROWS_MAX = 50_000_000
QUEUED_MAX = 64
"""Chunks that are read or staged and not committed: staged files that a commit does not name yet are lost by a crash."""


@dataclass(frozen=True, slots=True)
class KeyCopySettings:
    """How a copy runs; none of it changes the result."""

    in_flight_max: int
    chunk_target_s: float
    chunk_rows: int | None = None
    """Rows of a chunk at most; None: as many as take the target's time."""

    proves_key: bool = False
    """Does each chunk look for two rows with one key?"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """It is not being read."""


@dataclass(frozen=True, slots=True)
class Running:
    """It is being read."""

    work_id: int
    since_s: float
    charged: int | None
    """Rows that the limit was charged for; None: there was no limit."""

    cut_off: bool
    """May the read end before the chunk does? Then nothing behind it starts: it would wait for all of the chunk."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Its rows are in files that no commit names yet."""

    files: tuple[StagedFile, ...]
    rows_read: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows `(low, high]` of some vnodes at one version."""

    version: int
    spans: tuple[Span, ...]
    low: KeyPosition | None
    high: KeyPosition | None
    rows: int
    """Estimate."""

    state: Waiting | Running | Staged = Waiting()

    @property
    def reached(self) -> Reached:
        """How far its vnodes are once it is committed; without a position where no row is left (R-ARR-20, R-ARR-30)."""
        return Completed() if self.high is None else UpTo(self.high)


class KeyCopy:
    """The chunks of one attempt, from their choice to their commit."""

    def __init__(self, line: KeyLine, settings: KeyCopySettings) -> None:
        """Begin before the first row."""
        self._settings, self.space, self._order = settings, line.space, line.space.order
        self._cells = KeyCells(line)
        self.sealed = self.prepared = VnodePositions.at_start(line.space.vnodes)
        self.rows_read = self.rows_read_sealed = 0
        """Rows of the source: handed to a commit, and durable."""

        self.rows = self.rows_sealed = 0
        """The same without those that the filter left out."""

        self.chunks = 0
        self.revision = 0
        """Grows with each change of what is stored."""

        self.failure: BackfillError | None = None
        self._read_since_cut = 0
        self._queue: list[Chunk] = []
        self._dropped: set[int] = set()
        """Work under way for chunks that were thrown away."""

        self._bucket = TokenBucket.unlimited()
        self._barrier_passed = False
        self.meter = RateMeter()
        self._sizer = SplitSizer(settings.chunk_target_s, FIRST_CHUNK_ROWS, CHUNK_ROWS_MIN, CHUNK_ROWS_MAX)

    def resume(self, positions: VnodePositions, *, rows: int, rows_read: int, chunks: int) -> None:
        """Go on from what an earlier attempt committed: no row twice, and the counts go on (R-ARR-32, R-ARR-38, R-ARR-39)."""
        self.sealed = self.prepared = positions
        self.rows, self.rows_read, self.chunks = rows, rows_read, chunks
        self.rows_sealed, self.rows_read_sealed = rows, rows_read

    # -------------------------------------------------------------- what there is
    @property
    def complete(self) -> bool:
        """Was every row handed to a commit? Durable only when that is."""
        return self.prepared.complete

    @property
    def idle(self) -> bool:
        """Is no chunk read or staged?"""
        return all(isinstance(one.state, Waiting) for one in self._queue)

    @property
    def rate_limit(self) -> float | None:
        """Rows a second; None: no limit."""
        return self._bucket.rate_per_s

    @property
    def rows_per_chunk(self) -> int:
        """Rows that the next chunk without a limit should have."""
        return min(self._sizer.rows_per_split, self._settings.chunk_rows or CHUNK_ROWS_MAX)

    @property
    def rows_left(self) -> int:
        """Estimate: rows that are not durable."""
        return self._rows_after(self.sealed)

    def reads(self, version: int) -> bool:
        """Is a chunk of a version being read?"""
        return any(isinstance(one.state, Running) and one.version == version for one in self._queue)

    def ready(self, version: int) -> bool:
        """Would a commit take a chunk of a version?"""
        return bool(self._queue) and self._is_ready(self._queue[0], version)

    @staticmethod
    def _is_ready(chunk: Chunk, version: int) -> bool:
        return isinstance(chunk.state, Staged) and chunk.version == version

    def completes(self, version: int) -> bool:
        """Would a commit complete the copy?"""
        return bool(self._queue) and self._planned.complete and all(self._is_ready(one, version) for one in self._queue)

    def may_read(self, now: Now) -> bool:
        """Is there a row to read, and does the limit have a permit for it (R-ARR-19)?"""
        return not self.complete and self._bucket.available(now.mono_s) >= 1

    @property
    def _planned(self) -> VnodePositions:
        planned = self.prepared
        for chunk in self._queue:
            planned = planned.moved(chunk.spans, chunk.reached)
        return planned

    @property
    def _running(self) -> list[Running]:
        return [one.state for one in self._queue if isinstance(one.state, Running)]

    # -------------------------------------------------------------- events
    def set_limit(self, limit: LimitSet, now: Now) -> None:
        """Limit the rows per second; the first limit begins with one second's rows. Changes have none (R-ARR-35, R-ARR-37)."""
        self.meter = self.meter.under(limit.rows_per_s)
        self._bucket = self._bucket.under(limit.rows_per_s, now.mono_s, limit.burst_s)

    def pass_barrier(self) -> None:
        """A limit admits one epoch's quota when a barrier passes."""
        self._barrier_passed = True

    def _find(self, work_id: int) -> int | None:
        numbers = [one.state.work_id if isinstance(one.state, Running) else None for one in self._queue]
        return numbers.index(work_id) if work_id in numbers else None

    def finish(self, result: KeyRangeStaged, now: Now) -> None:
        """Take a finished chunk; it waits for the next commit, and for the chunks before it."""
        self._dropped.discard(result.work_id)
        at = self._find(result.work_id)
        if at is None:
            return
        chunk = self._queue[at]
        assert isinstance(chunk.state, Running)
        if chunk.state.charged is not None:
            self._bucket = self._bucket.take(result.rows_read - chunk.state.charged, now.mono_s)
        else:
            self._sizer = self._sizer.observe(result.rows_read, now.mono_s - chunk.state.since_s)
        staged = replace(chunk, state=Staged(result.files, result.rows_read))
        self._queue[at : at + 1] = (
            [staged] if result.last is None else self._parted(staged, result.last, result.rows_read)
        )

    def _parted(self, chunk: Chunk, last: KeyPosition, rows_read: int) -> list[Chunk]:
        """Return a chunk that was read in part, and what is left of it."""
        if not self._order.fits(last):
            self.failure = KeyInvalidError(
                f"the key of a row is too large to be a position: {self._order.words(last)[:200]}.",
                hint="Read in the order of other columns, or with another strategy.",
            )
        if chunk.high is not None and self._order.sort_key(last) >= self._order.sort_key(chunk.high):
            return [chunk]
        left = max(1, chunk.rows - rows_read)
        return [replace(chunk, high=last), replace(chunk, low=last, rows=left, state=Waiting())]

    def lose(self, work_id: int) -> int | None:
        """Forget work: its rows are read again; return the version that it read, None for other work."""
        self._dropped.discard(work_id)
        at = self._find(work_id)
        if at is None:
            return None
        self._queue[at] = replace(self._queue[at], state=Waiting())
        return self._queue[at].version

    def throw_away(self) -> None:
        """Pass over the version: what is read or staged of it, and not handed to a commit, is read again at a later one."""
        self._dropped.update(one.work_id for one in self._running)
        self._queue.clear()

    def keep(self, *versions: int) -> None:
        """Throw everything away unless it is of one of these versions."""
        if any(one.version not in versions for one in self._queue):
            self.throw_away()

    # -------------------------------------------------------------- choosing work
    def propose(
        self, permits: Permits, ids: Iterator[int], now: Now, version: int, *, opens: bool, shares: bool = False
    ) -> tuple[ReadKeyRange, ...]:
        """Choose the chunks that start now, all of one version.

        Args:
            permits: What may start.
            ids: Numbers of work.
            now: The moment.
            version: The version that is read.
            opens: May any start? A round that ends starts none.
            shares: Do changes run beside them? Half of the readers are left to those: a MERGE has twenty small Spark jobs, and each
                would wait for a part of a range to end.
        """
        at_barrier, self._barrier_passed = self._barrier_passed, False
        self.meter = self.meter.hold(now.mono_s, held=not permits.history)
        if not permits.history or not opens or (self.rate_limit is not None and not at_barrier):
            return ()
        work: list[ReadKeyRange] = []
        readers = self._settings.in_flight_max
        while len(self._running) + len(self._dropped) < ((readers + 1) // 2 if shares else readers):
            one = self._start_next(permits, ids, now, version)
            if one is None:
                break
            work.append(one)
        return tuple(work)

    def _start_next(self, permits: Permits, ids: Iterator[int], now: Now, version: int) -> ReadKeyRange | None:
        quota = None if self.rate_limit is None else int(self._bucket.available(now.mono_s))
        if quota == 0 or any(one.cut_off for one in self._running):
            return None
        at = next((at for at, one in enumerate(self._queue) if isinstance(one.state, Waiting)), None)
        if at is None:
            planned = self._plan(version, quota) if len(self._queue) < QUEUED_MAX else None
            if planned is None:
                return None
            at = len(self._queue)
            self._queue.append(planned)
        chunk, most = self._queue[at], self._settings.chunk_rows
        # No more rows than the chunk's size and the limit (R-ARR-9). Of a range that was read in part the estimate says little.
        rows = chunk.rows if self._cells.begins_at(chunk.low) else CHUNK_ROWS_MAX
        bounds = [one for one in (quota, most) if one is not None and one < rows]
        rows_max = min(bounds, default=None)
        charged = None if quota is None else (rows_max or chunk.rows)
        if charged is not None:
            self._bucket = self._bucket.take(charged, now.mono_s)
        work_id = next(ids)
        self._queue[at] = replace(chunk, state=Running(work_id, now.mono_s, charged, cut_off=rows_max is not None))
        return ReadKeyRange(
            work_id=work_id,
            version=chunk.version,
            space=self.space,
            low=chunk.low,
            high=chunk.high,
            vnodes=chunk.spans,
            epoch=permits.epoch.number,
            rows_max=rows_max,
            proves_key=self._settings.proves_key,
            readers=self._settings.in_flight_max,
        )

    def _plan(self, version: int, quota: int | None) -> Chunk | None:
        """Return the next chunk: of the vnodes that are least far, up to where others are, or up to a good cut.

        Completed ones are never read again (R-ARR-23), others strictly behind their position (R-ARR-25).
        """
        groups = {one: spans for one, spans in self._planned.groups().items() if not isinstance(one, Completed)}
        if not groups:
            return None
        least, *others = sorted(groups, key=self._sort_key)
        low = least.position if isinstance(least, UpTo) else None
        first = self._cells.first(low)
        share = sum(stop - start for start, stop in groups[least])
        # What is above a bound is cut off, by a Spark job of its own.
        bounded = quota is not None or self._settings.chunk_rows is not None
        last = self._cells.last(first, self._wanted(quota) * self.space.vnodes // share, at_most=bounded)
        high = self._cells.end(last)
        nearest = others[0] if others else None
        if isinstance(nearest, UpTo) and (high is None or self._sort_key(nearest) < self._order.sort_key(high)):
            high = nearest.position
        rows = max(1, self._share(groups[least], first, last + 1))
        return Chunk(version, groups[least], low, high, rows)

    def _wanted(self, quota: int | None) -> int:
        if quota is not None:
            return quota
        left = max(1, self._rows_after(self._planned))
        wanted = tapered(self.rows_per_chunk, left, slots=self._settings.in_flight_max)
        return min(max(CHUNK_ROWS_MIN, wanted), self.rows_per_chunk)

    def _sort_key(self, reached: Reached) -> tuple[object, ...]:
        return self._order.sort_key(reached.position) if isinstance(reached, UpTo) else ()

    def _share(self, spans: tuple[Span, ...], first: int, behind: int) -> int:
        """Estimate the rows of some vnodes in some cells."""
        return self._cells.rows(first, behind) * sum(stop - start for start, stop in spans) // self.space.vnodes

    def _rows_after(self, positions: VnodePositions) -> int:
        """Estimate the rows behind some positions; of a range that is read in part, what was read is known."""
        left = 0
        for reached, spans in positions.groups().items():
            if isinstance(reached, Completed):
                continue
            first = self._cells.first(None if isinstance(reached, NotStarted) else reached.position)
            left += self._share(spans, first, self._cells.behind)
        return max(0, left - self._read_since_cut)

    # -------------------------------------------------------------- committing
    def prepare_commit(self, version: int) -> tuple[StagedFile, ...]:
        """Hand over the chunks of a version that are staged, from the front up to the first that is not (R-ARR-28)."""
        files: list[StagedFile] = []
        while self.ready(version):
            chunk = self._queue.pop(0)
            assert isinstance(chunk.state, Staged)
            files += chunk.state.files
            self.prepared = self.prepared.moved(chunk.spans, chunk.reached)
            self.rows_read += chunk.state.rows_read
            self._read_since_cut = (
                0 if self._cells.begins_at(chunk.high) else self._read_since_cut + chunk.state.rows_read
            )
            self.chunks += 1
            self.revision += 1
        self.rows += sum(file.rows for file in files)
        return tuple(files)

    def seal(self, now: Now) -> None:
        """What was prepared last is durable."""
        rows = self.rows_read - self.rows_read_sealed
        self.sealed, self.rows_read_sealed, self.rows_sealed = self.prepared, self.rows_read, self.rows
        if rows:
            self.meter = self.meter.observe(rows, now.mono_s)
