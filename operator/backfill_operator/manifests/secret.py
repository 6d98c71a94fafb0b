"""The Secret of an attempt: it authorizes the operator to command the driver, and authenticates the executors."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from backfill_operator.manifests.attempt import Launch
from backfill_operator.manifests.names import CONTROL_DIR, metadata

CERTIFICATE_KEY: Final = "tls.crt"
PRIVATE_KEY: Final = "tls.key"
TOKEN_KEY: Final = "token"  # noqa: S105 - the name of an entry
RPC_SECRET_KEY: Final = "rpc-secret"  # noqa: S105 - the name of an entry
RPC_SECRET_FILE: Final = f"{CONTROL_DIR}/{RPC_SECRET_KEY}"
"""The same path in the driver and in executors, because Spark has one setting for both."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A driver's certificate with its key, the token for commands, and Spark's secret; created once for each attempt."""

    certificate_pem: str
    key_pem: str
    token: str
    rpc_secret: str


def secret(launch: Launch, identity: Identity) -> dict[str, Any]:
    """Return the Secret; immutable, because a driver reads it once."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(launch),
        "type": "Opaque",
        "immutable": True,
        "stringData": {
            CERTIFICATE_KEY: identity.certificate_pem,
            PRIVATE_KEY: identity.key_pem,
            TOKEN_KEY: identity.token,
            RPC_SECRET_KEY: identity.rpc_secret,
        },
    }


def token_of(there: Mapping[str, Any]) -> str | None:
    """Return the token in a Secret; `None` if it has no valid one."""
    try:
        return base64.b64decode(there["data"][TOKEN_KEY], validate=True).decode("ascii")
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None
