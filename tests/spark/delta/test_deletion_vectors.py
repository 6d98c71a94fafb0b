"""Promises of `delta.deletion_vectors`: a vector's file is found, and may be in another folder."""

import pytest

from backfill_spark.delta.deletion_vectors import VectorDescriptor

OF_THE_PROTOCOL = VectorDescriptor(
    {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40, "cardinality": 6}
)
"""The example in Delta's protocol, which also defines the path of its file."""


class TestWhereAVectorLies:
    """The file is in the table's folder and is named after a UUID."""

    def test_the_example_of_the_protocol_is_found(self):
        """Two readers that format a UUID differently find different files."""
        assert OF_THE_PROTOCOL.file == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"

    @pytest.mark.parametrize("folder", ["", "x", "backfill-0123/a1/s3"])
    def test_a_vector_in_another_folder_has_the_same_name(self, folder):
        """Offset, size and cardinality of the descriptor stay."""
        moved = OF_THE_PROTOCOL.in_folder(folder)

        assert moved.file == f"{folder}/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin".lstrip("/")
        assert {**moved.fields, "pathOrInlineDv": ""} == {**OF_THE_PROTOCOL.fields, "pathOrInlineDv": ""}
