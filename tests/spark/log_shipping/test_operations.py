"""Operations of sources besides writes, shipped: the rows are equal after each commit, or the job ends with a named error."""

import pytest
from support.tables.oracle import adds_of

from backfill_core.errors import TargetSchemaMismatchError, UnsupportedTargetFeatureError
from backfill_spark.delta.log import LoggedTable
from backfill_spark.log_shipping.layout import FILES_REFUSED, check_followed

VECTORS = "'delta.enableDeletionVectors' = 'true'"


class TestAnOperation:
    """Each operation of the source is shipped in a separate commit."""

    def test_clustering_leaves_its_tags_in_the_source(self, replica):
        """The tags describe a layout. A copy has only the tag of its bytes, and no data changed."""
        replica.sql(f"CREATE TABLE {{t}} (id LONG, v STRING) USING delta CLUSTER BY (v) TBLPROPERTIES ({VECTORS})")
        for first in (0, 40):
            replica.sql(f"INSERT INTO {{t}} SELECT id, concat('v', id % 7) FROM range({first}, {first + 40}, 1, 1)")
        replica.begin()
        replica.sql("OPTIMIZE {t}")
        (ordered,) = adds_of(replica.source).values()

        shipped, actions = replica.ship()

        assert replica.equal()
        assert "ZCUBE_ID" in ordered["tags"]
        (added,) = (action["add"] for action in actions if "add" in action)
        assert list(added["tags"]) == ["backfill.copied"]
        assert (shipped.changes, added["dataChange"]) == (0, False)

    def test_identity_columns_write_their_mark_with_each_insert(self, replica):
        """Such a commit has metadata with unchanged columns."""
        replica.sql("CREATE TABLE {t} (id LONG GENERATED ALWAYS AS IDENTITY, v STRING) USING delta")
        replica.sql("INSERT INTO {t} (v) VALUES ('a'), ('b')")
        replica.begin()
        for value in "cd":
            replica.sql(f"INSERT INTO {{t}} (v) VALUES ('{value}')")
            replica.ship()
            assert replica.equal()

    def test_commit_times_in_the_log_may_be_switched_on(self, replica):
        """This table feature does not change how files are read."""
        replica.sql("CREATE TABLE {t} (id LONG) USING delta")
        replica.sql("INSERT INTO {t} VALUES (1)")
        replica.begin()
        replica.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
        replica.sql("INSERT INTO {t} VALUES (2)")
        replica.ship()

        assert replica.equal()

    def test_files_that_the_log_does_not_count_are_decoded(self, spark, replica):
        """They are files of history or shipped ones. A vector on such a file has it decoded again."""
        spark.conf.set("spark.databricks.delta.stats.collect", "false")
        try:
            replica.sql(f"CREATE TABLE {{t}} (id LONG, v STRING) USING delta TBLPROPERTIES ({VECTORS})")
            replica.sql("INSERT INTO {t} SELECT id, 'x' FROM range(0, 20, 1, 1)")
            replica.begin()
            before = adds_of(replica.target)
            replica.sql("INSERT INTO {t} SELECT id, 'y' FROM range(20, 40, 1, 1)")
            replica.sql("DELETE FROM {t} WHERE id % 10 = 4")
            replica.ship()
        finally:
            spark.conf.unset("spark.databricks.delta.stats.collect")

        assert replica.equal()
        # With a vector Delta counts a file's rows, and then it is copied.
        assert sorted("/d-" in path for path in before) == [True]

    def test_a_restore_brings_files_back(self, replica):
        """A DELETE and an OPTIMIZE removed these files; they return with their earlier vectors."""
        replica.sql(f"CREATE TABLE {{t}} (id LONG, v STRING) USING delta TBLPROPERTIES ({VECTORS})")
        replica.sql("INSERT INTO {t} SELECT id, 'x' FROM range(0, 40, 1, 2)")
        replica.sql("DELETE FROM {t} WHERE id = 3")
        replica.begin()
        for change in ("DELETE FROM {t} WHERE id IN (5, 34)", "OPTIMIZE {t}", "RESTORE TABLE {t} TO VERSION AS OF 2"):
            replica.sql(change)
            replica.ship()
            assert replica.equal(), change

    @pytest.mark.parametrize("gone", ["DELETE FROM {t} WHERE id IN (5, 34)", "UPDATE {t} SET v = 'y' WHERE id < 3"])
    def test_a_restore_outlives_a_checkpoint(self, spark, replica, gone):
        """A file got a vector and lost it.

        Kernel's checkpoint had the file and its removal, and Spark lost its rows.
        """
        replica.sql(f"CREATE TABLE {{t}} (id LONG, v STRING) USING delta TBLPROPERTIES ({VECTORS})")
        replica.sql("INSERT INTO {t} SELECT id, 'x' FROM range(0, 40, 1, 2)")
        replica.begin()
        for change in (gone, "RESTORE TABLE {t} TO VERSION AS OF 1"):
            replica.sql(change)
            replica.ship()
        replica.checkpoint()

        assert replica.equal()

    def test_a_clone_over_it_brings_files_of_another_folder(self, spark, replica, tmp_path):
        """If Delta allows such a clone, it is the same table without its own rows. Those files are decoded."""
        spark.range(5).write.format("delta").save(f"{tmp_path}/other")
        replica.sql("CREATE TABLE {t} (id LONG) USING delta")
        replica.sql("INSERT INTO {t} VALUES (1)")
        replica.begin(source={"allowFilesOutside": [f"{tmp_path}/other"]})
        replica.sql("DELETE FROM {t}")
        replica.sql(f"CREATE OR REPLACE TABLE {{t}} SHALLOW CLONE delta.`{tmp_path}/other`")
        replica.ship()

        assert replica.equal()
        assert all("/d-" in path for path in adds_of(replica.target))


class TestATargetThatIsThere:
    """An existing target must be able to take the source's files and their removals."""

    def source(self, *partitions):
        return LoggedTable('{"type":"struct","fields":[]}', partitions, {}, frozenset())

    @pytest.mark.parametrize("name", FILES_REFUSED)
    def test_a_target_with_a_property_that_files_do_not_keep_is_refused(self, name):
        """The message names the property, in any spelling."""
        check_followed("/t", (), {name: "false"}, self.source())
        with pytest.raises(UnsupportedTargetFeatureError, match=name):
            check_followed("/t", (), {name: "TRUE"}, self.source())

    def test_a_target_with_other_partitions_is_refused(self):
        """The order counts, too: partition values are found by name, but a layout is a list."""
        check_followed("/t", ("a", "b"), {}, self.source("a", "b"))
        with pytest.raises(TargetSchemaMismatchError, match=r"\['b', 'a'\]"):
            check_followed("/t", ("b", "a"), {}, self.source("a", "b"))
