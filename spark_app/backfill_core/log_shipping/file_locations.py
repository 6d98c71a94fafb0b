"""Locations of the files in a table's log, and the folders that a job may read. The code accesses no file system."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import Self

ONE_STORE = {"s3": "s3a", "s3n": "s3a", "abfs": "abfss", "wasb": "wasbs"}
"""Alternative schemes of an object store, each with its canonical scheme."""

LOCAL = "file://"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_ENCODED = re.compile("(?:%[0-9A-Fa-f]{2})+")


def in_one_store(uri: str) -> str:
    """Return a URI with the canonical scheme of its store: `s3://b/t` and `s3a://b/t` are one table."""
    scheme, colon, rest = uri.partition(":")
    return f"{ONE_STORE.get(scheme, scheme)}{colon}{rest}"


def is_below(path: str) -> bool:
    """Return true if a path in the log is relative and stays inside the table's folder."""
    return is_below_literally(_decoded(path)) and not _SCHEME.match(path) and not re.search("[?#]", path)


def is_below_literally(path: str) -> bool:
    """Return true if an unencoded path is relative, without a scheme and without `..`."""
    return not path.startswith("/") and not _SCHEME.match(path) and ".." not in path.split("/")


@dataclass(frozen=True, slots=True)
class FileLocations:
    """The folders in which a job may read files of one table. A location is a URI with two slashes: `file:///lake/orders`."""

    folder: str
    """The table's folder."""

    allowed: tuple[str, ...]
    """Other readable folders, including their subfolders."""

    default: str
    """File system of a path without a scheme, such as `hdfs://namenode`; `file://` for the local one."""

    @classmethod
    def of(cls, folder: str, allowed: tuple[str, ...], *, default: str) -> Self:
        """Build locations from folders given as paths or URIs that are not percent-encoded."""
        root = default if _SCHEME.match(default) else LOCAL
        scheme, authority, _ = _parts(root, "")
        base = f"{scheme}://{authority}"
        return cls(_location(folder, base), tuple(_location(path, base) for path in allowed), base)

    def of_path(self, path: str) -> str:
        """Return the location of a path in the log, which is relative to the table or absolute, and percent-encoded."""
        # Java parses the rest as a query or a fragment, not as part of the path.
        plain = re.split("[?#]", path, maxsplit=1)[0]
        scheme, authority, rest = _parts(plain, self.default)
        return self._joined(scheme, authority, _decoded(rest))

    def of_literal_path(self, path: str) -> str:
        """Return the location of a path that is not encoded."""
        return self._joined(*_parts(path, self.default))

    def _joined(self, scheme: str, authority: str, path: str) -> str:
        if not scheme:
            root_scheme, root_authority, root = _parts(self.folder, "")
            return _uri(root_scheme, root_authority, f"{root}/{path}")
        return _uri(scheme, authority, path)

    def permits(self, location: str) -> bool:
        """Return true if a location is inside the table's folder or an allowed one."""
        folders = (self.folder, *self.allowed)
        return any(location.startswith(f"{folder.rstrip('/')}/") for folder in folders)


def local_path(location: str) -> str | None:
    """Return the path of a location on this machine; `None` for other file systems."""
    return location.removeprefix(LOCAL) if location.startswith(f"{LOCAL}/") else None


def suggested_folder(location: str) -> str:
    """Return the folder to allow for a file: the parent of its partition folders."""
    folder, _, _ = location.rpartition("/")
    path = folder.split("/")
    first = next((index for index, name in enumerate(path) if "=" in name), len(path))
    return "/".join(path[:first]).removeprefix(LOCAL) or "/"


def _decoded(path: str) -> str:
    return _ENCODED.sub(lambda match: bytes.fromhex(match[0].replace("%", "")).decode(errors="replace"), path)


def _parts(text: str, default: str) -> tuple[str, str, str]:
    """Return scheme, authority and path of a URI or a path; the scheme is empty if the path is relative."""
    match = _SCHEME.match(text)
    if match is not None:
        scheme, rest = match[1].lower(), text[match.end() :]
    elif text.startswith("/"):
        (scheme, authority, _), rest = _parts(default, "") if default else ("", "", ""), text
        if not rest.startswith("//"):
            return scheme, authority, rest
    else:
        return "", "", text
    authority = ""
    if rest.startswith("//"):
        authority, slash, below = rest[2:].partition("/")
        rest = slash + below
    return scheme, authority, rest


def _location(folder: str, base: str) -> str:
    scheme, authority, path = _parts(folder, base)
    return _uri(scheme, authority, path)


def _uri(scheme: str, authority: str, path: str) -> str:
    normal = posixpath.normpath(f"/{path}").lstrip("/")
    return in_one_store(f"{scheme}://{authority}/{normal}")
