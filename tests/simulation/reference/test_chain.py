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


def poll(chain: ReferenceChain, *messages: object) -> list[object]:
    """Let messages be ready, do one step, and return the output."""
    before = len(chain.emitted)
    chain.upstream.extend(messages)  # type: ignore[arg-type]
    assert chain.poll()
    return list(chain.emitted[before:])


class TestC1Overtaking:
    """Barriers flow while the snapshot is read; a change is credited to a later epoch until the chain has caught up."""

    def test_barriers_overtake_data_as_in_the_worked_example(self) -> None:
        """R-CHAIN-1, 3, 4, 5, 6, 7, 8, 10, 11, 13: step by step as in the worked example."""
        chain = ReferenceChain([S1, S2])
        assert poll(chain, B0) == [B0]
        assert poll(chain) == [S1]
        assert poll(chain, U1, B1) == [B1]
        assert list(chain.queue) == [Phantom(B0), U1, Phantom(B1)]
        assert poll(chain) == [S2]
        assert poll(chain) == []
        assert chain.reports == [Report("update", 1, 2)]
        assert poll(chain) == [U1]
        assert poll(chain, U2) == []
        assert poll(chain) == []
        assert (chain.phase, chain.reports[-1]) == ("draining", Report("update", 2, 3))
        assert poll(chain, B2) == [U2]
        chain.run()
        assert chain.emitted == [B0, S1, B1, S2, U1, U2, B2]
        assert chain.reports[-1] == Report("finish", 3, 3)


class TestC2IdleUpstream:
    """The upstream is idle while the snapshot is read."""

    def test_an_idle_upstream_ends_at_the_first_phantom(self) -> None:
        """R-CHAIN-9, 11: the first phantom ends it; the next barrier reports the end, and only the first one does."""
        chain = ReferenceChain([S1, S2])
        chain.upstream.append(B0)
        chain.run()
        assert chain.emitted == [B0, S1, S2]
        assert chain.reports == [Report("update", 1, 2)]
        chain.upstream += [B1, U1, B2]
        chain.run()
        assert chain.emitted == [B0, S1, S2, B1, U1, B2]
        assert chain.reports[1:] == [Report("finish", 2, 2)]


class TestC3ARecoveredActor:
    """A recovered actor has no snapshot to read."""

    def test_a_recovered_actor_forwards_its_input(self) -> None:
        """R-CHAIN-2, 15: output equals input, the snapshot stays closed, and no end is reported."""
        chain = ReferenceChain([S1], newly_added=False)
        chain.upstream += [B0, U1, Watermark(3), B1]
        chain.run()
        assert chain.emitted == [B0, U1, Watermark(3), B1]
        assert (chain.opened, chain.reports) == (False, [])


class TestC4Livelock:
    """A barrier for each pass over the queue keeps the chain from ever finishing."""

    def test_the_chain_never_finishes_while_the_upstream_is_ahead(self) -> None:
        """R-CHAIN-8, #5790: at every phantom a newer barrier has already passed."""
        chain = ReferenceChain([S1])
        chain.upstream.append(B0)
        for at in range(1, 200):
            chain.upstream += [row(at), Barrier(at, at + 1)]
            while chain.upstream:
                chain.poll()
            while not isinstance(chain.queue[0], Phantom):
                chain.poll()
            chain.poll()
        assert chain.phase == "rearranging"
        assert not any(report.kind == "finish" for report in chain.reports)

    def test_the_queue_is_bounded(self) -> None:
        """R-CHAIN-16: a full queue leaves data upstream; the output is still complete."""
        chain = ReferenceChain([row(key) for key in range(5)], queue_max=2)
        live = [row(100 + key) for key in range(9)]
        chain.upstream += [B0, *live, B1]
        longest = 0
        while chain.poll():
            longest = max(longest, sum(isinstance(message, Chunk) for message in chain.queue))
        assert longest == 2
        assert [message for message in chain.emitted if isinstance(message, Chunk)][5:] == live


class TestTheRules:
    """Rules that the worked examples do not cover."""

    def test_watermarks_wait_for_the_end(self) -> None:
        """R-CHAIN-12: watermarks are dropped until rearranging stops, and forwarded afterwards."""
        chain = ReferenceChain([S1])
        chain.upstream += [B0, Watermark(1)]
        chain.run()
        chain.upstream += [B1, Watermark(2)]
        chain.run()
        assert [message for message in chain.emitted if isinstance(message, Watermark)] == [Watermark(2)]

    def test_an_upstream_that_ends_is_an_error(self) -> None:
        """R-CHAIN-14: a snapshot without its live rows is no table."""
        chain = ReferenceChain([S1])
        poll(chain, B0)
        with pytest.raises(Fatal):
            chain.end()

    @pytest.mark.parametrize("seed", range(50))
    def test_every_barrier_and_every_row_comes_once_in_order(self, seed: int) -> None:
        """R-CHAIN-5, 6: the rule holds for any interleaving of upstream and reading."""
        rng = Random(seed)
        snapshot = [row(key) for key in range(rng.randrange(6))]
        live = [row(100 + key) for key in range(rng.randrange(12))]
        chain, barriers = ReferenceChain(list(snapshot), queue_max=rng.choice((1, 3, 100))), [B0]
        chain.upstream.append(B0)
        waiting = list(live)
        for at in range(1, 40):
            for _ in range(rng.randrange(3)):
                if waiting:
                    chain.upstream.append(waiting.pop(0))
            barriers.append(Barrier(at, at + 1))
            chain.upstream.append(barriers[-1])
            for _ in range(rng.randrange(6)):
                chain.poll()
        chain.run()
        chain.upstream.append(Barrier(40, 41))
        chain.run()
        assert [message for message in chain.emitted if isinstance(message, Barrier)] == [*barriers, Barrier(40, 41)]
        assert [message for message in chain.emitted if isinstance(message, Chunk)] == [*snapshot, *live]
        assert sum(report.kind == "finish" for report in chain.reports) == 1
