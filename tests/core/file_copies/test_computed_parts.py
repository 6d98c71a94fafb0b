"""Tests of `backfill_core.file_copies.computed_parts`: rows that are computed together belong to one row group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.file_copies.computed_parts import can_be_joined, fits, rounds, starts

groups = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(tuple)


class TestRowGroups:
    """Row groups are consecutive."""

    @given(groups)
    def test_each_row_is_in_the_last_group_that_starts_before_it(self, group_rows):
        """A reader of the file counts rows like this."""
        firsts = starts(group_rows)
        counted = [sum(first <= row for first in firsts) - 1 for row in range(sum(group_rows))]

        assert counted == [group for group, rows in enumerate(group_rows) for _ in range(rows)]

    @pytest.mark.parametrize(
        ("group_rows", "joined"), [((), False), ((3, 0), False), ((1, 1, 1), True), ((1,) * 4, False)]
    )
    def test_too_many_or_empty_groups_are_not_joined(self, group_rows, joined):
        """No row can identify an empty group."""
        assert can_be_joined(group_rows, 3) is joined


class TestRounds:
    """Rounds have each file once, in its order, with at most as many parts as a job may have."""

    @given(st.lists(groups, max_size=12))
    def test_rounds_have_each_file_once_and_few_jobs(self, files):
        """There are few jobs: no file would have fitted into the previous one."""
        chosen_rounds = list(rounds(files, 6))
        parts = [sum(len(files[at]) for at in chosen) for chosen in chosen_rounds]

        assert [at for chosen in chosen_rounds for at in chosen] == list(range(len(files)))
        assert all(0 < count <= 6 for count in parts)
        assert all(count + len(files[after[0]]) > 6 for count, after in zip(parts, chosen_rounds[1:], strict=False))


class TestAPart:
    """A part is joined if it is one row group of the same rows."""

    @pytest.mark.parametrize(("part", "fitting"), [((5,), True), ((4,), False), ((3, 2), False), ((), False)])
    def test_a_part_is_joined_if_it_has_one_group_of_the_same_rows(self, part, fitting):
        """A part that grew too large has two groups."""
        assert fits(5, part) is fitting
