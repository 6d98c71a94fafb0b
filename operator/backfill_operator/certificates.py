"""The credentials of one attempt: a key, a certificate that nobody signed but itself, and a token.

Nobody verifies a chain or a name: the operator pins the certificate, bit by bit. So there is no authority whose loss
would matter, nothing to rotate, and a driver of another attempt cannot be taken for this one.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import ssl
from dataclasses import dataclass
from typing import Final

from backfill_core.errors import BackfillError

DAYS: Final = 3650
"""Longer than any attempt: an expiry would be a fault without a benefit, because nobody but the pin is believed."""

COMMAND: Final = (
    "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-batch",
    "-days", str(DAYS), "-subj", "/CN=backfill-driver", "-keyout", "-", "-out", "-",
)  # fmt: skip
BEGIN_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"


class NoCertificateError(BackfillError):
    """`openssl` is missing, or does not do it."""

    reason = "NoCertificate"
    exit_code = 1


@dataclass(frozen=True, slots=True)
class Credentials:
    """What only one attempt's driver and the operator know."""

    key: str
    """PEM."""

    certificate: str
    """PEM."""

    token: str

    def __repr__(self) -> str:
        """Show nothing: what is logged by mistake must not be worth stealing."""
        return "Credentials(…)"


async def mint() -> Credentials:
    """Return credentials that nobody had before.

    Raises:
        NoCertificateError: there is no `openssl`.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *COMMAND, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        said, complaint = await process.communicate()
    except OSError as error:
        raise NoCertificateError(f"openssl cannot be started: {error}", cure="Install openssl.") from error
    key, begin, certificate = said.decode().partition(BEGIN_CERTIFICATE)
    if process.returncode or not begin:
        raise NoCertificateError(f"openssl: {complaint.decode(errors='replace')[-500:]}", cure="Mend openssl.")
    return Credentials(key, begin + certificate, secrets.token_urlsafe(32))


def fingerprint(certificate: str) -> bytes:
    """Return the SHA-256 of a PEM certificate, which is what is pinned.

    Raises:
        ValueError: it is no certificate.
    """
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.strip())).digest()
