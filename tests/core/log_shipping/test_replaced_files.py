"""Files that a repair replaces: after it, each source file has one fitting copy, and no other file exists."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.log_shipping.actions import DeletionVector, FileAdded
from backfill_core.log_shipping.replaced_files import ExpectedCopy, replaced_copies, replaced_in_replica
from backfill_core.log_shipping.target_files import TargetFile
from backfill_core.positions.source_names import RowOrder, name_of

SOURCES = ("a.parquet", "b.parquet", "c.parquet")
HIDES, HIDES_MORE = (DeletionVector("u", f"{rows:020d}", 1, 40, rows) for rows in (3, 4))


def source(path, vector=None):
    """Return a source file that the target must have."""
    return ExpectedCopy(FileAdded(path, 10, 9, True, vector, "{}"), {"part": "1"})


def copy(path, suffix="0", order=RowOrder.KEPT, vector=None, part="1"):
    """Return a copy of a source file in the target."""
    return TargetFile(f"staged/{name_of(path, order, suffix)}", vector, "{}", 10, {"part": part})


def copied(step):
    """Return the paths of the source files that are copied again."""
    return [file.file.path for file in step.copies]


def removed(step):
    """Return the files that are removed."""
    return [gone.file for gone in step.removals]


class TestAReplica:
    """Every file of a replica is made from a file of its source."""

    @pytest.mark.parametrize(
        "group",
        [
            [],
            [copy("a.parquet", part="2")],
            [copy("a.parquet", vector=HIDES_MORE)],
            [copy("a.parquet"), copy("a.parquet", "1")],
            [copy("a.parquet"), copy("a.parquet", order=RowOrder.LOST)],
            [copy("a.parquet", order=RowOrder.LOST, vector=HIDES)],
        ],
        ids=["missing", "partition", "vector", "twice", "mixed", "decoded with a vector"],
    )
    def test_a_source_file_without_one_fitting_copy_is_copied_again(self, group):
        """Readers would see too few or too many of its rows."""
        step = replaced_in_replica([source("a.parquet"), source("b.parquet")], [*group, copy("b.parquet")], ())

        assert (copied(step), removed(step)) == (["a.parquet"], group)

    @pytest.mark.parametrize("order", RowOrder)
    def test_a_source_file_with_differing_rows_is_copied_again(self, order):
        """Its copy lacks rows, and no log entry shows it."""
        group = [copy("a.parquet", order=order), copy("b.parquet", order=order)]
        differs = replace(source("a.parquet"), has_differing_rows=True)

        step = replaced_in_replica([differs, source("b.parquet")], group, ())

        assert (copied(step), removed(step)) == (["a.parquet"], group[:1])

    @pytest.mark.parametrize(
        ("vector", "group"),
        [
            (None, [copy("a.parquet")]),
            (HIDES, [copy("a.parquet", vector=HIDES)]),
            (HIDES, [copy("a.parquet", order=RowOrder.LOST), copy("a.parquet", "1", order=RowOrder.LOST)]),
        ],
        ids=["whole", "with a vector", "decoded"],
    )
    def test_a_fitting_copy_stays_unless_the_receipt_names_it(self, vector, group):
        """Only reading shows that its bytes are damaged."""
        kept = replaced_in_replica([source("a.parquet", vector)], group, ())
        named = replaced_in_replica([source("a.parquet", vector)], group, {group[-1].path})

        assert (copied(kept), removed(kept)) == ([], [])
        assert (copied(named), removed(named)) == (["a.parquet"], group)

    @pytest.mark.parametrize(("hides", "fits"), [(None, False), (HIDES, False), (HIDES_MORE, True)])
    def test_a_copy_that_hides_filtered_rows_fits_by_their_number(self, hides, fits):
        """Its vector is not the source's. Hidden rows are missing, and rows that are not hidden are too many."""
        expected = replace(source("a.parquet", HIDES), hidden=HIDES_MORE.rows)

        step = replaced_in_replica([expected], [copy("a.parquet", vector=hides)], ())
        more = replaced_in_replica([replace(expected, hidden=2)], [copy("a.parquet", vector=hides)], ())

        assert (copied(step) == [], copied(more)) == (fits, ["a.parquet"])

    def test_files_of_other_writers_and_of_removed_source_files_are_removed(self):
        """The source has none of their rows."""
        foreign = TargetFile("part-0.parquet", None, "{}")
        old = copy("gone.parquet")

        step = replaced_in_replica([source("a.parquet")], [foreign, copy("a.parquet"), old], ())

        assert (copied(step), removed(step)) == ([], [foreign, old])

    @given(
        st.lists(
            st.tuples(st.sampled_from((*SOURCES, "gone.parquet")), st.sampled_from("01"), st.sampled_from(RowOrder))
        )
    )
    def test_after_the_step_each_source_file_has_its_rows_once(self, held):
        """A second repair finds nothing to do."""
        target = list(
            {file.path: file for file in (copy(path, suffix, order) for path, suffix, order in held)}.values()
        )

        step = replaced_in_replica(map(source, SOURCES), target, ())
        left = [file for file in target if file not in removed(step)]
        after = [*left, *(copy(path, "new") for path in copied(step))]

        again = replaced_in_replica(map(source, SOURCES), after, ())
        assert (copied(again), removed(again)) == ([], [])


class TestAnotherTarget:
    """Its rows are repaired one by one, so only whole copies with damaged bytes are copied again."""

    def test_only_damaged_whole_copies_are_replaced(self):
        """The others have rows that the repair of rows compares."""
        damaged, fits = copy("a.parquet"), copy("b.parquet")
        decoded, foreign = copy("c.parquet", order=RowOrder.LOST), TargetFile("part-0.parquet", None, "{}")
        names = {damaged.path, decoded.path, foreign.path}

        step = replaced_copies(map(source, SOURCES), [damaged, fits, decoded, foreign], names)

        assert (copied(step), removed(step)) == (["a.parquet"], [damaged])
