"""Promises of the proof by bytes: which files it speaks of, which it leaves to rows, and how it names what differs."""

from dataclasses import replace

import pytest

from backfill_core.log_shipping.actions import DeletionVector
from backfill_core.positions.source_names import RowOrder, name_of
from backfill_core.transfer.copy_digest import TAG, CopyDigest, statistics_digest
from backfill_core.transfer.proof import (
    Damaged,
    HidesOthers,
    LoggedCopy,
    LoggedTargetFile,
    Same,
    paired,
    proven,
    verdict,
)

STATISTICS = '{"numRecords":10,"minValues":{"id":1}}'
VECTOR = DeletionVector("u", "ab" + "x" * 20, 1, 34, 2)
INLINE = DeletionVector("i", "inline", None, 34, 2)
DIGEST = CopyDigest("0a0b0c0d", statistics_digest(STATISTICS))


def wanted(path="part-1.parquet", **others):
    """Return a file of the source."""
    return replace(LoggedCopy(path, 100, 10, {"p": "1"}, None), **others)


def copy(of="part-1.parquet", order=RowOrder.KEPT, suffix="0", **others):
    """Return its copy."""
    path = f"backfill/a1/s1/{name_of(of, order, suffix)}"
    return replace(LoggedTargetFile(path, 100, 10, {"p": "1"}, STATISTICS, None, DIGEST), **others)


class TestAPair:
    """Two files whose entries fit are compared by bytes; what does not fit is left to rows, and is named."""

    def test_entries_fit(self):
        """Nothing is to be said."""
        found = paired([wanted()], [copy()])

        assert [(one.source, one.target) for one in found.pairs] == [(wanted(), copy())]
        assert (found.wrong, found.wrong_pairs, found.notes) == ((), (), ())

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
        """An older release copied them, they were decoded, or another engine wrote them."""
        found = paired([wanted()], [other])

        assert (found.pairs, found.wrong, found.wrong_pairs) == ((), (), ())

    @pytest.mark.parametrize(
        ("mine", "theirs", "words"),
        [
            (wanted(), copy(partition={"p": "2"}), "partition value p is '2', and that of the source '1'"),
            (wanted(), copy(partition={}), "partition value p is None"),
            (wanted(), copy(vector=VECTOR), "hides 2 rows, and that of the source 0"),
            (wanted(vector=VECTOR), copy(), "hides 0 rows, and that of the source 2"),
            (wanted(vector=VECTOR), copy(vector=replace(VECTOR, rows=3)), "hides 3 rows"),
            (wanted(), copy(statistics='{"numRecords":10,"minValues":{"id":2}}'), "statistics"),
        ],
    )
    def test_another_entry(self, mine, theirs, words):
        """Rows decide; where they differ, the file is named."""
        found = paired([mine], [theirs])

        assert (found.pairs, found.wrong_pairs) == ((), ())
        (note,) = found.notes
        assert note.path == theirs.path
        assert words in note.what

    @pytest.mark.parametrize(
        ("other", "words"), [({"bytes": 99}, "99 bytes"), ({"rows": 9}, "9 rows"), ({"rows": None}, "no number")]
    )
    def test_another_count_is_wrong_whatever_rows_say(self, other, words):
        """Engines answer a count from the log."""
        found = paired([wanted()], [copy(**other)])

        assert found.pairs == ()
        assert [words in one.what for one in found.wrong] == [True]
        assert len(found.wrong_pairs) == 1

    def test_null_and_an_empty_text_are_two_partition_values(self):
        """Readers tell them apart (fault B4): rows decide, and the file is named."""
        for mine, theirs in ((None, ""), ("", None)):
            found = paired([wanted(partition={"p": mine})], [copy(partition={"p": theirs})])

            assert not found.pairs
            assert f"its partition value p is {theirs!r}" in found.notes[0].what
        assert paired([wanted(partition={"p": ""})], [copy(partition={"p": ""})]).pairs

    def test_statistics_are_those_that_the_job_gave_it(self):
        """A file that gets another vector gets a digest with them; whether bounds are tight is no difference."""
        theirs = '{"tightBounds": false, "numRecords": 10}'
        given = replace(DIGEST, statistics=statistics_digest('{"numRecords":10}'))

        assert paired([wanted()], [copy(statistics=theirs, digest=given)]).pairs
        assert not paired([wanted()], [copy(statistics=theirs)]).pairs

    def test_other_statistics_are_doubtful(self):
        """Readers skip files by them, so the values of the file decide."""
        other = copy(statistics='{"numRecords":10,"maxValues":{"id":2}}')

        assert paired([wanted()], [other]).doubtful == (other,)
        assert paired([wanted()], [copy()]).doubtful == ()

    def test_a_lost_and_a_doubled_file_are_named(self):
        """The receipt says which, once rows differ."""
        twice = [copy(suffix="1", partition={}), copy()]

        found = paired([wanted(), wanted("lost.parquet")], twice)

        assert [one.target for one in found.pairs] == [copy()]
        assert proven(found, [Same()]).target_ids == {copy().id}
        assert [(one.path, one.what) for one in found.notes] == [
            (twice[0].path, "part-1.parquet of the source was copied more than once"),
            ("lost.parquet", "the target has no copy of this file of the source"),
        ]

    def test_one_path_under_two_vectors(self):
        """A log may name it twice; one of them is the copy."""
        both = [copy(vector=VECTOR), copy()]

        found = paired([wanted(vector=VECTOR)], both)

        assert [one.target.vector for one in found.pairs] == [VECTOR]
        known = proven(found, [Same()])
        assert known.target_ids == {both[0].id}

    @pytest.mark.parametrize(
        ("mine", "theirs", "reads"),
        [(None, None, False), (INLINE, INLINE, False), (VECTOR, VECTOR, True), (INLINE, VECTOR, True)],
    )
    def test_vectors_are_read_unless_the_log_has_them(self, mine, theirs, reads):
        """A file may have changed under its name."""
        (pair,) = paired([wanted(vector=mine)], [copy(vector=theirs)]).pairs

        assert pair.vectors_are_read == reads


class TestWhatIsProven:
    """Follows from what was read back."""

    @pytest.fixture
    def pairing(self):
        """Two pairs, and one whose count is wrong."""
        names = ("a", "b", "c")
        files = [copy(of=name) for name in names[:2]] + [copy(of="c", rows=9)]
        return paired([wanted(name, vector=None) for name in names], files)

    def test_bytes(self, pairing):
        """Size and digest are both looked at."""
        pair = pairing.pairs[0]

        assert verdict(pair, read_bytes=100, read_digest="0a0b0c0d") == Same()
        assert isinstance(verdict(pair, read_bytes=99, read_digest="0a0b0c0d"), Damaged)
        assert isinstance(verdict(pair, read_bytes=100, read_digest="0a0b0c0e"), Damaged)

    def test_what_is_wrong_is_not_read_as_rows_either(self, pairing):
        """A damaged file would end the job with words about Parquet."""
        known = proven(pairing, [Same(), Damaged("bits")])

        assert (known.files, known.rows, known.source_paths) == (1, 30, {"a", "b", "c"})
        assert [one.what.split(",")[0] for one in known.wrong] == ["its log entry has 9 rows", "bits"]

    def test_other_hidden_rows_are_left_to_rows(self, pairing):
        """Of as many rows, others."""
        known = proven(pairing, [HidesOthers(), Same()])

        assert (known.source_paths, len(known.notes)) == ({"b", "c"}, 1)

    def test_the_digest_tells_what_was_proven(self, pairing):
        """Another set of files has another one; nothing has none."""
        found = {
            proven(pairing, list(each)).digest for each in ((Same(), Same()), (Same(), Damaged("")), (Damaged(""),) * 2)
        }

        assert len(found) == 3
        assert "" in found


class TestTheTag:
    """Holds the digests in the log."""

    def test_is_read_as_it_was_written(self):
        """By this release."""
        assert CopyDigest.of_tags(DIGEST.tags) == DIGEST

    @pytest.mark.parametrize(
        "tags", [None, {}, {TAG: None}, {TAG: ""}, {TAG: "md5:1:2"}, {TAG: "crc32c:1"}, {"other": "x"}]
    )
    def test_what_is_not_known_is_no_digest(self, tags):
        """A later release may write another form: then rows are compared."""
        assert CopyDigest.of_tags(tags) is None

    def test_statistics_are_told_by_their_values(self):
        """Engines write the same ones in another order; numbers beyond 2^53 and their last digits count."""
        one = '{"numRecords":3,"minValues":{"a":0.10,"b":9007199254740993},"tightBounds":true}'

        assert statistics_digest(one) == statistics_digest(
            '{"minValues": {"b": 9007199254740993, "a": 0.10}, "numRecords": 3, "tightBounds": false}'
        )
        assert statistics_digest(one) != statistics_digest(one.replace("0993", "0992"))
        assert statistics_digest(None) == statistics_digest("{}")
