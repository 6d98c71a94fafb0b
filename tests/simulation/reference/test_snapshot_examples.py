"""The row-by-row machine of snapshot backfill against its worked examples, S1 to S6."""

from __future__ import annotations

from support.reference.snapshot_shorthand import after_snapshot, barrier, finished, inserts, machine, table
from support.reference.vocabulary import Barrier, Chunk, Progress, Report, Table


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

    def test_not_finished_while_a_part_of_the_next_epoch_was_taken(self) -> None:
        """R-SNAP-28, R-SNAP-29: it was begun to be thrown away while the last whole epoch was read, so its end is awaited."""
        log = {110: [("insert", (1, 10), None)], 120: [], 125: [("insert", (2, 20), None)]}
        one = after_snapshot(Table(1, {100: {}}, log), [Barrier(110, 120)])  # type: ignore[arg-type]
        one.limit = 1000.0
        one.upstream.extend([inserts(1), Barrier(120, 125, checkpoint=False)])

        assert barrier(one, 110, 120) == [inserts(1), Barrier(110, 120)]

        assert (one.phase, one.polling, one.reports[-1].kind) == ("log", True, "update log")
        one.upstream.append(Barrier(125, 130))
        assert barrier(one, 120, 125, checkpoint=False) == [Barrier(120, 125, checkpoint=False)]
        assert barrier(one, 125, 130) == [inserts(2), Barrier(125, 130)]
        assert (one.phase, one.polling) == ("live", False)


class TestS6ChunkPacking:
    """An update pair stays together."""

    def test_table(self) -> None:
        """R-SNAP-20, R-SNAP-21: with one free slot the chunk is flushed first; an update counts 2."""
        log = [("insert", (1, 10), None), ("insert", (2, 20), None), ("update", (3, 30), (4, 40))]
        one = after_snapshot(Table(1, {100: {}}, {110: log}), [Barrier(110, 120)], chunk_size=3)  # type: ignore[dict-item]
        out = barrier(one, 110, 120)
        assert out[:2] == [inserts(1, 2), Chunk((("U-", (3, 30)), ("U+", (4, 40))))]
        assert one.stored == {0: finished(110, 4)}
