"""Buckets and containers that do not exist: a mistake of the spec, which neither a retry nor a repair of a file corrects."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from backfill_core.errors import InvalidSpecError

MISSING: Final = re.compile(
    # S3 and what speaks its protocol, and Google's store.
    r"UnknownStoreException|NoSuchBucket|specified bucket does not exist|"
    # Azure's: ABFS speaks of a file system, and it throws a FileNotFoundException; WASB of a container.
    r"specified filesystem does not exist|FilesystemNotFound|ContainerNotFound|specified container does not exist|"
    r"Container \S{1,256} in account \S{1,256} not found"
)
"""What stores and Hadoop's clients say; some of it stands in the text of an exception alone."""

HINT: Final = "Create it, or correct the path."


def place_of(path: str) -> str:
    """Return the bucket or container of a path, in the terms of its store."""
    parts = urlsplit(path)
    if parts.username:
        return f"container {parts.username} of account {parts.hostname}"
    return f"bucket {parts.netloc}"


def missing_place(path: str, *, field: str, words: str) -> InvalidSpecError:
    """Return the error of a table whose bucket or container does not exist.

    Args:
        path: Of the table.
        field: Of the spec that has the path.
        words: What the store says.
    """
    return InvalidSpecError(f"{field}: {place_of(path)} does not exist: {words}.", hint=HINT)
