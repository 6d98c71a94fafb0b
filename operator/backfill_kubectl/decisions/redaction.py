"""Removes secrets from objects and logs before they leave the cluster in a ticket."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from backfill_api.spec.secret_settings import holds_a_secret

REDACTED: Final = "REDACTED"
VARIABLE_VALUES: Final = ("value", "data", "stringData")
"""Fields whose content is a secret if the entry's `name` is that of one; `data` of a Secret always is."""

_ASSIGNED: Final = re.compile(r"(?<![\w.-])([\w.-]++)(\\?[\"']?\s*[:=]+>?\s*)")
"""A name and a sign: in JSON, YAML, properties, a query or a command."""

_VALUE: Final = re.compile(r"(?s)\\?\"(?:[^\"\\]|\\.)*+\"?|'[^']*+'?|[^\s,;&\"'})\]]+")
"""An assigned value; one without its closing quote extends to the end, because a log may be cut."""

_OPTION: Final = re.compile(r"(?<!-)(--\w++(?:-\w++)*+)(\s+)(?!-)(?:\"[^\"]*+\"?|'[^']*+'?|[^\s\"']+)")
"""An option of a command, and its value."""

_FORMS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----(?:[^-]|-(?!----END [A-Z ]{0,32}PRIVATE KEY-----))*+"
            r"(?:-----END [A-Z ]{0,32}PRIVATE KEY-----)?"
        ),
        REDACTED,
    ),
    (re.compile(r"(?i)\b(bearer|basic|token)(\s+)[A-Za-z0-9+/_.~-]{8,}=*"), rf"\1\2{REDACTED}"),
    (re.compile(r"(?i)(authorization\\?[\"']?\s*[:=]\s*\\?[\"']?)[^\s\"'\\,;]+"), rf"\1{REDACTED}"),
    (re.compile(r"\beyJ[A-Za-z0-9_.-]{11,}"), REDACTED),
    (re.compile(r"(?<=://)[^/\s:@\"']*:[^/\s@\"']+(?=@)"), REDACTED),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), REDACTED),
    (re.compile(r"(?i)([?&](?:sig|signature|x-amz-[a-z-]+|x-goog-[a-z-]+|code|key)=)[^&\s\"'\\]+"), rf"\1{REDACTED}"),
    (re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|dapi[0-9a-f]{32})"), REDACTED),
)
"""Forms of secrets without a name. Any base64 of a JSON object (`eyJ…`) counts as a token."""


def redact_text(text: str) -> str:
    """Remove values that have the name or the form of a secret, in linear time."""
    for form, replacement in _FORMS:
        text = form.sub(replacement, text)
    return _without_assigned(_OPTION.sub(_without_argument, text))


def _without_argument(option: re.Match[str]) -> str:
    """Return an option of a command; its value stays unless it is a secret."""
    return f"{option[1]}{option[2]}{REDACTED}" if _names_a_secret(option[1]) else option[0]


def _without_assigned(text: str) -> str:
    """Return a text in which names of secrets have no values; a harmless name, such as `token.endpoint`, keeps its value."""
    parts, end = [], 0
    for assigned in _ASSIGNED.finditer(text):
        # A value may itself contain assignments.
        if assigned.start() < end or not _names_a_secret(assigned[1]):
            continue
        value = _VALUE.match(text, assigned.end())
        if value is not None and value[0] not in ("null", "true", "false", REDACTED):
            quote = '\\"' if value[0].startswith('\\"') else value[0][0] if value[0][0] in "\"'" else ""
            parts += [text[end : assigned.end()], quote, REDACTED, quote]
            end = value.end()
    return "".join((*parts, text[end:]))


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
            return json.dumps(redact(inner))
        except (ValueError, RecursionError):
            return redact_text(text)
    return redact_text(text)
