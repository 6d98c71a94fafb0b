"""The queue of phantoms against the row-by-row machine: it is bounded, and both end at the same step."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.reference.chain import Phantom as ReferencePhantom
from support.reference.chain import ReferenceChain
from support.reference.vocabulary import Barrier, Chunk

from backfill_core.strategies.rearranged_chain.phantoms import Phantom, PhantomQueue

CHANGE, BARRIER, DATA = "a version is made", "a barrier passes", "data leaves"
steps = st.lists(st.sampled_from([CHANGE, BARRIER, DATA, DATA]), max_size=80)
A_ROW = Chunk((("+", (1, 1)),))


class Both:
    """The reference machine and the queue get the same versions, barriers and data; B0 has passed."""

    def __init__(self, places_max: int) -> None:
        """Begin with version 0 as the snapshot, which is one chunk."""
        self.reference = ReferenceChain([A_ROW])
        self.feed(Barrier(0, 1))
        self.ours = PhantomQueue(places_max, (Phantom(1, 0),))
        self.barrier, self.seen, self.delivered = 1, 0, -1
        self.ended = False

    def feed(self, message: Barrier | Chunk) -> None:
        self.reference.upstream.append(message)
        self.reference.poll()

    def take(self, step: str) -> None:
        """Apply the step to both."""
        if step == CHANGE:
            self.seen += 1
            self.feed(A_ROW)
        elif step == BARRIER:
            self.barrier += 1
            self.feed(Barrier(self.barrier - 1, self.barrier))
            self.ours = self.ours.leave(Phantom(self.barrier, self.seen))
        elif self.delivered < self.seen:
            self.delivered += 1
            self.reference.poll()
        self._reach()

    def _reach(self) -> None:
        while self.delivered >= 0 and self.reference.phase == "rearranging" and self._next_is_a_phantom:
            self.reference.poll()
        self.ours, reached = self.ours.reach(self.delivered)
        self.ended = reached is not None and reached.epoch >= self.barrier

    @property
    def _next_is_a_phantom(self) -> bool:
        return bool(self.reference.queue) and isinstance(self.reference.queue[0], ReferencePhantom)


class TestThePhantoms:
    """Phantoms mark the places of barriers among the data."""

    @given(steps, st.integers(1, 4))
    def test_phantoms_reach_the_newest_barrier_when_the_reference_machine_does(
        self, taken: list[str], places_max: int
    ) -> None:
        """R-CHAIN-7, R-CHAIN-8, R-CHAIN-9: the rule also holds if most barriers lose their place."""
        both = Both(places_max)
        for step in taken:
            both.take(step)
            assert both.ended == (both.reference.phase != "rearranging")
            if both.ended:
                break

    @given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60), st.integers(1, 5))
    def test_the_number_of_phantoms_is_bounded(self, barriers: list[tuple[int, bool]], places_max: int) -> None:
        """R-CHAIN-16: phantoms also stay in order for any barriers."""
        queue, version = PhantomQueue(places_max), 0
        for epoch, (made, twice) in enumerate(barriers):
            version += made
            queue = queue.leave(Phantom(epoch, version))
            if twice:
                assert queue.leave(Phantom(epoch, version + 9)) == queue
            assert len(queue.phantoms) <= places_max
            assert queue.phantoms[-1] == Phantom(epoch, version)
            assert list(queue.phantoms) == sorted(queue.phantoms, key=lambda phantom: (phantom.epoch, phantom.version))
