"""Durable rows by partition are those of the files, whatever the order and the size of commits."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from backfill_core.positions.intervals import IntervalSet
from backfill_core.positions.partitions import SHOWN_MAX, PartitionTally

FILES = st.lists(st.tuples(st.sampled_from([f"day={day}" for day in range(30)]), st.integers(0, 9)), max_size=60)


def counted(files: list[tuple[str, int]], done: set[int]) -> dict[str, tuple[int, int, int, int]]:
    """Return rows done and in all, files done and in all, by partition: counted row by row."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    row = 0
    for name, rows in files:
        mine = [number in done for number in range(row, row + rows)]
        for place, value in enumerate((sum(mine), rows, all(mine), 1)):
            counts[name][place] += value
        row += rows
    return {name: tuple(values) for name, values in counts.items()}


class TestPartitions:
    """The tally counts each row once."""

    @given(files=FILES, data=st.data())
    def test_counts_are_those_of_the_rows_after_each_commit(
        self, files: list[tuple[str, int]], data: st.DataObject
    ) -> None:
        """Two intervals of a commit may meet in one file, and a file may be completed from both ends."""
        offsets = [0, *accumulate(rows for _, rows in files)]
        tally, done, rows_done = PartitionTally([name for name, _ in files], offsets), IntervalSet(), set[int]()

        for commit in data.draw(
            st.lists(st.lists(st.tuples(*[st.integers(0, offsets[-1])] * 2), max_size=3), max_size=5)
        ):
            for start, stop in commit:
                done = done.add(start, stop)
                rows_done |= set(range(start, stop))
            tally.advance(done)
            expected = counted(files, rows_done)
            shown = [row for row in tally.counts if row.name is not None]

            assert {
                row.name: (row.rows_done, row.rows_total, row.files_done, row.files_total) for row in shown
            }.items() <= expected.items()
            for place in range(4):
                total = sum(values[place] for values in expected.values())
                field = ("rows_done", "rows_total", "files_done", "files_total")[place]
                assert sum(getattr(row, field) for row in tally.counts) == total

    def test_the_largest_partitions_are_listed_and_the_rest_is_one_entry(self) -> None:
        """A table may have a hundred thousand partitions, and a status is small."""
        rows = list(range(100, 0, -1))
        names = [f"day={number:03}" for number in range(100)]

        counts = PartitionTally(names, [0, *accumulate(rows)]).counts

        assert [row.name for row in counts] == [*names[:SHOWN_MAX], None]
        assert counts[-1].rows_total == sum(rows[SHOWN_MAX:])
        assert counts[-1].files_total == 80

    def test_a_table_without_partitions_has_none(self) -> None:
        """An entry without a name would be a riddle."""
        tally = PartitionTally((), (0, 5, 9))
        tally.advance(IntervalSet.of([(0, 9)]))

        assert tally.counts == ()
