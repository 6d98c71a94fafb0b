"""Tests of the choice of a mover, and of the meaning of a store's answers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.file_copies.movers import (
    COPY_MAX_BYTES,
    DRIVER_REQUESTS_OF_A_FILE,
    REQUESTS_OF_A_FILE,
    ByDriver,
    ByStore,
    CopyAnswer,
    StoreFacts,
    answer_of,
    mover_of,
    parts_of,
    requests_of,
)

BUCKET = StoreFacts("s3a", "https://store:9000", "eu-1", "", "ab12")
FILES = StoreFacts("file")


class TestTheMover:
    """The store copies only what one client reaches, and what the store can read by itself."""

    def test_buckets_with_the_same_settings_are_copied_by_their_store(self):
        """The encryption of new objects may differ: the store encrypts a copy as the target's settings require."""
        for encryption in ("", "AES256", "SSE-KMS", "DSSE-KMS"):
            assert mover_of(BUCKET, replace(BUCKET, encryption=encryption)) == ByStore()

    @pytest.mark.parametrize(
        ("other", "named"),
        [
            ({"endpoint": ""}, "endpoints"),
            ({"region": "us-1"}, "regions"),
            ({"credentials": "cd34"}, "credentials"),
            ({"encryption": "SSE-C"}, "SSE-C"),
            ({"encryption": "CSE-KMS"}, "CSE-KMS"),
            ({"scheme": "abfss"}, "abfss"),
        ],
    )
    def test_any_other_pair_is_streamed_for_a_reason(self, other, named):
        """Each setting matters on both sides."""
        for pair in ((BUCKET, replace(BUCKET, **other)), (replace(BUCKET, **other), BUCKET)):
            mover = mover_of(*pair)
            assert isinstance(mover, ByDriver)
            assert named in mover.reason

    def test_local_tables_have_no_reason(self):
        """There is no store that could copy, so nothing is reported."""
        assert mover_of(FILES, FILES) == ByDriver()


class TestAnAnswer:
    """A busy store is asked again, a changed object is an error, and a refusal ends the copies of the store."""

    @pytest.mark.parametrize(
        ("status", "code", "meaning"),
        [
            (503, "SlowDown", CopyAnswer.BUSY),
            (503, "", CopyAnswer.BUSY),
            (400, "SlowDown", CopyAnswer.BUSY),
            (429, "", CopyAnswer.BUSY),
            (400, "ThrottlingException", CopyAnswer.BUSY),
            (400, "KMS.ThrottlingException", CopyAnswer.BUSY),
            (200, "SlowDown", CopyAnswer.BUSY),
            (412, "PreconditionFailed", CopyAnswer.CHANGED),
            (403, "AccessDenied", CopyAnswer.REFUSED),
            (400, "KMS.DisabledException", CopyAnswer.REFUSED),
            (301, "PermanentRedirect", CopyAnswer.REFUSED),
            (501, "NotImplemented", CopyAnswer.REFUSED),
            (404, "NoSuchKey", CopyAnswer.UNCLEAR),
            (500, "InternalError", CopyAnswer.UNCLEAR),
            (200, "InternalError", CopyAnswer.UNCLEAR),
            (400, "RequestTimeout", CopyAnswer.UNCLEAR),
            (409, "OperationAborted", CopyAnswer.UNCLEAR),
            (0, "", CopyAnswer.UNCLEAR),
        ],
    )
    def test_each_answer_has_one_meaning(self, status, code, meaning):
        """A missing object or a broken connection does not prove that the store refuses copies."""
        assert answer_of(status, code) is meaning


class TestParts:
    """Parts are the whole object, in order, without a gap."""

    @given(st.integers(1, 10_000), st.integers(1, 500))
    def test_parts_cover_an_object_exactly(self, size, part):
        """Each byte is in one part, and no part is larger than allowed."""
        parts = parts_of(size, part)

        assert [byte for first, last in parts for byte in (first, last)] == sorted(
            byte for first, last in parts for byte in (first, last)
        )
        assert sum(last - first + 1 for first, last in parts) == size
        assert parts[0][0] == 0
        assert parts[-1][1] == size - 1
        assert max(last - first + 1 for first, last in parts) <= part


class TestTheRequests:
    """A plan tells the cost before it arises."""

    def test_an_object_in_parts_costs_more(self):
        """Each part is a request, and two more begin and end the object."""
        assert requests_of(ByStore(), [1, 2]) == 2 * REQUESTS_OF_A_FILE
        assert requests_of(ByDriver("x"), [1, 2]) == 2 * DRIVER_REQUESTS_OF_A_FILE
        assert requests_of(ByStore(), [COPY_MAX_BYTES]) == REQUESTS_OF_A_FILE
        assert requests_of(ByStore(), [COPY_MAX_BYTES + 1]) == REQUESTS_OF_A_FILE + 11 + 1
