"""SQL condition for the rows at or before a position: written only from R-ARR-7 and R-ARR-13."""

from collections.abc import Sequence


def at_or_before(order: Sequence[Sequence[str]], position: Sequence[object]) -> str:
    """Return a condition on rows.

    Args:
        order: Columns, each with its type and `ASC` or `DESC`; NULL is the largest value.
        position: A value for each column, as a state stores it.

    Raises:
        TypeError: no state stores such a value for its type.
    """
    ways, same = [], []
    for (name, data_type, direction), value in zip(order, position, strict=True):
        column = f'"{name}"'
        if value is None:
            before, equal = ("FALSE" if direction == "DESC" else f"{column} IS NOT NULL"), f"{column} IS NULL"
        else:
            literal = _literal(data_type, value)
            before = f"({column} > {literal} OR {column} IS NULL)" if direction == "DESC" else f"{column} < {literal}"
            equal = f"{column} = {literal}"
        ways.append([*same, before])
        same.append(equal)
    return " OR ".join(f"({' AND '.join(way)})" for way in [*ways, same])


def _literal(data_type: str, value: object) -> str:
    match data_type, value:
        case "boolean", bool():
            return str(value)
        case (("byte" | "short" | "integer" | "long"), int()):
            return str(value)
        case "date", int():
            return f"arrow_cast(arrow_cast({value}, 'Int32'), 'Date32')"
        case "timestamp", int():
            return f"arrow_cast({value}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
        case "timestamp_ntz", int():
            return f"arrow_cast({value}, 'Timestamp(Microsecond, None)')"
        case "binary", str():
            return f"X'{value}'"
        case _, str() if data_type.startswith("decimal("):
            return f"cast('{value}' AS {data_type})"
        case "double", (int() | float()):
            return f"cast('{float(value)!r}' AS double)"
        case "string", str():
            quoted = value.replace("'", "''")
            return f"'{quoted}'"
        case _:
            raise TypeError(f"no literal for {value!r} of type {data_type}")
