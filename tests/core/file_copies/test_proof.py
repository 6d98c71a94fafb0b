"""Tests of the proof by bytes: the files that it covers, the files that it leaves to rows, and the names of
differences."""

from dataclasses import replace

import pytest

from backfill_core.file_copies.copy_digest import TAG, CopyDigest, statistics_digest
from backfill_core.file_copies.proof import (
    Damaged,
    HidesOthers,
    LoggedCopy,
    LoggedTargetFile,
    Same,
    paired,
    proven,
    verdict,
)
from backfill_core.log_shipping.actions import DeletionVector
from backfill_core.positions.source_names import RowOrder, name_of
from backfill_core.protocol.receipt import FileDifference

STATISTICS = '{"numRecords":10,"minValues":{"id":1}}'
VECTOR = DeletionVector("u", "ab" + "x" * 20, 1, 34, 2)
INLINE = DeletionVector("i", "inline", None, 34, 2)
DIGEST = CopyDigest("0a0b0c0d", statistics_digest(STATISTICS))


def source_file(path="part-1.parquet", **others):
    """Return a file of the source."""
    return replace(LoggedCopy(path, 100, 10, {"p": "1"}, None), **others)


def copy(of="part-1.parquet", order=RowOrder.KEPT, suffix="0", **others):
    """Return the copy of a source file."""
    path = f"backfill/a1/s1/{name_of(of, order, suffix)}"
    return replace(LoggedTargetFile(path, 100, 10, {"p": "1"}, statistics_digest(STATISTICS), None, DIGEST), **others)


class TestAPair:
    """Two files whose entries match are compared by bytes; other files are left to rows and named."""

    def test_matching_entries_make_a_pair(self):
        """There is nothing to report."""
        pairing = paired([source_file()], [copy()])

        assert [(pair.source, pair.target) for pair in pairing.pairs] == [(source_file(), copy())]
        assert (pairing.wrong, pairing.wrong_pairs, pairing.notes) == ((), (), ())

    @pytest.mark.parametrize(
        ("vector", "failing", "stored"),
        [(None, 3, 3), (VECTOR, 3, 5), (VECTOR, 0, 2)],
        ids=["filter", "both", "source"],
    )
    def test_a_copy_hides_the_rows_of_the_source_and_those_that_fail_the_filter(self, vector, failing, stored):
        """Its vector is read whenever the filter adds rows, and its visible rows are counted without all of these."""
        expected = source_file(vector=vector, failing=failing)
        fits = copy(vector=replace(VECTOR, place="cd" + "y" * 20, rows=stored))
        (pair,) = paired([expected], [fits]).pairs
        others = [replace(fits, vector=replace(VECTOR, rows=stored - 1)), replace(fits, vector=None)]

        assert pair.vectors_are_read
        assert proven(paired([expected], [fits]), [Same()]).rows == expected.live_rows == 10 - stored
        assert [paired([expected], [other]).pairs for other in others] == [(), ()]

    @pytest.mark.parametrize(
        "other",
        [
            copy(digest=None),
            copy(order=RowOrder.LOST),
            copy(of="part-2.parquet"),
            replace(copy(), path="part-1.parquet"),
        ],
    )
    def test_files_without_a_digest_are_left_to_rows(self, other):
        """An older release copied these files, they were decoded, or another engine wrote them."""
        pairing = paired([source_file()], [other])

        assert (pairing.pairs, pairing.wrong, pairing.wrong_pairs) == ((), (), ())

    @pytest.mark.parametrize(
        ("logged", "copied", "message"),
        [
            (source_file(), copy(partition={"p": "2"}), "partition value p is '2', and that of the source '1'"),
            (source_file(), copy(partition={}), "partition value p is None"),
            (source_file(), copy(vector=VECTOR), "hides 2 rows, and that of the source 0"),
            (source_file(vector=VECTOR), copy(), "hides 0 rows, and that of the source 2"),
            (source_file(vector=VECTOR), copy(vector=replace(VECTOR, rows=3)), "hides 3 rows"),
            (source_file(), copy(statistics=statistics_digest('{"numRecords":10,"minValues":{"id":2}}')), "statistics"),
        ],
    )
    def test_another_entry_is_left_to_rows_and_named(self, logged, copied, message):
        """The rows decide; where they differ, the file is named."""
        pairing = paired([logged], [copied])

        assert (pairing.pairs, pairing.wrong_pairs) == ((), ())
        (note,) = pairing.notes
        assert note.path == copied.path
        assert message in note.what

    @pytest.mark.parametrize(
        ("other", "message"), [({"bytes": 99}, "99 bytes"), ({"rows": 9}, "9 rows"), ({"rows": None}, "no number")]
    )
    def test_another_count_is_wrong_for_any_rows(self, other, message):
        """Engines answer a count from the log."""
        pairing = paired([source_file()], [copy(**other)])

        assert pairing.pairs == ()
        assert [message in wrong.what for wrong in pairing.wrong] == [True]
        assert len(pairing.wrong_pairs) == 1

    def test_null_and_an_empty_string_are_two_partition_values(self):
        """Readers distinguish them (fault B4): the rows decide, and the file is named."""
        for logged, copied in ((None, ""), ("", None)):
            pairing = paired([source_file(partition={"p": logged})], [copy(partition={"p": copied})])

            assert not pairing.pairs
            assert f"its partition value p is {copied!r}" in pairing.notes[0].what
        assert paired([source_file(partition={"p": ""})], [copy(partition={"p": ""})]).pairs

    def test_statistics_are_compared_with_those_that_the_job_wrote(self):
        """A file with a new vector gets a digest with its statistics; a difference in tight bounds does not count."""
        statistics = '{"tightBounds": false, "numRecords": 10}'
        given = replace(DIGEST, statistics=statistics_digest('{"numRecords":10}'))

        assert paired([source_file()], [copy(statistics=statistics_digest(statistics), digest=given)]).pairs
        assert not paired([source_file()], [copy(statistics=statistics_digest(statistics))]).pairs

    def test_files_with_other_statistics_are_doubtful(self):
        """Readers skip files by statistics, so the values of the file decide."""
        other = copy(statistics=statistics_digest('{"numRecords":10,"maxValues":{"id":2}}'))

        assert paired([source_file()], [other]).doubtful == (other,)
        assert paired([source_file()], [copy()]).doubtful == ()

    def test_a_decoded_file_is_not_named_as_missing(self):
        """The file itself may require decoding, for example because it has a dropped column; no log shows that."""
        assert paired([source_file()], [copy(order=RowOrder.LOST)]).notes == ()

    def test_a_missing_and_a_duplicate_file_are_named(self):
        """The receipt names the files once rows differ."""
        twice = [copy(suffix="1", partition={}), copy()]

        pairing = paired([source_file(), source_file("lost.parquet")], twice)

        assert [pair.target for pair in pairing.pairs] == [copy()]
        assert proven(pairing, [Same()]).target_ids == {copy().id}
        assert [(note.path, note.what) for note in pairing.notes] == [
            (twice[0].path, "part-1.parquet of the source was copied more than once"),
            ("lost.parquet", "the target has no copy of this file of the source"),
        ]

    def test_a_path_with_two_vectors_has_one_copy(self):
        """A log may contain it twice; one of them is the copy."""
        both = [copy(vector=VECTOR), copy()]

        pairing = paired([source_file(vector=VECTOR)], both)

        assert [pair.target.vector for pair in pairing.pairs] == [VECTOR]
        proof = proven(pairing, [Same()])
        assert proof.target_ids == {both[0].id}

    @pytest.mark.parametrize(
        ("logged", "copied", "reads"),
        [(None, None, False), (INLINE, INLINE, False), (VECTOR, VECTOR, True), (INLINE, VECTOR, True)],
    )
    def test_vectors_are_read_unless_the_log_has_them(self, logged, copied, reads):
        """A file may have changed under its name."""
        (pair,) = paired([source_file(vector=logged)], [copy(vector=copied)]).pairs

        assert pair.vectors_are_read == reads


class TestWhatIsProven:
    """The proof depends on the bytes that were read back."""

    @pytest.fixture
    def pairing(self):
        """Two pairs, and one whose count is wrong."""
        names = ("a", "b", "c")
        files = [copy(of=name) for name in names[:2]] + [copy(of="c", rows=9)]
        return paired([source_file(name, vector=None) for name in names], files)

    def test_size_and_digest_are_both_compared(self, pairing):
        """Either difference proves damage."""
        pair = pairing.pairs[0]

        assert verdict(pair, read_bytes=100, read_digest="0a0b0c0d") == Same()
        assert isinstance(verdict(pair, read_bytes=99, read_digest="0a0b0c0d"), Damaged)
        assert isinstance(verdict(pair, read_bytes=100, read_digest="0a0b0c0e"), Damaged)

    def test_a_damaged_file_is_not_read_as_rows(self, pairing):
        """A damaged file would end the job with an error about Parquet."""
        proof = proven(pairing, [Same(), Damaged("bits")])

        assert (proof.files, proof.rows, proof.source_paths) == (1, 30, {"a", "b", "c"})
        assert [wrong.what.split(",")[0] for wrong in proof.wrong] == ["its log entry has 9 rows", "bits"]

    def test_other_hidden_rows_are_left_to_rows(self, pairing):
        """The vector hides the same number of rows, but other rows."""
        proof = proven(pairing, [HidesOthers(), Same()])

        assert (proof.source_paths, len(proof.notes)) == ({"b", "c"}, 1)

    def test_a_repair_copies_exactly_the_files_again_whose_rows_were_not_compared(self, pairing):
        """A file that was compared by rows would get its missing rows twice."""
        others, damaged = (proven(pairing, [judged, Same()]) for judged in (HidesOthers(), Damaged("bits")))
        first, second = (pair.target for pair in pairing.pairs)
        counted = pairing.wrong[0].path
        stated = replace(others, wrong=(*others.wrong, FileDifference(first.path, "its statistics")))

        assert others.wrong_copies == stated.wrong_copies == {counted}
        assert damaged.wrong_copies == {first.path, counted}
        assert others.same_ids == damaged.same_ids == {second.id}

    def test_the_digest_identifies_the_proven_files(self, pairing):
        """Another set of files has another digest; an empty set has none."""
        digests = {
            proven(pairing, list(each)).digest for each in ((Same(), Same()), (Same(), Damaged("")), (Damaged(""),) * 2)
        }

        assert len(digests) == 3
        assert "" in digests


class TestTheTag:
    """The tag holds the digests in the log."""

    def test_the_tag_survives_a_round_trip(self):
        """This release wrote it."""
        assert CopyDigest.of_tags(DIGEST.tags) == DIGEST

    @pytest.mark.parametrize(
        "tags", [None, {}, {TAG: None}, {TAG: ""}, {TAG: "md5:1:2"}, {TAG: "crc32c:1"}, {"other": "x"}]
    )
    def test_an_unknown_tag_is_no_digest(self, tags):
        """A later release may write another form: then rows are compared."""
        assert CopyDigest.of_tags(tags) is None

    def test_statistics_are_compared_by_their_values(self):
        """Engines write the same statistics in another order; numbers beyond 2^53 and their last digits count."""
        logged = '{"numRecords":3,"minValues":{"a":0.10,"b":9007199254740993},"tightBounds":true}'

        assert statistics_digest(logged) == statistics_digest(
            '{"minValues": {"b": 9007199254740993, "a": 0.10}, "numRecords": 3, "tightBounds": false}'
        )
        assert statistics_digest(logged) != statistics_digest(logged.replace("0993", "0992"))
        assert statistics_digest(None) == statistics_digest("{}")
