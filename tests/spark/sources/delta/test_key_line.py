"""Cuts of a table in the order of a key, and its read amplification. Both follow from the log, without Spark."""

from itertools import pairwise
from random import Random

import pytest

from backfill_core.positions.key_order import KeyColumn, KeyOrder
from backfill_core.positions.vnode_positions import KeySpace
from backfill_spark.delta.statistics.column_bounds import Bounds, OnlyNulls, Unknown
from backfill_spark.sources.delta.key_scan import CHUNK_ROWS, line_by_files
from backfill_spark.sources.delta.range_files import ranged_file


def space_of(*columns):
    order = KeyOrder(tuple(KeyColumn(f"c{at}", *kind) for at, kind in enumerate(columns)))
    return KeySpace(order, ("c0",), 8)


def line_of(space, bounds, rows, *, cut_rows=1):
    """Return the line of files, each with the bounds of its columns; none has nulls."""
    nullable = [False] * len(space.order.columns)
    files = [ranged_file(space.order, columns, nullable, "") for columns in bounds]
    return line_by_files(space, files, rows, cut_rows=cut_rows)


class TestCuts:
    """Any cuts are right; good ones leave files whole."""

    def test_cuts_are_at_the_ends_of_files(self):
        """They follow the order of the key and not of the paths. The last chunk has no end."""
        line = line_of(space_of(("long",)), [[Bounds(10, 19)], [Bounds(0, 9)], [Bounds(20, 29)]], [5, 7, 9])

        assert [(cut.position, cut.rows) for cut in line.cuts] == [((9,), 7), ((19,), 5)]
        assert (line.rows_after, line.read_amplification) == (9, 1.0)

    def test_cuts_descend_with_the_order(self):
        """A file ends with its smallest value if the newest rows come first."""
        line = line_of(space_of(("long", True)), [[Bounds(0, 9)], [Bounds(10, 19)]], [5, 7])

        assert [(cut.position, cut.rows) for cut in line.cuts] == [((10,), 7)]

    def test_cuts_divide_one_tenant_by_time(self):
        """The first column is equal in all files: without the second one, a tenant would be one chunk of hours."""
        files = [[Bounds("t", "t"), Bounds(10 * at, 10 * at + 9)] for at in range(4)]
        line = line_of(space_of(("string",), ("long", True)), files, [CHUNK_ROWS] * 4)

        assert [cut.position for cut in line.cuts] == [("t", 30), ("t", 20), ("t", 10)]
        assert line.read_amplification == 1.0

    def test_cuts_have_a_minimal_distance_in_rows(self):
        """Many small files make no small chunks, and no line as long as the log."""
        files = [[Bounds(at, at)] for at in range(1000)]
        line = line_of(space_of(("long",)), files, [10] * 1000, cut_rows=95)

        assert {cut.rows for cut in line.cuts} == {100}
        assert sum(cut.rows for cut in line.cuts) + line.rows_after == 10_000

    def test_no_cuts_follow_from_incomplete_statistics(self):
        """A sample is taken instead."""
        space = space_of(("long", True))

        assert line_of(space, [[Unknown()], [Bounds(1, 2)]], [9, 5]) is None
        assert line_of(space, [[Unknown()], [Bounds(1, 2)]], [4, 5]).rows_after == 4

    def test_a_table_without_rows_has_no_cuts(self):
        """Its one chunk has no bounds."""
        line = line_of(space_of(("long",)), [], [])

        assert (line.cuts, line.rows_after, line.read_amplification) == ((), 0, 1.0)

    @pytest.mark.parametrize("seed", range(30))
    def test_cuts_have_all_rows_between_them(self, seed):
        """For any bounds, overlapping or not, cuts ascend, and the estimate includes all rows."""
        rng = Random(seed)
        space = space_of(("long", rng.random() < 0.5), ("long", rng.random() < 0.5))

        def bound():
            low = rng.randrange(20)
            return rng.choice([Bounds(low, low + rng.randrange(5)), OnlyNulls(), Bounds(low, low)])

        files = [[bound(), bound()] for _ in range(rng.randrange(1, 12))]
        rows = [rng.randrange(1, CHUNK_ROWS) for _ in files]
        line = line_of(space, files, rows, cut_rows=rng.choice([1, CHUNK_ROWS]))

        keys = [space.order.sort_key(cut.position) for cut in line.cuts]
        assert all(earlier < later for earlier, later in pairwise(keys))
        assert sum(cut.rows for cut in line.cuts) + line.rows_after == sum(rows)
        assert line.read_amplification >= 1.0


class TestReadAmplification:
    """Read amplification is the number of files that all chunks read, divided by the number of files."""

    def test_the_amplification_of_a_scattered_table_is_the_number_of_its_chunks(self):
        """Each chunk reads each file. A user who does not know that waits for as many reads of the source."""
        files = [[Bounds(0, 1000 + at)] for at in range(8)]
        line = line_of(space_of(("long",)), files, [CHUNK_ROWS] * 8)

        assert line.read_amplification == pytest.approx((1 + 8 * 9 / 2 - 1) / 8, abs=0.5)
        assert line.read_amplification > 4

    def test_the_amplification_of_a_clustered_table_is_one(self):
        """The size of its files does not matter."""
        for size in (CHUNK_ROWS // 10, 3 * CHUNK_ROWS):
            files = [[Bounds(at * 10, at * 10 + 9)] for at in range(40)]

            assert line_of(space_of(("long",)), files, [size] * 40, cut_rows=50_000).read_amplification == 1.0
