"""Promises of `transfer.bytes`: a file is copied by the system or by streams, and a copy ends when its check raises."""

import os

import pytest
from py4j.protocol import Py4JJavaError

from backfill_spark.file_copies.bytes import CHUNK_BYTES, ByteCopier, ByteReader

SIZE_BYTES = CHUNK_BYTES + 12_345


@pytest.fixture
def copier(spark, tmp_path):
    """Copies from the folder `from` to the folder `to`."""
    (tmp_path / "from").mkdir()
    copier = ByteCopier(spark, f"file:{tmp_path}/from", str(tmp_path / "to"))
    copier.make_folder("a1/s2")
    return copier


@pytest.fixture
def content(tmp_path, copier):
    """The bytes of `from/a b%.parquet`, in more than one chunk."""
    content = os.urandom(SIZE_BYTES)
    (tmp_path / "from" / "a b%.parquet").write_bytes(content)
    return content


class Ended(Exception):
    """Ends a copy."""


def nothing():
    """Let a copy continue."""


def ends_at_the_second_look():
    """Return a check that ends a copy at its second call."""
    looks = []

    def check():
        looks.append(1)
        if len(looks) == 2:
            raise Ended

    return check


class TestBytesArrive:
    """All bytes are copied, in both ways."""

    def test_both_ways_give_the_same_digest(self, spark, copier, content, tmp_path):
        """The digest of the bytes that were read equals that of the bytes in the copy."""
        digests = []
        for copier.is_local in (True, False):
            digests.append(copier.copy("a b%.parquet", "a1/s2/x.parquet", check=nothing))
            assert (tmp_path / "to/a1/s2/x.parquet").read_bytes() == content
        digests.append(ByteReader(spark, f"{tmp_path}/to").read("a1/s2/x.parquet", check=nothing))

        assert len(set(digests)) == 1
        assert digests[0].size_bytes == SIZE_BYTES

    def test_the_digest_is_the_standard_one(self, spark, tmp_path):
        """A later release must compute the same: the standard of CRC-32C has the value of these nine bytes (RFC 3720)."""
        (tmp_path / "x").write_bytes(b"123456789")

        assert ByteReader(spark, f"file:{tmp_path}").read("x", check=nothing).digest == "e3069283"

    @pytest.mark.parametrize("local", [True, False])
    def test_a_copy_ends_between_two_chunks(self, copier, content, tmp_path, local):
        """A forced pause does not wait for a file of gigabytes."""
        copier.is_local = local
        with pytest.raises(Ended):
            copier.copy("a b%.parquet", "a1/s2/x.parquet", check=ends_at_the_second_look())
        assert (tmp_path / "to/a1/s2/x.parquet").stat().st_size < len(content)

    def test_a_read_ends_between_two_chunks(self, spark, content, tmp_path):
        """A receipt of terabytes must not delay a pause."""
        with pytest.raises(Ended):
            ByteReader(spark, f"{tmp_path}/from").read("a b%.parquet", check=ends_at_the_second_look())
        assert content

    def test_a_failure_is_an_error_of_hadoop(self, copier, content):
        """Such errors are explained as those of Spark's jobs."""
        for source, target in (("gone.parquet", "a1/s2/y.parquet"), ("a b%.parquet", "a1/s2")):
            with pytest.raises(Py4JJavaError):
                copier.copy(source, target, check=nothing)
        assert content
