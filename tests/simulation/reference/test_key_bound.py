"""The SQL that judges real tables follows the reference's order of keys."""

import itertools

import pytest
from deltalake import QueryBuilder
from support.reference.arrangement import Key
from support.tables.key_bound import at_or_before

ROWS = [
    (*pair, name) for pair in itertools.product((None, -1, 0, 2), (None, 0.5, 37.0)) for name in (None, "a", "it's")
]
TYPES = ("long", "double", "string")


@pytest.mark.parametrize("descending", [*itertools.product((False, True), repeat=3)])
def test_the_sql_bound_follows_the_order_of_the_reference(descending):
    """R-ARR-7, R-ARR-13: NULL is the largest value, ascending and descending, in each column of the order."""
    key = Key((0, 1, 2), descending)
    order = [(f"c{place}", TYPES[place], "DESC" if down else "ASC") for place, down in enumerate(descending)]
    values = ", ".join(f"({', '.join(map(_sql, row))})" for row in ROWS)

    for position in ROWS:
        query = f"SELECT * FROM (VALUES {values}) AS t (c0, c1, c2) WHERE {at_or_before(order, position)}"
        result = QueryBuilder().execute(query).read_all()

        rows_found = {*zip(*(result[name].to_pylist() for name in result.column_names), strict=True)}
        assert rows_found == {row for row in ROWS if key.order(row) <= key.order(position)}


def _sql(value):
    match value:
        case None:
            return "NULL"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case _:
            return repr(value)
