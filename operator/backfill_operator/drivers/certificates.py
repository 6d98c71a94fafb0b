"""The credentials of one attempt: a key, a certificate that nobody signed but itself, and a token.

Nobody verifies a chain or a name: the operator pins the certificate, bit by bit. So there is no authority whose loss
would matter, nothing to rotate, and a driver of another attempt cannot be taken for this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import signal
import ssl
from dataclasses import dataclass
from typing import Final

from backfill_core.errors import BackfillError

DAYS: Final = 3650
"""Longer than any attempt: an expiry would be a fault without a benefit, because nobody but the pin is believed."""

SCRIPT: Final = f"""
made=0
while [ "$made" -lt "$1" ]; do
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -batch -days {DAYS} \\
        -subj /CN=backfill-driver -keyout - -out - || exit 1
    made=$((made + 1))
done
"""
BATCH: Final = 8
"""Made by one process: starting one from a large process costs as much as a certificate."""

MINT_S: Final = 30.0
"""For one batch, which takes a tenth of a second: a machine without entropy, or without any time to give, never ends."""

BEGIN_KEY: Final = "-----BEGIN PRIVATE KEY-----"
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
    rpc_secret: str
    """With it a driver and its executors know each other."""

    def __repr__(self) -> str:
        """Show nothing: what is logged by mistake must not be worth stealing."""
        return "Credentials(…)"


class CredentialPool:
    """Makes credentials, some in advance."""

    def __init__(self) -> None:
        """Have none."""
        self._ready: list[Credentials] = []
        self._making = asyncio.Lock()

    async def take(self) -> Credentials:
        """Return credentials that nobody had before.

        Raises:
            NoCertificateError: there is no `openssl`.
        """
        while not self._ready:
            async with self._making:
                if not self._ready:
                    self._ready = await mint(BATCH)
        return self._ready.pop()


async def mint(number: int, *, within_s: float = MINT_S) -> list[Credentials]:
    """Return so many new credentials.

    Raises:
        NoCertificateError: there is no `openssl`, or it does not come to an end.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", SCRIPT, "mint", str(number),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise NoCertificateError(f"openssl cannot be started: {error}", hint="Install openssl.") from error
    try:
        async with asyncio.timeout(within_s):
            said, complaint = await process.communicate()
    except TimeoutError as error:
        _end(process)
        await process.wait()
        raise NoCertificateError(f"openssl did not end within {within_s:g} s", hint="Give it time.") from error
    finally:
        _end(process)
    pairs = [one.partition(BEGIN_CERTIFICATE) for one in said.decode().split(BEGIN_KEY)[1:]]
    if process.returncode or len(pairs) != number or not all(begin for _, begin, _ in pairs):
        raise NoCertificateError(
            f"openssl: {complaint.decode(errors='replace')[-500:]}", hint="Repair or replace openssl."
        )
    return [
        Credentials(BEGIN_KEY + key, begin + rest, secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        for key, begin, rest in pairs
    ]


def _end(process: asyncio.subprocess.Process) -> None:
    """Leave nothing running: neither the shell nor the `openssl` that it started."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def fingerprint(certificate: str) -> bytes:
    """Return the SHA-256 of a PEM certificate, which is what is pinned.

    Raises:
        ValueError: it is no certificate.
    """
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.strip())).digest()
