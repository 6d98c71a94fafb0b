"""Binds an attempt's control server: on loopback for the command line, or on the address and identity from an operator.

An operator has a separate count of attempts. It differs from the number in the target's state, because the state outlives the
Backfill. So the binding uses the operator's number with clients, and the state's number with the core.
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Callable
from dataclasses import replace

from prometheus_client import CollectorRegistry

from backfill_api.status.progress import Progress
from backfill_core.protocol.actions import Acknowledge
from backfill_core.protocol.events import CommandReceived
from backfill_core.protocol.receipt import TableReceipt
from backfill_spark.control.server import ControlServer
from backfill_spark.settings import DriverSettings, InvalidSettingError


class OperatorBinding:
    """The control server of one attempt, with the attempt number that its clients use."""

    def __init__(
        self,
        settings: DriverSettings,
        *,
        attempt: int,
        job_id: str,
        submit: Callable[[CommandReceived], None],
        progress: Callable[[], Progress],
        receipt: Callable[[], TableReceipt | None],
        alive: Callable[[], bool] = lambda: True,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """Bind the address of the settings; `attempt` is the number in the target's state.

        Raises:
            InvalidSettingError: the token, the certificate or the key cannot be read, or the address cannot be bound.
        """
        self._core_attempt = attempt
        self.attempt = settings.operator_attempt or attempt
        try:
            self.token = _token(settings)
            self._server = ControlServer(
                attempt=self.attempt,
                job_id=job_id,
                token=self.token,
                submit=lambda event: submit(replace(event, attempt=attempt)),
                progress=progress,
                receipt=receipt,
                alive=alive,
                registry=registry,
                host=settings.control_bind,
                port=settings.control_port,
                ssl_context=_ssl_context(settings),
            )
        except OSError as error:
            raise InvalidSettingError(
                f"the control server cannot start: {error}.", hint="Correct the BACKFILL_CONTROL_… variables."
            ) from error
        self.url = self._server.url
        self.start = self._server.start
        self.close = self._server.close

    def acknowledge(self, ack: Acknowledge) -> None:
        """Pass the core's answer on, with the attempt number that the client used."""
        ours = ack.attempt == self._core_attempt
        self._server.acknowledge(replace(ack, attempt=self.attempt) if ours else ack)


def _token(settings: DriverSettings) -> str:
    if settings.control_token_file is None:
        return secrets.token_urlsafe(32)
    token = settings.control_token_file.read_text().strip()
    if not token:
        raise InvalidSettingError(f"{settings.control_token_file} is empty.", hint="Put a token into it.")
    return token


def _ssl_context(settings: DriverSettings) -> ssl.SSLContext | None:
    folder = settings.control_tls_dir
    if folder is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context
