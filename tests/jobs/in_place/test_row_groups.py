"""Columns of files with several row groups and with deletion vectors are filled in place; delta-rs is the oracle."""

import struct
from pathlib import Path

from support.tables.jobs import job
from support.tables.oracle import adds_of, columns_of

from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.gateway import java
from backfill_spark.settings import DriverSettings

FILES = ((0, 95, 10), (100, 64, 9), (200, 64, 9), (300, 40, 100))
"""First id, rows and rows of a row group of each file: the last row group of a file is smaller, and one file has only one."""


class TestRowGroups:
    """A deletion vector hides rows by their number in the file, so each value must be in its row."""

    def test_each_value_is_in_its_row_beside_hidden_rows(self, spark, tmp_path):
        """A row in another place would get the value of another id, or the vector would hide another row."""
        path = str(tmp_path / "t")
        for first, rows, group_rows in FILES:
            frame = spark.range(first, first + rows, 1, 1).selectExpr(
                "id", "concat('n', id) AS name", "id * 2 AS twice"
            )
            options = {"parquet.block.size": "1", "parquet.block.row.count.limit": str(group_rows)}
            frame.write.options(**options).mode("append").parquet(path)
        spark.sql(f"CONVERT TO DELTA parquet.`{path}`")
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = 3")
        vectors = sorted(add["deletionVector"]["cardinality"] for add in adds_of(path).values())
        spec = job(
            path, path, source={"key": []}, strategy={"type": "InPlace"}, transform={"set": {"norm": "name || '-' || id"}},
            verify="Final",
        )  # fmt: skip

        outcome = run_driver(spec, settings=DriverSettings(cores=2, state_dir=tmp_path / "state"), spark=spark)

        assert (outcome.outcome, outcome.receipt.equal) == ("Complete", True)
        assert sorted(add["deletionVector"]["cardinality"] for add in adds_of(path).values()) == vectors  # not decoded
        ids = {number for first, rows, _ in FILES for number in range(first, first + rows) if number % 10 != 3}
        rows = columns_of(path, "id", "name", "twice", "norm")
        assert sorted(rows) == [(number, f"n{number}", 2 * number, f"n{number}-{number}") for number in sorted(ids)]


class TestAFooterThatItsWriterFilledWrongly:
    """Parquet chooses the row groups of a split by fields of the footer that some writers fill wrongly."""

    def test_values_are_not_exchanged_between_row_groups(self, spark, tmp_path):
        """Offset 0 of a dictionary that does not exist: Parquet then reads the second row group in the first split."""
        path = str(tmp_path / "t")
        notes = (
            "concat(md5(cast(id AS string)), if(id < 1000, repeat(md5(cast(-id AS string)), 3), left(md5('a'), 16)))"
        )
        spark.range(0, 2000, 1, 1).selectExpr("id", f"{notes} AS note").write.options(
            **{
                "compression": "none", "parquet.block.row.count.limit": "1000", "parquet.enable.dictionary": "false",
            }
        ).parquet(path)  # fmt: skip
        (file,) = Path(path).glob("*.parquet")
        file.write_bytes(without_dictionaries(spark, file.read_bytes()))
        (Path(path) / f".{file.name}.crc").unlink()
        spark.sql(f"CONVERT TO DELTA parquet.`{path}`")
        spec = job(
            path, path, source={"key": []}, strategy={"type": "InPlace"}, transform={"set": {"norm": "'n' || id"}},
            verify="Final",
        )  # fmt: skip

        outcome = run_driver(spec, settings=DriverSettings(cores=2, state_dir=tmp_path / "state"), spark=spark)

        assert (outcome.outcome, outcome.receipt.equal) == ("Complete", True)
        assert sorted(columns_of(path, "id", "norm")) == [(number, f"n{number}") for number in range(2000)]


def without_dictionaries(spark, content):
    """Return a Parquet file whose first column chunks have a dictionary at offset 0, as parquet-mr 1.8.1 once wrote it."""
    jvm = java(spark)
    formats = jvm.org.apache.parquet.format.Util
    (length,) = struct.unpack("<I", content[-8:-4])
    footer = formats.readFileMetaData(jvm.java.io.ByteArrayInputStream(content[-8 - length : -8]))
    groups = list(footer.getRow_groups())
    assert len(groups) == 2
    for group in groups:
        group.getColumns().get(0).getMeta_data().setDictionary_page_offset(0)
    written = jvm.java.io.ByteArrayOutputStream()
    formats.writeFileMetaData(footer, written)
    changed = bytes(written.toByteArray())
    return content[: -8 - length] + changed + struct.pack("<I", len(changed)) + b"PAR1"
