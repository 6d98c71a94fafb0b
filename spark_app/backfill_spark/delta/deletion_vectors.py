"""Locations of deletion vectors, as the log encodes them; no file is read.

The location of a vector in a separate file is the file's folder, followed by a UUID in 20 characters of Z85. So the file can be in any
folder of the table.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from backfill_core.log_shipping.actions import UNIQUE_DIGITS, DeletionVector
from backfill_core.log_shipping.file_locations import is_below_literally

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85, _TO_Z85 = str.maketrans(_Z85, _B85), str.maketrans(_B85, _Z85)


@dataclass(frozen=True, slots=True)
class VectorDescriptor:
    """The descriptor of a vector, unchanged from the log."""

    fields: Mapping[str, Any]

    @classmethod
    def in_file(cls, identifier: uuid.UUID, *, offset: int, size_bytes: int, rows: int) -> Self:
        """Return the descriptor of a vector in a file with an identifier, in the table's folder; see `in_folder`."""
        place = base64.b85encode(identifier.bytes).decode().translate(_TO_Z85)
        fields = {"storageType": "u", "pathOrInlineDv": place, "offset": offset}
        return cls({**fields, "sizeInBytes": size_bytes, "cardinality": rows})

    @property
    def cardinality(self) -> int:
        """Number of rows that the vector hides."""
        return int(self.fields["cardinality"])

    @property
    def is_inline(self) -> bool:
        """True if the log itself contains the vector."""
        return bool(self.fields["storageType"] == "i")

    @property
    def is_absolute(self) -> bool:
        """True if the log names the vector's file by an absolute path."""
        return bool(self.fields["storageType"] == "p")

    @property
    def is_elsewhere(self) -> bool:
        """True if the vector's file is not below the table's folder, judged by the spelling in the log."""
        return self.is_absolute or (not self.is_inline and not is_below_literally(self._place[0]))

    @property
    def file(self) -> str:
        """Path of the vector's file below the table's folder; only for a vector that is neither inline nor elsewhere.

        Raises:
            ValueError: the descriptor names no file.
        """
        folder, code = self._place
        name = file_name(uuid.UUID(bytes=base64.b85decode(code.translate(_TO_B85))))
        return f"{folder}/{name}" if folder else name

    def in_folder(self, folder: str) -> VectorDescriptor:
        """Return the descriptor for the same file name in another folder."""
        return VectorDescriptor({**self.fields, "pathOrInlineDv": folder + self._place[1]})

    @property
    def _place(self) -> tuple[str, str]:
        text = str(self.fields["pathOrInlineDv"])
        return text[:-UNIQUE_DIGITS], text[-UNIQUE_DIGITS:]


def file_name(identifier: uuid.UUID) -> str:
    """Return the name of a file of vectors."""
    return f"deletion_vector_{identifier}.bin"


def vector_of(action: Mapping[str, Any]) -> DeletionVector | None:
    """Return the deletion vector of an `add` or a `remove` action."""
    vector = action.get("deletionVector")
    if vector is None:
        return None
    place, offset = vector["pathOrInlineDv"], vector.get("offset")
    return DeletionVector(vector["storageType"], place, offset, vector["sizeInBytes"], vector["cardinality"])
