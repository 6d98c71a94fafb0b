"""What of a source's words becomes the target's, and what is left to the target's owner."""

import pytest

from backfill_core.log_shipping.columns import COLUMN_ID, DEFAULT, DEFAULTS, PHYSICAL_NAME, kinds_of_words
from backfill_core.log_shipping.table_words import TableWords, changed, of_users, with_words
from backfill_core.protocol.new_words import Description, NewWords

WORDS = kinds_of_words({DEFAULTS})


def column(name, comment=None, kind="long", physical=None):
    metadata = {} if physical is None else {PHYSICAL_NAME: physical, COLUMN_ID: 1}
    return {
        "name": name,
        "type": kind,
        "nullable": True,
        "metadata": metadata if comment is None else {**metadata, "comment": comment},
    }


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def array(*fields):
    return {"type": "array", "elementType": struct(*fields), "containsNull": True}


def pairs(*fields):
    return {"type": "map", "keyType": "string", "valueType": struct(*fields), "valueContainsNull": True}


class TestPropertiesOfUsers:
    """Are all but those that say how engines treat a table."""

    def test_are_told_by_their_names(self):
        """In any case of letters, as Delta reads them."""
        given = {"team": "a", "delta.logRetentionDuration": "x", "Delta.feature.y": "supported", "deltas": "z"}

        assert of_users(given) == {"team": "a", "deltas": "z"}

    @pytest.mark.parametrize(
        ("before", "after", "found"),
        [
            ({}, {"a": "1"}, (("a", "1"),)),
            ({"a": "1", "b": "2"}, {"a": "3", "b": "2"}, (("a", "3"),)),
            ({"a": "1", "b": "2"}, {}, (("a", None), ("b", None))),
            ({"a": "1"}, {"a": "1"}, ()),
            ({"own": "1"}, {"own": "2"}, ()),
            ({"own": "1"}, {}, ()),
        ],
    )
    def test_are_followed_where_the_job_does_not_set_them(self, before, after, found):
        """One that comes, changes or goes; what the spec says of the target is the target's."""
        assert changed(TableWords(None, before), TableWords(None, after), {"own"}) == NewWords(found)


class TestADescription:
    """Is that of the source, once it changes."""

    @pytest.mark.parametrize(
        ("before", "after", "found"),
        [("a", "b", Description("b")), ("a", None, Description(None)), (None, "b", Description("b")), ("a", "a", None)],
    )
    def test_is_followed(self, before, after, found):
        """Also when it goes."""
        assert changed(TableWords(before), TableWords(after), ()).description == found


class TestAComment:
    """Follows its column, whatever that is called."""

    def test_that_changed_and_no_other(self):
        """What the source did not change is the word of the target's owner; what else the column has stays."""
        old = {"p1": column("a", "old"), "p2": column("b", "same"), "p3": column("c", "gone"), "p4": column("d")}
        new = {"p1": column("a", "new"), "p2": column("b", "same"), "p3": column("c"), "p4": column("d", "came")}
        theirs = [
            column("a", "of the target", physical="p1"), column("b", "of the target", physical="p2"),
            column("c", "of the target", physical="p3"), column("d", physical="p4"), column("theirs", "alone"),
        ]  # fmt: skip

        found = with_words(old, new, theirs, WORDS)

        said = {"a": "new", "b": "of the target", "d": "came", "theirs": "alone"}
        assert {one["name"]: one["metadata"].get("comment") for one in found} == {**said, "c": None}
        assert [one["metadata"].get(PHYSICAL_NAME) for one in found] == ["p1", "p2", "p3", "p4", None]
        assert "comment" not in found[2]["metadata"]

    def test_of_a_column_that_got_another_name_with_it(self):
        """It is told by where its values come from."""
        found = with_words(
            {"p1": column("a", "old"), "p2": column("b", "of b")},
            {"p1": column("b", "new"), "p2": column("a", "of b")},
            [column("b", "old"), column("a", "of b")],
            WORDS,
        )

        assert [(one["name"], one["metadata"]["comment"]) for one in found] == [("b", "new"), ("a", "of b")]

    @pytest.mark.parametrize("around", [struct, array, pairs])
    def test_inside_another(self, around):
        """In structs, arrays and maps."""
        old, new = (around(column("x", said), column("y", "same")) for said in ("old", "new"))
        theirs = around(column("x", "old"), column("y", "of the target"))

        old, new, theirs = (column("s", kind=kind) for kind in (old, new, theirs))
        (found,) = with_words({"s": old}, {"s": new}, [theirs], WORDS)

        assert found == column("s", kind=around(column("x", "new"), column("y", "of the target")))

    def test_of_a_column_that_is_new_came_with_it(self):
        """There was none before."""
        (found,) = with_words({}, {"p1": column("a", "new")}, [column("a", "new")], WORDS)

        assert found == column("a", "new")


class TestADefault:
    """Is followed as a comment is, into a table that may have one."""

    @staticmethod
    def defaulted(name, default, comment=None):
        one = column(name, comment)
        return {**one, "metadata": {**one["metadata"], **({} if default is None else {DEFAULT: default})}}

    @pytest.mark.parametrize(("was", "now"), [("1", "2"), (None, "2"), ("1", None)])
    def test_that_changed_came_or_went(self, was, now):
        """What else the column says stays."""
        old, new, theirs = (self.defaulted("a", one, "said") for one in (was, now, was))

        assert with_words({"a": old}, {"a": new}, [theirs], WORDS) == (new,)

    def test_is_nothing_for_a_table_without_the_feature(self):
        """Writers would not know that they must look at it."""
        old, new = (self.defaulted("a", one, said) for one, said in (("1", "old"), ("2", "new")))

        (found,) = with_words({"a": old}, {"a": new}, [column("a", "old")], kinds_of_words({"appendOnly"}))

        assert found == column("a", "new")
