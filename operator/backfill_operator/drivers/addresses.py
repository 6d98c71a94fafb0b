"""Finds the address and credentials of a driver: one GET of its Secret, when it is first polled."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from backfill_operator.drivers.certificates import fingerprint
from backfill_operator.drivers.control_client import DriverAddress, DriverUnreachableError
from backfill_operator.drivers.poller import DriverRef
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.resources import SECRETS, Raw
from backfill_operator.manifests.names import CONTROL_PORT
from backfill_operator.manifests.secret import CERTIFICATE_KEY, TOKEN_KEY

Reach = Callable[[DriverRef], str | None]
"""Returns `host:port` of a driver's control server; `None` if it has no address yet."""


def by_pod_ip(driver: DriverRef) -> str | None:
    """Return the pod's own address. It needs no name resolution, and the pinned certificate proves the identity."""
    if driver.ip is None:
        return None
    host = f"[{driver.ip}]" if ":" in driver.ip else driver.ip
    return f"{host}:{CONTROL_PORT}"


class AddressBook:
    """Finds drivers; the Secret of an attempt never changes, so one GET is enough."""

    def __init__(self, cluster: Cluster, reach: Reach = by_pod_ip) -> None:
        """Take the API server that holds the Secrets, and the function that returns addresses."""
        self._cluster = cluster
        self._reach = reach

    async def locate(self, driver: DriverRef) -> DriverAddress:
        """Return the address of a driver.

        Raises:
            DriverUnreachableError: it has no address yet, or no Secret with its credentials.
            ApiError: the Secret cannot be read.
        """
        host_port = self._reach(driver)
        if host_port is None:
            raise DriverUnreachableError(f"{driver.pod_name} has no address yet")
        secret = await self._cluster.get(SECRETS, driver.namespace, driver.pod_name)
        if secret is None:
            raise DriverUnreachableError(f"{driver.pod_name} has no Secret")
        try:
            certificate, token = _entry(secret, CERTIFICATE_KEY), _entry(secret, TOKEN_KEY)
            return DriverAddress(driver.attempt, f"https://{host_port}", token, fingerprint(certificate))
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise DriverUnreachableError(f"the Secret {driver.pod_name} is not a driver's: {error!r}") from error


def _entry(secret: Raw, name: str) -> str:
    return base64.b64decode(secret["data"][name], validate=True).decode("ascii")
