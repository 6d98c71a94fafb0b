"""Processes of a node, seen from this machine: a container's, to be frozen, and the API server's, to be started again.

This works if the node's processes are this machine's: those of the kit are, and those of kind and k3d are on Linux.
"""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

PROC = Path("/proc")


def of_pod(uid):
    """Return the process ids of a pod's containers."""
    named = {uid, uid.replace("-", "_")}
    return [number for number in _all() if any(name in _read(number, "cgroup") for name in named)]


@contextlib.contextmanager
def frozen(uid):
    """Stop all processes of a pod while the block runs."""
    numbers = of_pod(uid)
    assert numbers, f"no process of pod {uid} is seen from this machine"
    for number in numbers:
        os.kill(number, signal.SIGSTOP)
    try:
        yield
    finally:
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGCONT)


class ApiServer:
    """The process that serves the API at an address."""

    def __init__(self, port):
        """Find it by its listening port."""
        [self._number] = [number for number in _all() if _is_api_server(number, port)]
        self._words = [argument for argument in _read(self._number, "cmdline").split("\0") if argument]
        self._beside = next(
            number for number in _all() if number != self._number and _spaces(number) == _spaces(self._number)
        )
        self._started = None

    def kill(self):
        """Kill it at once."""
        os.kill(self._number, signal.SIGKILL)

    def start(self):
        """Start it again in the namespaces of its node; nothing else does if no kubelet watches it."""
        enter = ["nsenter", f"--target={self._beside}", "--net", "--mount", "--pid", "--"]
        self._started = subprocess.Popen(
            [*enter, *self._words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def end(self):
        """End the process that was started here."""
        if self._started is not None:
            self._started.kill()
            self._started.wait()


def _is_api_server(number, port):
    arguments = _read(number, "cmdline").split("\0")
    return Path(arguments[0]).name == "kube-apiserver" and str(port) in arguments


def _spaces(number):
    """Return the namespaces of a process: processes that share them are in the same node."""
    namespaces = []
    for kind in ("net", "mnt", "pid"):
        with contextlib.suppress(OSError):
            namespaces.append(os.readlink(PROC / str(number) / "ns" / kind))
    return namespaces


def _all():
    return [int(process.name) for process in PROC.iterdir() if process.name.isdigit()]


def _read(number, file):
    try:
        return (PROC / str(number) / file).read_text(errors="replace")
    except OSError:
        return ""  # it has ended
