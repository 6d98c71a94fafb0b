"""Schema changes: changes of the source's columns that a target adopts, and changes that it rejects."""

from dataclasses import replace

import pytest

from backfill_core.log_shipping.columns import COLUMN_ID, PHYSICAL_NAME, TYPE_CHANGES, WIDENING, Columns, loose
from backfill_core.log_shipping.schema_changes import NotFollowedError, Target, View, follow

COMMENT = {"comment": "of the source"}


def column(name, kind="long", number=None, physical=None):
    """Return a field; with a number it is mapped."""
    metadata = {} if number is None else {COLUMN_ID: number, PHYSICAL_NAME: physical or f"p{number}"}
    return {"name": name, "type": kind, "nullable": False, "metadata": {**metadata, **COMMENT, "other": "word"}}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def listed(*fields):
    return {"type": "array", "elementType": struct(*fields), "containsNull": False}


def view(*fields, mapped=False, taken=None, requested=()):
    """Return the view of some columns: all columns unchanged, or the taken columns by the names of the outputs."""
    names = {field["name"]: field["name"] for field in fields} if taken is None else taken
    by_name = {field["name"]: field for field in fields}
    outputs = tuple(
        {
            "name": name,
            "type": "string" if source_name is None else by_name[source_name]["type"],
            "nullable": True,
            "metadata": {},
        }
        for name, source_name in names.items()
    )
    return View(Columns(fields, mapped), outputs, names, frozenset(requested))


def made_of(source_view, *, mapped=False, last_id=0, features=()):
    """Return a target that was created from a view."""
    by_name = {field["name"]: field for field in source_view.source.fields}
    fields = tuple(
        {**loose(output if name is None else by_name[name], mapped=mapped), "name": output["name"]}
        for output in source_view.outputs
        for name in [source_view.taken[output["name"]]]
    )
    return Target(Columns(fields, mapped), last_id, frozenset(features))


def names(fields):
    return [field["name"] for field in fields]


ID, V = column("id", number=1), column("v", "string", number=2)


class TestAColumnThatIsNew:
    """A new column is nullable, because existing rows have no value."""

    @pytest.mark.parametrize("mapped", [False, True])
    def test_a_new_column_is_added_at_its_place_in_the_source(self, mapped):
        """The column keeps its comment, and its physical name and id where both tables map their columns; other
        metadata is dropped."""
        number = (lambda column_id: column_id) if mapped else (lambda column_id: None)
        before = view(column("id", number=number(1)), column("v", number=number(2)), mapped=mapped)
        new = column("w", listed(column("x", number=number(5))), number=number(4))
        after = view(column("id", number=number(1)), new, column("v", number=number(2)), mapped=mapped)

        change = follow(before, after, made_of(before, mapped=mapped, last_id=2 if mapped else 0))

        assert change.reopens
        assert names(change.fields) == ["id", "w", "v"]
        assert change.fields[1] == loose(new, mapped=mapped)
        assert change.fields[1]["nullable"]
        assert change.fields[1]["metadata"].items() >= COMMENT.items()
        assert "other" not in change.fields[1]["metadata"]
        assert change.last_id == (5 if mapped else 0)

    def test_a_new_field_may_be_nested(self):
        """Structs, arrays and maps may contain it, and they keep their other fields."""
        pairs = {"type": "map", "keyType": "string", "valueType": struct(column("a")), "valueContainsNull": True}
        more = {**pairs, "valueType": struct(column("a"), column("b"))}
        before = view(column("s", struct(column("l", listed(column("a"))), column("m", pairs))))
        after = view(column("s", struct(column("l", listed(column("n"), column("a"))), column("m", more))))

        (field,) = follow(before, after, made_of(before)).fields

        inner, outer = field["type"]["fields"]
        assert names(inner["type"]["elementType"]["fields"]) == ["n", "a"]
        assert names(outer["type"]["valueType"]["fields"]) == ["a", "b"]

    def test_a_new_column_keeps_the_extra_columns_of_the_target(self):
        """The table with these columns existed before the job."""
        before, after = view(column("id")), view(column("id"), column("w"))
        target = Target(Columns((*made_of(before).columns.fields, column("theirs")), mapped=False))

        assert names(follow(before, after, target).fields) == ["id", "w", "theirs"]

    @pytest.mark.parametrize(
        ("new", "target", "message"),
        [
            (column("Theirs"), {}, "'theirs' twice"),
            (column("at", "timestamp_ntz"), {}, r"timestamp_ntz \(timestampNtz\)"),
            (column("s", struct(column("x", listed(column("y", "variant"))))), {}, r"'s' was added, .*\(variantType\)"),
            (column("shape", "geometry"), {}, "feature for geometry"),
            (column("w"), {"mapped": True, "last_id": 1}, "the source does not"),
        ],
    )
    def test_a_new_column_is_refused_where_the_target_cannot_have_it(self, new, target, message):
        """The cases are a name in use, a type that needs a table feature, and missing physical names."""
        before, after = view(ID), view(ID, new)
        made = made_of(before, **target)
        existing = (*made.columns.fields, loose(column("theirs", number=1), mapped=True))
        with pytest.raises(NotFollowedError, match=message):
            follow(before, after, Target(Columns(existing, made.columns.mapped), made.last_id))

    def test_a_new_column_may_have_a_type_that_the_target_supports(self):
        """The pinned version may have had such a column."""
        before, after = view(ID), view(ID, column("at", "timestamp_ntz"), column("d", "decimal(10,2)"))

        assert len(follow(before, after, made_of(before, features=["timestampNtz"])).fields) == 3

    def test_a_new_column_is_refused_an_id_that_the_target_used(self):
        """An id is used once, and this table has another history."""
        before, after = view(ID, mapped=True), view(ID, V, mapped=True)

        with pytest.raises(NotFollowedError, match="'v' was added, and the target gave its id"):
            follow(before, after, made_of(before, mapped=True, last_id=2))


class TestAMappedColumn:
    """Readers find the values of a mapped column by its physical name."""

    def test_a_renamed_column_changes_only_its_name(self):
        """The rule includes nested columns."""
        before = view(ID, column("s", struct(column("a", number=3)), number=2), mapped=True)
        after = view(ID, column("t", struct(column("b", number=3)), number=2), mapped=True)

        change = follow(before, after, made_of(before, mapped=True, last_id=3))

        renamed = change.fields[1]
        assert (renamed["name"], renamed["metadata"]) == ("t", {COLUMN_ID: 2, PHYSICAL_NAME: "p2", **COMMENT})
        assert names(renamed["type"]["fields"]) == ["b"]
        assert renamed["type"]["fields"][0]["metadata"][PHYSICAL_NAME] == "p3"

    def test_a_dropped_column_and_a_new_one_of_its_name_are_different(self):
        """The old values must not return."""
        before = view(ID, V, mapped=True)
        after = view(ID, column("v", "string", number=7), mapped=True)

        change = follow(before, after, made_of(before, mapped=True, last_id=2))

        assert change.fields[1]["metadata"] == {COLUMN_ID: 7, PHYSICAL_NAME: "p7", **COMMENT}
        assert change.last_id == 7

    def test_two_columns_may_exchange_their_names(self):
        """Each name then refers to the other values."""
        before = view(ID, column("v", number=2), mapped=True)
        after = view(column("v", number=1), column("id", number=2), mapped=True)

        change = follow(before, after, made_of(before, mapped=True, last_id=2))

        assert [(field["name"], field["metadata"][PHYSICAL_NAME]) for field in change.fields] == [
            ("v", "p1"),
            ("id", "p2"),
        ]

    @pytest.mark.parametrize("after", [view(ID, mapped=True), view(ID, column("w", number=2), mapped=True)])
    def test_a_rename_or_drop_needs_a_target_that_maps_its_columns(self, after):
        """Otherwise only the name identifies the values."""
        before = view(ID, column("v", number=2), mapped=True)
        with pytest.raises(
            NotFollowedError, match=r"'v' was (dropped|renamed to 'w'), and the target does not use column mapping"
        ):
            follow(before, after, made_of(before))

    def test_a_drop_needs_a_source_that_always_mapped_its_columns(self):
        """Without mapping, a dropped column takes its values along where files have its name."""
        with pytest.raises(NotFollowedError, match="'v' was dropped, and the source does not use column mapping"):
            follow(view(column("id"), column("v")), view(column("id")), made_of(view(column("id"), column("v"))))


def widened(field, *changes):
    """Return a field with widened types, each given as path, old type and new type."""
    changes_recorded = [
        {"fromType": was, "toType": now, **({"fieldPath": path} if path else {})} for path, was, now in changes
    ]
    return {**field, "metadata": {**field["metadata"], TYPE_CHANGES: changes_recorded}}


PAIRS = {"type": "map", "keyType": "integer", "valueType": "float", "valueContainsNull": True}
WIDE_PAIRS = {**PAIRS, "keyType": "long", "valueType": "double"}


class TestAWiderType:
    """Files keep the old type: the target records the change like the source, so that readers convert."""

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (column("a", "integer"), widened(column("a"), ("", "integer", "long"))),
            (column("a", "short"), widened(column("a"), ("", "short", "integer"), ("", "integer", "long"))),
            (
                widened(column("a", "integer"), ("", "short", "integer")),
                widened(column("a"), ("", "short", "integer"), ("", "integer", "long")),
            ),
            (column("a", "decimal(5,2)"), widened(column("a", "decimal(9,4)"), ("", "decimal(5,2)", "decimal(9,4)"))),
            (
                column("m", PAIRS),
                widened(column("m", WIDE_PAIRS), ("key", "integer", "long"), ("value", "float", "double")),
            ),
            (
                column("s", listed(column("x", "integer"))),
                column("s", listed(widened(column("x"), ("", "integer", "long")))),
            ),
        ],
    )
    def test_a_wider_type_is_followed_where_the_log_records_it(self, before, after):
        """The rule holds at any depth, and for several steps."""
        target = made_of(view(before), features=[WIDENING])
        target = replace(target, columns=Columns((loose(before, mapped=False, kept=("comment", TYPE_CHANGES)),), False))

        change = follow(view(before), view(after), target)

        assert change.fields == (loose(after, mapped=False, kept=("comment", TYPE_CHANGES)),)
        assert change.reopens

    @pytest.mark.parametrize(
        ("after", "features", "message"),
        [
            (column("a"), [WIDENING], "integer became long$"),
            (widened(column("a"), ("", "short", "long")), [WIDENING], "integer became long$"),
            (widened(column("a"), ("element", "integer", "long")), [WIDENING], "integer became long$"),
            (widened(column("a"), ("", "integer", "long")), [], r"does not have the table feature typeWidening"),
            (
                widened(column("a", "timestamp_ntz"), ("", "integer", "timestamp_ntz")),
                [WIDENING],
                "does not have the table feature timestampNtz",
            ),
        ],
    )
    def test_a_wider_type_is_refused_otherwise(self, after, features, message):
        """The cases are a recreated table, another history, and a target without the feature for its readers."""
        before = view(column("a", "integer"))
        with pytest.raises(NotFollowedError, match=message):
            follow(before, view(after), made_of(before, features=features))

    def test_a_wider_type_is_refused_where_the_target_was_widened_by_another_writer(self):
        """Its files may have a type that the source does not record."""
        before = view(column("a", "integer"))
        foreign = widened(column("a", "integer"), ("", "byte", "integer"))
        target = Target(Columns((foreign,), mapped=False), features=frozenset({WIDENING}))
        with pytest.raises(NotFollowedError, match="the target's column has other type changes"):
            follow(before, view(widened(column("a"), ("", "integer", "long"))), target)


class TestAnotherType:
    """Earlier files hold the old type."""

    @pytest.mark.parametrize(
        ("was", "now"),
        [("integer", "long"), (listed(column("a")), struct(column("a"))), (struct(column("a")), "string")],
    )
    def test_another_type_is_refused_by_name(self, was, now):
        """The cases include a wider type that the log does not record, and a nested one."""
        before, after = view(column("s", struct(column("x", was)))), view(column("s", struct(column("x", now))))
        with pytest.raises(NotFollowedError, match=r"'s\.x' changed its type: .* became "):
            follow(before, after, made_of(before))


class TestASelection:
    """Columns outside the selection do not belong to the target."""

    TAKEN = {"id": "id", "words": "v", "made": None}

    def both(self, *later, requested=("id",), requested_later=("id",)):
        before = view(ID, V, column("other", number=3), mapped=True, taken=self.TAKEN, requested=requested)
        after = view(*later, mapped=True, taken=self.TAKEN, requested=requested_later)
        return before, after, made_of(before, mapped=False)

    def test_a_selection_ignores_columns_that_it_leaves_out(self):
        """The change is a new column, which the job does not read."""
        change = follow(*self.both(ID, V, column("other", number=3), column("w", number=4)))

        assert (change.reopens, change.fields) == (False, None)

    def test_a_selection_is_reopened_when_another_column_is_renamed(self):
        """The job no longer requests the old name."""
        change = follow(*self.both(ID, V, column("another", number=3)))

        assert (change.reopens, change.fields) == (True, None)

    def test_a_selection_gets_new_fields_inside_its_columns(self):
        """The fields are added under the name of the column in the target."""
        taken = {"whole": "s"}
        before = view(column("s", struct(column("a"))), taken=taken)
        after = view(column("s", struct(column("a"), column("b"))), column("w"), taken=taken)

        (field,) = follow(before, after, made_of(before)).fields

        assert (field["name"], names(field["type"]["fields"])) == ("whole", ["a", "b"])

    @pytest.mark.parametrize(
        ("later", "requested_later", "message"),
        [
            ((column("id", number=9), V, column("other", number=3)), ["id"], "'id', with which"),
            ((column("id", "string", number=1), V, column("other", number=3)), ["id"], "'id', with which"),
            ((ID, V, column("other", number=3)), ["id", "other"], "stopped computing with the column 'other'"),
        ],
    )
    def test_a_selection_is_refused_other_columns_to_compute_with(self, later, requested_later, message):
        """Existing rows were computed from the old columns."""
        with pytest.raises(NotFollowedError, match=message):
            follow(*self.both(*later, requested_later=requested_later))
