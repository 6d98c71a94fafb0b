"""Tests of the locations of files in a log."""

import pytest

from backfill_core.log_shipping.file_locations import FileLocations, is_below, local_path, suggested_folder

LOCAL = FileLocations.of("/lake/orders", ("/origin",), default="file:///")
BUCKET = FileLocations.of("s3a://bucket/orders", ("s3://bucket/origin/",), default="file:///")
CLUSTER = FileLocations.of("hdfs://node:8020/lake/orders", (), default="hdfs://node:8020")


class TestFilesInTheFolder:
    """A job reads the files in the folder of the table, whatever their spelling in the log."""

    @pytest.mark.parametrize(
        ("table", "path", "location"),
        [
            (LOCAL, "part-0.parquet", "file:///lake/orders/part-0.parquet"),
            (LOCAL, "p=a%20b/part-0.parquet", "file:///lake/orders/p=a b/part-0.parquet"),
            (LOCAL, "p=%252e%252e/f", "file:///lake/orders/p=%2e%2e/f"),
            (LOCAL, "p=a..b/f", "file:///lake/orders/p=a..b/f"),
            (LOCAL, "p=1/../p=2/f", "file:///lake/orders/p=2/f"),
            (LOCAL, "file:/lake/orders/f", "file:///lake/orders/f"),
            (LOCAL, "FILE:///lake/orders/f", "file:///lake/orders/f"),
            (LOCAL, "/lake/orders/f", "file:///lake/orders/f"),
            (LOCAL, "file:/origin/p=1/f", "file:///origin/p=1/f"),
            (BUCKET, "part-0.parquet", "s3a://bucket/orders/part-0.parquet"),
            (BUCKET, "s3://bucket/orders/f", "s3a://bucket/orders/f"),
            (BUCKET, "s3n://bucket/origin/f", "s3a://bucket/origin/f"),
            (CLUSTER, "/lake/orders/f", "hdfs://node:8020/lake/orders/f"),
        ],
    )
    def test_files_in_the_folder_are_permitted(self, table, path, location):
        """A log that plain Spark reads stays readable."""
        assert table.of_path(path) == location
        assert table.permits(location)

    def test_an_allowed_root_permits_all_files_below(self):
        """A user may allow a whole file system or bucket."""
        both = FileLocations.of("/lake/orders", ("/", "s3a://all"), default="file:///")

        assert both.permits(both.of_path("/etc/f"))
        assert both.permits(both.of_path("s3a://all/f"))
        assert not both.permits(both.of_path("s3a://others/f"))


class TestFilesElsewhere:
    """A log may name files of other tables; a job reads none of these unless the spec allows it."""

    @pytest.mark.parametrize(
        "path",
        [
            "../payroll/f",
            "p=1/../../payroll/f",
            "%2e%2e/payroll/f",
            "%2E%2E%2Fpayroll/f",
            "..%2fpayroll/f",
            "/lake/payroll/f",
            "//host/lake/orders/f",
            "file:/lake/payroll/f",
            "file:/lake/orders/../payroll/f",
            "file:/lake/orders-old/f",
            "file://host/lake/orders/f",
            "http://host/lake/orders/f",
            "http:/lake/orders/f",
            "s3a://bucket/lake/orders/f",
            "jar:file:/lake/orders/f",
            "../payroll/f?/../../orders/f",
            "../payroll/f#/../../orders/f",
            "..",
            "",
        ],
    )
    def test_files_elsewhere_are_refused(self, path):
        """Java decodes a path once, and removes queries and steps to the parent."""
        assert not LOCAL.permits(LOCAL.of_path(path))

    @pytest.mark.parametrize(
        "path", ["/orders/f", "file:/orders/f", "s3a://others/orders/f", "../payroll/f", "s3a://bucket/orders/../f"]
    )
    def test_files_outside_a_bucket_are_refused(self, path):
        """A path without a scheme belongs to the default file system, not to the bucket."""
        assert not BUCKET.permits(BUCKET.of_path(path))

    def test_vector_files_elsewhere_are_refused(self):
        """Hadoop takes the folder of a vector as a path and does not decode it."""
        assert LOCAL.permits(LOCAL.of_literal_path("ab/deletion_vector_1.bin"))
        assert LOCAL.permits(LOCAL.of_literal_path("%2e%2e/deletion_vector_1.bin"))
        for path in ("../d.bin", "/etc/d.bin", "http://host/d.bin"):
            assert not LOCAL.permits(LOCAL.of_literal_path(path))


class TestPlainPaths:
    """A file is copied by its bytes only if its path is plain and relative."""

    def test_plain_paths_are_distinguished_from_other_paths(self):
        """Spark reads files with other paths, because their bytes are not below the source's folder."""
        assert all(map(is_below, ("f", "p=a%20b/f", "p=a%3Ab/f", "a..b/f")))
        assert not any(map(is_below, ("/f", "file:/f", "../f", "p/%2e%2e/f", "%2Ff", "f?x", "f#x")))


class TestLocations:
    """Locations on this machine have a local path, and messages suggest a folder to allow."""

    def test_only_local_locations_have_a_path_on_this_machine(self):
        """Only a local path can be a link."""
        assert local_path("file:///lake/f") == "/lake/f"
        assert local_path("file://host/lake/f") is None
        assert local_path("s3a://bucket/f") is None

    def test_the_suggested_folder_is_above_the_partitions(self):
        """The names of partitions contain values of rows."""
        assert suggested_folder("file:///lake/orders/day=1/h=2/f") == "/lake/orders"
        assert suggested_folder("s3a://bucket/orders/f") == "s3a://bucket/orders"
        assert suggested_folder("file:///f") == "/"
