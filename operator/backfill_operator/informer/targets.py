"""Normalized name of the table that a Backfill writes; two Backfills with the same one get a warning."""

from __future__ import annotations

from posixpath import normpath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from backfill_operator.kube.resources import Raw

SAME_SCHEMES: Final = {"s3": "s3a", "s3n": "s3a", "abfs": "abfss", "wasb": "wasbs"}
LOCAL: Final = "file"


def target_of(raw: Raw) -> str | None:
    """Return the target of a Backfill; `None` if its spec has no target.

    A path without a scheme is in the pod's own file system, and mounts differ between namespaces. So it identifies a
    table only within a namespace. The same is true for a name in a catalog, which a spec's conf may define.
    """
    spec = raw.get("spec")
    target: Any = spec.get("target") if isinstance(spec, dict) else None
    members = target.values() if isinstance(target, dict) else ()
    member: dict[str, Any] = next((value for value in members if isinstance(value, dict)), {})
    namespace = str(raw["metadata"].get("namespace", ""))
    path, table = member.get("path"), member.get("table")
    if isinstance(path, str) and path.strip():
        return _of_path(path.strip(), namespace)
    if isinstance(table, str) and table.strip():
        return f"table {namespace}/{table.strip().replace('`', '').lower()}"
    return None


def _of_path(path: str, namespace: str) -> str:
    try:
        parts = urlsplit(path)
    except ValueError:
        return f"path {namespace}/{path}"
    scheme = SAME_SCHEMES.get(parts.scheme.lower(), parts.scheme.lower())
    plain = normpath("/" + (unquote(parts.path) if scheme else path).lstrip("/"))
    if scheme in ("", LOCAL):
        return f"{LOCAL} {namespace}{plain}"
    return f"{scheme}://{parts.netloc.lower()}{plain}"
