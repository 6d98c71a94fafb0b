"""Promises of `delta.deletion_vectors`: a vector's file is found, and can lie in another folder."""

import pytest

from backfill_spark.delta.deletion_vectors import VectorDescriptor

OF_THE_PROTOCOL = VectorDescriptor(
    {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40, "cardinality": 6}
)
"""The example in Delta's protocol, which also says where its file lies."""


class TestWhereAVectorLies:
    """Below the table's folder, in a file named after a UUID."""

    def test_the_example_of_the_protocol(self):
        """Two readers that spell a UUID differently find different files."""
        assert OF_THE_PROTOCOL.file == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"

    @pytest.mark.parametrize("folder", ["", "x", "backfill-0123/a1/s3"])
    def test_in_another_folder_it_has_the_same_name(self, folder):
        """The rest of the descriptor stays: offset, size, cardinality."""
        moved = OF_THE_PROTOCOL.in_folder(folder)

        assert moved.file == f"{folder}/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin".lstrip("/")
        assert {**moved.fields, "pathOrInlineDv": ""} == {**OF_THE_PROTOCOL.fields, "pathOrInlineDv": ""}
