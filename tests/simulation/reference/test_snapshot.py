"""The row-by-row machine of snapshot backfill against its worked examples and its numbered rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest
from support.reference.snapshot import ReferenceSnapshot
from support.reference.vocabulary import (
    Barrier,
    Chunk,
    Fatal,
    Message,
    Mutation,
    Progress,
    Report,
    Row,
    Table,
    Watermark,
)


def table(rows: Iterable[int] = (1, 2, 3), *, epoch: int = 100, vnodes: int = 1) -> Table:
    """Return a table whose value is ten times the key."""
    return Table(vnodes, {epoch: {key: key * 10 for key in rows}})


def chunk(*rows: tuple[str, int]) -> Chunk:
    return Chunk(tuple((op, (key, key * 10)) for op, key in rows))


def inserts(*keys: int) -> Chunk:
    return chunk(*(("+", key) for key in keys))


def machine(
    upstream: Table, *, first: Barrier, own: Barrier = Barrier(0, 1), epoch: int | None = 100, **more: object
) -> ReferenceSnapshot:
    """Return a machine that has both its first barriers and has emitted its own."""
    one = ReferenceSnapshot(upstream, epoch, **more)  # type: ignore[arg-type]
    one.upstream.append(first)
    one.injected.append(own)
    assert one.poll()
    return one


def barrier(one: ReferenceSnapshot, prev: int, curr: int, **more: object) -> list[Message]:
    """Inject a barrier, let the machine do all it can before reading more, and return what came out."""
    before = len(one.emitted)
    one.injected.append(Barrier(prev, curr, **more))  # type: ignore[arg-type]
    for _ in range(1000):
        if not one.injected or not one.poll():
            break
    return one.emitted[before:]


def finished(epoch: int, rows: int) -> Progress:
    return Progress(epoch, rows, finished=True, position=None)


class TestS1QuietUpstream:
    """Snapshot of three rows, nothing happens upstream."""

    def test_table(self) -> None:
        """R-SNAP-1, 14, 17, 18, 31, 32, 34: row by row as in the worked example."""
        one = machine(table(), first=Barrier(100, 110), chunk_size=2)
        assert one.emitted == [Barrier(0, 1)]
        assert one.stored == {}
        for _ in range(3):
            one.poll()
        assert one.emitted[1:] == [inserts(1, 2)]
        assert barrier(one, 1, 2) == [inserts(3), Barrier(1, 2)]
        assert one.stored == {0: finished(100, 3)}
        assert barrier(one, 2, 3) == [Barrier(2, 3)]
        assert one.reports[-1] == Report("finish", 3, 3)
        assert barrier(one, 3, 100) == [Barrier(3, 100)]
        assert barrier(one, 100, 110) == [Barrier(100, 110)]
        assert one.phase == "live"
        assert one.stored == {0: finished(100, 3)}
        one.upstream.append(Barrier(110, 120))
        assert barrier(one, 110, 120) == [Barrier(110, 120)]
        assert one.reports[-1] == Report("finish log", 120, 0)
        assert one.stored == {0: finished(110, 0)}


class TestS2ResumePositionIsInclusive:
    """The stored key is the first row that was not emitted."""

    def test_table(self) -> None:
        """R-SNAP-6, R-SNAP-15, R-SNAP-16: the opposite convention to the arrangement executor."""
        upstream = table(range(1, 6))
        one = machine(upstream, first=Barrier(100, 110), chunk_size=2)
        for _ in range(3):
            one.poll()
        assert barrier(one, 1, 2) == [inserts(3), Barrier(1, 2)]
        assert one.stored == {0: Progress(100, 3, finished=False, position=4)}
        again = machine(upstream, first=Barrier(100, 110), own=Barrier(2, 3), stored=one.durable()[0], chunk_size=2)
        again.run()
        assert again.emitted == [Barrier(2, 3), inserts(4, 5)]
        barrier(again, 3, 4)
        assert again.stored == {0: finished(100, 5)}

    def test_a_barrier_loses_and_reorders_no_row(self) -> None:
        """R-SNAP-16: looking ahead is not taking."""
        one = machine(table(range(1, 6)), first=Barrier(100, 110), chunk_size=1)
        for epoch in range(1, 6):
            one.poll()
            barrier(one, epoch, epoch + 1)
        rows = [row[0] for message in one.emitted if isinstance(message, Chunk) for _, row in message.rows]
        assert rows == [1, 2, 3, 4, 5]


def after_snapshot(upstream: Table, pending: list[Message], **more: object) -> ReferenceSnapshot:
    """Return a machine of an empty snapshot of 100 that stands at the beginning of its log phase."""
    one = machine(upstream, first=Barrier(100, 110), **more)
    one.upstream.extend(pending)
    for prev, curr in ((1, 2), (2, 100), (100, 110)):
        barrier(one, prev, curr)
    return one


class TestS3ShrinkingLimit:
    """Log replay with four epochs pending, one more ready per step."""

    def test_table(self) -> None:
        """R-SNAP-19, 22, 23, 25, 26, 29, 31: the limit falls by half of what was consumed until both meet."""
        upstream = Table(1, {100: {}}, {epoch: [("insert", (epoch, 0), None)] for epoch in range(110, 200, 10)})
        one = after_snapshot(upstream, [Barrier(epoch, epoch + 10) for epoch in range(110, 150, 10)])
        assert (one.phase, one.lag, one.limit) == ("log", 40, 140)
        ready = 150
        rows = [
            (110, 40, 40, 160),
            (120, 40, 35, 170),
            (130, 40, 30, 180),
            (140, 30, 25, 180),
            (150, 30, 20, 190),
            (160, 20, 15, 190),
            (170, 20, 10, 200),
            (180, 10, 5, 200),
            (190, 0, 0, 200),
        ]
        for consumed, lag, limit, pulled_to in rows:
            if not one.upstream and ready < 200:
                one.upstream.append(Barrier(ready, ready + 10))
                ready += 10
            out = barrier(one, consumed, consumed + 10)
            assert out == [Chunk((("+", (consumed, 0)),)), Barrier(consumed, consumed + 10)]
            assert one.stored == {0: finished(consumed, 1)}
            assert (one.lag, one.limit) == (lag, limit), consumed
            newest = one.pending[-1].curr if one.pending else 200
            assert newest == pulled_to
        assert one.phase == "live"
        assert one.reports[-1] == Report("finish log", 200, 0)
        assert [report.amount for report in one.reports if report.kind == "update log"] == [
            40,
            40,
            40,
            30,
            30,
            20,
            20,
            10,
        ]


class TestS4RestartInTheLogPhase:
    """Committed up to 130, the upstream is at 160."""

    def test_table(self) -> None:
        """R-SNAP-7, R-SNAP-27, R-SNAP-38: the snapshot is skipped, epochs that are not held pending are read from the log."""
        log = {epoch: [("insert", (epoch, 0), None)] for epoch in (130, 140, 150, 160)}
        one = machine(
            Table(1, {}, log),  # type: ignore[arg-type]
            first=Barrier(160, 170),
            own=Barrier(130, 140),
            stored={0: finished(130, 1)},
        )
        assert one.emitted == [Barrier(130, 140)]
        assert (one.phase, one.consumed, one.pending) == ("log", 130, [Barrier(160, 170)])
        for epoch in (140, 150):
            assert barrier(one, epoch, epoch + 10) == [Chunk((("+", (epoch, 0)),)), Barrier(epoch, epoch + 10)]
            assert one.pending == [Barrier(160, 170)]
        assert barrier(one, 160, 170) == [Chunk((("+", (160, 0)),)), Barrier(160, 170)]
        assert one.reports[-1] == Report("finish log", 170, 0)
        assert one.phase == "live"


class TestS5PartialEpoch:
    """An epoch that was begun to be thrown away must be thrown away, and read, to its checkpoint."""

    def test_draining_goes_on_to_the_checkpoint(self) -> None:
        """R-SNAP-11, R-SNAP-26: even with lag >= limit."""
        one = after_snapshot(Table(1, {100: {}}), [Barrier(110, 120), Barrier(120, 130)])
        one.limit = 0.0
        one.polling = True
        one.upstream.extend(
            [inserts(7), Barrier(130, 135, checkpoint=False), inserts(8), Barrier(135, 140), inserts(9)]
        )
        one.run()
        assert list(one.upstream) == [inserts(9)]
        assert not one.polling
        assert one.discarded == 2

    def test_not_finished_before_the_checkpoint(self) -> None:
        """R-SNAP-28, R-SNAP-29: both of its epochs are read from the log first."""
        log = {110: [("insert", (1, 10), None)], 115: [("insert", (2, 20), None)]}
        one = after_snapshot(Table(1, {100: {}}, log), [inserts(1)])  # type: ignore[arg-type]
        assert one.phase == "log"
        one.upstream.append(Barrier(110, 115, checkpoint=False))
        assert barrier(one, 110, 115, checkpoint=False) == []
        one.upstream.extend([inserts(2), Barrier(115, 120)])
        one.run()
        assert one.emitted[-2:] == [inserts(1), Barrier(110, 115, checkpoint=False)]
        assert one.phase == "log"
        assert barrier(one, 115, 120) == [inserts(2), Barrier(115, 120)]
        assert one.phase == "live"


class TestS6ChunkPacking:
    """An update pair stays together."""

    def test_table(self) -> None:
        """R-SNAP-20, R-SNAP-21: with one free slot the chunk is flushed first; an update counts 2."""
        log = [("insert", (1, 10), None), ("insert", (2, 20), None), ("update", (3, 30), (4, 40))]
        one = after_snapshot(Table(1, {100: {}}, {110: log}), [Barrier(110, 120)], chunk_size=3)  # type: ignore[dict-item]
        out = barrier(one, 110, 120)
        assert out[:2] == [inserts(1, 2), Chunk((("U-", (3, 30)), ("U+", (4, 40))))]
        assert one.stored == {0: finished(110, 4)}


class TestStartup:
    """Which phase a start leads to."""

    def test_equal_epochs_skip_everything(self) -> None:
        """R-SNAP-2, R-SNAP-31: finished before; finish is still owed on the first live barrier."""
        one = machine(table(), first=Barrier(200, 210), own=Barrier(200, 210), stored={0: finished(200, 9)})
        assert one.phase == "live"
        one.upstream.append(Barrier(210, 220))
        barrier(one, 210, 220)
        assert one.reports == [Report("finish log", 220, 0)]

    @pytest.mark.parametrize("stored", [{}, {0: finished(190, 1)}, {0: Progress(200, 1, finished=False, position=3)}])
    def test_equal_epochs_need_consumed_vnodes(self, stored: dict[int, Progress]) -> None:
        """R-SNAP-2: a job that is merged into the graph has nothing left to read."""
        with pytest.raises(Fatal, match="R-SNAP-2"):
            machine(table(), first=Barrier(200, 210), own=Barrier(200, 210), stored=stored)

    def test_the_snapshot_may_be_older_than_the_upstream(self) -> None:
        """R-SNAP-4: the executor may be restarted long after the snapshot's epoch (SNAP-old: R-SNAP-3, R-SNAP-5)."""
        assert machine(table(), first=Barrier(500, 510)).phase == "snapshot"
        with pytest.raises(Fatal, match="R-SNAP-4"):
            machine(table(), first=Barrier(90, 110))

    def test_between_the_snapshot_and_its_epoch_no_row_is_read(self) -> None:
        """R-SNAP-39: all vnodes are stored Consumed; it finishes at once."""
        one = machine(table(), first=Barrier(100, 110), own=Barrier(5, 6), stored={0: finished(100, 3)})
        assert barrier(one, 6, 7) == [Barrier(6, 7)]
        assert one.reports[-1] == Report("finish", 7, 3)

    def test_an_empty_table_finishes_on_the_second_barrier(self) -> None:
        """R-SNAP-17: the first injected barrier is the first output, whatever there is to read."""
        one = machine(table([]), first=Barrier(100, 110))
        barrier(one, 1, 2)
        assert one.reports == [Report("finish", 2, 0)]


class TestTheSnapshotPhase:
    """Rows of one epoch, whatever happens meanwhile."""

    def test_upstream_data_is_discarded(self) -> None:
        """R-SNAP-8, R-SNAP-9, R-SNAP-10: it comes again from the log; draining needs no progress of our own."""
        one = machine(table(), first=Barrier(100, 110))
        one.paused = True
        one.upstream.extend([inserts(9), Watermark(5), Barrier(110, 120)])
        one.run()
        assert not one.upstream
        assert one.discarded == 2
        one.paused = False
        one.run()
        assert one.emitted[1:] == [inserts(1, 2, 3)]

    def test_barriers_win(self) -> None:
        """R-SNAP-40: a ready row waits for a ready barrier (#26346)."""
        one = machine(table(), first=Barrier(100, 110))
        one.injected.extend([Barrier(1, 2), Barrier(2, 3)])
        one.poll()
        one.poll()
        assert one.emitted == [Barrier(0, 1), Barrier(1, 2), Barrier(2, 3)]

    def test_barriers_must_chain(self) -> None:
        """R-SNAP-12: a hole in the epochs is a hole in the data."""
        with pytest.raises(Fatal, match="R-SNAP-12"):
            barrier(machine(table(), first=Barrier(100, 110)), 2, 3)

    @pytest.mark.parametrize("curr", [100, 110])
    def test_its_epoch_must_not_come_too_early(self, curr: int) -> None:
        """R-SNAP-13: the control plane injects it only when all actors are finished."""
        with pytest.raises(Fatal, match="R-SNAP-13"):
            barrier(machine(table(), first=Barrier(100, 110)), 1, curr)

    def test_every_vnode_has_its_own_position(self) -> None:
        """R-SNAP-15: also one of which no row was emitted yet; an exhausted one has none."""
        one = machine(table([0, 3, 6, 1, 2, 5], vnodes=3), first=Barrier(100, 110), vnodes=range(3))
        for _ in range(4):
            one.poll()
        barrier(one, 1, 2)
        assert one.stored == {
            0: Progress(100, 2, finished=False, position=6),
            1: finished(100, 1),
            2: Progress(100, 1, finished=False, position=5),
        }

    def test_a_vnode_without_emitted_rows_is_stored_at_its_first(self) -> None:
        """R-SNAP-15: it resumes there, with a count of 0."""
        one = machine(table([1, 2], vnodes=2), first=Barrier(100, 110), vnodes=range(2))
        barrier(one, 1, 2)
        assert one.stored == {
            0: Progress(100, 0, finished=False, position=2),
            1: Progress(100, 0, finished=False, position=1),
        }

    def test_rows_reported_after_a_restart_include_those_before_it(self) -> None:
        """R-SNAP-44: progress does not start at 0 again (#25952)."""
        stored = {0: Progress(100, 2, finished=False, position=3)}
        one = machine(table(), first=Barrier(100, 110), own=Barrier(2, 3), stored=stored)
        barrier(one, 3, 4)
        assert one.reports == [Report("update", 4, 2)]

    def test_collected_data_is_an_error_and_not_a_hole(self) -> None:
        """R-SNAP-47: the snapshot that an unfinished job needs must be kept."""
        upstream = table()
        upstream.collected = lambda epoch: epoch <= 100
        with pytest.raises(Fatal, match="garbage"):
            machine(upstream, first=Barrier(100, 110))


class TestControls:
    """Rate and pause hold for history only."""

    @pytest.mark.parametrize("limit", [1, 2, 5])
    def test_a_limit_bounds_rows_per_second(self, limit: int) -> None:
        """R-SNAP-41, R-SNAP-42: also 1 and 2, at which RisingWave dies (#22164)."""
        one = machine(table(range(20)), first=Barrier(100, 110), rate_limit=limit)
        for second in range(1, 20 // limit + 1):
            one.run()
            barrier(one, second, second + 1)
            assert one.reports[-1].amount == min(20, second * limit)
            one.second()

    def test_zero_emits_no_row(self) -> None:
        """R-SNAP-41: RisingWave emits the first chunk of each epoch (#26022)."""
        one = machine(table(), first=Barrier(100, 110), rate_limit=0)
        for epoch in range(1, 10):
            one.second()
            one.run()
            assert barrier(one, epoch, epoch + 1) == [Barrier(epoch, epoch + 1)]

    def test_a_throttle_holds_from_the_barrier_that_carries_it(self) -> None:
        """R-SNAP-41: between the barrier's emission and the next read."""
        one = machine(table(), first=Barrier(100, 110), rate_limit=0)
        barrier(one, 1, 2, mutation=Mutation(throttle=(2,)))
        one.run()
        assert barrier(one, 2, 3) == [inserts(1, 2), Barrier(2, 3)]

    def test_a_pause_stops_the_snapshot(self) -> None:
        """R-SNAP-43: also on startup; barriers and progress go on."""
        one = machine(table(), first=Barrier(100, 110), own=Barrier(0, 1, mutation=Mutation(pause=True)))
        one.run()
        resume, pause = Mutation(pause=False), Mutation(pause=True)
        assert barrier(one, 1, 2, mutation=resume) == [Barrier(1, 2, mutation=resume)]
        one.poll()
        assert barrier(one, 2, 3, mutation=pause) == [inserts(1), Barrier(2, 3, mutation=pause)]
        one.run()
        assert one.emitted[-1].pair == (2, 3)  # type: ignore[union-attr]

    def test_neither_stops_the_log(self) -> None:
        """R-SNAP-41, R-SNAP-43: log replay is bounded by the upstream itself (#27015)."""
        log = {110: [("insert", (1, 10), None)]}
        one = after_snapshot(Table(1, {100: {}}, log), [Barrier(110, 120)], rate_limit=0)  # type: ignore[arg-type]
        one.paused = True
        assert barrier(one, 110, 120) == [inserts(1), Barrier(110, 120)]


class TestTheLogPhase:
    """Epoch by epoch, all or nothing."""

    def test_every_vnode_is_consumed_also_without_changes(self) -> None:
        """R-SNAP-22: else a quiet vnode could not be told from a lost one."""
        one = after_snapshot(
            Table(2, {100: {}}, {110: [("delete", (1, 10), None)]}), [Barrier(110, 120)], vnodes=range(2)
        )
        barrier(one, 110, 120)
        assert one.stored == {0: finished(110, 0), 1: finished(110, 1)}

    def test_waiting_for_a_commit_does_not_stop_draining(self) -> None:
        """R-SNAP-46: else the upstream waits for us while we wait for it (#18063, #24693, #24991)."""
        upstream, committed = Table(1, {100: {}}), set[int]()
        upstream.committed = lambda epoch: epoch in committed
        one = after_snapshot(upstream, [Barrier(110, 120), Barrier(120, 130), Barrier(130, 140)])
        one.limit = 1000.0
        assert barrier(one, 110, 120) == []
        one.limit = 1000.0
        one.upstream.extend([inserts(5), Barrier(140, 150)])
        one.run()
        assert not one.upstream
        committed.add(110)
        one.run()
        assert one.emitted[-1] == Barrier(110, 120)

    @pytest.mark.parametrize(("pending", "own"), [((105, 110), (110, 120)), ((110, 115), (110, 120))])
    def test_pending_barriers_must_fit(self, pending: tuple[int, int], own: tuple[int, int]) -> None:
        """R-SNAP-27: one that is older, or of the same epoch and another length, is fatal."""
        one = after_snapshot(Table(1, {100: {}}), [Barrier(110, 120)])
        one.pending = [Barrier(*pending)]
        with pytest.raises(Fatal, match="R-SNAP-27"):
            barrier(one, *own)

    def test_vnodes_do_not_change(self) -> None:
        """R-SNAP-33: an error, after the barrier left."""
        one = after_snapshot(Table(1, {100: {}}), [Barrier(110, 120)])
        with pytest.raises(Fatal, match="R-SNAP-33"):
            barrier(one, 110, 120, mutation=Mutation(vnodes=frozenset({0})))
        assert isinstance(one.emitted[-1], Barrier)


class TestTheLivePhase:
    """The upstream passes."""

    @staticmethod
    def live(**more: object) -> ReferenceSnapshot:
        return machine(table(), first=Barrier(100, 110), own=Barrier(100, 110), stored={0: finished(100, 3)}, **more)

    def test_chunks_and_watermarks_pass(self) -> None:
        """R-SNAP-34: and every vnode is stored at each barrier."""
        one = self.live()
        one.upstream.extend([inserts(7), Watermark(7), Barrier(110, 120)])
        barrier(one, 110, 120)
        assert one.emitted[1:] == [inserts(7), Watermark(7), Barrier(110, 120)]
        assert one.stored == {0: finished(110, 1)}

    def test_a_changed_key_becomes_delete_and_insert(self) -> None:
        """R-SNAP-48: downstream, both halves may belong to different actors (#25783)."""
        one = self.live()
        one.upstream.append(chunk(("U-", 1), ("U+", 2), ("U-", 3), ("U+", 3)))
        one.run()
        assert one.emitted[1:] == [chunk(("-", 1), ("+", 2), ("U-", 3), ("U+", 3))]

    def test_vnodes_change_after_the_barrier(self) -> None:
        """R-SNAP-33: their former owner has brought them to the same epoch."""
        one = self.live()
        one.stored[1] = finished(110, 0)
        one.upstream.append(Barrier(110, 120))
        barrier(one, 110, 120, mutation=Mutation(vnodes=frozenset({0, 1})))
        one.upstream.append(Barrier(120, 130))
        barrier(one, 120, 130)
        assert one.stored == {0: finished(120, 0), 1: finished(120, 0)}


class TestStoredProgress:
    """What is stored only goes forward, and before the barrier."""

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (finished(110, 1), finished(100, 1)),
            (finished(100, 1), Progress(100, 2, finished=False, position=5)),
            (finished(100, 1), finished(100, 2)),
            (Progress(100, 2, finished=False, position=5), Progress(100, 3, finished=False, position=5)),
            (Progress(100, 2, finished=False, position=5), Progress(100, 1, finished=False, position=6)),
        ],
    )
    def test_never_goes_back(self, old: Progress, new: Progress) -> None:
        """R-SNAP-36: to a smaller epoch, key or count, or from Consumed to the same epoch."""
        one = ReferenceSnapshot(table(), 100, stored={0: old})
        with pytest.raises(Fatal, match="back"):
            one.store(0, new)

    def test_is_committed_with_its_barrier(self) -> None:
        """R-SNAP-35: only a checkpoint makes it durable, together with the rows before it."""
        one = machine(table(), first=Barrier(100, 110))
        one.poll()
        barrier(one, 1, 2, checkpoint=False)
        assert one.durable() == ({}, 1)
        one.poll()
        barrier(one, 2, 3)
        assert one.durable() == ({0: Progress(100, 2, finished=False, position=3)}, len(one.emitted))

    def test_chunks_of_all_phases_are_projected(self) -> None:
        """R-SNAP-45: the key may be needed inside and unwanted outside (#19665)."""
        log = {110: [("insert", (4, 40), None)]}
        one = machine(Table(1, {100: {1: 10}}, log), first=Barrier(100, 110), project=lambda row: (row[1], 0))  # type: ignore[arg-type]
        one.upstream.append(Barrier(110, 120))
        one.run()
        for prev, curr in ((1, 2), (2, 100), (100, 110), (110, 120)):
            barrier(one, prev, curr)
        one.upstream.append(inserts(5))
        one.run()
        chunks = [message for message in one.emitted if isinstance(message, Chunk)]
        assert chunks == [Chunk((("+", (10, 0)),)), Chunk((("+", (40, 0)),)), Chunk((("+", (50, 0)),))]


class _History:
    """A random upstream: epochs 10 apart from 100 on, its messages, and its tables."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.state = dict.fromkeys(range(self.rng.choice([0, 1, 9])), 0)
        self.table = Table(2, {100: dict(self.state)})
        self.states = {100: dict(self.state)}
        self.messages: list[Message] = [Barrier(100, 110)]
        for epoch in range(110, 110 + 10 * self.rng.randint(1, 15), 10):
            self._epoch(epoch)

    def _epoch(self, epoch: int) -> None:
        rng, log = self.rng, list[tuple[str, Row, Row | None]]()
        for key in rng.sample(range(12), rng.randint(0, 4)):
            before = self.state.get(key)
            if before is None:
                self.state[key] = epoch
                log.append(("insert", (key, epoch), None))
            elif rng.random() < 0.5:
                log.append(("delete", (key, self.state.pop(key)), None))
            else:
                self.state[key] = epoch
                log.append(("update", (key, before), (key, epoch)))
        self.table.log[epoch] = log
        self.states[epoch] = dict(self.state)
        if log:
            self.messages.append(Chunk(tuple(_as_ops(log))))
        self.messages.append(Barrier(epoch, epoch + 10, checkpoint=rng.random() < 0.7))


def _as_ops(log: list[tuple[str, Row, Row | None]]) -> Iterable[tuple[str, Row]]:
    for kind, row, new in log:
        if kind == "update" and new is not None:
            yield from (("U-", row), ("U+", new))
        else:
            yield ("+" if kind == "insert" else "-", row)


def played(messages: Iterable[Message]) -> Counter[Row]:
    """Return the rows a consumer has after these messages; a doubled or unknown row shows as a count."""
    rows = Counter[Row]()
    for message in messages:
        for op, row in message.rows if isinstance(message, Chunk) else ():
            rows[row] += 1 if op in ("+", "U+") else -1
    return Counter({row: count for row, count in rows.items() if count})


class _Play:
    """A control plane, an upstream and crashes around the machine; checks each barrier that comes out."""

    def __init__(self, seed: int) -> None:
        self.history, self.rng = _History(seed), Random(seed + 1)
        self.real = {one.prev: one for one in self.history.messages if isinstance(one, Barrier)}
        self.kept = list[Message]()
        self.stored = dict[int, Progress]()
        self.crashes = 0
        self._own, self._first = Barrier(0, 1), self.real[100]

    def run(self) -> None:
        """Go on until the last barrier of the upstream came out."""
        while not self._attempt():
            self.crashes += 1
            assert self.crashes < 200

    def _attempt(self) -> bool:
        table, rng = self.history.table, self.rng
        one = ReferenceSnapshot(table, 100, vnodes=range(2), stored=self.stored, chunk_size=rng.choice([1, 2, 5]))
        messages = self.history.messages
        at = next(index for index, message in enumerate(messages) if message == self.real[self._first.prev]) + 1
        one.upstream.append(self._first)
        one.injected.append(self._own)
        curr, last = self._own.curr, messages[-1]
        assert isinstance(last, Barrier)
        while rng.random() > 0.01:
            if at < len(messages) and rng.random() < 0.4:
                one.upstream.append(messages[at])
                at += 1
            sent = {message.prev for message in messages[:at] if isinstance(message, Barrier)}
            if one.phase != "start" and not one.injected and rng.random() < 0.3:
                following = self._next(one, curr)
                if following is not None and (following.prev < 100 or following.prev in sent):
                    one.injected.append(following)
                    curr = following.curr
            if one.poll() and isinstance(one.emitted[-1], Barrier):
                self._check(one, one.emitted[-1])
                if one.emitted[-1].pair == last.pair:
                    return True
        self._recover(one, [message for message in messages[:at] if isinstance(message, Barrier)])
        return False

    def _next(self, one: ReferenceSnapshot, curr: int) -> Barrier | None:
        """Fake epochs until the snapshot is finished, then its own, then the real ones."""
        if curr >= 100:
            return self.real.get(curr)
        return Barrier(curr, 100) if one.phase == "passing" else Barrier(curr, curr + 1, self.rng.random() < 0.7)

    def _check(self, one: ReferenceSnapshot, barrier: Barrier) -> None:
        rows = played([*self.kept, *one.emitted])
        if barrier.prev >= 100:
            assert rows == Counter(self.history.states[barrier.prev].items())
            return
        wanted = Counter[Row]()
        for vnode, progress in one.stored.items():
            mine = self.history.table.rows(100, vnode)
            wanted.update(row for row in mine if progress.position is None or row[0] < progress.position)
        assert rows == wanted

    def _recover(self, one: ReferenceSnapshot, sent: list[Barrier]) -> None:
        """Both sides go back to what the last checkpoint closed; a merged job shares the upstream's."""
        self.stored, count = one.durable()
        self.kept += one.emitted[:count]
        closed = [message for message in self.kept if isinstance(message, Barrier)]
        if not closed:
            return
        committed = closed[-1].prev
        self._own = self.real[committed] if committed >= 100 else Barrier(committed, committed + 1)
        checkpoints = [barrier for barrier in sent if barrier.checkpoint and barrier.prev >= max(100, committed)]
        merged = one.phase == "live" or not checkpoints
        first = self.real[max(100, committed)] if merged else checkpoints[-1]
        self._first = Barrier(*first.pair)


class TestAnyInterleaving:
    """R-SNAP-8, 9, 15, 19, 37, 38: after each barrier the consumer has exactly what is stored."""

    @pytest.mark.parametrize("seed", range(150))
    def test_is_right_at_every_barrier(self, seed: int) -> None:
        """With crashes at any moment: what was not durable is thrown away on both sides."""
        _Play(seed).run()

    def test_plays_crash(self) -> None:
        """Else the property above would be the weaker one."""
        plays = [_Play(seed) for seed in range(20)]
        for play in plays:
            play.run()
        assert sum(play.crashes for play in plays) > 10
