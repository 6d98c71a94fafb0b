"""Locations of tables: each string has one meaning, or is refused. No file system is read."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NEEDS_BUCKET = {"s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn"}
_NO_FOLDERS = {"http", "https", "ftp", "jar", "data"}


_WORD = re.compile(r"[^\s@\"]+@?")
_BEFORE_USER = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,31}:/*")
_CONTAINER_AT_ACCOUNT = {"abfs", "abfss", "wasb", "wasbs"}
"""Schemes that have a container before the `@`."""


FOREIGN_SCHEMES = {
    "s3": "s3a",
    "s3n": "s3a",
    "gcs": "gs",
    "az": "abfss",
    "azure": "abfss",
    "adl": "abfss",
}
"""Schemes by which other tools name a store, and Hadoop's scheme for it. A spec has one spelling of a location."""

_FORMS = {"abfss": "abfss://container@account.dfs.core.windows.net/path"}


class PlaceError(ValueError):
    """The string is not the location of a table."""

    def __init__(self, message: str, hint: str) -> None:
        """Keep the message, which does not name the field, and the hint."""
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a table, as its text says."""

    scheme: str
    """Scheme in lower case; empty if none was given."""

    authority: str
    """Bucket or host; may be empty."""

    path: str
    """Literal: a percent sign is a percent sign. Without a scheme it may begin with `~` or be relative; else it begins with `/`."""

    @property
    def is_local(self) -> bool:
        """True if it is on this machine, provided that the session's default file system is local."""
        return self.scheme in ("", "file")

    @property
    def is_absolute(self) -> bool:
        """True if it is independent of the working directory and of the user."""
        return self.path.startswith("/")

    @property
    def uri(self) -> str:
        """The normal form of a location that has a scheme."""
        return f"{self.scheme}://{self.authority}{self.path}"


def place(text: str) -> Place:
    """Parse a location.

    `file:/a`, `file:///a` and `/a` are equal. Repeated and trailing slashes are ignored.

    Raises:
        PlaceError: it is not a location, or not one of a table.
    """
    if _CONTROL.search(text):
        raise PlaceError("has a control character", "remove it")
    if text != text.strip():
        raise PlaceError("begins or ends with a space", "remove it")
    match = _SCHEME.fullmatch(text)
    if match is None:
        return Place("", "", _single(text))
    scheme, rest = match[1].lower(), match[2]
    _check_user(scheme, rest)
    if scheme in _NO_FOLDERS:
        raise PlaceError(f"{scheme} has no folders, and a table is one", "use a file system or an object store")
    authority = ""
    if rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
    if rest and not rest.startswith("/"):
        raise PlaceError(
            f"after {scheme}: there is a relative path",
            f"write {scheme}:/… or, if the name of the folder has a colon, ./{text}",
        )
    if scheme == "file" and authority:
        raise PlaceError(
            f"names a machine, {authority!r}, and files are this machine's",
            f"write file:///{authority}{_single(rest)} or a plain path",
        )
    if scheme in _NEEDS_BUCKET and not authority:
        bucket = _single(rest).strip("/") or "bucket/folder"
        raise PlaceError("names no bucket", f"write {scheme}://{bucket}")
    return Place(scheme, authority, _single(rest) or "/")


def place_of_spec(text: str) -> Place:
    """Parse a location of a spec; some schemes that a catalog may contain are refused here.

    Raises:
        PlaceError: it is not a location, not one of a table, or has another tool's scheme.
    """
    location = place(text)
    scheme = FOREIGN_SCHEMES.get(location.scheme)
    if scheme is not None:
        form = _FORMS.get(scheme, f"{scheme}://{location.authority}{location.path}")
        raise PlaceError(
            f"has the scheme {location.scheme}, which is another tool's name for the store", f"write {form}"
        )
    return location


def scheme_rules(field: str) -> tuple[tuple[str, str], ...]:
    """Return the CEL form of the check of schemes, for a field with a location."""
    rules = []
    for scheme in dict.fromkeys(FOREIGN_SCHEMES.values()):
        schemes = "|".join(name for name, of_hadoop in FOREIGN_SCHEMES.items() if of_hadoop == scheme)
        message = f"{field} has another tool's scheme for the store: write {scheme}://"
        rules.append((f"!has(self.{field}) || !self.{field}.matches('(?i)^({schemes}):')", message))
    return tuple(rules)


def without_user(text: str, *, cut: bool = False) -> str:
    """Return a string without the user and password of every URI.

    Args:
        text: Any string.
        cut: True if it was shortened, so that its end may be a part of a user and password.
    """

    def hidden(word: re.Match[str]) -> str:
        if not word[0].endswith("@") and not (cut and word.end() == len(text)):
            return word[0]
        scheme = _BEFORE_USER.search(word[0])
        if scheme is None or ":" not in word[0][scheme.end() :]:
            return word[0]
        return f"{word[0][: scheme.end()]}…{'@' * word[0].endswith('@')}"

    return _WORD.sub(hidden, text)


def _check_user(scheme: str, rest: str) -> None:
    """Refuse a user with a password, also where half of it looks like a folder."""
    if scheme == "file":
        return
    authority = re.sub(r"\[[0-9A-Fa-f:.]*\]", "", rest.lstrip("/").partition("/")[0])
    before, at, _ = authority.rpartition("@")
    user = bool(at) and (scheme not in _CONTAINER_AT_ACCOUNT or ":" in before)
    _, colon, port = authority.rpartition(":")
    # A secret may hold a slash: what stands before it looks like a host with an odd port.
    half = bool(colon) and not port.isdigit() and (rest.startswith("//") or scheme in _NEEDS_BUCKET)
    if user or half:
        raise PlaceError(
            "contains a user or a password, and everyone who may read the spec can read a path",
            "remove it, and give credentials by the environment, on a cluster from a Secret",
        )


def _single(path: str) -> str:
    single = re.sub("/+", "/", path)
    return single.rstrip("/") or single[:1]
