"""What becomes of a file that may hold columns which its table has dropped: its footer says whether it does."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.transfer.facts import ColumnFacts, TableFacts, Taken, TransformFacts
from backfill_core.transfer.leftovers import kept_of_files, likely, without_leftovers
from backfill_core.transfer.ways import Decoded, Grafted, Projected, Reason, Whole

LONG = "long"
GONE = "gone"


def struct(**fields):
    return {"type": "struct", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def array(kind):
    return {"type": "array", "elementType": kind, "containsNull": True}


def pairs(key, kind):
    return {"type": "map", "keyType": key, "valueType": kind, "valueContainsNull": True}


def table(partitions=(), drops=True, **columns):
    made = tuple(ColumnFacts(f"the {name}", name, json.dumps(kind)) for name, kind in columns.items())
    return TableFacts(made, partitions, drops=drops)


def leaves_of(kind, *path):
    """Return the leaves of a column as Parquet's own rules lay it out."""
    if not isinstance(kind, dict):
        return [path]
    match kind["type"]:
        case "struct":
            return [leaf for one in kind["fields"] for leaf in leaves_of(one["type"], *path, one["name"])]
        case "array":
            return leaves_of(kind["elementType"], *path, "list", "element")
    inside = [*leaves_of(kind["keyType"], *path, "key_value", "key")]
    return [*inside, *leaves_of(kind["valueType"], *path, "key_value", "value")]


def file(**columns):
    """Return the leaves of a file."""
    return [leaf for name, kind in columns.items() for leaf in leaves_of(kind, name)]


NAMES = st.sampled_from("abcd")
KINDS = st.recursive(
    st.just(LONG),
    lambda inner: st.one_of(
        inner.map(array),
        inner.map(lambda kind: pairs("string", kind)),
        st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(lambda fields: struct(**fields)),
    ),
    max_leaves=5,
)


class TestAColumnThatTheTableDropped:
    """Is left out of the copy, whatever else the copy leaves out or names otherwise."""

    @pytest.mark.parametrize(
        ("way", "found"),
        [
            (Whole(), Projected((), (GONE,))),
            (Projected((("a", "x"),), ("b",)), Projected((("a", "x"),), ("b", GONE))),
            (Grafted(Projected((), ("b",)), ("c",)), Grafted(Projected((), ("b", GONE)), ("c",))),
        ],
    )
    def test_in_a_file_that_has_it(self, way, found):
        """Of any type: nothing of it is read."""
        known = table(a=LONG, b=LONG)

        assert without_leftovers(way, known, file(a=LONG, b=LONG, gone=struct(x=array(LONG)))) == found

    @pytest.mark.parametrize("way", [Whole(), Projected((("a", "x"),), ()), Grafted(Projected((), ()), ("c",))])
    def test_in_a_file_that_has_it_not(self, way):
        """One that was written afterwards, or before the column came: its way stays, and so do its bytes."""
        known = table(a=LONG, b=struct(x=array(struct(y=LONG)), z=pairs("string", LONG)), c=LONG)

        assert without_leftovers(way, known, file(a=LONG, b=struct(x=array(struct(y=LONG))))) == way

    def test_is_decoded_beside_a_column_that_became_wider(self):
        """What Kernel says of the copy's footer would be wrong; one that is left out does not matter."""
        known = table(a=LONG, b=LONG)
        known = replace(known, columns=(known.columns[0], replace(known.columns[1], widened="int, long")))

        assert isinstance(without_leftovers(Whole(), known, file(a=LONG, b=LONG, gone=LONG)), Decoded)
        assert without_leftovers(Projected((), ("b",)), known, file(a=LONG, b=LONG, gone=LONG)) == Projected(
            (), ("b", GONE)
        )
        assert without_leftovers(Whole(), known, file(a=LONG, b=LONG)) == Whole()

    def test_is_none_that_a_file_keeps_of_a_partition(self):
        """Some writers do; readers take the value of the log."""
        assert without_leftovers(Whole(), table(partitions=("the p",), a=LONG, p=LONG), file(a=LONG, p=LONG)) == Whole()

    def test_is_one_that_a_file_keeps_of_a_partition_once_its_name_may_be_anothers(self):
        """A selection may drop the partition and give its name to a column."""
        known = table(partitions=("the p",), a=LONG, b=LONG, p=LONG)

        assert without_leftovers(Projected((), ("b",)), known, file(a=LONG, p=LONG)) == Projected((), ("b", "p"))
        assert without_leftovers(Projected((("a", "p"),), ()), known, file(a=LONG, p=LONG)) == Decoded(Reason.NAME, "p")

    @pytest.mark.parametrize(
        ("way", "known", "there", "name"),
        [
            (Whole(), table(a=LONG), file(A=LONG), "A"),
            (Whole(), table(a=LONG), file(a=LONG, **{"g.h": LONG}), "g.h"),
            (Whole(), table(**{"a.x": LONG}), file(**{"a.x": LONG}, gone=LONG), "a.x"),
            (Projected((("a", GONE),), ()), table(a=LONG), file(a=LONG, gone=LONG), GONE),
        ],
        ids=["another case", "a dot", "a dot beside it", "the new name of another"],
    )
    def test_is_decoded_where_its_name_may_be_another_columns(self, way, known, there, name):
        """Readers do not look at the case of letters; a path has dots between its names, and each name once."""
        assert without_leftovers(way, known, there) == Decoded(Reason.NAME, name)


class TestAFieldThatWasDroppedInsideAColumn:
    """Cannot be left out: its column is decoded with it."""

    @pytest.mark.parametrize(
        ("now", "then"),
        [
            (struct(x=LONG), struct(x=LONG, y=LONG)),
            (struct(x=LONG), struct(y=LONG)),
            (array(struct(x=LONG)), array(struct(x=LONG, y=LONG))),
            (pairs("string", struct(x=LONG)), pairs("string", struct(x=LONG, y=LONG))),
            (pairs(struct(x=LONG), LONG), pairs(struct(x=LONG, y=LONG), LONG)),
            (struct(x=struct(y=array(struct(z=LONG)))), struct(x=struct(y=array(struct(z=LONG, w=LONG))))),
        ],
    )
    def test_in_a_file_that_has_it(self, now, then):
        """At any depth; a file of before has it, and one of afterwards has not."""
        known = table(a=LONG, s=now)

        assert without_leftovers(Whole(), known, file(a=LONG, s=then)) == Decoded(Reason.DROPPED_COLUMN, "the s")
        assert without_leftovers(Whole(), known, file(a=LONG, s=now)) == Whole()

    def test_does_not_matter_in_a_column_that_is_left_out(self):
        """Its chunks are left out with it."""
        way = Projected((), ("s",))

        assert without_leftovers(way, table(a=LONG, s=struct(x=LONG)), file(a=LONG, s=struct(y=LONG))) == way

    @pytest.mark.parametrize("path", [("s", "array"), ("s", "bag", "array_element"), ("s", "list", "item"), ("s",)])
    def test_is_suspected_in_a_layout_of_other_writers(self, path):
        """Lists of old writers have other names, or a level less: what is a field there is not told."""
        assert without_leftovers(Whole(), table(s=array(LONG)), [path]) == Decoded(Reason.DROPPED_COLUMN, "the s")


class TestAColumnThatTheTableNeverHad:
    """As of a later version than the pinned one, or of a writer that keeps more than it says."""

    def test_is_left_out(self):
        """Else it would be in the target's file under a name that a column may get one day."""
        known = table(drops=False, a=LONG)

        assert without_leftovers(Whole(), known, file(a=LONG, gone=LONG)) == Projected((), (GONE,))

    def test_is_not_taken_for_a_computed_one_of_its_name(self):
        """The job computes `c`, and a later version of the source has a `c` of its own."""
        way = Grafted(Projected((), ()), ("c",))

        assert without_leftovers(way, table(drops=False, a=LONG), file(a=LONG, c=LONG)) == Grafted(
            Projected((), ("c",)), ("c",)
        )

    def test_may_be_one_in_other_letters(self):
        """Spark finds NOTE where it is asked for note; a footer's names are exact."""
        known = table(drops=False, a=LONG, note=LONG)
        for way in (Whole(), Projected((("note", "title"),), ()), Projected((), ("note",))):
            assert without_leftovers(way, known, file(a=LONG, NOTE=LONG)) == Decoded(Reason.NAME, "NOTE")

    @pytest.mark.parametrize("path", [("s", "array"), ("s", "bag", "array_element"), ("s", "list", "item")])
    def test_is_not_seen_in_the_layout_of_another_writer(self, path):
        """Where nothing was dropped, a list by other words is a list."""
        assert without_leftovers(Whole(), table(drops=False, s=array(LONG)), [path]) == Whole()

    def test_is_seen_in_a_struct(self):
        """Spark reads what it knows of a struct; a copy would keep the rest."""
        known = table(drops=False, s=struct(x=LONG))

        assert without_leftovers(Whole(), known, file(s=struct(x=LONG, y=LONG))) == Decoded(
            Reason.DROPPED_COLUMN, "the s"
        )


@given(
    now=st.dictionaries(NAMES, KINDS, min_size=1, max_size=3),
    then=st.dictionaries(NAMES, KINDS, min_size=1, max_size=3),
    pruned=st.sets(NAMES, max_size=1),
)
def test_a_copy_has_what_the_table_knows_and_nothing_else(now, then, pruned):
    """Whatever a file holds."""
    known = {leaf for name, kind in now.items() for leaf in leaves_of(kind, name)}
    way = Projected((), tuple(sorted(pruned & now.keys())))

    found = without_leftovers(way, table(**now), file(**then))

    if isinstance(found, Decoded):
        assert [leaf for leaf in file(**then) if leaf[0] in now and leaf[0] not in pruned and leaf not in known]
        return
    there = {leaf for leaf in file(**then) if leaf[0] not in found.pruned}
    assert there <= known
    assert there == {leaf for leaf in file(**then) if leaf in known and leaf[0] not in pruned}


class TestWhatIsLikely:
    """A plan opens no file."""

    def test_in_a_table_that_dropped_a_column(self):
        """Its files have it, until they are written anew; what is decoded or projected is so with it, too."""
        known, projected = table(a=LONG), Projected((), ("b",))

        assert likely(Whole(), known) == Projected((), ())
        assert likely(projected, known) == projected
        assert likely(Decoded(Reason.FILTER), known) == Decoded(Reason.FILTER)
        assert likely(Whole(), TableFacts(known.columns)) == Whole()


class TestAPartitionColumn:
    """Is in the log; files may hold it, too."""

    def test_that_is_not_taken_is_left_out(self):
        """A target may have another column of its name; one that is taken is read from the log on both sides, and may stay."""
        known, inside = table(("the p", "the q"), drops=False, a=LONG, p=LONG, q=LONG), file(a=LONG, p=LONG, q=LONG)
        transform = TransformFacts({"a": Taken("the a"), "q": Taken("the q")})

        assert without_leftovers(Whole(), kept_of_files(known, transform), inside) == Projected((), ("p",))
        assert without_leftovers(Whole(), kept_of_files(known, transform), file(a=LONG, q=LONG)) == Whole()
