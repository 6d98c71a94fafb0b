"""Where a table is cut in the order of a key, and how often its files are read then; without Spark, from what a log says."""

from itertools import pairwise
from random import Random

import pytest

from backfill_core.positions.key_order import KeyColumn, KeyOrder
from backfill_core.positions.vnode_positions import KeySpace
from backfill_spark.delta.statistics.column_bounds import Bounds, OnlyNulls, Unknown
from backfill_spark.sources.delta.key_line import CHUNK_ROWS, line_by_files
from backfill_spark.sources.delta.range_files import ranged_file


def space_of(*columns):
    order = KeyOrder(tuple(KeyColumn(f"c{at}", *one) for at, one in enumerate(columns)))
    return KeySpace(order, ("c0",), 8)


def line_of(space, bounds, rows, *, cut_rows=1):
    """Return the line of files, each with the bounds of its columns; none has nulls."""
    nullable = [False] * len(space.order.columns)
    files = [ranged_file(space.order, one, nullable, "") for one in bounds]
    return line_by_files(space, files, rows, cut_rows=cut_rows)


class TestCuts:
    """Any cuts are right; good ones leave files whole."""

    def test_are_where_files_end(self):
        """In the order, whatever the order of the paths; the last chunk has no end."""
        line = line_of(space_of(("long",)), [[Bounds(10, 19)], [Bounds(0, 9)], [Bounds(20, 29)]], [5, 7, 9])

        assert [(cut.position, cut.rows) for cut in line.cuts] == [((9,), 7), ((19,), 5)]
        assert (line.rows_after, line.read_amplification) == (9, 1.0)

    def test_go_down_where_the_order_does(self):
        """The newest first: a file ends with its smallest value."""
        line = line_of(space_of(("long", True)), [[Bounds(0, 9)], [Bounds(10, 19)]], [5, 7])

        assert [(cut.position, cut.rows) for cut in line.cuts] == [((10,), 7)]

    def test_part_one_tenant_by_time(self):
        """Its first column tells nothing: all of a tenant would be one chunk, and nothing of it there for hours."""
        files = [[Bounds("t", "t"), Bounds(10 * at, 10 * at + 9)] for at in range(4)]
        line = line_of(space_of(("string",), ("long", True)), files, [CHUNK_ROWS] * 4)

        assert [cut.position for cut in line.cuts] == [("t", 30), ("t", 20), ("t", 10)]
        assert line.read_amplification == 1.0

    def test_are_so_many_rows_apart(self):
        """Many small files make no small chunks, nor a line as long as the log."""
        files = [[Bounds(at, at)] for at in range(1000)]
        line = line_of(space_of(("long",)), files, [10] * 1000, cut_rows=95)

        assert {cut.rows for cut in line.cuts} == {100}
        assert sum(cut.rows for cut in line.cuts) + line.rows_after == 10_000

    def test_are_not_told_where_the_log_does_not_say(self):
        """A sample is taken instead."""
        space = space_of(("long", True))

        assert line_of(space, [[Unknown()], [Bounds(1, 2)]], [9, 5]) is None
        assert line_of(space, [[Unknown()], [Bounds(1, 2)]], [4, 5]).rows_after == 4

    def test_of_a_table_without_rows_are_none(self):
        """Its one chunk has no bounds."""
        line = line_of(space_of(("long",)), [], [])

        assert (line.cuts, line.rows_after, line.read_amplification) == ((), 0, 1.0)

    @pytest.mark.parametrize("seed", range(30))
    def test_have_all_rows_between_them(self, seed):
        """Any types of bounds, overlapping or not: ascending, and no row is forgotten in the estimate."""
        rng = Random(seed)
        space = space_of(("long", rng.random() < 0.5), ("long", rng.random() < 0.5))

        def bound():
            low = rng.randrange(20)
            return rng.choice([Bounds(low, low + rng.randrange(5)), OnlyNulls(), Bounds(low, low)])

        files = [[bound(), bound()] for _ in range(rng.randrange(1, 12))]
        rows = [rng.randrange(1, CHUNK_ROWS) for _ in files]
        line = line_of(space, files, rows, cut_rows=rng.choice([1, CHUNK_ROWS]))

        keys = [space.order.sort_key(cut.position) for cut in line.cuts]
        assert all(one < other for one, other in pairwise(keys))
        assert sum(cut.rows for cut in line.cuts) + line.rows_after == sum(rows)
        assert line.read_amplification >= 1.0


class TestReadAmplification:
    """Files that all chunks read together, by the number of files."""

    def test_of_a_scattered_table_is_the_number_of_its_chunks(self):
        """Each chunk reads each file: a user who starts it unaware waits for that many reads of the source."""
        files = [[Bounds(0, 1000 + at)] for at in range(8)]
        line = line_of(space_of(("long",)), files, [CHUNK_ROWS] * 8)

        assert line.read_amplification == pytest.approx((1 + 8 * 9 / 2 - 1) / 8, abs=0.5)
        assert line.read_amplification > 4

    def test_of_a_clustered_table_is_one(self):
        """Whatever the size of its files."""
        for size in (CHUNK_ROWS // 10, 3 * CHUNK_ROWS):
            files = [[Bounds(at * 10, at * 10 + 9)] for at in range(40)]

            assert line_of(space_of(("long",)), files, [size] * 40, cut_rows=50_000).read_amplification == 1.0
