"""Names of settings that hold a secret: everyone who may read Backfills can read a spec.

Both expressions work in Python and in CEL, so a cluster refuses a secret before it stores it.
"""

from __future__ import annotations

import re
from typing import Final

NAMES_OF_SECRETS: Final = (
    r"(?i)(secret|password|passwd|passphrase|token|credentials?$|credentials?[._-]?key"
    r"|(private|access|account|api|shared|signing)[._-]?key)"
)
HARMLESS: Final = (
    r"(?i)^spark[.]kubernetes[.]|(algorithm|binding|class|enabled|endpoint|expiration|file|impl|interval|length|lifetime|path|providers?|region"
    r"|service|timeout|type|uri|url|APPLICATION_CREDENTIALS)$"
)
"""`…token.endpoint` is an address and `…credential.provider.path` a file: neither is the secret itself."""


def holds_a_secret(name: str) -> bool:
    """Return whether a setting or variable with this name holds a secret."""
    return re.search(NAMES_OF_SECRETS, name) is not None and re.search(HARMLESS, name) is None
