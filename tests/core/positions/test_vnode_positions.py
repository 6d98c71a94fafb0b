"""Positions of vnodes as runs, against the list that they represent."""

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


def each(positions: VnodePositions) -> list[Reached]:
    return [where for count, where in positions.runs for _ in range(count)]


class TestRuns:
    """The state of a job has a bound for any number of vnodes."""

    @given(st.lists(reached, min_size=VNODES, max_size=VNODES), st.lists(spans, max_size=3), reached)
    def test_runs_move_like_a_list(self, before: list[Reached], moved: list[tuple[int, int]], to: Reached) -> None:
        """R-ARR-39: vnodes keep their position; vnodes in the spans get the new one."""
        disjoint = [
            span
            for at, span in enumerate(moved)
            if all(span[0] >= earlier[1] or span[1] <= earlier[0] for earlier in moved[:at])
        ]
        after = [
            to if any(first <= at < stop for first, stop in disjoint) else position
            for at, position in enumerate(before)
        ]

        assert each(VnodePositions.of(before).moved(disjoint, to)) == after
        assert VnodePositions.of(before).moved(disjoint, to) == VnodePositions.of(after)

    def test_runs_move_in_time_proportional_to_their_number(self) -> None:
        """A state may have as many runs as vnodes, and each poll moves them, so no run may cost a pass over all spans."""
        vnodes = 32_768
        before = VnodePositions.of([NotStarted(), Completed()] * (vnodes // 2))

        after = before.moved(((at, at + 1) for at in range(0, vnodes, 2)), Completed())

        assert after.runs == ((vnodes, Completed()),)

    @given(st.lists(reached, min_size=1, max_size=VNODES))
    def test_runs_survive_a_round_trip(self, given: list[Reached]) -> None:
        """The round trip goes through JSON."""
        positions = VnodePositions.of(given)

        assert VnodePositions.from_json(json.loads(json.dumps(positions.to_json(ORDER))), ORDER) == positions

    @given(st.lists(reached, min_size=1, max_size=VNODES))
    def test_groups_show_the_position_of_each_vnode(self, given: list[Reached]) -> None:
        """Groups cover each vnode once."""
        pairs = [(at, position) for position, spans in VnodePositions.of(given).groups().items() for first, stop in spans
                 for at in range(first, stop)]  # fmt: skip

        assert sorted(pairs, key=lambda pair: pair[0]) == list(enumerate(given))

    @pytest.mark.parametrize("value", [None, [], [[0]], [[3, "Done"]], [["x"]], [[3, [1], 2]], [[3, ["a"]]]])
    def test_damaged_runs_are_refused(self, value: Any) -> None:
        """A false position would skip rows."""
        with pytest.raises(ValueError, match=r"not|no "):
            VnodePositions.from_json(value, ORDER)

    def test_equal_vnodes_are_stored_as_one_run(self) -> None:
        """A job that has just begun and a complete job each store one pair."""
        assert VnodePositions.at_start(32768).to_json(ORDER) == [[32768]]
        assert VnodePositions.of([Completed()] * 256).to_json(ORDER) == [[256, "Completed"]]
