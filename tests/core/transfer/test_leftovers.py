"""Files that may hold columns which their table has dropped: the footer shows whether they do."""

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
    """Return the leaves of a column in Parquet's own layout."""
    if not isinstance(kind, dict):
        return [path]
    match kind["type"]:
        case "struct":
            return [leaf for field in kind["fields"] for leaf in leaves_of(field["type"], *path, field["name"])]
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
    """A dropped column is excluded from the copy, whatever other columns the copy excludes or renames."""

    @pytest.mark.parametrize(
        ("way", "expected"),
        [
            (Whole(), Projected((), (GONE,))),
            (Projected((("a", "x"),), ("b",)), Projected((("a", "x"),), ("b", GONE))),
            (Grafted(Projected((), ("b",)), ("c",)), Grafted(Projected((), ("b", GONE)), ("c",))),
        ],
    )
    def test_a_dropped_column_is_excluded_from_a_file_that_has_it(self, way, expected):
        """The column may have any type, and none of it is read."""
        facts = table(a=LONG, b=LONG)

        assert without_leftovers(way, facts, file(a=LONG, b=LONG, gone=struct(x=array(LONG)))) == expected

    @pytest.mark.parametrize("way", [Whole(), Projected((("a", "x"),), ()), Grafted(Projected((), ()), ("c",))])
    def test_a_file_without_the_dropped_column_keeps_its_copy_mode(self, way):
        """The file was written after the drop, or before the column was added: copy mode and bytes stay."""
        facts = table(a=LONG, b=struct(x=array(struct(y=LONG)), z=pairs("string", LONG)), c=LONG)

        assert without_leftovers(way, facts, file(a=LONG, b=struct(x=array(struct(y=LONG))))) == way

    def test_a_file_with_a_dropped_and_a_widened_column_is_decoded(self):
        """Kernel would misread the footer of the copy; an excluded column does not matter."""
        facts = table(a=LONG, b=LONG)
        facts = replace(facts, columns=(facts.columns[0], replace(facts.columns[1], widened="int, long")))

        assert isinstance(without_leftovers(Whole(), facts, file(a=LONG, b=LONG, gone=LONG)), Decoded)
        assert without_leftovers(Projected((), ("b",)), facts, file(a=LONG, b=LONG, gone=LONG)) == Projected(
            (), ("b", GONE)
        )
        assert without_leftovers(Whole(), facts, file(a=LONG, b=LONG)) == Whole()

    def test_a_partition_column_inside_a_file_is_not_a_dropped_column(self):
        """Some writers store partition columns in files; readers take the value of the log."""
        assert without_leftovers(Whole(), table(partitions=("the p",), a=LONG, p=LONG), file(a=LONG, p=LONG)) == Whole()

    def test_a_partition_column_inside_a_file_is_excluded_once_its_name_may_be_reused(self):
        """A selection may drop the partition and give its name to another column."""
        facts = table(partitions=("the p",), a=LONG, b=LONG, p=LONG)

        assert without_leftovers(Projected((), ("b",)), facts, file(a=LONG, p=LONG)) == Projected((), ("b", "p"))
        assert without_leftovers(Projected((("a", "p"),), ()), facts, file(a=LONG, p=LONG)) == Decoded(Reason.NAME, "p")

    @pytest.mark.parametrize(
        ("way", "facts", "leaves", "name"),
        [
            (Whole(), table(a=LONG), file(A=LONG), "A"),
            (Whole(), table(a=LONG), file(a=LONG, **{"g.h": LONG}), "g.h"),
            (Whole(), table(**{"a.x": LONG}), file(**{"a.x": LONG}, gone=LONG), "a.x"),
            (Projected((("a", GONE),), ()), table(a=LONG), file(a=LONG, gone=LONG), GONE),
        ],
        ids=["another case", "a dot", "a dot beside it", "the new name of another"],
    )
    def test_a_dropped_column_whose_name_may_be_another_columns_is_decoded(self, way, facts, leaves, name):
        """Readers ignore the case of letters; a path joins its names with dots and has each name once."""
        assert without_leftovers(way, facts, leaves) == Decoded(Reason.NAME, name)


class TestAFieldThatWasDroppedInsideAColumn:
    """A field that was dropped inside a column cannot be excluded: its column is decoded with it."""

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
    def test_a_dropped_field_makes_its_file_decoded(self, now, then):
        """The field may have any depth; an older file has it, and a newer one does not."""
        facts = table(a=LONG, s=now)

        assert without_leftovers(Whole(), facts, file(a=LONG, s=then)) == Decoded(Reason.DROPPED_COLUMN, "the s")
        assert without_leftovers(Whole(), facts, file(a=LONG, s=now)) == Whole()

    def test_a_dropped_field_in_an_excluded_column_does_not_matter(self):
        """Its chunks are excluded with the column."""
        way = Projected((), ("s",))

        assert without_leftovers(way, table(a=LONG, s=struct(x=LONG)), file(a=LONG, s=struct(y=LONG))) == way

    @pytest.mark.parametrize("path", [("s", "array"), ("s", "bag", "array_element"), ("s", "list", "item"), ("s",)])
    def test_an_unknown_list_layout_counts_as_a_dropped_field(self, path):
        """Lists of old writers have other names or a level less, so the role of a field is unknown."""
        assert without_leftovers(Whole(), table(s=array(LONG)), [path]) == Decoded(Reason.DROPPED_COLUMN, "the s")


class TestAColumnThatTheTableNeverHad:
    """A file may hold a column that the table never had: from a later version, or from a writer that stores extra
    columns."""

    def test_a_column_unknown_to_the_table_is_excluded(self):
        """Otherwise the target's file would have it under a name that a column may get later."""
        facts = table(drops=False, a=LONG)

        assert without_leftovers(Whole(), facts, file(a=LONG, gone=LONG)) == Projected((), (GONE,))

    def test_an_unknown_column_does_not_replace_a_computed_one_of_its_name(self):
        """The job computes `c`, and a later version of the source has a column `c`."""
        way = Grafted(Projected((), ()), ("c",))

        assert without_leftovers(way, table(drops=False, a=LONG), file(a=LONG, c=LONG)) == Grafted(
            Projected((), ("c",)), ("c",)
        )

    def test_an_unknown_column_in_another_case_makes_the_file_decoded(self):
        """Spark finds NOTE for the name note; names in a footer are exact."""
        facts = table(drops=False, a=LONG, note=LONG)
        for way in (Whole(), Projected((("note", "title"),), ()), Projected((), ("note",))):
            assert without_leftovers(way, facts, file(a=LONG, NOTE=LONG)) == Decoded(Reason.NAME, "NOTE")

    @pytest.mark.parametrize("path", [("s", "array"), ("s", "bag", "array_element"), ("s", "list", "item")])
    def test_an_unknown_list_layout_is_accepted_if_the_table_dropped_nothing(self, path):
        """Without a dropped column, a list with other names is a list."""
        assert without_leftovers(Whole(), table(drops=False, s=array(LONG)), [path]) == Whole()

    def test_an_unknown_field_in_a_struct_makes_the_file_decoded(self):
        """Spark reads only the known fields of a struct; a copy would keep the others."""
        facts = table(drops=False, s=struct(x=LONG))

        assert without_leftovers(Whole(), facts, file(s=struct(x=LONG, y=LONG))) == Decoded(
            Reason.DROPPED_COLUMN, "the s"
        )


@given(
    now=st.dictionaries(NAMES, KINDS, min_size=1, max_size=3),
    then=st.dictionaries(NAMES, KINDS, min_size=1, max_size=3),
    pruned=st.sets(NAMES, max_size=1),
)
def test_a_copy_has_exactly_the_columns_of_the_table(now, then, pruned):
    """The rule holds for any content of a file."""
    leaves = {leaf for name, kind in now.items() for leaf in leaves_of(kind, name)}
    way = Projected((), tuple(sorted(pruned & now.keys())))

    way_found = without_leftovers(way, table(**now), file(**then))

    if isinstance(way_found, Decoded):
        assert [leaf for leaf in file(**then) if leaf[0] in now and leaf[0] not in pruned and leaf not in leaves]
        return
    kept = {leaf for leaf in file(**then) if leaf[0] not in way_found.pruned}
    assert kept <= leaves
    assert kept == {leaf for leaf in file(**then) if leaf in leaves and leaf[0] not in pruned}


class TestWhatIsLikely:
    """A plan opens no file."""

    def test_a_plan_assumes_projected_files_in_a_table_that_dropped_a_column(self):
        """Its files have the column until they are rewritten; decoded or projected files stay so."""
        facts, projected = table(a=LONG), Projected((), ("b",))

        assert likely(Whole(), facts) == Projected((), ())
        assert likely(projected, facts) == projected
        assert likely(Decoded(Reason.FILTER), facts) == Decoded(Reason.FILTER)
        assert likely(Whole(), TableFacts(facts.columns)) == Whole()


class TestAPartitionColumn:
    """A partition column is in the log; files may hold it, too."""

    def test_a_partition_column_that_is_not_taken_is_excluded(self):
        """A target may have another column of its name. A taken partition column is read from the log on both sides and
        may stay."""
        facts, inside = table(("the p", "the q"), drops=False, a=LONG, p=LONG, q=LONG), file(a=LONG, p=LONG, q=LONG)
        transform = TransformFacts({"a": Taken("the a"), "q": Taken("the q")})

        assert without_leftovers(Whole(), kept_of_files(facts, transform), inside) == Projected((), ("p",))
        assert without_leftovers(Whole(), kept_of_files(facts, transform), file(a=LONG, q=LONG)) == Whole()
