"""Promises of `backfill_core.transfer.grafting`: rows that are computed together are those of one row group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.transfer.grafting import can_be_joined, fits, rounds, starts

groups = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(tuple)


class TestRowGroups:
    """Lie one behind the other."""

    @given(groups)
    def test_each_row_is_in_the_last_group_that_starts_before_it(self, found):
        """As a reader of the file counts."""
        firsts = starts(found)
        counted = [sum(first <= row for first in firsts) - 1 for row in range(sum(found))]

        assert counted == [group for group, rows in enumerate(found) for _ in range(rows)]

    @pytest.mark.parametrize(("found", "joined"), [((), False), ((3, 0), False), ((1, 1, 1), True), ((1,) * 4, False)])
    def test_that_are_too_many_or_empty_are_not_joined(self, found, joined):
        """An empty one has no row that could tell of it."""
        assert can_be_joined(found, 3) is joined


class TestRounds:
    """Have each file once, in its order, with no more parts than a job may have."""

    @given(st.lists(groups, max_size=12))
    def test_of_any_files(self, files):
        """Few jobs: no file would have fitted into the one before."""
        found = list(rounds(files, 6))
        parts = [sum(len(files[at]) for at in chosen) for chosen in found]

        assert [at for chosen in found for at in chosen] == list(range(len(files)))
        assert all(0 < count <= 6 for count in parts)
        assert all(count + len(files[after[0]]) > 6 for count, after in zip(parts, found[1:], strict=False))


class TestAPart:
    """Is joined where it is one row group of the same rows."""

    @pytest.mark.parametrize(("part", "fitting"), [((5,), True), ((4,), False), ((3, 2), False), ((), False)])
    def test_of_five_rows(self, part, fitting):
        """A part that grew too large has two."""
        assert fits(5, part) is fitting
