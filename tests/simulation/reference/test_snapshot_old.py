"""The older snapshot backfill: its own rules, the worked examples that concern it, and when catching up ends.

Of the examples, S2 and S4 are about restarts, which it refuses (R-SNAP-5); S1, S3, S5 and S6 hold for it too, S3 with its own count.
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
    """Return a change log that inserts in each epoch the row of its number."""
    return {epoch: [("insert", (epoch, 0), None)] for epoch in epochs}


def machine(
    upstream: Table, *pending: Message, kind: type[ReferenceSnapshot] = ReferenceSnapshotOld, **more: object
) -> ReferenceSnapshot:
    """Return a machine that is through its snapshot of 100 and stands where catching up begins."""
    one = kind(upstream, 100, **more)  # type: ignore[arg-type]
    one.upstream.extend([Barrier(100, 110), *pending])
    one.injected.append(Barrier(0, 1))
    one.run()
    for prev, curr in ((1, 2), (2, 100), (100, 110)):
        barrier(one, prev, curr)
    return one


def barrier(one: ReferenceSnapshot, prev: int, curr: int, *, checkpoint: bool = True) -> list[Message]:
    """Inject a barrier, let the machine do all it can, and return what came out."""
    before = len(one.emitted)
    one.injected.append(Barrier(prev, curr, checkpoint))
    one.run()
    return one.emitted[before:]


def every_ten(begin: int, end: int) -> list[Barrier]:
    return [Barrier(epoch, epoch + 10) for epoch in range(begin, end, 10)]


class TestStartup:
    """It begins once, at the epoch of its snapshot."""

    @pytest.mark.parametrize("prev", [90, 110, 500])
    def test_the_snapshot_is_of_the_first_epoch(self, prev: int) -> None:
        """R-SNAP-3: neither younger nor older; the newer one allows older (R-SNAP-4)."""
        one = ReferenceSnapshotOld(Table(1, {100: {}}), 100)
        one.upstream.append(Barrier(prev, prev + 10))
        one.injected.append(Barrier(0, 1))
        with pytest.raises(Fatal, match="R-SNAP-3"):
            one.poll()

    @pytest.mark.parametrize("stored", [Progress(100, 2, False, 3), Progress(130, 1, True, None)])
    def test_an_interrupted_job_is_not_resumed(self, stored: Progress) -> None:
        """R-SNAP-5: where S2 and S4 go on, it fails, and the job is dropped."""
        one = ReferenceSnapshotOld(Table(1, {100: {}}), 100, stored={0: stored})
        one.upstream.append(Barrier(100, 110))
        one.injected.append(Barrier(2, 3))
        with pytest.raises(Fatal, match="R-SNAP-5"):
            one.poll()

    def test_a_job_that_was_through_begins_live(self) -> None:
        """R-SNAP-2, 30: equal epochs; the end is reported once more."""
        one = ReferenceSnapshotOld(Table(1), 100, stored={0: Progress(200, 1, True, None)})
        one.upstream.extend(every_ten(200, 220))
        one.injected.extend(every_ten(200, 220))
        one.run()
        assert (one.phase, one.reports) == ("live", [Report("finish log", 220, 0)])


class TestTheWorkedExamples:
    """S1, S3, S5, S6 as the older one has them."""

    def test_s1_quiet_upstream(self) -> None:
        """R-SNAP-18, 30: the barrier that equals the upstream's first carries no data; then there is no log to read."""
        one = machine(Table(1, {100: {1: 0, 2: 0, 3: 0}}))
        assert one.emitted == [Barrier(0, 1), inserts(1, 2, 3), Barrier(1, 2), Barrier(2, 100), Barrier(100, 110)]
        assert one.phase == "live"
        one.upstream.append(Barrier(110, 120))
        assert barrier(one, 110, 120) == [Barrier(110, 120)]
        assert one.reports[-1] == Report("finish log", 120, 0)

    def test_the_barrier_after_the_snapshot_is_the_first(self) -> None:
        """R-SNAP-18: it is consumed by the injected barrier that equals it."""
        one = ReferenceSnapshotOld(Table(1, {100: {}}), 100)
        one.upstream.append(Barrier(100, 110))
        one.injected.extend([Barrier(0, 1), Barrier(1, 2), Barrier(2, 100), Barrier(100, 115)])
        with pytest.raises(Fatal, match="first"):
            one.run()

    def test_s3_the_count_falls(self) -> None:
        """R-SNAP-19, 23, 24, 30: four groups, one more ready per step; one gets in while the first is consumed."""
        one = machine(Table(1, {100: {}}, log(*range(110, 200, 10))), *every_ten(110, 150))
        assert (one.phase, one.lag, one.limit) == ("log", 4, 4)
        seen = []
        for prev, ready in zip(range(110, 160, 10), every_ten(150, 200), strict=True):
            one.upstream.append(ready)
            assert barrier(one, prev, prev + 10) == [inserts(prev), Barrier(prev, prev + 10)]
            seen.append((prev, one.lag, one.limit))
        assert seen == [(110, 4, 3), (120, 3, 2), (130, 2, 1), (140, 1, 0), (150, 0, 0)]
        assert [report.kind for report in one.reports].count("finish log") == 0
        assert one.phase == "live"
        assert barrier(one, 160, 170) == [Barrier(160, 170)]
        assert one.reports[-1] == Report("finish log", 170, 0)

    def test_s5_a_partial_epoch_is_drained_to_its_checkpoint(self) -> None:
        """R-SNAP-11, 28, 29: also above the limit; its group is consumed whole, barrier by barrier."""
        one = machine(Table(1, {100: {}}, log(110, 115)), inserts(110))
        assert (one.phase, one.limit) == ("log", 0)
        one.upstream.extend([Barrier(110, 115, checkpoint=False), inserts(115)])
        one.run()
        assert not one.upstream
        assert barrier(one, 110, 115, checkpoint=False) == []
        one.upstream.append(Barrier(115, 120))
        one.run()
        assert one.emitted[-2:] == [inserts(110), Barrier(110, 115, checkpoint=False)]
        assert one.phase == "log"
        assert barrier(one, 115, 120) == [inserts(115), Barrier(115, 120)]
        assert one.phase == "live"

    def test_s6_an_update_stays_together(self) -> None:
        """R-SNAP-20, 21: the same packing, the same count."""
        changes = [("insert", (1, 0), None), ("insert", (2, 0), None), ("update", (3, 0), (3, 1))]
        one = machine(Table(1, {100: {}}, {110: changes}), Barrier(110, 120), chunk_size=3)  # type: ignore[dict-item]
        assert barrier(one, 110, 120)[:2] == [inserts(1, 2), Chunk((("U-", (3, 0)), ("U+", (3, 1))))]
        assert one.stored == {0: Progress(110, 4, finished=True, position=None)}


class Upstream:
    """Makes so many epochs while the job consumes one; it waits while it is not drained, or does not care."""

    def __init__(self, kind: type[ReferenceSnapshot], *, epochs_per_step: int, waits: bool) -> None:
        self.waits, self.epochs_per_step = waits, epochs_per_step
        self.one = machine(Table(1, {100: {}}), *every_ten(110, 310), kind=kind, slowable=waits)
        self.next = 310
        self.lags = list[float]()

    def steps(self, count: int) -> int | None:
        """Return after how many consumed barriers catching up ended; None if it did not."""
        for step in range(count):
            if self.one.phase == "live":
                return step
            for _ in range(self.epochs_per_step):
                if not (self.waits and self.one.upstream):
                    self.one.upstream.append(Barrier(self.next, self.next + 10))
                    self.next += 10
            barrier(self.one, 110 + 10 * step, 120 + 10 * step)
            self.lags.append(self.one.lag)
        return None


class TestWhenCatchingUpEnds:
    """Twenty epochs behind; both limits."""

    @BOTH
    @pytest.mark.parametrize("speed", [0, 1, 3])
    def test_an_upstream_that_can_be_slowed_is_met(self, kind: type[ReferenceSnapshot], speed: int) -> None:
        """R-SNAP-23, 24, 25, 26, 29: however fast it would be, for the limit only falls."""
        assert Upstream(kind, epochs_per_step=speed, waits=True).steps(100) is not None

    def test_the_count_freezes_what_the_time_slows(self) -> None:
        """R-SNAP-24, 25: the older limit lets one epoch in altogether; the newer about one for two consumed."""
        old, new = (
            Upstream(kind, epochs_per_step=3, waits=True).steps(100)
            for kind in (ReferenceSnapshotOld, ReferenceSnapshot)
        )
        assert old == 21
        assert new is not None
        assert new > 35

    @BOTH
    @pytest.mark.parametrize("speed", [1, 3])
    def test_one_that_cannot_be_slowed_is_never_met(self, kind: type[ReferenceSnapshot], speed: int) -> None:
        """R-SNAP-23, 29: the limit is 0 and the lag no smaller than at the start; a port has to say so."""
        upstream = Upstream(kind, epochs_per_step=speed, waits=False)
        assert upstream.steps(200) is None
        assert (upstream.one.phase, upstream.one.limit) == ("log", 0)
        assert upstream.lags[-1] >= upstream.lags[0]
        assert not any(report.kind == "finish log" for report in upstream.one.reports)

    @BOTH
    def test_one_that_is_slower_is_met_anyway(self, kind: type[ReferenceSnapshot]) -> None:
        """R-SNAP-29: it need not be slowed."""
        assert Upstream(kind, epochs_per_step=0, waits=False).steps(100) == 20


class Play:
    """A random upstream of groups of any length, drained and injected at any moment."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.real = [Barrier(at, at + 10, checkpoint=self.rng.random() < 0.6) for at in range(110, 500, 10)]
        self.real.append(Barrier(500, 510))
        self.epochs = [one.prev for one in self.real if self.rng.random() < 0.7]
        parts = [[inserts(one.prev), one] if one.prev in self.epochs else [one] for one in self.real]
        messages: list[Message] = [message for part in parts for message in part]
        begun = self.rng.randrange(len(messages) // 2)
        self.one = machine(Table(1, {100: {}}, log(*self.epochs)), *messages[:begun])
        self.waiting = messages[begun:]
        self.groups, self.consumed = int(self.one.limit), 0

    def run(self) -> None:
        """Go on until the last barrier came out; the upstream waits while it is not drained."""
        at = 0
        for _ in range(10_000):
            if self.waiting and not self.one.upstream and self.rng.random() < 0.5:
                self.one.upstream.append(self.waiting.pop(0))
            sent = at < len(self.real) and self.real[at] not in self.waiting
            if sent and not self.one.injected and self.rng.random() < 0.5:
                self.one.injected.append(self.real[at])
                at += 1
            self.poll()
        assert self.one.emitted[-1] == self.real[-1]

    def poll(self) -> None:
        """Do one thing; a barrier that comes out has all rows before it, and a group has lowered the limit."""
        length, limit, phase = len(self.one.emitted), self.one.limit, self.one.phase
        self.one.poll()
        for message in self.one.emitted[length:]:
            if isinstance(message, Barrier):
                rows = [row[0] for chunk in self.one.emitted if isinstance(chunk, Chunk) for _, row in chunk.rows]
                assert rows == [epoch for epoch in self.epochs if epoch <= message.prev]
                if phase == "log":
                    self.consumed += message.checkpoint
                    lowered = max(0, min(self.one.lag, limit - 1))
                    assert self.one.limit == (lowered if message.checkpoint else limit)


@pytest.mark.parametrize("seed", range(100))
def test_any_interleaving_ends_and_is_right_at_every_barrier(seed: int) -> None:
    """R-SNAP-19, 24, 29, 30: one group more than there were, whole or begun, is all that is read."""
    play = Play(seed)
    play.run()
    assert play.consumed <= play.groups + 1
    assert [report.kind for report in play.one.reports].count("finish log") == 1


def test_plays_are_worth_it() -> None:
    """Some read one group more, and some begin in the middle of one."""
    plays = [Play(seed) for seed in range(50)]
    begun = sum(play.one.polling for play in plays)
    for play in plays:
        play.run()
    assert {play.consumed - play.groups for play in plays} == {0, 1}
    assert begun > 5
