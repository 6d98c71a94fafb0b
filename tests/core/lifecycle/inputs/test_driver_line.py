"""The line of waiting Backfills: the higher priority first, then the longer wait, within all limits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backfill_core.lifecycle.inputs.driver_line import Key, Line, has_turn

ARRIVALS = st.lists(st.tuples(st.sampled_from(["shop", "stock", "store"]), st.integers(-1, 1)), max_size=12)


def lined_up(arrivals: list[tuple[str, int]]) -> Line:
    """Return a line in which these Backfills, given by namespace and priority, arrived in order."""
    line = Line()
    for number, (namespace, priority) in enumerate(arrivals):
        line.join((namespace, f"job-{number:02}"), priority)
    return line


def names(
    line: Line, total: int | None = 9, own: int | None = None, skipped: frozenset[Key] = frozenset()
) -> list[str]:
    """Return the names of the Backfills that get a slot."""
    return [place.key[1] for place in line.served(total, lambda _: own, skipped.__contains__)]


class TestTheOrder:
    def test_higher_priority_comes_first_then_the_longer_wait(self) -> None:
        """Of all namespaces together."""
        assert names(lined_up([("shop", 0), ("stock", 5), ("shop", 0), ("shop", 5)])) == [
            "job-01",
            "job-03",
            "job-00",
            "job-02",
        ]

    def test_edit_of_a_priority_keeps_the_arrival(self) -> None:
        """A Backfill that goes up and down again has not waited in vain."""
        line = lined_up([("shop", 0), ("shop", 0)])
        line.join(("shop", "job-00"), -1)
        assert names(line) == ["job-01", "job-00"]
        line.join(("shop", "job-00"), 0)
        assert names(line) == ["job-00", "job-01"]

    def test_backfill_that_left_is_not_served(self) -> None:
        """A second departure has no effect."""
        line = lined_up([("shop", 0), ("shop", 0)])
        line.leave(("shop", "job-00"))
        line.leave(("shop", "job-00"))
        assert names(line) == ["job-01"]

    def test_backfill_that_is_passed_over_leaves_its_slot_to_the_next(self) -> None:
        """Its place stays."""
        line = lined_up([("shop", 1), ("shop", 0)])
        assert names(line, 1, skipped=frozenset({("shop", "job-00")})) == ["job-01"]
        assert names(line, 1) == ["job-00"]

    @given(ARRIVALS, st.none() | st.integers(-1, 5), st.none() | st.integers(-1, 3))
    def test_slots_go_to_the_first_that_fit(
        self, arrivals: list[tuple[str, int]], total: int | None, own: int | None
    ) -> None:
        """The oracle gives one slot after the other."""
        order = sorted(range(len(arrivals)), key=lambda number: (-arrivals[number][1], number))
        expected, used = list[str](), dict[str, int]()
        for number in order:
            namespace = arrivals[number][0]
            room = (total is None or len(expected) < total) and (own is None or used.get(namespace, 0) < own)
            if room:
                expected.append(f"job-{number:02}")
                used[namespace] = used.get(namespace, 0) + 1

        line = lined_up(arrivals)
        assert names(line, total, own) == expected
        for number, (namespace, priority) in enumerate(arrivals):
            place = line.place((namespace, f"job-{number:02}"), priority)
            served = line.served(total, lambda _: own, lambda _: False)
            assert has_turn(place, served, total, own) == (f"job-{number:02}" in expected)


class TestANewArrival:
    def test_new_arrival_does_not_overtake_equals(self) -> None:
        """The free slot belongs to the Backfill that waits; a higher priority gets it at once."""
        line = lined_up([("shop", 0)])
        for priority, expected in ((-1, False), (0, False), (1, True)):
            served = line.served(1, lambda _: None, lambda _: False)
            assert has_turn(line.place(("stock", "new"), priority), served, 1, None) is expected

    def test_slots_of_other_namespaces_do_not_count(self) -> None:
        """The limit of a namespace leaves room in another one."""
        line = lined_up([("shop", 9), ("shop", 9)])
        served = line.served(2, lambda _: 1, lambda _: False)
        assert has_turn(line.place(("stock", "new"), 0), served, 2, 1)
