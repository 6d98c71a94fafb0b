"""The files of one version by their index."""

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from backfill_spark.delta.listing.entries import logged_file
from backfill_spark.delta.listing.logged_files import LoggedFiles

VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 6,
}


def entry(path, **fields):
    """Return an `add` action as a line of a commit."""
    add = {"path": path, "partitionValues": {}, "size": 10, "modificationTime": 1, "dataChange": True}
    return json.dumps({"add": {**add, **fields}}, ensure_ascii=False)


STATS = st.one_of(
    st.none(),
    st.sampled_from(["", "no json", "[]", '{"numRecords":null}', '{"nullCount":{"id":3},"numRecords":7}']),
    st.integers(0, 10**6).map(lambda rows: f'{{"numRecords":{rows},"nullCount":{{"id":{rows % 3}}}}}'),
)
FIELDS = st.fixed_dictionaries(
    {"size": st.integers(0, 2**40)},
    optional={
        "stats": STATS,
        "partitionValues": st.dictionaries(st.sampled_from("ab"), st.none() | st.text(max_size=3)),
        "deletionVector": st.none() | st.just(VECTOR),
    },
)


class TestLoggedFiles:
    """The listing has the same files as a plain list of parsed entries, in the order of their paths."""

    @given(st.dictionaries(st.text(min_size=1, max_size=5), FIELDS, max_size=12), st.booleans(), st.randoms())
    def test_a_listing_equals_parsed_entries(self, files, with_nulls, chance):
        """The order of the log does not matter."""
        nulls_of = ("id",) if with_nulls else ()
        lines = [entry(path, **fields) for path, fields in files.items()]
        chance.shuffle(lines)
        expected = sorted((logged_file(line, nulls_of) for line in lines), key=lambda file: file.path)

        listing = LoggedFiles(lines, nulls_of)

        assert list(listing) == expected
        assert list(listing.paths) == [file.path for file in expected]
        assert listing.rows == [file.rows for file in expected]
        assert listing.deleted == [file.deleted for file in expected]
        assert listing.bytes == [file.bytes for file in expected]
        assert listing.nulls == [file.nulls for file in expected]
        assert listing.partitions == [file.partition for file in expected]
        assert list(listing.entries()) == sorted(
            (json.loads(line)["add"] for line in lines), key=lambda add: add["path"]
        )
        assert [listing.action(at) for at in range(len(listing))] == [file.action for file in expected]

    def test_places_have_paths_and_deletion_vectors(self):
        """The check of access needs the files of vectors too; a path that looks like a vector has none."""
        odd = '"deletionVector".parquet'
        listing = LoggedFiles([entry("b", deletionVector=VECTOR), entry(odd), entry("a")], ())

        places = list(listing.places())

        assert [place["path"] for place in places] == [odd, "a", "b"]
        assert [place.get("deletionVector") for place in places] == [None, None, VECTOR]

    def test_equal_partition_values_are_one_object(self):
        """A table by day has a million files and a few hundred days."""
        lines = [entry(f"{at}", partitionValues={"day": str(at % 3)}) for at in range(300)]
        random.Random(1).shuffle(lines)

        listing = LoggedFiles(lines, ())

        assert len({id(values) for values in listing.partitions}) == 3
