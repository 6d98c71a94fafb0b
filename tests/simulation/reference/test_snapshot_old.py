"""The older snapshot backfill: its own rules, the worked examples that concern it, and the end of catching up.

The examples S2 and S4 are about restarts, which it rejects (R-SNAP-5). S1, S3, S5 and S6 hold for it too, S3 with its
own count.
"""

from __future__ import annotations

from random import Random

import pytest
from support.reference.snapshot import ReferenceSnapshot
from support.reference.snapshot_old import ReferenceSnapshotOld
from support.reference.vocabulary import Barrier, Chunk, Fatal, Message, Progress, Report, Row, Table

BOTH = pytest.mark.parametrize("kind", [ReferenceSnapshot, ReferenceSnapshotOld], ids=["epoch time", "barriers"])


def inserts(*keys: int) -> Chunk:
    return Chunk(tuple(("+", (key, 0)) for key in keys))


def log(*epochs: int) -> dict[int, list[tuple[str, Row, Row | None]]]:
    """Return a change log that inserts in each epoch the row with its number."""
    return {epoch: [("insert", (epoch, 0), None)] for epoch in epochs}


def machine(
    upstream: Table, *pending: Message, kind: type[ReferenceSnapshot] = ReferenceSnapshotOld, **more: object
) -> ReferenceSnapshot:
    """Return a machine that has read its snapshot of 100 and is at the start of catching up."""
    executor = kind(upstream, 100, **more)  # type: ignore[arg-type]
    executor.upstream.extend([Barrier(100, 110), *pending])
    executor.injected.append(Barrier(0, 1))
    executor.run()
    for prev, curr in ((1, 2), (2, 100), (100, 110)):
        barrier(executor, prev, curr)
    return executor


def barrier(executor: ReferenceSnapshot, prev: int, curr: int, *, checkpoint: bool = True) -> list[Message]:
    """Inject a barrier, let the machine do all it can, and return the output."""
    before = len(executor.emitted)
    executor.injected.append(Barrier(prev, curr, checkpoint))
    executor.run()
    return executor.emitted[before:]


def every_ten(begin: int, end: int) -> list[Barrier]:
    return [Barrier(epoch, epoch + 10) for epoch in range(begin, end, 10)]


class TestStartup:
    """The job begins once, at the epoch of its snapshot."""

    @pytest.mark.parametrize("prev", [90, 110, 500])
    def test_the_snapshot_belongs_to_the_first_epoch(self, prev: int) -> None:
        """R-SNAP-3: an older or newer epoch is rejected; the newer machine accepts an older snapshot (R-SNAP-4)."""
        executor = ReferenceSnapshotOld(Table(1, {100: {}}), 100)
        executor.upstream.append(Barrier(prev, prev + 10))
        executor.injected.append(Barrier(0, 1))
        with pytest.raises(Fatal, match="R-SNAP-3"):
            executor.poll()

    @pytest.mark.parametrize("stored", [Progress(100, 2, False, 3), Progress(130, 1, True, None)])
    def test_an_interrupted_job_is_not_resumed(self, stored: Progress) -> None:
        """R-SNAP-5: where S2 and S4 resume, it fails, and the job is dropped."""
        executor = ReferenceSnapshotOld(Table(1, {100: {}}), 100, stored={0: stored})
        executor.upstream.append(Barrier(100, 110))
        executor.injected.append(Barrier(2, 3))
        with pytest.raises(Fatal, match="R-SNAP-5"):
            executor.poll()

    def test_a_finished_job_begins_live(self) -> None:
        """R-SNAP-2, 30: the epochs are equal, and the end is reported once more."""
        executor = ReferenceSnapshotOld(Table(1), 100, stored={0: Progress(200, 1, True, None)})
        executor.upstream.extend(every_ten(200, 220))
        executor.injected.extend(every_ten(200, 220))
        executor.run()
        assert (executor.phase, executor.reports) == ("live", [Report("finish log", 220, 0)])


class TestTheWorkedExamples:
    """The older machine follows S1, S3, S5 and S6 with its own rules."""

    def test_example_s1_has_no_log_with_a_quiet_upstream(self) -> None:
        """R-SNAP-18, 30: the barrier that equals the upstream's first carries no data; then there is no log to read."""
        executor = machine(Table(1, {100: {1: 0, 2: 0, 3: 0}}))
        assert executor.emitted == [Barrier(0, 1), inserts(1, 2, 3), Barrier(1, 2), Barrier(2, 100), Barrier(100, 110)]
        assert executor.phase == "live"
        executor.upstream.append(Barrier(110, 120))
        assert barrier(executor, 110, 120) == [Barrier(110, 120)]
        assert executor.reports[-1] == Report("finish log", 120, 0)

    def test_the_barrier_after_the_snapshot_is_the_first(self) -> None:
        """R-SNAP-18: the injected barrier that equals it consumes it."""
        executor = ReferenceSnapshotOld(Table(1, {100: {}}), 100)
        executor.upstream.append(Barrier(100, 110))
        executor.injected.extend([Barrier(0, 1), Barrier(1, 2), Barrier(2, 100), Barrier(100, 115)])
        with pytest.raises(Fatal, match="first"):
            executor.run()

    def test_example_s3_lowers_the_count(self) -> None:
        """R-SNAP-19, 23, 24, 30: there are four groups, and one more is ready per step; one enters while the first is
        consumed."""
        executor = machine(Table(1, {100: {}}, log(*range(110, 200, 10))), *every_ten(110, 150))
        assert (executor.phase, executor.lag, executor.limit) == ("log", 4, 4)
        seen = []
        for prev, ready in zip(range(110, 160, 10), every_ten(150, 200), strict=True):
            executor.upstream.append(ready)
            assert barrier(executor, prev, prev + 10) == [inserts(prev), Barrier(prev, prev + 10)]
            seen.append((prev, executor.lag, executor.limit))
        assert seen == [(110, 4, 3), (120, 3, 2), (130, 2, 1), (140, 1, 0), (150, 0, 0)]
        assert [report.kind for report in executor.reports].count("finish log") == 0
        assert executor.phase == "live"
        assert barrier(executor, 160, 170) == [Barrier(160, 170)]
        assert executor.reports[-1] == Report("finish log", 170, 0)

    def test_example_s5_drains_a_partial_epoch_to_its_checkpoint(self) -> None:
        """R-SNAP-11, 28, 29: the rule also holds above the limit; the group is consumed whole, barrier by barrier."""
        executor = machine(Table(1, {100: {}}, log(110, 115)), inserts(110))
        assert (executor.phase, executor.limit) == ("log", 0)
        executor.upstream.extend([Barrier(110, 115, checkpoint=False), inserts(115)])
        executor.run()
        assert not executor.upstream
        assert barrier(executor, 110, 115, checkpoint=False) == []
        executor.upstream.append(Barrier(115, 120))
        executor.run()
        assert executor.emitted[-2:] == [inserts(110), Barrier(110, 115, checkpoint=False)]
        assert executor.phase == "log"
        assert barrier(executor, 115, 120) == [inserts(115), Barrier(115, 120)]
        assert executor.phase == "live"

    def test_example_s6_keeps_an_update_together(self) -> None:
        """R-SNAP-20, 21: packing and count are the same."""
        changes = [("insert", (1, 0), None), ("insert", (2, 0), None), ("update", (3, 0), (3, 1))]
        executor = machine(Table(1, {100: {}}, {110: changes}), Barrier(110, 120), chunk_size=3)  # type: ignore[dict-item]
        assert barrier(executor, 110, 120)[:2] == [inserts(1, 2), Chunk((("U-", (3, 0)), ("U+", (3, 1))))]
        assert executor.stored == {0: Progress(110, 4, finished=True, position=None)}


class Upstream:
    """Creates a number of epochs while the job consumes one; it can wait until it is drained."""

    def __init__(self, kind: type[ReferenceSnapshot], *, epochs_per_step: int, waits: bool) -> None:
        self.waits, self.epochs_per_step = waits, epochs_per_step
        self.executor = machine(Table(1, {100: {}}), *every_ten(110, 310), kind=kind, slowable=waits)
        self.next = 310
        self.lags = list[float]()

    def steps(self, count: int) -> int | None:
        """Return the number of consumed barriers until catching up ended; `None` if it did not end."""
        for step in range(count):
            if self.executor.phase == "live":
                return step
            for _ in range(self.epochs_per_step):
                if not (self.waits and self.executor.upstream):
                    self.executor.upstream.append(Barrier(self.next, self.next + 10))
                    self.next += 10
            barrier(self.executor, 110 + 10 * step, 120 + 10 * step)
            self.lags.append(self.executor.lag)
        return None


class TestWhenCatchingUpEnds:
    """The job is twenty epochs behind, with either limit."""

    @BOTH
    @pytest.mark.parametrize("speed", [0, 1, 3])
    def test_an_upstream_that_can_be_slowed_is_caught_up_with(self, kind: type[ReferenceSnapshot], speed: int) -> None:
        """R-SNAP-23, 24, 25, 26, 29: the limit only falls, so the speed of the upstream does not matter."""
        assert Upstream(kind, epochs_per_step=speed, waits=True).steps(100) is not None

    def test_the_count_limit_stops_the_upstream_and_the_time_limit_slows_it(self) -> None:
        """R-SNAP-24, 25: the older limit admits one epoch in total; the newer one admits about one per two consumed
        epochs."""
        old, new = (
            Upstream(kind, epochs_per_step=3, waits=True).steps(100)
            for kind in (ReferenceSnapshotOld, ReferenceSnapshot)
        )
        assert old == 21
        assert new is not None
        assert new > 35

    @BOTH
    @pytest.mark.parametrize("speed", [1, 3])
    def test_an_upstream_that_cannot_be_slowed_is_never_caught_up_with(
        self, kind: type[ReferenceSnapshot], speed: int
    ) -> None:
        """R-SNAP-23, 29: the limit is 0 and the lag no smaller than at the start; a port must report it."""
        upstream = Upstream(kind, epochs_per_step=speed, waits=False)
        assert upstream.steps(200) is None
        assert (upstream.executor.phase, upstream.executor.limit) == ("log", 0)
        assert upstream.lags[-1] >= upstream.lags[0]
        assert not any(report.kind == "finish log" for report in upstream.executor.reports)

    @BOTH
    def test_a_slower_upstream_is_caught_up_with(self, kind: type[ReferenceSnapshot]) -> None:
        """R-SNAP-29: it need not be slowed."""
        assert Upstream(kind, epochs_per_step=0, waits=False).steps(100) == 20


class Play:
    """A random upstream with groups of any length, drained and injected at any time."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.real = [Barrier(at, at + 10, checkpoint=self.rng.random() < 0.6) for at in range(110, 500, 10)]
        self.real.append(Barrier(500, 510))
        self.epochs = [real.prev for real in self.real if self.rng.random() < 0.7]
        parts = [[inserts(real.prev), real] if real.prev in self.epochs else [real] for real in self.real]
        messages: list[Message] = [message for part in parts for message in part]
        begun = self.rng.randrange(len(messages) // 2)
        self.executor = machine(Table(1, {100: {}}, log(*self.epochs)), *messages[:begun])
        self.waiting = messages[begun:]
        self.groups, self.consumed = int(self.executor.limit), 0

    def run(self) -> None:
        """Continue until the last barrier was emitted; the upstream waits until it is drained."""
        at = 0
        for _ in range(10_000):
            if self.waiting and not self.executor.upstream and self.rng.random() < 0.5:
                self.executor.upstream.append(self.waiting.pop(0))
            sent = at < len(self.real) and self.real[at] not in self.waiting
            if sent and not self.executor.injected and self.rng.random() < 0.5:
                self.executor.injected.append(self.real[at])
                at += 1
            self.poll()
        assert self.executor.emitted[-1] == self.real[-1]

    def poll(self) -> None:
        """Do one step; an emitted barrier has all rows before it, and a group has lowered the limit."""
        length, limit, phase = len(self.executor.emitted), self.executor.limit, self.executor.phase
        self.executor.poll()
        for message in self.executor.emitted[length:]:
            if isinstance(message, Barrier):
                rows = [row[0] for chunk in self.executor.emitted if isinstance(chunk, Chunk) for _, row in chunk.rows]
                assert rows == [epoch for epoch in self.epochs if epoch <= message.prev]
                if phase == "log":
                    self.consumed += message.checkpoint
                    lowered = max(0, min(self.executor.lag, limit - 1))
                    assert self.executor.limit == (lowered if message.checkpoint else limit)


@pytest.mark.parametrize("seed", range(100))
def test_any_interleaving_ends_and_is_right_at_every_barrier(seed: int) -> None:
    """R-SNAP-19, 24, 29, 30: at most one more group is read than existed, whole or partial."""
    play = Play(seed)
    play.run()
    assert play.consumed <= play.groups + 1
    assert [report.kind for report in play.executor.reports].count("finish log") == 1


def test_the_plays_cover_the_rare_cases() -> None:
    """Some plays read one more group, and some begin in the middle of a group."""
    plays = [Play(seed) for seed in range(50)]
    begun = sum(play.executor.polling for play in plays)
    for play in plays:
        play.run()
    assert {play.consumed - play.groups for play in plays} == {0, 1}
    assert begun > 5
