"""Clients of a port: they send bytes, so they can send anything."""

import re
import select
import socket
import ssl
import time
from contextlib import suppress

from support.ports.served import HOST

PATIENCE_S = 20
SEND_BYTES = 64 * 1024
"""Send buffer of a client in the kernel: small, so that sent bytes have arrived."""

CUT_OFF = ConnectionError, ssl.SSLError, TimeoutError
"""Errors of a client that still writes when the server ends the connection."""


def connect(port, *, tls=None, address=HOST):
    """Open a connection from an address of this machine, with a handshake if the port has TLS."""
    plain = socket.create_connection((HOST, port.number), timeout=PATIENCE_S, source_address=(address, 0))
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
    if not (port.tls if tls is None else tls):
        return plain
    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without the certificates of this machine
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    return unchecked.wrap_socket(plain)


def request(path, *headers, method="GET", body=b""):
    """Return the bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: a", *headers]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


def sent(connection, data):
    """Send as much as the server takes; return whether it took all of it."""
    try:
        connection.sendall(data)
    except CUT_OFF:
        return False
    return True


def until_ended(connection, within_s=PATIENCE_S):
    """Return the bytes that the server sends until it ends the connection.

    Raises:
        TimeoutError: the server does not end it in time.
    """
    answer, deadline_s = b"", time.monotonic() + within_s
    while True:
        connection.settimeout(max(0.001, deadline_s - time.monotonic()))
        try:
            part = connection.recv(65536)
        except TimeoutError:
            raise
        except CUT_OFF:
            return answer
        if not part:
            return answer
        answer += part


def is_ended(connection, within_s=0.0):
    """Return whether the server ends the connection within this time."""
    poll = select.poll()  # `select` refuses descriptors above 1023, which killed operators of other tests may hold
    poll.register(connection, select.POLLIN)
    if not poll.poll(within_s * 1000):
        return False
    try:
        return connection.recv(65536) == b""
    except CUT_OFF:
        return True


def half_close(connection):
    """Shut down writing; below TLS, whose own layer would discard its state."""
    socket.socket.shutdown(connection, socket.SHUT_WR)


def statuses(answer):
    """Return the status of each response."""
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answer)]


def ask(port, data):
    """Send bytes on a separate connection, and return the answer until the connection ends."""
    with connect(port) as connection:
        with suppress(*CUT_OFF):
            connection.sendall(data)
        return until_ended(connection)


def look(port):
    """Return the status of a valid request of a client without a token."""
    return statuses(ask(port, request(port.path, "Connection: close")))


def becomes_ready(port, look=look):
    """Wait until a port answers with 200; a flood may stay in its queue for a while."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (answered := look(port)) != [200] and time.monotonic() < deadline_s:
        pass
    return answered == [200]


def look_with_token(port):
    """Return the status of a valid request of a client with the token."""
    return statuses(ask(port, request(port.secret_path, f"Authorization: Bearer {port.token}", "Connection: close")))
