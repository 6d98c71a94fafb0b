"""Removes secrets from objects and logs before they leave the cluster in a ticket."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from backfill_api.spec.secret_settings import NAMES_OF_SECRETS, holds_a_secret

REDACTED: Final = "REDACTED"
VARIABLE_VALUES: Final = ("value", "data", "stringData")
"""Fields whose content is a secret if the entry's `name` is that of one; `data` of a Secret always is."""

_NAME: Final = NAMES_OF_SECRETS.removeprefix("(?i)").replace("(", "(?:").replace("(?:?:", "(?:")
_ASSIGNED: Final = re.compile(
    rf"(?i)([\w.-]*{_NAME}[\w.-]*)(\\?[\"']?\s*[:=]+>?\s*)(\\?\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s,;&\"'}})\]]+)"
)
"""A name of a secret, a sign, and the value: in JSON, YAML, properties, a query or a command."""

_PATTERNS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), REDACTED),
    (re.compile(r"(?i)\b(bearer|basic|token)(\s+)[A-Za-z0-9+/_.~-]{8,}=*"), rf"\1\2{REDACTED}"),
    (re.compile(r"(?i)(authorization\\?[\"']?\s*[:=]\s*\\?[\"']?)[^\s\"'\\,;]+"), rf"\1{REDACTED}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)?"), REDACTED),
    (re.compile(r"(?<=://)[^/\s:@\"']*:[^/\s@\"']+(?=@)"), REDACTED),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), REDACTED),
    (re.compile(r"(?i)([?&](?:sig|signature|x-amz-[a-z-]+|x-goog-[a-z-]+|code|key)=)[^&\s\"'\\]+"), rf"\1{REDACTED}"),
    (re.compile(rf"(?i)(--[\w-]*{_NAME}[\w-]*\s+)(?!-)[^\s\"']+"), rf"\1{REDACTED}"),
    (re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|dapi[0-9a-f]{32})"), REDACTED),
)
"""Forms of secrets without a name."""


def redact_text(text: str) -> str:
    """Remove values that have the name or the form of a secret."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return _ASSIGNED.sub(_without_value, text)


def _without_value(match: re.Match[str]) -> str:
    """Return the name and the sign of an assignment; a harmless name, such as `token.endpoint`, keeps its value."""
    name, sign, value = match.groups()
    if not _names_a_secret(name) or value in ("null", "true", "false", REDACTED):
        return match[0]
    if value.startswith('\\"'):
        return f'{name}{sign}\\"{REDACTED}\\"'
    quote = value[0] if value[0] in "\"'" else ""
    return f"{name}{sign}{quote}{REDACTED}{quote}"


def _names_a_secret(name: str) -> bool:
    """Return whether a value of this name is a secret; `secretName` is the name of an object."""
    return holds_a_secret(name) and not name.lower().endswith("secretname")


def redact(value: Any) -> Any:
    """Return an object without secrets. Fields with the name of a secret, and variables with such a name, lose their value."""
    if isinstance(value, str):
        return _redact_string(value)
    if isinstance(value, list):
        return [redact(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    secret_kind = value.get("kind") == "Secret"
    named = isinstance(value.get("name"), str) and holds_a_secret(value["name"])
    result = {}
    for name, item in value.items():
        hidden = (secret_kind and name in ("data", "stringData")) or (named and name in VARIABLE_VALUES)
        hidden = hidden or (
            isinstance(item, str | int | float) and not isinstance(item, bool) and _hides(str(name), item)
        )
        result[name] = REDACTED if hidden else redact(item)
    return result


def _hides(name: str, item: str | float) -> bool:
    """Return whether a field is a secret. Numbers are counts, except under the name of a password."""
    return _names_a_secret(name) and (isinstance(item, str) or re.search(r"(?i)pass", name) is not None) and item != ""


def _redact_string(text: str) -> str:
    """Return a string without secrets; JSON inside a string, as in an annotation of kubectl, is parsed."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            inner = json.loads(text)
        except ValueError:
            return redact_text(text)
        return json.dumps(redact(inner))
    return redact_text(text)
