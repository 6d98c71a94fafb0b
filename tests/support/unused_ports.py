"""Ports for a server that opens its port only later, in another process."""

import random
import socket

LOWEST, HIGHEST = 15_000, 32_000
"""Below the range from which systems take ports of outgoing connections (32,768 on Linux): none of them takes the port meanwhile."""


def unused_ports(host: str, count: int) -> list[int]:
    """Return different ports of an address that no server uses."""
    found: list[int] = []
    for port in random.SystemRandom().sample(range(LOWEST, HIGHEST), 500):
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise AssertionError(f"no {count} unused ports between {LOWEST} and {HIGHEST}")
