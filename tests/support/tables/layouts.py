"""Parquet files of any layout: codecs, row groups, dictionaries and nulls, for each kind of column, written by Spark or by delta-rs."""

from deltalake import (
    ColumnProperties,
    DeltaTable,
    QueryBuilder,
    WriterProperties,
    convert_to_deltalake,
    write_deltalake,
)
from hypothesis import strategies as st

ROWS = 40
CODECS = ("snappy", "zstd", "gzip", "uncompressed")


@st.composite
def layouts(draw):
    """Draw a writer, a codec and a layout of a file."""
    return {
        "writer": draw(st.sampled_from(["spark", "delta-rs"])),
        "codec": draw(st.sampled_from(CODECS)),
        "group_rows": draw(st.sampled_from([7, ROWS])),
        "dictionary": draw(st.booleans()),
        "nulls": draw(st.sampled_from([1, 2, 5, ROWS + 1])),
        "repeats": draw(st.sampled_from([3, ROWS])),
    }


def rows(spark, layout):
    """Return rows with each kind of column; each column but the first is null at a fixed interval, in turn."""
    every, repeats = layout["nulls"], layout["repeats"]
    value = f"(id % {repeats})"
    columns = {
        "i": f"cast({value} AS int)",
        "s": f"concat('tëxt ', {value})",
        "t": f"timestamp_seconds({value}) + interval 123456 microseconds",
        "d": f"cast({value} AS decimal(20, 4)) / 8",
        "a": f"array({value}, null, {value} + 1)",
        "g": f"named_struct('x', if(id % 3 = 0, null, {value}), 'y', array(concat('y', {value})))",
        "m": f"map(concat('k', {value}), if(id % 4 = 0, null, {value}))",
    }
    exprs = [
        f"if(id % {every} = {at % every}, null, {text}) AS {name}" for at, (name, text) in enumerate(columns.items())
    ]
    return spark.range(0, ROWS, 1, 1).selectExpr("id", *exprs)


def write(spark, folder, layout):
    """Write one file with the row groups of the layout."""
    frame = rows(spark, layout)
    if layout["writer"] == "spark":
        options = {
            "compression": layout["codec"],
            "parquet.enable.dictionary": str(layout["dictionary"]).lower(),
            "parquet.block.size": "1" if layout["group_rows"] < ROWS else "134217728",
            "parquet.block.row.count.limit": str(layout["group_rows"]),
        }
        frame.write.options(**options).parquet(str(folder))
        return
    plain = f"{folder}-plain"
    frame.write.parquet(plain)
    convert_to_deltalake(plain)
    table = QueryBuilder().register("now", DeltaTable(plain)).execute("SELECT * FROM now").read_all()
    properties = WriterProperties(
        compression=layout["codec"].upper(),
        max_row_group_size=layout["group_rows"],
        default_column_properties=ColumnProperties(dictionary_enabled=layout["dictionary"]),
    )
    write_deltalake(str(folder), table, writer_properties=properties)
