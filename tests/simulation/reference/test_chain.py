"""The row-by-row machine of the rearranged chain against its worked examples and its numbered rules."""

from __future__ import annotations

from random import Random

import pytest
from support.reference.chain import Phantom, ReferenceChain
from support.reference.vocabulary import Barrier, Chunk, Fatal, Report, Watermark

B0, B1, B2, B3 = (Barrier(at, at + 1) for at in range(4))


def row(key: int) -> Chunk:
    return Chunk((("+", (key, key)),))


S1, S2, U1, U2 = row(1), row(2), row(11), row(12)


def poll(one: ReferenceChain, *messages: object) -> list[object]:
    """Let messages be ready, do one thing, and return what came out."""
    before = len(one.emitted)
    one.upstream.extend(messages)  # type: ignore[arg-type]
    assert one.poll()
    return list(one.emitted[before:])


class TestC1Overtaking:
    """Barriers flow while the snapshot is read; a change is credited to a later epoch until the chain has caught up."""

    def test_table(self) -> None:
        """R-CHAIN-1, 3, 4, 5, 6, 7, 8, 10, 11, 13: step by step as in the worked example."""
        one = ReferenceChain([S1, S2])
        assert poll(one, B0) == [B0]
        assert poll(one) == [S1]
        assert poll(one, U1, B1) == [B1]
        assert list(one.queue) == [Phantom(B0), U1, Phantom(B1)]
        assert poll(one) == [S2]
        assert poll(one) == []
        assert one.reports == [Report("update", 1, 2)]
        assert poll(one) == [U1]
        assert poll(one, U2) == []
        assert poll(one) == []
        assert (one.phase, one.reports[-1]) == ("draining", Report("update", 2, 3))
        assert poll(one, B2) == [U2]
        one.run()
        assert one.emitted == [B0, S1, B1, S2, U1, U2, B2]
        assert one.reports[-1] == Report("finish", 3, 3)


class TestC2IdleUpstream:
    """Nothing happens upstream while the snapshot is read."""

    def test_table(self) -> None:
        """R-CHAIN-9, 11: the first phantom ends it; the next barrier reports, and only the first."""
        one = ReferenceChain([S1, S2])
        one.upstream.append(B0)
        one.run()
        assert one.emitted == [B0, S1, S2]
        assert one.reports == [Report("update", 1, 2)]
        one.upstream += [B1, U1, B2]
        one.run()
        assert one.emitted == [B0, S1, S2, B1, U1, B2]
        assert one.reports[1:] == [Report("finish", 2, 2)]


class TestC3ARecoveredActor:
    """An actor that is not new has no snapshot to read."""

    def test_table(self) -> None:
        """R-CHAIN-2, 15: output is input, the snapshot stays closed, nothing is said to be finished."""
        one = ReferenceChain([S1], newly_added=False)
        one.upstream += [B0, U1, Watermark(3), B1]
        one.run()
        assert one.emitted == [B0, U1, Watermark(3), B1]
        assert (one.opened, one.reports) == (False, [])


class TestC4Livelock:
    """A barrier for each pass over the queue keeps the chain from ever finishing."""

    def test_never_finishes_while_the_upstream_is_ahead(self) -> None:
        """R-CHAIN-8, #5790: at every phantom a newer barrier is out already."""
        one = ReferenceChain([S1])
        one.upstream.append(B0)
        for at in range(1, 200):
            one.upstream += [row(at), Barrier(at, at + 1)]
            while one.upstream:
                one.poll()
            while not isinstance(one.queue[0], Phantom):
                one.poll()
            one.poll()
        assert one.phase == "rearranging"
        assert not any(report.kind == "finish" for report in one.reports)

    def test_the_queue_is_bounded(self) -> None:
        """R-CHAIN-16: a full queue leaves data upstream; what is emitted is complete all the same."""
        one = ReferenceChain([row(key) for key in range(5)], queue_max=2)
        live = [row(100 + key) for key in range(9)]
        one.upstream += [B0, *live, B1]
        longest = 0
        while one.poll():
            longest = max(longest, sum(isinstance(message, Chunk) for message in one.queue))
        assert longest == 2
        assert [message for message in one.emitted if isinstance(message, Chunk)][5:] == live


class TestTheRules:
    """What the examples leave open."""

    def test_watermarks_wait_for_the_end(self) -> None:
        """R-CHAIN-12: dropped until rearranging stops, forwarded afterwards."""
        one = ReferenceChain([S1])
        one.upstream += [B0, Watermark(1)]
        one.run()
        one.upstream += [B1, Watermark(2)]
        one.run()
        assert [message for message in one.emitted if isinstance(message, Watermark)] == [Watermark(2)]

    def test_an_upstream_that_ends_is_an_error(self) -> None:
        """R-CHAIN-14: a snapshot without its live rows is no table."""
        one = ReferenceChain([S1])
        poll(one, B0)
        with pytest.raises(Fatal):
            one.end()

    @pytest.mark.parametrize("seed", range(50))
    def test_every_barrier_once_in_order_and_every_row_in_order(self, seed: int) -> None:
        """R-CHAIN-5, 6: whatever the interleaving of upstream and reading."""
        rng = Random(seed)
        snapshot = [row(key) for key in range(rng.randrange(6))]
        live = [row(100 + key) for key in range(rng.randrange(12))]
        one, barriers = ReferenceChain(list(snapshot), queue_max=rng.choice((1, 3, 100))), [B0]
        one.upstream.append(B0)
        waiting = list(live)
        for at in range(1, 40):
            for _ in range(rng.randrange(3)):
                if waiting:
                    one.upstream.append(waiting.pop(0))
            barriers.append(Barrier(at, at + 1))
            one.upstream.append(barriers[-1])
            for _ in range(rng.randrange(6)):
                one.poll()
        one.run()
        one.upstream.append(Barrier(40, 41))
        one.run()
        assert [message for message in one.emitted if isinstance(message, Barrier)] == [*barriers, Barrier(40, 41)]
        assert [message for message in one.emitted if isinstance(message, Chunk)] == [*snapshot, *live]
        assert sum(report.kind == "finish" for report in one.reports) == 1
