"""Tests of `backfill_core.file_copies.computed_parts`: rows that are computed together belong to one row group."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.file_copies.computed_parts import (
    SPLITS_MAX,
    WHOLE_FILE,
    GroupBytes,
    can_be_joined,
    fits,
    in_order,
    label_of,
    repeats,
    rounds,
    split_bytes,
)

groups = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(tuple)
sizes = st.lists(st.integers(0, 1 << 20), min_size=1, max_size=12)


def places(group_sizes):
    """Return row groups one after the other, after the four bytes with which each Parquet file begins."""
    firsts = accumulate(group_sizes[:-1], initial=4)
    return [GroupBytes(first, size) for first, size in zip(firsts, group_sizes, strict=True)]


class TestSplits:
    """A task reads one split, so it has the rows of one row group."""

    @given(sizes, st.integers(8, 1 << 12))
    def test_each_split_has_at_most_one_row_group(self, group_sizes, footer_bytes):
        """Parquet reads a row group in the split that has its middle byte."""
        there, file_bytes = places(group_sizes), sum(group_sizes) + footer_bytes

        size = split_bytes(there, file_bytes)

        if size is not None:
            splits = [group.middle // size for group in there]
            assert len(set(splits)) == len(there)
            assert len(there) == 1 or file_bytes / size <= SPLITS_MAX

    @given(st.integers(1, 32), st.integers(1 << 16, 1 << 27))
    def test_equal_row_groups_need_few_splits(self, count, group_bytes):
        """Most writers begin a row group after a number of rows or bytes."""
        size = split_bytes(places([group_bytes] * count), count * group_bytes + 2048)

        assert size == WHOLE_FILE if count == 1 else group_bytes / 2 < size <= group_bytes

    @pytest.mark.parametrize("group_sizes", [[1 << 27, 100, 100], [0, 0]], ids=["two small ones", "empty ones"])
    def test_a_file_with_too_many_splits_is_not_split(self, group_sizes):
        """Most of its tasks would read nothing but the footer."""
        assert split_bytes(places(group_sizes), sum(group_sizes) + 2048) is None

    @pytest.mark.parametrize(
        ("group_rows", "joined"), [((), False), ((3, 0), False), ((1, 1, 1), True), ((1,) * 4, False)]
    )
    def test_too_many_or_empty_groups_are_not_joined(self, group_rows, joined):
        """No part is written for an empty group."""
        assert can_be_joined(group_rows, 3) is joined


class TestLabels:
    """A label tells the file and the place of a part."""

    @given(
        st.lists(st.lists(st.integers(0, WHOLE_FILE), min_size=1, max_size=4, unique=True), max_size=4), st.randoms()
    )
    def test_parts_of_each_file_have_the_order_of_its_row_groups(self, firsts_by_file, chance):
        """Spark writes parts in any order."""
        splits = [(file, first) for file, firsts in enumerate(firsts_by_file) for first in firsts]
        chance.shuffle(splits)
        labels = [label_of(file, first) for file, first in splits]

        for file, firsts in enumerate(firsts_by_file):
            ordered = in_order(labels, file, (1,) * len(firsts))
            assert [splits[at] for at in ordered] == [(file, first) for first in sorted(firsts)]

    @pytest.mark.parametrize("firsts", [[0], [0, 8, 16], [0, 0], []], ids=["one less", "one more", "twice", "none"])
    def test_a_file_without_one_part_for_each_row_group_has_no_order(self, firsts):
        """Its splits were not the expected ones, so it is decoded."""
        assert in_order([label_of(3, first) for first in firsts], 3, (5, 5)) is None


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


class TestDistinctValues:
    """They are counted for each row group."""

    @pytest.mark.parametrize(
        ("rows", "distinct", "expected"),
        [
            ((8,), (2,), True),
            ((8,), (3,), False),
            ((8, 8), (1, 3), True),
            ((8, 8), (2, 3), False),
            ((1000,), (1,), True),
        ],
    )
    def test_a_column_is_computed_for_them_if_each_has_four_rows(self, rows, distinct, expected):
        """On average, over all row groups."""
        assert repeats(rows, distinct) is expected
