"""Files whose footer has a column that the table does not have."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.file_copies.copy_modes import Decoded, PartlyComputed, Projected, Reason, Whole, type_changed
from backfill_core.file_copies.facts import ColumnFacts, TableFacts, Taken, TransformFacts
from backfill_core.file_copies.unknown_columns import kept_of_files, likely, with_known_columns

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
    """A file that has it is decoded; a file without it is copied."""

    @pytest.mark.parametrize(
        "mode", [Whole(), Projected((("a", "x"),), ("b",)), PartlyComputed(Projected((), ("b",)), ("c",))]
    )
    def test_a_file_that_has_it_is_decoded(self, mode):
        """Its type does not matter, because nothing of it is read."""
        known = table(a=LONG, b=LONG)

        found = with_known_columns(mode, known, file(a=LONG, b=LONG, gone=struct(x=array(LONG))))

        assert found == Decoded(Reason.UNKNOWN_COLUMN, GONE)

    @pytest.mark.parametrize("mode", [Whole(), Projected((("a", "x"),), ()), PartlyComputed(Projected((), ()), ("c",))])
    def test_a_file_without_it_keeps_its_mode(self, mode):
        """A later file, or one from before the column was added, is copied byte by byte."""
        known = table(a=LONG, b=struct(x=array(struct(y=LONG)), z=pairs("string", LONG)), c=LONG)

        assert with_known_columns(mode, known, file(a=LONG, b=struct(x=array(struct(y=LONG))))) == mode

    def test_a_partition_column_in_a_file_is_known(self):
        """Some writers store it in files; readers take the value of the log."""
        known = table(partitions=("the p",), a=LONG, p=LONG)

        assert with_known_columns(Whole(), known, file(a=LONG, p=LONG)) == Whole()

    @pytest.mark.parametrize("mode", [Projected((), ("b",)), Projected((("a", "p"),), ())])
    def test_a_partition_column_in_a_projected_file_is_decoded(self, mode):
        """A selection may drop the partition and give its name to another column."""
        known = table(partitions=("the p",), a=LONG, b=LONG, p=LONG)

        assert with_known_columns(mode, known, file(a=LONG, p=LONG)) == Decoded(Reason.UNKNOWN_COLUMN, "p")


class TestAFieldThatWasDroppedInsideAColumn:
    """Its file is decoded."""

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
        """The field may be at any depth; only files from before the drop have it."""
        known = table(a=LONG, s=now)

        assert with_known_columns(Whole(), known, file(a=LONG, s=then)) == Decoded(Reason.DROPPED_COLUMN, "the s")
        assert with_known_columns(Whole(), known, file(a=LONG, s=now)) == Whole()

    def test_does_not_matter_in_a_column_that_is_left_out(self):
        """The copy has no chunks of this column."""
        mode = Projected((), ("s",))

        assert with_known_columns(mode, table(a=LONG, s=struct(x=LONG)), file(a=LONG, s=struct(y=LONG))) == mode

    @pytest.mark.parametrize("path", [("s", "array"), ("s", "bag", "array_element"), ("s", "list", "item"), ("s",)])
    def test_is_suspected_in_a_layout_of_other_writers(self, path):
        """Lists of old writers have other names, or one level less, so fields cannot be recognized."""
        assert with_known_columns(Whole(), table(s=array(LONG)), [path]) == Decoded(Reason.DROPPED_COLUMN, "the s")


class TestAColumnThatTheTableNeverHad:
    """A later version of the source has it, or its writer stores more than the schema names."""

    @pytest.mark.parametrize("mode", [Whole(), PartlyComputed(Projected((), ()), ("c",))])
    def test_its_file_is_decoded(self, mode):
        """A copy would keep it under a name that another column may get; here the job computes a column `c`."""
        known = table(drops=False, a=LONG)

        assert with_known_columns(mode, known, file(a=LONG, c=LONG)) == Decoded(Reason.UNKNOWN_COLUMN, "c")

    def test_a_column_in_other_letters_is_decoded(self):
        """Spark finds NOTE if it is asked for note; other readers compare names exactly."""
        known = table(drops=False, a=LONG, note=LONG)
        for mode in (Whole(), Projected((("note", "title"),), ()), Projected((), ("note",))):
            assert with_known_columns(mode, known, file(a=LONG, NOTE=LONG)) == Decoded(Reason.UNKNOWN_COLUMN, "NOTE")

    @pytest.mark.parametrize("path", [("s", "array"), ("s", "bag", "array_element"), ("s", "list", "item")])
    def test_is_not_seen_in_the_layout_of_another_writer(self, path):
        """A list with other names is still a list if the table dropped no column."""
        assert with_known_columns(Whole(), table(drops=False, s=array(LONG)), [path]) == Whole()

    def test_is_seen_in_a_struct(self):
        """Spark ignores unknown fields of a struct; a copy would keep them."""
        known = table(drops=False, s=struct(x=LONG))

        assert with_known_columns(Whole(), known, file(s=struct(x=LONG, y=LONG))) == Decoded(
            Reason.DROPPED_COLUMN, "the s"
        )


@given(
    now=st.dictionaries(NAMES, KINDS, min_size=1, max_size=3),
    then=st.dictionaries(NAMES, KINDS, min_size=1, max_size=3),
    pruned=st.sets(NAMES, max_size=1),
)
def test_a_copy_has_only_columns_of_its_table(now, then, pruned):
    """A file is decoded exactly if it has a column or field, not left out, that the table does not have."""
    known = {leaf for name, kind in now.items() for leaf in leaves_of(kind, name)}
    mode = Projected((), tuple(sorted(pruned & now.keys())))

    found = with_known_columns(mode, table(**now), file(**then))

    unknown = [leaf for leaf in file(**then) if leaf[0] not in mode.pruned and leaf not in known]
    assert isinstance(found, Decoded) == bool(unknown)


class TestThePlan:
    """A plan opens no file."""

    def test_expects_dropped_columns_in_the_files_of_their_table(self):
        """Files of a table that dropped a column have it until they are rewritten."""
        known = table(a=LONG)

        for mode in (Whole(), Projected((), ("b",)), PartlyComputed(Projected((), ()), ("c",))):
            assert likely(mode, known) == Decoded(Reason.UNKNOWN_COLUMN)
            assert likely(mode, TableFacts(known.columns)) == mode
        assert likely(Decoded(Reason.FILTER), known) == Decoded(Reason.FILTER)


class TestAPartitionColumn:
    """The log has its value; files may have it too."""

    def test_one_that_is_not_taken_makes_its_file_decoded(self):
        """A target may have another column of its name; one that is taken is read from the log on both sides, and may stay."""
        known, inside = table(("the p", "the q"), drops=False, a=LONG, p=LONG, q=LONG), file(a=LONG, p=LONG, q=LONG)
        transform = TransformFacts({"a": Taken("the a"), "q": Taken("the q")})
        kept = kept_of_files(known, transform)

        assert with_known_columns(Whole(), kept, inside) == Decoded(Reason.UNKNOWN_COLUMN, "p")
        assert with_known_columns(Whole(), kept, file(a=LONG, q=LONG)) == Whole()

    def test_one_that_the_target_lacks_is_left_out_of_the_copy(self):
        """Delta 4.4 stores partition columns in the files that it writes."""
        known, inside = table(("the p",), drops=False, a=LONG, p=LONG), file(a=LONG, p=LONG)
        kept = kept_of_files(known, TransformFacts({"a": Taken("the a")}))

        assert with_known_columns(Whole(("p",)), kept, inside) == Projected((), ("p",))
        assert with_known_columns(Whole(("p",)), kept, file(a=LONG)) == Whole(("p",))
        for mode in (Projected((), ("p",)), PartlyComputed(Projected((), ("p",)), ("c",))):
            assert with_known_columns(mode, kept, inside) == mode

    def test_one_that_no_footer_can_leave_out_makes_its_file_decoded(self):
        """A dot separates the names of a path, and Kernel reads no widened column in a projected file."""
        wide = TableFacts((ColumnFacts("the a", "a", json.dumps(LONG), widened="[]"),))

        assert with_known_columns(Whole(("p.q",)), table(a=LONG), [("a",), ("p.q",)]) == Decoded(Reason.NAME, "p.q")
        assert with_known_columns(Whole(("p",)), wide, file(a=LONG, p=LONG)) == type_changed("the a")
