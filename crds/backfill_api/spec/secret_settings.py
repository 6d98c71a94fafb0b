"""Which settings hold a secret, by their names: nothing else tells, and all who may read Backfills read the spec.

Both expressions are for Python and for CEL alike, so that a cluster refuses what we would refuse before it stores it.
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
"""`…token.endpoint` says where, `…credential.provider.path` says which file: neither is the secret itself."""


def holds_a_secret(name: str) -> bool:
    """Is the value of a setting or variable of this name a secret?"""
    return re.search(NAMES_OF_SECRETS, name) is not None and re.search(HARMLESS, name) is None
