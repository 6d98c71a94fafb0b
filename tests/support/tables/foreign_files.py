"""Parquet files that neither Spark nor delta-rs writes: any physical and logical types, any footer metadata."""

from collections.abc import Mapping, Sequence
from typing import Any

from backfill_spark.jvm.gateway import hadoop_conf, java


def write_file(
    spark: Any,
    path: str,
    schema: str,
    rows: Sequence[Mapping[str, Any]],
    words: Mapping[str, str] | None = None,
    encryption: Any = None,
) -> None:
    """Write a Parquet file with Parquet's example writer.

    Args:
        spark: The session.
        path: Path of the file, which does not exist.
        schema: Parquet's notation: `message m { optional int32 a (DATE); }`.
        rows: Values by column, inner ones as mappings; a missing value is null. Strings and bytes are for binary columns.
        words: Key-value metadata of the footer, by name.
        encryption: Java's `FileEncryptionProperties`; `None` if the file is not encrypted.
    """
    jvm: Any = java(spark)
    parsed = jvm.org.apache.parquet.schema.MessageTypeParser.parseMessageType(schema)
    example = jvm.org.apache.parquet.hadoop.example.ExampleParquetWriter
    extra = jvm.java.util.HashMap()
    for name, value in (words or {}).items():
        extra.put(name, value)
    builder = example.builder(jvm.org.apache.hadoop.fs.Path(path)).withConf(hadoop_conf(spark))
    builder = builder.withType(parsed).withExtraMetaData(extra)
    writer = (builder if encryption is None else builder.withEncryption(encryption)).build()
    try:
        for row in rows:
            group = jvm.org.apache.parquet.example.data.simple.SimpleGroup(parsed)
            _fill(jvm, group, row)
            writer.write(group)
    finally:
        writer.close()


def write_encrypted(spark: Any, path: str, rows: int, *, plain_footer: bool) -> None:
    """Write a file with one column `id`, encrypted with a key that no reader has."""
    properties = java(spark).org.apache.parquet.crypto.FileEncryptionProperties.builder(bytearray(b"0123456789abcdef"))
    properties = properties.withPlaintextFooter() if plain_footer else properties
    numbers = [{"id": number} for number in range(rows)]
    schema = "message spark_schema { optional int32 id; }"
    write_file(spark, path, schema, numbers, encryption=properties.build())


def _fill(jvm: Any, group: Any, row: Mapping[str, Any]) -> None:
    for name, value in row.items():
        match value:
            case dict():
                _fill(jvm, group.addGroup(name), value)
            case str() | bytes():
                coded = value.encode() if isinstance(value, str) else value
                group.add(name, jvm.org.apache.parquet.io.api.Binary.fromConstantByteArray(coded))
            case int() if _is_long(group.getType(), name):
                _add_long(jvm, group, name, value)
            case _:
                group.add(name, value)


def _is_long(schema: Any, name: str) -> bool:
    return str(schema.getType(name).asPrimitiveType().getPrimitiveTypeName()) == "INT64"


def _add_long(jvm: Any, group: Any, name: str, value: int) -> None:
    """Add a number as a `long`: py4j converts a small one to an `int`, which reflection widens."""
    array, named = jvm.java.lang.reflect.Array, jvm.java.lang.Class.forName
    formal, given = array.newInstance(named("java.lang.Class"), 2), array.newInstance(named("java.lang.Object"), 2)
    formal[0], formal[1] = named("java.lang.String"), jvm.java.lang.Long.TYPE
    given[0], given[1] = name, value
    group.getClass().getMethod("add", formal).invoke(group, given)
