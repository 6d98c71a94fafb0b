"""What lets the operator, and nobody else, command one attempt's driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from backfill_operator.manifests.launch import Launch
from backfill_operator.manifests.names import metadata

CERTIFICATE_KEY: Final = "tls.crt"
PRIVATE_KEY: Final = "tls.key"
TOKEN_KEY: Final = "token"  # noqa: S105 - the name of an entry


@dataclass(frozen=True, slots=True)
class Identity:
    """A driver's certificate with its key, and the token that commands it; made once for each attempt."""

    certificate_pem: str
    key_pem: str
    token: str


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
        },
    }
