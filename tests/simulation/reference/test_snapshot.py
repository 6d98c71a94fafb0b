"""The row-by-row machine of snapshot backfill against its numbered rules."""

from __future__ import annotations

import pytest
from support.reference.snapshot import ReferenceSnapshot
from support.reference.snapshot_shorthand import after_snapshot, barrier, chunk, finished, inserts, machine, table
from support.reference.vocabulary import Barrier, Chunk, Fatal, Mutation, Progress, Report, Table, Watermark


class TestStartup:
    """The stored state decides the phase of a start."""

    def test_equal_epochs_skip_everything(self) -> None:
        """R-SNAP-2, R-SNAP-31: the job finished before; the end is still to be reported on the first live barrier."""
        executor = machine(table(), first=Barrier(200, 210), own=Barrier(200, 210), stored={0: finished(200, 9)})
        assert executor.phase == "live"
        executor.upstream.append(Barrier(210, 220))
        barrier(executor, 210, 220)
        assert executor.reports == [Report("finish log", 220, 0)]

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
        """R-SNAP-39: all vnodes are stored as Consumed; the job finishes at once."""
        executor = machine(table(), first=Barrier(100, 110), own=Barrier(5, 6), stored={0: finished(100, 3)})
        assert barrier(executor, 6, 7) == [Barrier(6, 7)]
        assert executor.reports[-1] == Report("finish", 7, 3)

    def test_an_empty_table_finishes_on_the_second_barrier(self) -> None:
        """R-SNAP-17: the first injected barrier is the first output, for any table."""
        executor = machine(table([]), first=Barrier(100, 110))
        barrier(executor, 1, 2)
        assert executor.reports == [Report("finish", 2, 0)]


class TestTheSnapshotPhase:
    """The snapshot phase emits rows of one epoch."""

    def test_upstream_data_is_discarded(self) -> None:
        """R-SNAP-8, R-SNAP-9, R-SNAP-10: the log repeats it; draining needs no progress of the snapshot."""
        executor = machine(table(), first=Barrier(100, 110))
        executor.paused = True
        executor.upstream.extend([inserts(9), Watermark(5), Barrier(110, 120)])
        executor.run()
        assert not executor.upstream
        assert executor.discarded == 2
        executor.paused = False
        executor.run()
        assert executor.emitted[1:] == [inserts(1, 2, 3)]

    def test_barriers_take_precedence_over_rows(self) -> None:
        """R-SNAP-40: a ready row waits for a ready barrier (#26346)."""
        executor = machine(table(), first=Barrier(100, 110))
        executor.injected.extend([Barrier(1, 2), Barrier(2, 3)])
        executor.poll()
        executor.poll()
        assert executor.emitted == [Barrier(0, 1), Barrier(1, 2), Barrier(2, 3)]

    def test_barriers_must_form_a_chain(self) -> None:
        """R-SNAP-12: a hole in the epochs is a hole in the data."""
        with pytest.raises(Fatal, match="R-SNAP-12"):
            barrier(machine(table(), first=Barrier(100, 110)), 2, 3)

    @pytest.mark.parametrize("curr", [100, 110])
    def test_the_epoch_of_the_snapshot_must_not_come_too_early(self, curr: int) -> None:
        """R-SNAP-13: the control plane injects it only when all actors are finished."""
        with pytest.raises(Fatal, match="R-SNAP-13"):
            barrier(machine(table(), first=Barrier(100, 110)), 1, curr)

    def test_every_vnode_has_its_own_position(self) -> None:
        """R-SNAP-15: this includes a vnode without emitted rows; an exhausted vnode has no position."""
        executor = machine(table([0, 3, 6, 1, 2, 5], vnodes=3), first=Barrier(100, 110), vnodes=range(3))
        for _ in range(4):
            executor.poll()
        barrier(executor, 1, 2)
        assert executor.stored == {
            0: Progress(100, 2, finished=False, position=6),
            1: finished(100, 1),
            2: Progress(100, 1, finished=False, position=5),
        }

    def test_a_vnode_without_emitted_rows_is_stored_at_its_first(self) -> None:
        """R-SNAP-15: the vnode resumes there, with a count of 0."""
        executor = machine(table([1, 2], vnodes=2), first=Barrier(100, 110), vnodes=range(2))
        barrier(executor, 1, 2)
        assert executor.stored == {
            0: Progress(100, 0, finished=False, position=2),
            1: Progress(100, 0, finished=False, position=1),
        }

    def test_rows_reported_after_a_restart_include_those_before_it(self) -> None:
        """R-SNAP-44: progress does not start at 0 again (#25952)."""
        stored = {0: Progress(100, 2, finished=False, position=3)}
        executor = machine(table(), first=Barrier(100, 110), own=Barrier(2, 3), stored=stored)
        barrier(executor, 3, 4)
        assert executor.reports == [Report("update", 4, 2)]

    def test_garbage_collected_data_is_an_error(self) -> None:
        """R-SNAP-47: the snapshot that an unfinished job needs must be kept."""
        upstream = table()
        upstream.collected = lambda epoch: epoch <= 100
        with pytest.raises(Fatal, match="garbage"):
            machine(upstream, first=Barrier(100, 110))


class TestControls:
    """Rate and pause hold for history only."""

    @pytest.mark.parametrize("limit", [1, 2, 5])
    def test_a_limit_bounds_rows_per_second(self, limit: int) -> None:
        """R-SNAP-41, R-SNAP-42: the limits include 1 and 2, at which RisingWave dies (#22164)."""
        executor = machine(table(range(20)), first=Barrier(100, 110), rate_limit=limit)
        for second in range(1, 20 // limit + 1):
            executor.run()
            barrier(executor, second, second + 1)
            assert executor.reports[-1].amount == min(20, second * limit)
            executor.second()

    def test_a_limit_of_zero_emits_no_row(self) -> None:
        """R-SNAP-41: RisingWave emits the first chunk of each epoch (#26022)."""
        executor = machine(table(), first=Barrier(100, 110), rate_limit=0)
        for epoch in range(1, 10):
            executor.second()
            executor.run()
            assert barrier(executor, epoch, epoch + 1) == [Barrier(epoch, epoch + 1)]

    def test_a_throttle_holds_from_the_barrier_that_carries_it(self) -> None:
        """R-SNAP-41: the throttle takes effect between the barrier's emission and the next read."""
        executor = machine(table(), first=Barrier(100, 110), rate_limit=0)
        barrier(executor, 1, 2, mutation=Mutation(throttle=(2,)))
        executor.run()
        assert barrier(executor, 2, 3) == [inserts(1, 2), Barrier(2, 3)]

    def test_a_pause_stops_the_snapshot(self) -> None:
        """R-SNAP-43: a pause also holds on startup; barriers and progress continue."""
        executor = machine(table(), first=Barrier(100, 110), own=Barrier(0, 1, mutation=Mutation(pause=True)))
        executor.run()
        resume, pause = Mutation(pause=False), Mutation(pause=True)
        assert barrier(executor, 1, 2, mutation=resume) == [Barrier(1, 2, mutation=resume)]
        executor.poll()
        assert barrier(executor, 2, 3, mutation=pause) == [inserts(1), Barrier(2, 3, mutation=pause)]
        executor.run()
        assert executor.emitted[-1].pair == (2, 3)  # type: ignore[union-attr]

    def test_neither_a_limit_nor_a_pause_stops_the_log(self) -> None:
        """R-SNAP-41, R-SNAP-43: log replay is bounded by the upstream itself (#27015)."""
        log = {110: [("insert", (1, 10), None)]}
        executor = after_snapshot(Table(1, {100: {}}, log), [Barrier(110, 120)], rate_limit=0)  # type: ignore[arg-type]
        executor.paused = True
        assert barrier(executor, 110, 120) == [inserts(1), Barrier(110, 120)]


class TestTheLogPhase:
    """The log phase consumes epoch by epoch, each as a whole."""

    def test_every_vnode_is_consumed_even_without_changes(self) -> None:
        """R-SNAP-22: otherwise a quiet vnode would look like a lost one."""
        executor = after_snapshot(
            Table(2, {100: {}}, {110: [("delete", (1, 10), None)]}), [Barrier(110, 120)], vnodes=range(2)
        )
        barrier(executor, 110, 120)
        assert executor.stored == {0: finished(110, 0), 1: finished(110, 1)}

    def test_waiting_for_a_commit_does_not_stop_draining(self) -> None:
        """R-SNAP-46: otherwise upstream and executor wait for each other (#18063, #24693, #24991)."""
        upstream, committed = Table(1, {100: {}}), set[int]()
        upstream.committed = lambda epoch: epoch in committed
        executor = after_snapshot(upstream, [Barrier(110, 120), Barrier(120, 130), Barrier(130, 140)])
        executor.limit = 1000.0
        assert barrier(executor, 110, 120) == []
        executor.limit = 1000.0
        executor.upstream.extend([inserts(5), Barrier(140, 150)])
        executor.run()
        assert not executor.upstream
        committed.add(110)
        executor.run()
        assert executor.emitted[-1] == Barrier(110, 120)

    @pytest.mark.parametrize(("pending", "own"), [((105, 110), (110, 120)), ((110, 115), (110, 120))])
    def test_pending_barriers_must_fit(self, pending: tuple[int, int], own: tuple[int, int]) -> None:
        """R-SNAP-27: a barrier that is older, or of the same epoch and another length, is fatal."""
        executor = after_snapshot(Table(1, {100: {}}), [Barrier(110, 120)])
        executor.pending = [Barrier(*pending)]
        with pytest.raises(Fatal, match="R-SNAP-27"):
            barrier(executor, *own)

    def test_vnodes_do_not_change_in_the_log_phase(self) -> None:
        """R-SNAP-33: the error comes after the barrier was emitted."""
        executor = after_snapshot(Table(1, {100: {}}), [Barrier(110, 120)])
        with pytest.raises(Fatal, match="R-SNAP-33"):
            barrier(executor, 110, 120, mutation=Mutation(vnodes=frozenset({0})))
        assert isinstance(executor.emitted[-1], Barrier)


class TestTheLivePhase:
    """The live phase forwards the upstream."""

    @staticmethod
    def live(**more: object) -> ReferenceSnapshot:
        return machine(table(), first=Barrier(100, 110), own=Barrier(100, 110), stored={0: finished(100, 3)}, **more)

    def test_chunks_and_watermarks_pass(self) -> None:
        """R-SNAP-34: every vnode is also stored at each barrier."""
        executor = self.live()
        executor.upstream.extend([inserts(7), Watermark(7), Barrier(110, 120)])
        barrier(executor, 110, 120)
        assert executor.emitted[1:] == [inserts(7), Watermark(7), Barrier(110, 120)]
        assert executor.stored == {0: finished(110, 1)}

    def test_a_changed_key_becomes_delete_and_insert(self) -> None:
        """R-SNAP-48: downstream, both halves may belong to different actors (#25783)."""
        executor = self.live()
        executor.upstream.append(chunk(("U-", 1), ("U+", 2), ("U-", 3), ("U+", 3)))
        executor.run()
        assert executor.emitted[1:] == [chunk(("-", 1), ("+", 2), ("U-", 3), ("U+", 3))]

    def test_vnodes_change_after_the_barrier(self) -> None:
        """R-SNAP-33: their former owner has brought them to the same epoch."""
        executor = self.live()
        executor.stored[1] = finished(110, 0)
        executor.upstream.append(Barrier(110, 120))
        barrier(executor, 110, 120, mutation=Mutation(vnodes=frozenset({0, 1})))
        executor.upstream.append(Barrier(120, 130))
        barrier(executor, 120, 130)
        assert executor.stored == {0: finished(120, 0), 1: finished(120, 0)}


class TestStoredProgress:
    """Stored progress only moves forward, and is written before the barrier."""

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
    def test_stored_progress_never_goes_back(self, old: Progress, new: Progress) -> None:
        """R-SNAP-36: it never goes to a smaller epoch, key or count, or from Consumed to the same epoch."""
        executor = ReferenceSnapshot(table(), 100, stored={0: old})
        with pytest.raises(Fatal, match="back"):
            executor.store(0, new)

    def test_stored_progress_is_committed_with_its_barrier(self) -> None:
        """R-SNAP-35: only a checkpoint makes it durable, together with the rows before it."""
        executor = machine(table(), first=Barrier(100, 110))
        executor.poll()
        barrier(executor, 1, 2, checkpoint=False)
        assert executor.durable() == ({}, 1)
        executor.poll()
        barrier(executor, 2, 3)
        assert executor.durable() == ({0: Progress(100, 2, finished=False, position=3)}, len(executor.emitted))

    def test_chunks_of_all_phases_are_projected(self) -> None:
        """R-SNAP-45: the key may be needed inside and unwanted outside (#19665)."""
        log = {110: [("insert", (4, 40), None)]}
        executor = machine(Table(1, {100: {1: 10}}, log), first=Barrier(100, 110), project=lambda row: (row[1], 0))  # type: ignore[arg-type]
        executor.upstream.append(Barrier(110, 120))
        executor.run()
        for prev, curr in ((1, 2), (2, 100), (100, 110), (110, 120)):
            barrier(executor, prev, curr)
        executor.upstream.append(inserts(5))
        executor.run()
        chunks = [message for message in executor.emitted if isinstance(message, Chunk)]
        assert chunks == [Chunk((("+", (10, 0)),)), Chunk((("+", (40, 0)),)), Chunk((("+", (50, 0)),))]
