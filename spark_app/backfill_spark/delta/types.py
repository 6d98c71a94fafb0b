"""Types and names of columns as Spark writes them."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import ArrayType, DataType, MapType, StructType


def every_type(data_type: DataType) -> Iterator[DataType]:
    """Yield a type and those inside it, outer ones first."""
    yield data_type
    match data_type:
        case StructType():
            for field in data_type:
                yield from every_type(field.dataType)
        case ArrayType():
            yield from every_type(data_type.elementType)
        case MapType():
            yield from every_type(data_type.keyType)
            yield from every_type(data_type.valueType)


def nullable(data_type: DataType) -> DataType:
    """Return the type with every part nullable, because nullability differs between queries."""
    match data_type:
        case StructType():
            result = StructType()
            for field in data_type:
                result.add(field.name, nullable(field.dataType), nullable=True)
            return result
        case ArrayType():
            return ArrayType(nullable(data_type.elementType), containsNull=True)
        case MapType():
            return MapType(nullable(data_type.keyType), nullable(data_type.valueType), valueContainsNull=True)
    return data_type


def quoted(name: str) -> str:
    """Return a column's name quoted for SQL; it may contain any character."""
    return "`" + name.replace("`", "``") + "`"


def sql_text(text: str) -> str:
    """Return text as a string literal of SQL; it may contain any character."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
