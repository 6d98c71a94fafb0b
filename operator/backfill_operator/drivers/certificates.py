"""The credentials of one attempt: a key, a self-signed certificate, and a token.

The operator pins the certificate's fingerprint instead of checking a chain or a name. So there is no certificate
authority to lose and nothing to rotate, and the operator cannot confuse the drivers of two attempts.
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
"""Longer than any attempt: with a pinned certificate, an expiry adds a failure and no safety."""

SCRIPT: Final = f"""
made=0
while [ "$made" -lt "$1" ]; do
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -batch -days {DAYS} \\
        -subj /CN=backfill-driver -keyout - -out - || exit 1
    made=$((made + 1))
done
"""
BATCH: Final = 8
"""Certificates that one process creates, because starting it costs as much as a certificate."""

MINT_S: Final = 30.0
"""Limit for one batch, which usually takes 0.1 s. Without entropy or CPU time it would never end."""

BEGIN_KEY: Final = "-----BEGIN PRIVATE KEY-----"
BEGIN_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"


class NoCertificateError(BackfillError):
    """`openssl` is missing or fails."""

    reason = "NoCertificate"
    exit_code = 1


@dataclass(frozen=True, slots=True)
class Credentials:
    """The secrets that one attempt's driver shares with the operator."""

    key: str
    """PEM."""

    certificate: str
    """PEM."""

    token: str
    rpc_secret: str
    """Authenticates the driver and its executors to each other."""

    def __repr__(self) -> str:
        """Show no field, so that a log line never contains a secret."""
        return "Credentials(…)"


class CredentialPool:
    """Creates credentials, a batch in advance."""

    def __init__(self) -> None:
        """Start empty."""
        self._ready: list[Credentials] = []
        self._making = asyncio.Lock()

    async def take(self) -> Credentials:
        """Return unused credentials.

        Raises:
            NoCertificateError: `openssl` is missing or fails.
        """
        while not self._ready:
            async with self._making:
                if not self._ready:
                    self._ready = await mint(BATCH)
        return self._ready.pop()


async def mint(number: int, *, within_s: float = MINT_S) -> list[Credentials]:
    """Return this many new credentials.

    Raises:
        NoCertificateError: `openssl` is missing, fails, or does not end within `within_s` seconds.
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
            output, complaint = await process.communicate()
    except TimeoutError as error:
        _end(process)
        await process.wait()
        raise NoCertificateError(f"openssl did not end within {within_s:g} s", hint="Give it time.") from error
    finally:
        _end(process)
    pairs = [pair.partition(BEGIN_CERTIFICATE) for pair in output.decode().split(BEGIN_KEY)[1:]]
    if process.returncode or len(pairs) != number or not all(begin for _, begin, _ in pairs):
        raise NoCertificateError(
            f"openssl: {complaint.decode(errors='replace')[-500:]}", hint="Repair or replace openssl."
        )
    return [
        Credentials(BEGIN_KEY + key, begin + rest, secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        for key, begin, rest in pairs
    ]


def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the shell and the `openssl` that it started."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def fingerprint(certificate: str) -> bytes:
    """Return the SHA-256 of a PEM certificate; this is the pin.

    Raises:
        ValueError: it is not a certificate.
    """
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.strip())).digest()
