"""Positions of a key: their order is that of the rows, and a JSON round trip changes nothing."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.positions.key_order import KeyColumn, KeyOrder, KeyPosition, has_order

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "long": st.integers(-(2**63), 2**63 - 1),
    "decimal(38,4)": st.decimals(-(10**30), 10**30, places=4),
    "double": st.floats(),
    "string": st.text(max_size=4),
    "binary": st.binary(max_size=4),
    "date": st.integers(-800_000, 3_000_000),
    "timestamp": st.integers(-(2**60), 2**60),
}


@st.composite
def orders(draw: st.DrawFn) -> tuple[KeyOrder, list[KeyPosition]]:
    """Draw an order of one to three columns, and positions in it."""
    types = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    order = KeyOrder(tuple(KeyColumn(f"c{at}", data_type, draw(st.booleans())) for at, data_type in enumerate(types)))
    row = st.tuples(*(st.one_of(st.none(), VALUES[data_type]) for data_type in types))
    return order, draw(st.lists(row, min_size=2, max_size=8))


def compare(left: Any, right: Any) -> int:
    """Return -1, 0 or 1, as Spark compares two values of a column in ascending order with NULL last."""
    if left is None or right is None:
        return (left is None) - (right is None)
    if isinstance(left, float) and (math.isnan(left) or math.isnan(right)):
        return math.isnan(left) - math.isnan(right)
    if isinstance(left, str):
        left, right = left.encode("utf-8", "surrogatepass"), right.encode("utf-8", "surrogatepass")
    return (left > right) - (left < right)


def compare_rows(order: KeyOrder, first: KeyPosition, second: KeyPosition) -> int:
    for column, left, right in zip(order.columns, first, second, strict=True):
        result = compare(left, right)
        if result:
            return -result if column.descending else result
    return 0


class TestTheOrder:
    """R-ARR-7: the order mixes ASC and DESC freely, and NULL is the largest value."""

    @given(orders())
    def test_the_order_of_positions_is_that_of_the_rows(self, given: tuple[KeyOrder, list[KeyPosition]]) -> None:
        """A row on the wrong side of a position is lost or duplicated."""
        order, positions = given
        for first in positions:
            for second in positions:
                ours = order.sort_key(first), order.sort_key(second)

                assert (ours[0] > ours[1]) - (ours[0] < ours[1]) == compare_rows(order, first, second)

    @pytest.mark.parametrize(
        ("data_type", "ascending"),
        [
            ("double", [-math.inf, -1.5, -0.0, 1.0, math.inf, math.nan, None]),
            ("string", ["", "A", "Z", "a", "z", "é", "\uffff", "\U00010000", None]),
            ("binary", [b"", b"\x00", b"\x00\x01", b"\x7f", b"\x80", b"\xff", None]),
            ("boolean", [False, True, None]),
            ("decimal(10,2)", [Decimal("-1.50"), Decimal(0), Decimal("10.00"), None]),
        ],
    )
    def test_values_that_engines_order_differently_follow_sparks_order(
        self, data_type: str, ascending: list[Any]
    ) -> None:
        """NaN is above infinity, bytes are unsigned, and strings compare by bytes, not by UTF-16 units; DESC is the
        reverse."""
        up, down = (KeyOrder((KeyColumn("c", data_type, descending=descending),)) for descending in (False, True))
        rows = [(value,) for value in ascending]
        down_rows = rows[::-1]

        assert sorted(down_rows, key=up.sort_key) == rows
        assert sorted(rows, key=down.sort_key) == down_rows

    def test_negative_zero_equals_zero(self) -> None:
        """A reader of Delta finds 0.0 for a search of -0.0."""
        order = KeyOrder((KeyColumn("c", "double"),))

        assert order.sort_key((-0.0,)) == order.sort_key((0.0,))
        assert json.dumps(order.encode((-0.0,))) == "[0.0]"

    def test_types_without_an_order_are_refused(self) -> None:
        """Maps have no order, and the order of a collation changes with its library."""
        wrong = ["map", "variant", "string collate UNICODE", "struct", "array", "void", "interval year"]

        assert [data_type for data_type in wrong if has_order(data_type)] == []


class TestTheStoredForm:
    """A position outlives the process."""

    @given(orders())
    def test_the_order_survives_a_round_trip(self, given: tuple[KeyOrder, list[KeyPosition]]) -> None:
        """The round trip through JSON keeps types and directions."""
        order, positions = given
        again = KeyOrder.from_json(json.loads(json.dumps(order.to_json())))

        for position in positions:
            text = json.dumps(order.encode(position), allow_nan=False)
            assert order.sort_key(again.decode(json.loads(text))) == order.sort_key(position)
        assert again == order

    @pytest.mark.parametrize(
        ("data_type", "value"),
        [("long", "5"), ("long", True), ("boolean", 1), ("string", 5), ("double", "1.0"), ("binary", "xy"),
         ("decimal(10,2)", 1), ("decimal(10,2)", "x"), ("date", 1.5)],
    )  # fmt: skip
    def test_a_position_of_another_type_is_refused(self, data_type: str, value: Any) -> None:
        """A damaged state must not be read as a position."""
        with pytest.raises(ValueError, match="is no"):
            KeyOrder((KeyColumn("c", data_type),)).decode([value])

    @pytest.mark.parametrize("value", [None, [], "x", [["c", "long"]], [["c", "map", "ASC"]], [["c", "long", "UP"]]])
    def test_a_malformed_order_is_refused(self, value: Any) -> None:
        """The same rule holds for the order."""
        with pytest.raises(ValueError, match="not a"):
            KeyOrder.from_json(value)

    def test_a_position_has_a_maximum_size(self) -> None:
        """A state has 64 KiB: a key that is a document cannot be a position."""
        order = KeyOrder((KeyColumn("c", "string"),))

        assert order.fits(("x" * 8000,))
        assert not order.fits(("x" * 9000,))


class TestWords:
    """Progress is reported in the user's terms."""

    @pytest.mark.parametrize(
        ("data_type", "value", "formatted"),
        [
            ("date", -719_893, "-0001-01-01"),
            ("timestamp", 1_772_323_200_000_000, "2026-03-01T00:00:00Z"),
            ("timestamp_ntz", -1, "1969-12-31T23:59:59.999999"),
            ("date", 0, "1970-01-01"),
            ("date", -719_162, "0001-01-01"),
            ("date", 11_016, "2000-02-29"),
            ("date", 2_932_896, "9999-12-31"),
            ("string", "a b", '"a b"'),
            ("binary", b"\x01\xff", "0x01ff"),
            ("long", None, "NULL"),
            ("decimal(5,2)", Decimal("1.50"), "1.50"),
        ],
    )
    def test_a_position_is_formatted_in_the_type_of_its_column(
        self, data_type: str, value: Any, formatted: str
    ) -> None:
        """Days or microseconds since 1970 are not shown."""
        assert KeyOrder((KeyColumn("c", data_type),)).format_position((value,)) == f"c = {formatted}"
