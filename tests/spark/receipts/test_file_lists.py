"""Lists of a table's files between two comparisons: the second one reads only versions that the first one did not end with."""

from backfill_spark.receipts.changed_rows import HELD_FILES_MAX, FileLists


class TestFileLists:
    """Writers wait during the second comparison, and a list of a large table takes seconds."""

    def test_the_version_that_was_compared_last_is_not_read_again(self):
        """An earlier version is, and so is the same version of another table."""
        lists, reads = FileLists(), []

        def read(version):
            reads.append(version)
            return [f"file of {version}"]

        lists.hold("/lake/orders", 3, read(3))
        lists.hold("/lake/orders", 7, read(7))

        assert lists.files("/lake/orders", 7, read) == ["file of 7"]
        assert reads == [3, 7]
        assert lists.files("/lake/orders", 3, read) == ["file of 3"]
        assert lists.files("/lake/orders_v2", 7, read) == ["file of 7"]
        assert reads == [3, 7, 3, 7]

    def test_a_list_of_too_many_files_is_read_again(self):
        """It would fill the memory of the driver; an older list of the same table goes with it."""
        lists = FileLists()
        lists.hold("/lake/orders", 3, ["held"])

        lists.hold("/lake/orders", 7, range(HELD_FILES_MAX + 1))

        assert lists.files("/lake/orders", 3, lambda _: ["read"]) == ["read"]
        assert lists.files("/lake/orders", 7, lambda _: ["read"]) == ["read"]
