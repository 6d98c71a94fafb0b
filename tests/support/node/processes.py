"""Processes of a node, seen from this machine: a container's, to be frozen, and the API server's, to be started anew.

That works where the node's processes are this machine's: the kit's are, and those of kind and k3d are on Linux.
"""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

PROC = Path("/proc")


def of_pod(uid):
    """Return the numbers of the processes that a pod's containers have."""
    named = {uid, uid.replace("-", "_")}
    return [number for number in _all() if any(name in _read(number, "cgroup") for name in named)]


@contextlib.contextmanager
def frozen(uid):
    """Have all processes of a pod stand still while the block runs."""
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
        """Find it by the port that it listens on."""
        [self._number] = [one for one in _all() if _is_api_server(one, port)]
        self._words = [word for word in _read(self._number, "cmdline").split("\0") if word]
        self._beside = next(one for one in _all() if one != self._number and _spaces(one) == _spaces(self._number))
        self._started = None

    def kill(self):
        """Have it die at once."""
        os.kill(self._number, signal.SIGKILL)

    def start(self):
        """Start it again, where its node is; nothing else does where no kubelet watches it."""
        enter = ["nsenter", f"--target={self._beside}", "--net", "--mount", "--pid", "--"]
        self._started = subprocess.Popen(
            [*enter, *self._words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def end(self):
        """End the one that was started here."""
        if self._started is not None:
            self._started.kill()
            self._started.wait()


def _is_api_server(number, port):
    words = _read(number, "cmdline").split("\0")
    return Path(words[0]).name == "kube-apiserver" and str(port) in words


def _spaces(number):
    """Return the namespaces of a process: who shares them is in the same node."""
    found = []
    for kind in ("net", "mnt", "pid"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(PROC / str(number) / "ns" / kind))
    return found


def _all():
    return [int(one.name) for one in PROC.iterdir() if one.name.isdigit()]


def _read(number, file):
    try:
        return (PROC / str(number) / file).read_text(errors="replace")
    except OSError:
        return ""  # it has ended
