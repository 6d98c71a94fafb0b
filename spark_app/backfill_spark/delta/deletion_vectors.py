"""Where a deletion vector lies, and how a log says so; no file is read.

A vector in a file of its own is named by a UUID in 20 characters of Z85, behind the folder that it lies in. So it can lie in any
folder of a table.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill_core.log_shipping.actions import UNIQUE_DIGITS, DeletionVector
from backfill_core.log_shipping.file_locations import is_below_literally

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)


@dataclass(frozen=True, slots=True)
class VectorDescriptor:
    """The descriptor of a vector, as a log has it."""

    fields: Mapping[str, Any]

    @property
    def cardinality(self) -> int:
        """Rows that it hides."""
        return int(self.fields["cardinality"])

    @property
    def is_inline(self) -> bool:
        """Is it in the log itself?"""
        return bool(self.fields["storageType"] == "i")

    @property
    def is_absolute(self) -> bool:
        """Does the log name its file by an absolute path?"""
        return bool(self.fields["storageType"] == "p")

    @property
    def is_elsewhere(self) -> bool:
        """Does its file lie in no folder below the table's, as the log spells it?"""
        return self.is_absolute or (not self.is_inline and not is_below_literally(self._place[0]))

    @property
    def file(self) -> str:
        """Path of its file below the table's folder; of one that is neither inline nor elsewhere.

        Raises:
            ValueError: it names no file.
        """
        folder, code = self._place
        name = f"deletion_vector_{uuid.UUID(bytes=base64.b85decode(code.translate(_TO_B85)))}.bin"
        return f"{folder}/{name}" if folder else name

    def in_folder(self, folder: str) -> VectorDescriptor:
        """Return the vector when its file lies in another folder, under the same name."""
        return VectorDescriptor({**self.fields, "pathOrInlineDv": folder + self._place[1]})

    @property
    def _place(self) -> tuple[str, str]:
        text = str(self.fields["pathOrInlineDv"])
        return text[:-UNIQUE_DIGITS], text[-UNIQUE_DIGITS:]


def vector_of(action: Mapping[str, Any]) -> DeletionVector | None:
    """Return the deletion vector of an `add` or a `remove` action."""
    one = action.get("deletionVector")
    if one is None:
        return None
    place, offset = one["pathOrInlineDv"], one.get("offset")
    return DeletionVector(one["storageType"], place, offset, one["sizeInBytes"], one["cardinality"])
