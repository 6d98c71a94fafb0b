"""Which settings hold a secret, by their names: nobody else can tell, and a spec is read by everybody who may read Backfills."""

from __future__ import annotations

import itertools
import re
from typing import Final

_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
SECRET_WORDS: Final = frozenset({
    "apikey", "accesskey", "credential", "credentials", "keypassword", "passphrase", "passwd", "password", "privatekey", "pwd",
    "secret", "secretkey", "secrets", "token", "tokens",
})  # fmt: skip
KEYS_OF: Final = frozenset(
    {"access", "account", "api", "auth", "encryption", "private", "shared", "signing", "storage"}
)
"""A word before `key`: fs.azure.account.key, fs.s3a.access.key."""

HARMLESS_ENDS: Final = frozenset({
    "algorithm", "binding", "class", "enabled", "endpoint", "expiration", "file", "impl", "interval", "length", "lifetime", "path",
    "provider", "providers", "region", "service", "timeout", "type", "uri", "url",
})  # fmt: skip
"""`…token.endpoint` says where, `…credential.provider.path` says which file: neither is the secret itself."""

HARMLESS: Final = frozenset({"GOOGLE_APPLICATION_CREDENTIALS"})
"""The name of a file."""


def holds_a_secret(name: str) -> bool:
    """Is the value of a setting or variable of this name a secret?"""
    words = [one.lower() for one in _WORDS.findall(name)]
    if not words or words[-1] in HARMLESS_ENDS or name in HARMLESS:
        return False
    if any(word in SECRET_WORDS for word in words):
        return True
    return any(word == "key" and before in KEYS_OF for before, word in itertools.pairwise(words))
