"""Tests of the checksums that a store reports."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.file_copies.store_digest import full_crc32c, is_exact

NINE_BYTES = base64.b64encode(bytes.fromhex("e3069283")).decode()
"""The checksum of `123456789` (RFC 3720)."""


class TestAChecksum:
    """Only a checksum of all bytes of an object can be compared with a copy's digest."""

    @pytest.mark.parametrize("kind", [None, "", "FULL_OBJECT"])
    def test_that_of_all_bytes_has_the_form_of_a_digest(self, kind):
        """Older stores report no type."""
        assert full_crc32c(NINE_BYTES, kind) == "e3069283"

    @given(st.integers(0, 2**32 - 1))
    def test_leading_zeros_stay(self, value):
        """The receipt compares strings."""
        assert full_crc32c(base64.b64encode(value.to_bytes(4)).decode(), None) == f"{value:08x}"

    @pytest.mark.parametrize(
        ("checksum", "kind"),
        [(None, None), ("", None), (NINE_BYTES, "COMPOSITE"), (f"{NINE_BYTES}-3", None), ("AAAA", None), ("%", None)],
    )
    def test_any_other_is_none(self, checksum, kind):
        """A checksum of checksums says nothing about the bytes without the sizes of the parts."""
        assert full_crc32c(checksum, kind) is None


class TestACopy:
    """A copy counts only if nothing that the store reports contradicts it."""

    @pytest.mark.parametrize(
        ("digest", "copied_bytes", "copied_digest", "exact"),
        [
            ("e3069283", 9, "e3069283", True),
            (None, 9, "e3069283", True),
            ("e3069283", 9, None, True),
            ("e3069283", 9, "00000000", False),
            ("e3069283", 8, "e3069283", False),
            (None, 8, "e3069283", False),
        ],
    )
    def test_size_and_digest_must_agree(self, digest, copied_bytes, copied_digest, exact):
        """Most source objects have no CRC-32C: their writers send none."""
        assert is_exact(9, digest, copied_bytes=copied_bytes, copied_digest=copied_digest) is exact
