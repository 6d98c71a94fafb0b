"""The row-by-row machine of snapshot backfill against its worked examples, S1 to S6."""

from __future__ import annotations

from support.reference.snapshot_shorthand import after_snapshot, barrier, finished, inserts, machine, table
from support.reference.vocabulary import Barrier, Chunk, Progress, Report, Table


class TestS1QuietUpstream:
    """The snapshot has three rows, and the upstream is idle."""

    def test_a_quiet_upstream_follows_the_worked_example(self) -> None:
        """R-SNAP-1, 14, 17, 18, 31, 32, 34: row by row as in the worked example."""
        executor = machine(table(), first=Barrier(100, 110), chunk_size=2)
        assert executor.emitted == [Barrier(0, 1)]
        assert executor.stored == {}
        for _ in range(3):
            executor.poll()
        assert executor.emitted[1:] == [inserts(1, 2)]
        assert barrier(executor, 1, 2) == [inserts(3), Barrier(1, 2)]
        assert executor.stored == {0: finished(100, 3)}
        assert barrier(executor, 2, 3) == [Barrier(2, 3)]
        assert executor.reports[-1] == Report("finish", 3, 3)
        assert barrier(executor, 3, 100) == [Barrier(3, 100)]
        assert barrier(executor, 100, 110) == [Barrier(100, 110)]
        assert executor.phase == "live"
        assert executor.stored == {0: finished(100, 3)}
        executor.upstream.append(Barrier(110, 120))
        assert barrier(executor, 110, 120) == [Barrier(110, 120)]
        assert executor.reports[-1] == Report("finish log", 120, 0)
        assert executor.stored == {0: finished(110, 0)}


class TestS2ResumePositionIsInclusive:
    """The stored key is the first row that was not emitted."""

    def test_a_restart_includes_the_stored_position(self) -> None:
        """R-SNAP-6, R-SNAP-15, R-SNAP-16: the arrangement executor has the opposite convention."""
        upstream = table(range(1, 6))
        executor = machine(upstream, first=Barrier(100, 110), chunk_size=2)
        for _ in range(3):
            executor.poll()
        assert barrier(executor, 1, 2) == [inserts(3), Barrier(1, 2)]
        assert executor.stored == {0: Progress(100, 3, finished=False, position=4)}
        again = machine(
            upstream, first=Barrier(100, 110), own=Barrier(2, 3), stored=executor.durable()[0], chunk_size=2
        )
        again.run()
        assert again.emitted == [Barrier(2, 3), inserts(4, 5)]
        barrier(again, 3, 4)
        assert again.stored == {0: finished(100, 5)}

    def test_a_barrier_loses_and_reorders_no_row(self) -> None:
        """R-SNAP-16: a look-ahead read does not consume the row."""
        executor = machine(table(range(1, 6)), first=Barrier(100, 110), chunk_size=1)
        for epoch in range(1, 6):
            executor.poll()
            barrier(executor, epoch, epoch + 1)
        rows = [row[0] for message in executor.emitted if isinstance(message, Chunk) for _, row in message.rows]
        assert rows == [1, 2, 3, 4, 5]


class TestS3ShrinkingLimit:
    """The log is replayed with four epochs pending and one more ready per step."""

    def test_the_limit_shrinks_as_in_the_worked_example(self) -> None:
        """R-SNAP-19, 22, 23, 25, 26, 29, 31: the limit falls by half of the consumed epochs until both meet."""
        upstream = Table(1, {100: {}}, {epoch: [("insert", (epoch, 0), None)] for epoch in range(110, 200, 10)})
        executor = after_snapshot(upstream, [Barrier(epoch, epoch + 10) for epoch in range(110, 150, 10)])
        assert (executor.phase, executor.lag, executor.limit) == ("log", 40, 140)
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
            if not executor.upstream and ready < 200:
                executor.upstream.append(Barrier(ready, ready + 10))
                ready += 10
            out = barrier(executor, consumed, consumed + 10)
            assert out == [Chunk((("+", (consumed, 0)),)), Barrier(consumed, consumed + 10)]
            assert executor.stored == {0: finished(consumed, 1)}
            assert (executor.lag, executor.limit) == (lag, limit), consumed
            newest = executor.pending[-1].curr if executor.pending else 200
            assert newest == pulled_to
        assert executor.phase == "live"
        assert executor.reports[-1] == Report("finish log", 200, 0)
        assert [report.amount for report in executor.reports if report.kind == "update log"] == [
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
    """The job has committed up to 130, and the upstream is at 160."""

    def test_a_restart_in_the_log_phase_follows_the_worked_example(self) -> None:
        """R-SNAP-7, R-SNAP-27, R-SNAP-38: the snapshot is skipped, and epochs that are not pending are read from the
        log."""
        log = {epoch: [("insert", (epoch, 0), None)] for epoch in (130, 140, 150, 160)}
        executor = machine(
            Table(1, {}, log),  # type: ignore[arg-type]
            first=Barrier(160, 170),
            own=Barrier(130, 140),
            stored={0: finished(130, 1)},
        )
        assert executor.emitted == [Barrier(130, 140)]
        assert (executor.phase, executor.consumed, executor.pending) == ("log", 130, [Barrier(160, 170)])
        for epoch in (140, 150):
            assert barrier(executor, epoch, epoch + 10) == [Chunk((("+", (epoch, 0)),)), Barrier(epoch, epoch + 10)]
            assert executor.pending == [Barrier(160, 170)]
        assert barrier(executor, 160, 170) == [Chunk((("+", (160, 0)),)), Barrier(160, 170)]
        assert executor.reports[-1] == Report("finish log", 170, 0)
        assert executor.phase == "live"


class TestS5PartialEpoch:
    """An epoch whose discard has begun must be discarded, and read from the log, up to its checkpoint."""

    def test_draining_continues_to_the_checkpoint(self) -> None:
        """R-SNAP-11, R-SNAP-26: the rule also holds with lag >= limit."""
        executor = after_snapshot(Table(1, {100: {}}), [Barrier(110, 120), Barrier(120, 130)])
        executor.limit = 0.0
        executor.polling = True
        executor.upstream.extend(
            [inserts(7), Barrier(130, 135, checkpoint=False), inserts(8), Barrier(135, 140), inserts(9)]
        )
        executor.run()
        assert list(executor.upstream) == [inserts(9)]
        assert not executor.polling
        assert executor.discarded == 2

    def test_the_log_phase_does_not_end_before_the_checkpoint(self) -> None:
        """R-SNAP-28, R-SNAP-29: both of its epochs are read from the log first."""
        log = {110: [("insert", (1, 10), None)], 115: [("insert", (2, 20), None)]}
        executor = after_snapshot(Table(1, {100: {}}, log), [inserts(1)])  # type: ignore[arg-type]
        assert executor.phase == "log"
        executor.upstream.append(Barrier(110, 115, checkpoint=False))
        assert barrier(executor, 110, 115, checkpoint=False) == []
        executor.upstream.extend([inserts(2), Barrier(115, 120)])
        executor.run()
        assert executor.emitted[-2:] == [inserts(1), Barrier(110, 115, checkpoint=False)]
        assert executor.phase == "log"
        assert barrier(executor, 115, 120) == [inserts(2), Barrier(115, 120)]
        assert executor.phase == "live"

    def test_the_log_phase_does_not_end_after_a_part_of_the_next_epoch(self) -> None:
        """R-SNAP-28, R-SNAP-29: its discard began while the last whole epoch was read, so the phase waits for its end."""
        log = {110: [("insert", (1, 10), None)], 120: [], 125: [("insert", (2, 20), None)]}
        executor = after_snapshot(Table(1, {100: {}}, log), [Barrier(110, 120)])  # type: ignore[arg-type]
        executor.limit = 1000.0
        executor.upstream.extend([inserts(1), Barrier(120, 125, checkpoint=False)])

        assert barrier(executor, 110, 120) == [inserts(1), Barrier(110, 120)]

        assert (executor.phase, executor.polling, executor.reports[-1].kind) == ("log", True, "update log")
        executor.upstream.append(Barrier(125, 130))
        assert barrier(executor, 120, 125, checkpoint=False) == [Barrier(120, 125, checkpoint=False)]
        assert barrier(executor, 125, 130) == [inserts(2), Barrier(125, 130)]
        assert (executor.phase, executor.polling) == ("live", False)


class TestS6ChunkPacking:
    """An update pair stays together."""

    def test_an_update_pair_stays_in_one_chunk(self) -> None:
        """R-SNAP-20, R-SNAP-21: with one free slot the chunk is flushed first; an update counts as 2."""
        log = [("insert", (1, 10), None), ("insert", (2, 20), None), ("update", (3, 30), (4, 40))]
        executor = after_snapshot(Table(1, {100: {}}, {110: log}), [Barrier(110, 120)], chunk_size=3)  # type: ignore[dict-item]
        out = barrier(executor, 110, 120)
        assert out[:2] == [inserts(1, 2), Chunk((("U-", (3, 30)), ("U+", (4, 40))))]
        assert executor.stored == {0: finished(110, 4)}
