"""Table metadata: parts that the target copies from its source, and parts that belong to the target's owner."""

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
    """User properties are all properties except those that control engines."""

    def test_user_properties_are_recognized_by_their_names(self):
        """The match ignores case, as in Delta."""
        given = {"team": "a", "delta.logRetentionDuration": "x", "Delta.feature.y": "supported", "deltas": "z"}

        assert of_users(given) == {"team": "a", "deltas": "z"}

    @pytest.mark.parametrize(
        ("before", "after", "change"),
        [
            ({}, {"a": "1"}, (("a", "1"),)),
            ({"a": "1", "b": "2"}, {"a": "3", "b": "2"}, (("a", "3"),)),
            ({"a": "1", "b": "2"}, {}, (("a", None), ("b", None))),
            ({"a": "1"}, {"a": "1"}, ()),
            ({"own": "1"}, {"own": "2"}, ()),
            ({"own": "1"}, {}, ()),
        ],
    )
    def test_user_properties_are_followed_where_the_spec_does_not_set_them(self, before, after, change):
        """The cases are an added, changed or removed property; properties from the spec belong to the target."""
        assert changed(TableWords(None, before), TableWords(None, after), {"own"}) == NewWords(change)


class TestADescription:
    """A description follows the source once it changes."""

    @pytest.mark.parametrize(
        ("before", "after", "description"),
        [("a", "b", Description("b")), ("a", None, Description(None)), (None, "b", Description("b")), ("a", "a", None)],
    )
    def test_a_description_follows_the_source(self, before, after, description):
        """The rule includes its removal."""
        assert changed(TableWords(before), TableWords(after), ()).description == description


class TestAComment:
    """A comment follows its column, even if the column is renamed."""

    def test_only_a_changed_comment_is_followed(self):
        """Comments that the source did not change belong to the target's owner; other metadata of the column stays."""
        old = {"p1": column("a", "old"), "p2": column("b", "same"), "p3": column("c", "gone"), "p4": column("d")}
        new = {"p1": column("a", "new"), "p2": column("b", "same"), "p3": column("c"), "p4": column("d", "came")}
        target = [
            column("a", "of the target", physical="p1"), column("b", "of the target", physical="p2"),
            column("c", "of the target", physical="p3"), column("d", physical="p4"), column("theirs", "alone"),
        ]  # fmt: skip

        fields = with_words(old, new, target, WORDS)

        comments = {"a": "new", "b": "of the target", "d": "came", "theirs": "alone"}
        assert {field["name"]: field["metadata"].get("comment") for field in fields} == {**comments, "c": None}
        assert [field["metadata"].get(PHYSICAL_NAME) for field in fields] == ["p1", "p2", "p3", "p4", None]
        assert "comment" not in fields[2]["metadata"]

    def test_a_comment_of_a_renamed_column_is_followed(self):
        """The source of its values identifies the column."""
        fields = with_words(
            {"p1": column("a", "old"), "p2": column("b", "of b")},
            {"p1": column("b", "new"), "p2": column("a", "of b")},
            [column("b", "old"), column("a", "of b")],
            WORDS,
        )

        assert [(field["name"], field["metadata"]["comment"]) for field in fields] == [("b", "new"), ("a", "of b")]

    @pytest.mark.parametrize("around", [struct, array, pairs])
    def test_a_comment_of_a_nested_field_is_followed(self, around):
        """Structs, arrays and maps are covered."""
        old, new = (around(column("x", comment), column("y", "same")) for comment in ("old", "new"))
        target = around(column("x", "old"), column("y", "of the target"))

        old, new, target = (column("s", kind=kind) for kind in (old, new, target))
        (field,) = with_words({"s": old}, {"s": new}, [target], WORDS)

        assert field == column("s", kind=around(column("x", "new"), column("y", "of the target")))

    def test_a_comment_of_a_new_column_comes_with_it(self):
        """The column did not exist before."""
        (field,) = with_words({}, {"p1": column("a", "new")}, [column("a", "new")], WORDS)

        assert field == column("a", "new")


class TestADefault:
    """A default follows the source like a comment, in a table that supports defaults."""

    @staticmethod
    def defaulted(name, default, comment=None):
        field = column(name, comment)
        return {**field, "metadata": {**field["metadata"], **({} if default is None else {DEFAULT: default})}}

    @pytest.mark.parametrize(("was", "now"), [("1", "2"), (None, "2"), ("1", None)])
    def test_a_default_that_is_changed_added_or_removed_is_followed(self, was, now):
        """Other metadata of the column stays."""
        old, new, target = (self.defaulted("a", default, "said") for default in (was, now, was))

        assert with_words({"a": old}, {"a": new}, [target], WORDS) == (new,)

    def test_a_default_is_ignored_for_a_table_without_the_feature(self):
        """Writers would not know that they must apply it."""
        old, new = (self.defaulted("a", default, comment) for default, comment in (("1", "old"), ("2", "new")))

        (field,) = with_words({"a": old}, {"a": new}, [column("a", "old")], kinds_of_words({"appendOnly"}))

        assert field == column("a", "new")
