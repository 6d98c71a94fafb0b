"""Buckets and containers that do not exist: a mistake in the spec, which neither a retry nor the repair of a file can fix."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from backfill_core.errors import MissingBucketError

MISSING: Final = re.compile(
    # S3, stores with its protocol, and Google's store.
    r"UnknownStoreException|NoSuchBucket|specified bucket does not exist|"
    # Azure: ABFS reports a file system, in a FileNotFoundException; WASB reports a container.
    r"specified filesystem does not exist|FilesystemNotFound|ContainerNotFound|specified container does not exist|"
    r"Container \S{1,256} in account \S{1,256} not found"
)
"""Pattern in the messages of stores and Hadoop's clients; some cases are recognizable only by the message."""

HINT: Final = "Create it, or correct the path."


def place_of(path: str) -> str:
    """Return the bucket or container of a path, in the terms of its store."""
    parts = urlsplit(path)
    if parts.username:
        return f"container {parts.username} of account {parts.hostname}"
    return f"bucket {parts.netloc}"


def missing_place(path: str, *, field: str, message: str) -> MissingBucketError:
    """Return the error for a table whose bucket or container does not exist.

    Args:
        path: Path of the table.
        field: Field of the spec with the path.
        message: Message of the store.
    """
    return MissingBucketError(f"{field}: {place_of(path)} does not exist: {message}.", hint=HINT)
