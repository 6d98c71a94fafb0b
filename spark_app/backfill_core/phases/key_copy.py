"""Copy in the order of a key: ranges of one version after the other, read in parallel, committed as a prefix.

Chunks wait in a queue in the order of their keys. A commit takes staged chunks from its front. So the target always contains all rows
up to one position of each vnode (R-ARR-7, R-ARR-42).

chunk     event                                                       then
-------   ---------------------------------------------------------   ---------------------------------------------------
Waiting   a slot is free, history may be read, a limit has permits    Running
Running   its work is lost                                            Waiting
Running   it finished                                                 Staged; the part cut off by a limit is a new chunk
Staged    a commit is prepared, all chunks before it are staged       removed: the position of its vnodes moves
any       the strategy skips its version                              discarded; its rows are read again later
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from backfill_api.spec.override import Width
from backfill_core.errors import BackfillError
from backfill_core.pacing.sizing import SplitSizer, tapered
from backfill_core.pacing.throttle import TokenBucket
from backfill_core.phases.key_chunks import Chunk, KeyCells, RunningChunk, StagedChunk, Waiting, refused_end
from backfill_core.phases.key_copy_settings import KeyCopySettings
from backfill_core.positions.key_order import KeyPosition
from backfill_core.positions.key_scan import KeyScan
from backfill_core.positions.vnode_positions import Completed, NotStarted, Reached, Span, UpTo, VnodePositions
from backfill_core.protocol.clock import Now
from backfill_core.protocol.eta import RateMeter
from backfill_core.protocol.events import LimitSet
from backfill_core.protocol.strategy import Permits
from backfill_core.protocol.work import KeyRangeStaged, ReadKeyRange, StagedFile

FIRST_CHUNK_ROWS = 300_000
CHUNK_ROWS_MIN = 50_000
CHUNK_ROWS_MAX = 50_000_000
FIRST_CUT_ROWS = 400_000
"""The first read of an attempt is cut off at `CHUNK_ROWS_MIN` if it has more rows: a Java that has just started is slow."""

GROWN_SHARE, GROWN_CHUNKS = 8, 16
"""New cuts are taken once reads exceeded their estimates by an eighth of all rows or by 16 chunks, whichever is less."""

GROWN_ROWS_MAX = 1_000_000
"""Most rows of a read without an estimate: one task sorts the keys of all of them to find the last one."""

QUEUED_MAX = 64
"""Most chunks that are read or staged and not committed: a crash loses staged files that no commit contains."""


class KeyCopy:
    """The chunks of one attempt, from their selection to their commit."""

    def __init__(self, line: KeyScan, settings: KeyCopySettings, version: int) -> None:
        """Start before the first row; `version` is that of the line."""
        self._settings, self.space, self._order = settings, line.space, line.space.order
        self._cells, self._cells_version = KeyCells(line), version
        self._surplus = 0
        """Rows beyond the estimates in reads of newer versions, since the newest cuts."""

        self.sealed = self.prepared = VnodePositions.at_start(line.space.vnodes)
        self.rows_read = self.rows_read_sealed = 0
        """Rows of the source: handed to a commit, and durable."""

        self.rows = self.rows_sealed = 0
        """The same without the rows that the filter excluded."""

        self.chunks = 0
        self.revision = 0
        """Number of changes of the stored state."""

        self.failure: BackfillError | None = None
        self._read_since_cut = 0
        self._queue: list[Chunk] = []
        self._dropped: set[int] = set()
        """Ids of running work whose chunks were discarded."""

        self._bucket = TokenBucket.unlimited()
        self._limit, self._mixed = 0, False
        """Number of the limit in force, and whether the newest commit contains rows of another limit."""
        self._barrier_passed = self._began = False
        self.meter = RateMeter()
        self._sizer = SplitSizer(settings.chunk_target_s, FIRST_CHUNK_ROWS, CHUNK_ROWS_MIN, CHUNK_ROWS_MAX)

    def resume(self, positions: VnodePositions, *, rows: int, rows_read: int, chunks: int) -> None:
        """Resume after the commits of an earlier attempt: no row is copied twice, and counts continue (R-ARR-32, R-ARR-38, R-ARR-39)."""
        self.sealed = self.prepared = positions
        self.rows, self.rows_read, self.chunks = rows, rows_read, chunks
        self.rows_sealed, self.rows_read_sealed = rows, rows_read

    # -------------------------------------------------------------- state
    @property
    def complete(self) -> bool:
        """True if every row was handed to a commit; the copy is durable only with that commit."""
        return self.prepared.complete

    @property
    def idle(self) -> bool:
        """True if no chunk is read or staged."""
        return all(isinstance(chunk.state, Waiting) for chunk in self._queue)

    @property
    def rate_limit(self) -> float | None:
        """Rows per second; `None` without a limit."""
        return self._bucket.rate_per_s

    @property
    def rows_per_chunk(self) -> int:
        """Target rows of the next chunk without a limit."""
        return min(self._sizer.rows_per_split, self._settings.chunk_rows or CHUNK_ROWS_MAX)

    @property
    def rows_left(self) -> int:
        """Estimated rows that are not durable."""
        return self._rows_after(self.sealed)

    def reads(self, version: int) -> bool:
        """Return whether a chunk of a version is being read."""
        return any(isinstance(chunk.state, RunningChunk) and chunk.version == version for chunk in self._queue)

    def ready(self, version: int) -> bool:
        """Return whether a commit would take a chunk of a version."""
        return bool(self._queue) and self._is_ready(self._queue[0], version)

    def begins(self, version: int) -> bool:
        """Return whether the first rows of this attempt are staged, without a limit. Their commit waits for no barrier."""
        return not self._began and self.rate_limit is None and self.ready(version)

    @staticmethod
    def _is_ready(chunk: Chunk, version: int) -> bool:
        return isinstance(chunk.state, StagedChunk) and chunk.version == version

    def completes(self, version: int) -> bool:
        """Return whether a commit would complete the copy."""
        planned = bool(self._queue) and self._planned.complete
        return planned and all(self._is_ready(chunk, version) for chunk in self._queue)

    def may_read(self, now: Now) -> bool:
        """Return whether a row is left and the limit has a permit for it (R-ARR-19)."""
        return not self.complete and self._bucket.available(now.mono_s) >= 1

    @property
    def _planned(self) -> VnodePositions:
        planned = self.prepared
        for chunk in self._queue:
            planned = planned.moved(chunk.spans, chunk.reached)
        return planned

    @property
    def _running(self) -> list[RunningChunk]:
        return [chunk.state for chunk in self._queue if isinstance(chunk.state, RunningChunk)]

    # -------------------------------------------------------------- events
    def set_limit(self, limit: LimitSet, now: Now) -> None:
        """Limit the rows per second; the first limit starts with the rows of one second. Changes are not limited (R-ARR-35, R-ARR-37)."""
        self._limit += limit.rows_per_s != self.meter.limit
        self.meter = self.meter.under(limit.rows_per_s)
        self._bucket = self._bucket.under(limit.rows_per_s, now.mono_s, limit.burst_s)

    def set_width(self, width: Width) -> None:
        """Change the number and the rows of chunks; chunks that are being read are not affected."""
        self._settings = self._settings.under(width)

    def pass_barrier(self) -> None:
        """Note a barrier: a limit admits the quota of one epoch at each."""
        self._barrier_passed = True

    def _find(self, work_id: int) -> int | None:
        numbers = [chunk.state.work_id if isinstance(chunk.state, RunningChunk) else None for chunk in self._queue]
        return numbers.index(work_id) if work_id in numbers else None

    def finish(self, result: KeyRangeStaged, now: Now) -> None:
        """Take a finished chunk, which waits for the next commit and for the chunks before it."""
        self._dropped.discard(result.work_id)
        at = self._find(result.work_id)
        if at is None:
            return
        chunk = self._queue[at]
        assert isinstance(chunk.state, RunningChunk)
        if result.last is not None and chunk.state.early and refused_end(self._order, chunk, result.last):
            self._began, self._queue[at] = True, replace(chunk, state=Waiting())  # read again, whole
            return
        if chunk.state.charged is not None:
            self._bucket = self._bucket.take(result.rows_read - chunk.state.charged, now.mono_s)
        elif self._began or not chunk.state.cut_off:
            self._sizer = self._sizer.observe(result.rows_read, now.mono_s - chunk.state.since_s)
        if chunk.version != self._cells_version:
            self._surplus += max(0, result.rows_read - chunk.rows)
        staged = replace(chunk, state=StagedChunk(result.files, result.rows_read, chunk.state.limit))
        parts = [staged] if result.last is None else self._parted(staged, result.last, result.rows_read)
        self._queue[at : at + 1] = parts
        if result.line is not None:
            self._cut_again(result.line, chunk.version)

    def _cut_again(self, line: KeyScan, version: int) -> None:
        """Take new cuts; a waiting chunk without an end is removed and planned again."""
        self._cells, self._cells_version = KeyCells(line), version
        self._surplus = self._read_since_cut = 0
        waiting = [(isinstance(chunk.state, Waiting), chunk) for chunk in self._queue]
        self._queue = [
            replace(chunk, rows=self._estimate(chunk.spans, chunk.low, chunk.high)) if waits else chunk
            for waits, chunk in waiting
            if not (waits and chunk.high is None)
        ]

    def _parted(self, chunk: Chunk, last: KeyPosition, rows_read: int) -> list[Chunk]:
        """Return a chunk that was read in part, and the rest of it."""
        self.failure = refused_end(self._order, chunk, last) or self.failure
        if chunk.high is not None and self._order.sort_key(last) >= self._order.sort_key(chunk.high):
            return [chunk]
        left = max(1, chunk.rows - rows_read)
        return [replace(chunk, high=last), replace(chunk, low=last, rows=left, state=Waiting())]

    def lose(self, work_id: int) -> int | None:
        """Forget work, so that its rows are read again; return the version that it read, `None` for unknown work."""
        self._dropped.discard(work_id)
        at = self._find(work_id)
        if at is None:
            return None
        self._queue[at] = replace(self._queue[at], state=Waiting())
        return self._queue[at].version

    def throw_away(self) -> None:
        """Skip the version: its rows that are not handed to a commit are read again at a later one, even if they are staged."""
        self._dropped.update(running.work_id for running in self._running)
        self._queue.clear()

    def keep(self, *versions: int) -> None:
        """Discard all chunks if one of them belongs to another version."""
        if any(chunk.version not in versions for chunk in self._queue):
            self.throw_away()

    # -------------------------------------------------------------- choosing work
    def propose(
        self, permits: Permits, ids: Iterator[int], now: Now, version: int, *, opens: bool, shares: bool = False
    ) -> tuple[ReadKeyRange, ...]:
        """Return the chunks that start now, all of one version.

        Args:
            permits: Permissions to start work.
            ids: Ids for the work.
            now: Current time.
            version: Version to read.
            opens: False in a round that ends, which starts no chunk.
            shares: True if changes run at the same time. They keep half of the readers, because a MERGE has twenty small Spark jobs.
        """
        at_barrier, self._barrier_passed = self._barrier_passed, False
        self.meter = self.meter.hold(now.mono_s, held=not permits.history)
        if not permits.history or not opens or (self.rate_limit is not None and not at_barrier):
            return ()
        work: list[ReadKeyRange] = []
        readers = self._settings.in_flight_max
        while len(self._running) + len(self._dropped) < ((readers + 1) // 2 if shares else readers):
            started = self._start_next(permits, ids, now, version)
            if started is None:
                break
            work.append(started)
        return tuple(work)

    def _start_next(self, permits: Permits, ids: Iterator[int], now: Now, version: int) -> ReadKeyRange | None:
        quota = None if self.rate_limit is None else int(self._bucket.available(now.mono_s))
        if quota == 0 or any(running.cut_off for running in self._running):
            return None
        at = next((at for at, chunk in enumerate(self._queue) if isinstance(chunk.state, Waiting)), None)
        if at is None:
            planned = self._plan(version, quota) if len(self._queue) < QUEUED_MAX else None
            if planned is None:
                return None
            at = len(self._queue)
            self._queue.append(planned)
        chunk = self._queue[at]
        rows_max, cut_off = self._bound(chunk, quota)
        early = self._is_early(chunk)
        charged = None if quota is None else (rows_max or chunk.rows)
        if charged is not None:
            self._bucket = self._bucket.take(charged, now.mono_s)
        work_id = next(ids)
        self._queue[at] = replace(chunk, state=RunningChunk(work_id, now.mono_s, charged, cut_off, self._limit, early))
        return ReadKeyRange(
            work_id=work_id,
            version=chunk.version,
            space=self.space,
            low=chunk.low,
            high=chunk.high,
            vnodes=chunk.spans,
            epoch=permits.epoch.number,
            rows_max=rows_max,
            proves_key=self._settings.proves_key and chunk.version != self._settings.proven_version,
            readers=self._settings.in_flight_max,
            takes_cuts=rows_max is not None and self._grown(chunk) and self._surplus >= self._surplus_max,
        )

    def _bound(self, chunk: Chunk, quota: int | None) -> tuple[int | None, bool]:
        """Return the row limit for the read of a chunk (R-ARR-9), and whether the chunk probably has more rows.

        An estimate is itself a limit only at the version of the cuts, and for a range that begins at a cut. Without a rate limit, the first
        read is small, and a range of a newer version is limited if it has no end, or if ranges had more rows than estimated.
        """
        begins, grown = self._cells.begins_at(chunk.low), self._grown(chunk)
        bounds = [rows for rows in (quota, self._settings.chunk_rows) if rows is not None]
        if not bounds and self._is_early(chunk):
            bounds = [CHUNK_ROWS_MIN]
        elif not bounds and grown and (chunk.high is None or self._surplus >= self.rows_per_chunk):
            bounds = [min(self.rows_per_chunk, GROWN_ROWS_MAX)]
        rows_max = min(bounds, default=CHUNK_ROWS_MAX)
        more = rows_max < (chunk.rows if begins else CHUNK_ROWS_MAX)
        return (rows_max if bounds and (more or grown) else None), more

    def _is_early(self, chunk: Chunk) -> bool:
        """Return whether the read of a chunk is small only because it is the first one of the attempt."""
        free = self.rate_limit is None and self._settings.chunk_rows is None
        return free and not self._began and chunk is self._queue[0] and chunk.rows > FIRST_CUT_ROWS

    def _grown(self, chunk: Chunk) -> bool:
        """Return whether a chunk belongs to another version than the cuts, so that its number of rows is unknown."""
        return chunk.version != self._cells_version

    @property
    def _surplus_max(self) -> int:
        """Surplus that justifies another read of the log for new cuts."""
        return max(1, min(self._cells.rows(0, self._cells.behind) // GROWN_SHARE, GROWN_CHUNKS * self.rows_per_chunk))

    def _plan(self, version: int, quota: int | None) -> Chunk | None:
        """Return the next chunk. It covers the vnodes that are least advanced, up to the next vnodes' position or to a good cut.

        Completed vnodes are never read again (R-ARR-23); other vnodes are read strictly after their position (R-ARR-25).
        """
        groups = {place: spans for place, spans in self._planned.groups().items() if not isinstance(place, Completed)}
        if not groups:
            return None
        least, *others = sorted(groups, key=self._sort_key)
        low = least.position if isinstance(least, UpTo) else None
        first = self._cells.first(low)
        share = sum(stop - start for start, stop in groups[least])
        # A separate Spark job cuts off the rows above a limit.
        bounded = quota is not None or self._settings.chunk_rows is not None
        last = self._cells.last(first, self._wanted(quota) * self.space.vnodes // share, at_most=bounded)
        high = self._cells.end(last)
        nearest = others[0] if others else None
        if isinstance(nearest, UpTo) and (high is None or self._sort_key(nearest) < self._order.sort_key(high)):
            high = nearest.position
        return Chunk(version, groups[least], low, high, max(1, self._share(groups[least], first, last + 1)))

    def _wanted(self, quota: int | None) -> int:
        if quota is not None:
            return quota
        left = max(1, self._rows_after(self._planned))
        rows = tapered(self.rows_per_chunk, left, slots=self._settings.in_flight_max)
        return min(max(CHUNK_ROWS_MIN, rows), self.rows_per_chunk)

    def _sort_key(self, reached: Reached) -> tuple[object, ...]:
        return self._order.sort_key(reached.position) if isinstance(reached, UpTo) else ()

    def _share(self, spans: tuple[Span, ...], first: int, behind: int) -> int:
        """Estimate the rows of some vnodes in some cells."""
        return self._cells.rows(first, behind) * sum(stop - start for start, stop in spans) // self.space.vnodes

    def _estimate(self, spans: tuple[Span, ...], low: KeyPosition | None, high: KeyPosition | None) -> int:
        """Estimate the rows of some vnodes between two positions, by whole cells."""
        behind = self._cells.behind if high is None else min(self._cells.first(high) + 1, self._cells.behind)
        return max(1, self._share(spans, self._cells.first(low), behind))

    def _rows_after(self, positions: VnodePositions) -> int:
        """Estimate the rows after some positions; rows read since the last cut are subtracted."""
        left = 0
        for reached, spans in positions.groups().items():
            if isinstance(reached, Completed):
                continue
            first = self._cells.first(None if isinstance(reached, NotStarted) else reached.position)
            left += self._share(spans, first, self._cells.behind)
        return max(0, left - self._read_since_cut)

    # -------------------------------------------------------------- committing
    def prepare_commit(self, version: int) -> tuple[StagedFile, ...]:
        """Hand over the staged chunks of a version, from the front up to the first one that is not staged (R-ARR-28)."""
        files: list[StagedFile] = []
        while self.ready(version):
            chunk = self._queue.pop(0)
            assert isinstance(chunk.state, StagedChunk)
            files += chunk.state.files
            self._mixed = self._mixed or chunk.state.limit != self._limit
            self.prepared = self.prepared.moved(chunk.spans, chunk.reached)
            self.rows_read += chunk.state.rows_read
            self._read_since_cut = (
                0 if self._cells.begins_at(chunk.high) else self._read_since_cut + chunk.state.rows_read
            )
            self.chunks += 1
            self.revision += 1
            self._began = True
        self.rows += sum(file.rows for file in files)
        return tuple(files)

    def seal(self, now: Now) -> None:
        """Record that the last commit is durable."""
        rows = self.rows_read - self.rows_read_sealed
        self.sealed, self.rows_read_sealed, self.rows_sealed = self.prepared, self.rows_read, self.rows
        if rows:
            self.meter = self.meter.restart(now.mono_s) if self._mixed else self.meter.observe(rows, now.mono_s)
        self._mixed = False
