"""Promises of `transfer.bytes`: the bytes of a file arrive, by the system and by streams, and a copy ends when it is told to."""

import hashlib
import os

import pytest
from py4j.protocol import Py4JJavaError

from backfill_spark.transfer.bytes import CHUNK_BYTES, ByteCopier

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


class TestBytesArrive:
    """All of them, whichever way."""

    @pytest.mark.parametrize("local", [True, False])
    def test_with_and_without_a_digest(self, copier, content, tmp_path, local):
        """A digest is of what was read, so that both ways have the same."""
        copier.is_local = local
        for digest, wanted in ((True, hashlib.sha256(content).hexdigest()), (False, None)):
            copied = copier.copy("a b%.parquet", "a1/s2/x.parquet", check=nothing, digest=digest)

            assert (copied.size_bytes, copied.digest) == (SIZE_BYTES, wanted)
            assert (tmp_path / "to/a1/s2/x.parquet").read_bytes() == content

    @pytest.mark.parametrize("local", [True, False])
    def test_a_copy_ends_between_two_chunks(self, copier, content, tmp_path, local):
        """A forced pause does not wait for a file of gigabytes."""
        copier.is_local = local
        looks = []

        def check():
            looks.append(1)
            if len(looks) == 2:
                raise Ended

        with pytest.raises(Ended):
            copier.copy("a b%.parquet", "a1/s2/x.parquet", check=check)
        assert (tmp_path / "to/a1/s2/x.parquet").stat().st_size < len(content)

    def test_what_fails_fails_in_hadoops_words(self, copier, content):
        """They are explained as those of Spark's jobs are."""
        for source, target in (("gone.parquet", "a1/s2/y.parquet"), ("a b%.parquet", "a1/s2")):
            with pytest.raises(Py4JJavaError):
                copier.copy(source, target, check=nothing)
        assert content
