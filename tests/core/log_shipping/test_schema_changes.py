"""What a target is given when the columns of its source change, and what it is refused."""

from dataclasses import replace

import pytest

from backfill_core.log_shipping.columns import COLUMN_ID, PHYSICAL_NAME, TYPE_CHANGES, WIDENING, Columns, loose
from backfill_core.log_shipping.schema_changes import NotFollowedError, Target, View, follow

SAID = {"comment": "of the source"}


def column(name, kind="long", number=None, physical=None):
    """Return a field; with a number it is mapped."""
    metadata = {} if number is None else {COLUMN_ID: number, PHYSICAL_NAME: physical or f"p{number}"}
    return {"name": name, "type": kind, "nullable": False, "metadata": {**metadata, **SAID, "other": "word"}}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def listed(*fields):
    return {"type": "array", "elementType": struct(*fields), "containsNull": False}


def view(*fields, mapped=False, taken=None, asked=()):
    """Return what is read of some columns: all as they are, or those that are taken, by the names of the outputs."""
    names = {one["name"]: one["name"] for one in fields} if taken is None else taken
    known = {one["name"]: one for one in fields}
    outputs = tuple(
        {"name": name, "type": "string" if one is None else known[one]["type"], "nullable": True, "metadata": {}}
        for name, one in names.items()
    )
    return View(Columns(fields, mapped), outputs, names, frozenset(asked))


def made_of(one, *, mapped=False, last_id=0, features=()):
    """Return a target as it is made of what is read."""
    known = {field["name"]: field for field in one.source.fields}
    fields = tuple(
        {**loose(output if name is None else known[name], mapped=mapped), "name": output["name"]}
        for output in one.outputs
        for name in [one.taken[output["name"]]]
    )
    return Target(Columns(fields, mapped), last_id, frozenset(features))


def names(fields):
    return [one["name"] for one in fields]


ID, V = column("id", number=1), column("v", "string", number=2)


class TestAColumnThatIsNew:
    """It takes null, because each row that is there has none."""

    @pytest.mark.parametrize("mapped", [False, True])
    def test_comes_where_the_source_has_it(self, mapped):
        """With its comment, and with its name and id in files where both tables map their columns; without other metadata."""
        number = (lambda one: one) if mapped else (lambda one: None)
        before = view(column("id", number=number(1)), column("v", number=number(2)), mapped=mapped)
        new = column("w", listed(column("x", number=number(5))), number=number(4))
        after = view(column("id", number=number(1)), new, column("v", number=number(2)), mapped=mapped)

        found = follow(before, after, made_of(before, mapped=mapped, last_id=2 if mapped else 0))

        assert found.reopens
        assert names(found.fields) == ["id", "w", "v"]
        assert found.fields[1] == loose(new, mapped=mapped)
        assert found.fields[1]["nullable"]
        assert found.fields[1]["metadata"].items() >= SAID.items()
        assert "other" not in found.fields[1]["metadata"]
        assert found.last_id == (5 if mapped else 0)

    def test_may_be_inside_others(self):
        """In structs, arrays and maps; those keep what else they have."""
        pairs = {"type": "map", "keyType": "string", "valueType": struct(column("a")), "valueContainsNull": True}
        more = {**pairs, "valueType": struct(column("a"), column("b"))}
        before = view(column("s", struct(column("l", listed(column("a"))), column("m", pairs))))
        after = view(column("s", struct(column("l", listed(column("n"), column("a"))), column("m", more))))

        (found,) = follow(before, after, made_of(before)).fields

        inner, outer = found["type"]["fields"]
        assert names(inner["type"]["elementType"]["fields"]) == ["n", "a"]
        assert names(outer["type"]["valueType"]["fields"]) == ["a", "b"]

    def test_keeps_what_the_target_alone_has(self):
        """Columns of a table that was there before the job."""
        before, after = view(column("id")), view(column("id"), column("w"))
        target = Target(Columns((*made_of(before).columns.fields, column("theirs")), mapped=False))

        assert names(follow(before, after, target).fields) == ["id", "w", "theirs"]

    @pytest.mark.parametrize(
        ("new", "target", "words"),
        [
            (column("Theirs"), {}, "'theirs' twice"),
            (column("at", "timestamp_ntz"), {}, r"timestamp_ntz \(timestampNtz\)"),
            (column("s", struct(column("x", listed(column("y", "variant"))))), {}, r"'s' was added, .*\(variantType\)"),
            (column("shape", "geometry"), {}, "feature for geometry"),
            (column("w"), {"mapped": True, "last_id": 1}, "the source does not"),
        ],
    )
    def test_is_refused_where_the_target_cannot_have_it(self, new, target, words):
        """A name that is taken, a type that needs a table feature, names in files that were never given."""
        before, after = view(ID), view(ID, new)
        made = made_of(before, **target)
        there = (*made.columns.fields, loose(column("theirs", number=1), mapped=True))
        with pytest.raises(NotFollowedError, match=words):
            follow(before, after, Target(Columns(there, made.columns.mapped), made.last_id))

    def test_may_have_a_type_for_which_the_target_has_the_feature(self):
        """As where the pinned version had such a column."""
        before, after = view(ID), view(ID, column("at", "timestamp_ntz"), column("d", "decimal(10,2)"))

        assert len(follow(before, after, made_of(before, features=["timestampNtz"])).fields) == 3

    def test_is_refused_an_id_that_the_target_gave_away(self):
        """An id is given once, in a table of another history."""
        before, after = view(ID, mapped=True), view(ID, V, mapped=True)

        with pytest.raises(NotFollowedError, match="'v' was added, and the target gave its id"):
            follow(before, after, made_of(before, mapped=True, last_id=2))


class TestAMappedColumn:
    """Its values are found by its name in files."""

    def test_gets_another_name_and_nothing_else(self):
        """Also one inside another."""
        before = view(ID, column("s", struct(column("a", number=3)), number=2), mapped=True)
        after = view(ID, column("t", struct(column("b", number=3)), number=2), mapped=True)

        found = follow(before, after, made_of(before, mapped=True, last_id=3))

        renamed = found.fields[1]
        assert (renamed["name"], renamed["metadata"]) == ("t", {COLUMN_ID: 2, PHYSICAL_NAME: "p2", **SAID})
        assert names(renamed["type"]["fields"]) == ["b"]
        assert renamed["type"]["fields"][0]["metadata"][PHYSICAL_NAME] == "p3"

    def test_goes_and_one_of_its_name_is_another(self):
        """Its old values must not come back."""
        before = view(ID, V, mapped=True)
        after = view(ID, column("v", "string", number=7), mapped=True)

        found = follow(before, after, made_of(before, mapped=True, last_id=2))

        assert found.fields[1]["metadata"] == {COLUMN_ID: 7, PHYSICAL_NAME: "p7", **SAID}
        assert found.last_id == 7

    def test_may_change_its_name_with_another(self):
        """Two names that are exchanged name other values."""
        before = view(ID, column("v", number=2), mapped=True)
        after = view(column("v", number=1), column("id", number=2), mapped=True)

        found = follow(before, after, made_of(before, mapped=True, last_id=2))

        assert [(one["name"], one["metadata"][PHYSICAL_NAME]) for one in found.fields] == [("v", "p1"), ("id", "p2")]

    @pytest.mark.parametrize("after", [view(ID, mapped=True), view(ID, column("w", number=2), mapped=True)])
    def test_needs_a_target_that_maps_its_columns_too(self, after):
        """Else the name is all that finds its values."""
        before = view(ID, column("v", number=2), mapped=True)
        with pytest.raises(NotFollowedError, match=r"'v' was (dropped|renamed to 'w'), and the target does not use column mapping"):
            follow(before, after, made_of(before))

    def test_needs_a_source_that_mapped_it_all_the_time(self):
        """A column that goes takes its values along where files have its name."""
        with pytest.raises(NotFollowedError, match="'v' was dropped, and the source does not use column mapping"):
            follow(view(column("id"), column("v")), view(column("id")), made_of(view(column("id"), column("v"))))


def widened(field, *changes):
    """Return a field whose types became wider, each as its path, the old type and the new one."""
    said = [{"fromType": was, "toType": now, **({"fieldPath": path} if path else {})} for path, was, now in changes]
    return {**field, "metadata": {**field["metadata"], TYPE_CHANGES: said}}


PAIRS = {"type": "map", "keyType": "integer", "valueType": "float", "valueContainsNull": True}
WIDE_PAIRS = {**PAIRS, "keyType": "long", "valueType": "double"}


class TestAWiderType:
    """Files keep the old one: the target says so as the source does, by which readers know to convert."""

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
    def test_is_followed_where_the_log_tells_of_it(self, before, after):
        """At any depth, and step by step."""
        target = made_of(view(before), features=[WIDENING])
        target = replace(target, columns=Columns((loose(before, mapped=False, kept=("comment", TYPE_CHANGES)),), False))

        found = follow(view(before), view(after), target)

        assert found.fields == (loose(after, mapped=False, kept=("comment", TYPE_CHANGES)),)
        assert found.reopens

    @pytest.mark.parametrize(
        ("after", "features", "words"),
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
    def test_is_refused_otherwise(self, after, features, words):
        """A table that was made anew, another story, or a target that cannot tell its readers."""
        before = view(column("a", "integer"))
        with pytest.raises(NotFollowedError, match=words):
            follow(before, view(after), made_of(before, features=features))

    def test_is_refused_where_the_target_became_wider_by_itself(self):
        """Its files may have a type that the source does not tell of."""
        before = view(column("a", "integer"))
        theirs = widened(column("a", "integer"), ("", "byte", "integer"))
        target = Target(Columns((theirs,), mapped=False), features=frozenset({WIDENING}))
        with pytest.raises(NotFollowedError, match="the target's column has other type changes"):
            follow(before, view(widened(column("a"), ("", "integer", "long"))), target)


class TestAnotherType:
    """Files of before hold the old one."""

    @pytest.mark.parametrize(
        ("was", "now"),
        [("integer", "long"), (listed(column("a")), struct(column("a"))), (struct(column("a")), "string")],
    )
    def test_is_refused_by_name(self, was, now):
        """Also a wider one of which the log does not tell, and one inside another."""
        before, after = view(column("s", struct(column("x", was)))), view(column("s", struct(column("x", now))))
        with pytest.raises(NotFollowedError, match=r"'s\.x' changed its type: .* became "):
            follow(before, after, made_of(before))


class TestASelection:
    """What it does not take is not the target's."""

    TAKEN = {"id": "id", "words": "v", "made": None}

    def both(self, *later, asked=("id",), asked_later=("id",)):
        before = view(ID, V, column("other", number=3), mapped=True, taken=self.TAKEN, asked=asked)
        after = view(*later, mapped=True, taken=self.TAKEN, asked=asked_later)
        return before, after, made_of(before, mapped=False)

    def test_is_not_touched_by_what_it_leaves_out(self):
        """A new column, and nothing that the job reads."""
        found = follow(*self.both(ID, V, column("other", number=3), column("w", number=4)))

        assert (found.reopens, found.fields) == (False, None)

    def test_is_read_anew_where_a_column_beside_it_has_another_name(self):
        """The old name is asked for no more."""
        found = follow(*self.both(ID, V, column("another", number=3)))

        assert (found.reopens, found.fields) == (True, None)

    def test_gets_what_is_new_inside_a_column_that_it_takes(self):
        """Under the name that the column has there."""
        taken = {"whole": "s"}
        before = view(column("s", struct(column("a"))), taken=taken)
        after = view(column("s", struct(column("a"), column("b"))), column("w"), taken=taken)

        (found,) = follow(before, after, made_of(before)).fields

        assert (found["name"], names(found["type"]["fields"])) == ("whole", ["a", "b"])

    @pytest.mark.parametrize(
        ("later", "asked_later", "words"),
        [
            ((column("id", number=9), V, column("other", number=3)), ["id"], "'id', with which"),
            ((column("id", "string", number=1), V, column("other", number=3)), ["id"], "'id', with which"),
            ((ID, V, column("other", number=3)), ["id", "other"], "stopped computing with the column 'other'"),
        ],
    )
    def test_is_refused_other_columns_to_compute_with(self, later, asked_later, words):
        """What is there was made of the old ones."""
        with pytest.raises(NotFollowedError, match=words):
            follow(*self.both(*later, asked_later=asked_later))
