"""Versions of a source that Spark wrote, shipped to a target file by file: the rows are equal after each commit."""

from pathlib import Path

import pytest
from deltalake import DeltaTable
from support.tables.jobs import vacuum

MERGE = """
MERGE INTO {t} t USING (SELECT id + 1010 AS id FROM range(20)) s ON t.id = s.id
WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.id, 'm', null)
"""


def passed(spark, replica, where):
    """Return True if the rows of the target are those of the source that pass a filter."""
    shipped, expected = (spark.read.format("delta").load(path) for path in (replica.target, replica.source))
    expected = expected.where(where)
    return shipped.exceptAll(expected).isEmpty() and expected.exceptAll(shipped).isEmpty()


class TestADelta:
    """A delta of the source's log is applied unchanged, with deletion vectors, file by file."""

    @pytest.mark.rest
    def test_each_operation_is_shipped_in_a_separate_commit(self, spark, replica):
        """DELETE and UPDATE by vectors, MERGE, OPTIMIZE, a purge, the removal of a whole file: rows are equal after each."""
        rows = spark.range(400).selectExpr(
            "id", "concat('v', id) AS v", "if(id % 7 = 0, null, concat('p ', id % 3, '/é')) AS p"
        )
        writer = (
            rows.repartition(4).write.format("delta").partitionBy("p").option("delta.enableDeletionVectors", "true")
        )
        writer.save(replica.source)
        replica.sql("DELETE FROM {t} WHERE id = 3")
        replica.begin()
        assert replica.equal()

        for change in (
            "DELETE FROM {t} WHERE id % 10 = 1",
            "UPDATE {t} SET v = 'u' WHERE id % 10 = 2",
            "DELETE FROM {t} WHERE id % 10 = 4 OR id = 2",
            "INSERT INTO {t} SELECT id + 1000, 'new', 'p 9' FROM range(20)",
            MERGE,
            "DELETE FROM {t} WHERE p = 'p 9'",
        ):
            replica.sql(change)
            shipped, actions = replica.ship()
            assert replica.equal(), change
            assert shipped.changes > 0
            moved = [fields for action in actions for kind, fields in action.items() if kind in ("add", "remove")]
            assert moved
            assert all(fields["dataChange"] for fields in moved)
        replica.sql("OPTIMIZE {t}")
        shipped, actions = replica.ship()
        assert replica.equal()
        moved = [fields for action in actions for kind, fields in action.items() if kind in ("add", "remove")]
        assert (shipped.changes, any(fields["dataChange"] for fields in moved)) == (0, False)
        replica.sql("DELETE FROM {t} WHERE id = 399")
        replica.sql("REORG TABLE {t} APPLY (PURGE)")
        replica.ship()
        assert replica.equal()
        assert DeltaTable(replica.source).version() > 8

    def test_many_versions_are_shipped_in_one_commit(self, spark, replica):
        """A file that was added and removed in between is not read, because VACUUM may have deleted it."""
        spark.range(50).selectExpr("id", "id AS v").write.format("delta").option(
            "delta.enableDeletionVectors", "true"
        ).save(replica.source)
        replica.begin()
        replica.sql("INSERT INTO {t} SELECT id + 100, 1 FROM range(10)")
        replica.sql("UPDATE {t} SET v = 2 WHERE id >= 105")
        replica.sql("UPDATE {t} SET v = 3 WHERE id % 2 = 0")
        replica.sql("OPTIMIZE {t}")
        vacuum(spark, replica.source)
        shipped, _ = replica.ship()

        assert replica.equal()
        assert len(shipped.files) == len(DeltaTable(replica.source).file_uris())
        assert shipped.upto == replica.at

    def test_a_folder_with_only_a_vector_is_no_orphan(self, spark, replica):
        """VACUUM keeps it, too: a file in another folder names the vector's file."""
        rows = spark.range(10).coalesce(1).write.format("delta").option("delta.enableDeletionVectors", "true")
        rows.save(replica.source)
        replica.begin()
        replica.sql("DELETE FROM {t} WHERE id = 3")
        shipped, _ = replica.ship()
        replica.job.sink.remove_orphans(2)
        vacuum(spark, replica.target)

        assert len(shipped.removed) == 1
        assert replica.equal()

    def test_a_removed_file_is_no_orphan(self, spark, replica):
        """Readers of earlier versions need it until a VACUUM.

        Kernel's second checkpoint no longer records that the file was removed.
        """
        spark.range(10).coalesce(1).write.format("delta").save(replica.source)
        replica.begin()
        for least in range(3):
            spark.range(least, 10).coalesce(1).write.mode("overwrite").format("delta").save(replica.source)
            replica.ship()
            replica.checkpoint()
        assert replica.job.sink.remove_orphans(2) == 0

        earlier = [spark.read.format("delta").option("versionAsOf", at).load(replica.target) for at in range(2, 6)]
        assert [frame.count() for frame in earlier] == [10, 10, 9, 8]
        assert replica.equal()

    def test_a_filter_decides_for_each_file(self, spark, replica):
        """A file that passes is copied and gets its vectors in place.

        A file that is filtered out is not expected in the target.
        """
        rows = spark.range(0, 60, 1, 2).selectExpr("id", "id * 2 AS v")
        rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(replica.source)
        replica.begin(transform={"where": "id < 30"})
        assert len(DeltaTable(replica.target).file_uris()) == 1
        for change, files in {
            "DELETE FROM {t} WHERE id IN (3, 33)": 1,
            "INSERT INTO {t} VALUES (100, 1), (-1, 1)": 2,
            "DELETE FROM {t} WHERE id >= 30": 2,
            "UPDATE {t} SET id = id + 200 WHERE id = 5": 2,
            "OPTIMIZE {t}": 1,
        }.items():
            replica.sql(change)
            replica.ship()
            assert passed(spark, replica, "id < 30"), change
            assert len(DeltaTable(replica.target).file_uris()) == files, change

    def test_a_row_that_a_restore_brings_back_is_filtered(self, spark, replica):
        """Statistics of the remaining rows do not describe rows that a vector hides."""
        rows = spark.range(0, 30, 1, 1).selectExpr("id", "id * 2 AS v")
        rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(replica.source)
        replica.sql("DELETE FROM {t} WHERE id = 29")
        log = Path(replica.source, "_delta_log", f"{1:020}.json")
        added = log.read_text()
        log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
        assert '\\"id\\":29' in added
        log.write_text(
            added.replace('\\"id\\":29', '\\"id\\":28').replace('\\"tightBounds\\":false', '\\"tightBounds\\":true')
        )
        replica.begin(transform={"where": "id < 29"})
        assert passed(spark, replica, "id < 29")

        replica.sql("RESTORE TABLE {t} TO VERSION AS OF 0")
        replica.ship()

        assert passed(spark, replica, "id < 29")

    def test_a_transform_that_computes_is_decoded_file_by_file(self, spark, replica):
        """Each file is a separate group: a deleted row removes it, and it is decoded again.

        OPTIMIZE marks no row as rearranged.
        """
        rows = spark.range(60).selectExpr("id", "id * 2 AS v")
        rows.repartition(2).write.format("delta").option("delta.enableDeletionVectors", "true").save(replica.source)
        replica.begin(transform={"select": ["id", "v + 1 AS w"], "where": "id >= 10"})
        for change in ("DELETE FROM {t} WHERE id IN (3, 33)", "INSERT INTO {t} VALUES (100, 1)", "OPTIMIZE {t}"):
            replica.sql(change)
            _, actions = replica.ship()
            shipped = spark.read.format("delta").load(replica.target)
            expected = spark.read.format("delta").load(replica.source).where("id >= 10").selectExpr("id", "v + 1 AS w")
            assert shipped.exceptAll(expected).isEmpty()
            assert expected.exceptAll(shipped).isEmpty()
            moved = [fields for action in actions for kind, fields in action.items() if kind in ("add", "remove")]
            assert len({fields["dataChange"] for fields in moved}) == 1
