"""Configuration of a client of a server in this process, as a client in a cluster has it.

Without a certificate file each client loads all certificates of the machine: 20 ms of CPU time, four times for each operator.
"""

import tempfile
from functools import cache
from pathlib import Path

from kubernetes.aio.client.configuration import Configuration
from support.cluster.certificates import certificate


@cache
def _trusted():
    """Return a folder with one certificate; it lives as long as this process."""
    folder = tempfile.TemporaryDirectory(prefix="backfill-certificate-")
    certificate(Path(folder.name), "trusted")
    return folder


def configuration_of(url, user):
    """Return the client configuration of a user of a server, which trusts one certificate."""
    configuration = Configuration()
    configuration.host = url
    configuration.api_key["BearerToken"] = f"Bearer {user}"
    configuration.ssl_ca_cert = f"{_trusted().name}/trusted.crt"
    return configuration
