"""Promises of `transfer.bytes`: the bytes of a file arrive, by the system and by streams, and a copy ends when it is told to."""

import os

import pytest
from py4j.protocol import Py4JJavaError

from backfill_spark.transfer.bytes import CHUNK_BYTES, ByteCopier, ByteReader

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
    """Let a copy go on."""


def ends_at_the_second_look():
    """Return what ends a copy when it looks for the second time whether it may go on."""
    looks = []

    def check():
        looks.append(1)
        if len(looks) == 2:
            raise Ended

    return check


class TestBytesArrive:
    """All of them, whichever way."""

    def test_by_either_way_with_one_digest(self, spark, copier, content, tmp_path):
        """The digest is of what was read, and of what can be read back."""
        found = []
        for copier.is_local in (True, False):
            found.append(copier.copy("a b%.parquet", "a1/s2/x.parquet", check=nothing))
            assert (tmp_path / "to/a1/s2/x.parquet").read_bytes() == content
        found.append(ByteReader(spark, f"{tmp_path}/to").read("a1/s2/x.parquet", check=nothing))

        assert len(set(found)) == 1
        assert found[0].size_bytes == SIZE_BYTES

    def test_with_the_digest_that_others_know(self, spark, tmp_path):
        """A later release must find the same: CRC-32C of these nine bytes stands in its standard (RFC 3720)."""
        (tmp_path / "x").write_bytes(b"123456789")

        assert ByteReader(spark, f"file:{tmp_path}").read("x", check=nothing).digest == "e3069283"

    @pytest.mark.parametrize("local", [True, False])
    def test_a_copy_ends_between_two_chunks(self, copier, content, tmp_path, local):
        """A forced pause does not wait for a file of gigabytes."""
        copier.is_local = local
        with pytest.raises(Ended):
            copier.copy("a b%.parquet", "a1/s2/x.parquet", check=ends_at_the_second_look())
        assert (tmp_path / "to/a1/s2/x.parquet").stat().st_size < len(content)

    def test_so_does_a_read(self, spark, content, tmp_path):
        """A receipt of terabytes must not hold a pause up."""
        with pytest.raises(Ended):
            ByteReader(spark, f"{tmp_path}/from").read("a b%.parquet", check=ends_at_the_second_look())
        assert content

    def test_what_fails_fails_in_hadoops_words(self, copier, content):
        """They are explained as those of Spark's jobs are."""
        for source, target in (("gone.parquet", "a1/s2/y.parquet"), ("a b%.parquet", "a1/s2")):
            with pytest.raises(Py4JJavaError):
                copier.copy(source, target, check=nothing)
        assert content
