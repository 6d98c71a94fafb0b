"""Positions of vnodes as runs, against the list that they stand for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.positions.key_order import KeyColumn, KeyOrder
from backfill_core.positions.vnode_positions import Completed, NotStarted, Reached, UpTo, VnodePositions

ORDER = KeyOrder((KeyColumn("id", "long"),))
VNODES = 12
reached = st.one_of(st.just(NotStarted()), st.just(Completed()), st.integers(0, 3).map(lambda at: UpTo((at,))))
spans = st.tuples(st.integers(0, VNODES), st.integers(0, VNODES)).map(lambda pair: (min(pair), max(pair)))


def each(one: VnodePositions) -> list[Reached]:
    return [where for count, where in one.runs for _ in range(count)]


class TestRuns:
    """The state of a job has a bound, whatever the number of vnodes."""

    @given(st.lists(reached, min_size=VNODES, max_size=VNODES), st.lists(spans, max_size=3), reached)
    def test_move_as_a_list_does(self, before: list[Reached], moved: list[tuple[int, int]], to: Reached) -> None:
        """R-ARR-39: vnodes keep their own value; those of the spans get the new one."""
        disjoint = [
            span for at, span in enumerate(moved) if all(span[0] >= one[1] or span[1] <= one[0] for one in moved[:at])
        ]
        after = [to if any(first <= at < stop for first, stop in disjoint) else one for at, one in enumerate(before)]

        assert each(VnodePositions.of(before).moved(disjoint, to)) == after
        assert VnodePositions.of(before).moved(disjoint, to) == VnodePositions.of(after)

    def test_move_in_time_with_their_number(self) -> None:
        """A state may hold as many runs as there are vnodes; each look at a job moves them, so no run may cost a look at all spans."""
        vnodes = 32_768
        before = VnodePositions.of([NotStarted(), Completed()] * (vnodes // 2))

        after = before.moved(((at, at + 1) for at in range(0, vnodes, 2)), Completed())

        assert after.runs == ((vnodes, Completed()),)

    @given(st.lists(reached, min_size=1, max_size=VNODES))
    def test_are_read_as_they_were(self, given: list[Reached]) -> None:
        """Through JSON text."""
        one = VnodePositions.of(given)

        assert VnodePositions.from_json(json.loads(json.dumps(one.to_json(ORDER))), ORDER) == one

    @given(st.lists(reached, min_size=1, max_size=VNODES))
    def test_say_who_is_how_far(self, given: list[Reached]) -> None:
        """Groups cover each vnode once."""
        found = [(at, one) for one, spans in VnodePositions.of(given).groups().items() for first, stop in spans
                 for at in range(first, stop)]  # fmt: skip

        assert sorted(found, key=lambda pair: pair[0]) == list(enumerate(given))

    @pytest.mark.parametrize("value", [None, [], [[0]], [[3, "Done"]], [["x"]], [[3, [1], 2]], [[3, ["a"]]]])
    def test_that_are_damaged_are_refused(self, value: Any) -> None:
        """A position that is not one would skip rows."""
        with pytest.raises(ValueError, match=r"not|no "):
            VnodePositions.from_json(value, ORDER)

    def test_of_equal_vnodes_are_one(self) -> None:
        """A job that has only begun stores one pair, and one that is complete too."""
        assert VnodePositions.at_start(32768).to_json(ORDER) == [[32768]]
        assert VnodePositions.of([Completed()] * 256).to_json(ORDER) == [[256, "Completed"]]
