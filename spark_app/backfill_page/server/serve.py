"""Serves the page on loopback."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from backfill_page.seen import JobSource
from backfill_page.server.access import HOST, Access
from backfill_page.server.app import page_app
from backfill_page.server.feeds import Board

BACKLOG = 64


def listen(port: int) -> socket.socket:
    """Return a socket of this machine only; port 0 selects a free port.

    Raises:
        OSError: the port is taken.
    """
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((HOST, port))
    except (OSError, OverflowError):
        opened.close()
        raise
    opened.listen(BACKLOG)
    return opened


def page_server(source: JobSource, opened: socket.socket) -> tuple[uvicorn.Server, Access]:
    """Return a server for this socket, and the access to it."""
    access = Access(opened.getsockname()[1])
    config = uvicorn.Config(
        page_app(Board(source), access), log_level="critical", access_log=False, lifespan="off", server_header=False,
        proxy_headers=False, ws="none", timeout_graceful_shutdown=1,
    )  # fmt: skip
    return uvicorn.Server(config), access


def serve(source: JobSource, opened: socket.socket, announce: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C.

    Args:
        source: The jobs.
        opened: The socket, from `listen`.
        announce: Called with the link, which opens one session.
    """
    server, access = page_server(source, opened)
    announce(access.link)
    server.run(sockets=[opened])
