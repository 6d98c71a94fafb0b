"""Commands `python -m MODULE …` and `python -c CODE …` in processes that are forked from one with loaded modules.

To load the command's modules takes three quarters of a CPU second in each process, and a fork takes a few milliseconds. A forked
process has its own environment, folder, streams, session and signals, and ends as the interpreter ends. It does not show how long a
start takes and which modules a command loads: tests about these start a Python.
"""

from __future__ import annotations

import array
import atexit
import fcntl
import gc
import importlib
import inspect
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from functools import cache
from types import ModuleType

OF_KUBECTL = ("backfill_kubectl.__main__", "backfill_console.commands.keyboard", "rich.console")
OF_OTHERS = (
    "backfill_cli.__main__", "backfill_cli.commands.run", "backfill_cli.page.local_jobs", "backfill_page.server.serve",
    "backfill_console.commands.keyboard", "rich.console", "backfill_spark.__main__", "backfill_spark.driver.attempt",
)  # fmt: skip
"""Modules that a server loads for its commands."""

FDS_MAX = 256
REQUEST_BYTES_MAX = 1 << 20
STREAMS = 3


class ForkedPython(subprocess.Popen):
    """A process of Python's words: the arguments after the name of the interpreter.

    It has the methods of `subprocess.Popen`. The server is its parent and reports its exit code.
    """

    def __init__(self, words, *, terminal=None, **options):
        """Start it; a `terminal` becomes its controlling terminal."""
        self._terminal, self._ended = terminal, -1
        super().__init__([str(word) for word in words], **options)

    def _execute_child(self, *given):
        of = inspect.signature(super()._execute_child).bind(*given).arguments
        streams = [of[name] if of[name] != -1 else fd for fd, name in enumerate(("p2cread", "c2pwrite", "errwrite"))]
        self._ended, reports = os.pipe()
        request = {
            "words": list(self.args), "folder": os.path.abspath(of["cwd"] or "."), "session": of["start_new_session"],
            "environ": dict(os.environ if of["env"] is None else of["env"]),
        }  # fmt: skip
        terminal = [] if self._terminal is None else [self._terminal]
        modules = OF_KUBECTL if "backfill_kubectl" in self.args else OF_OTHERS
        socket.send_fds(_server(modules), [json.dumps(request).encode()], [*streams, reports, *terminal])
        os.close(reports)
        self.pid = self._reported()
        self._child_created = True
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(of[name] for name in ends))

    def _reported(self):
        """Return the next number that the server reports: the process id, then the exit code."""
        number = array.array("i", os.read(self._ended, array.array("i").itemsize))
        assert number, f"the server of {self.args} has ended"
        return number[0]

    def _wait(self, timeout):
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = self._reported()
            os.close(self._ended)
        return self.returncode

    def _internal_poll(self, _deadstate=None):
        if self.returncode is None and self._child_created and select.select([self._ended], [], [], 0)[0]:
            self._wait(None)
        return self.returncode


def run(words, *, timeout=None, check=False, **options):
    """Run a process to its end, as `subprocess.run` does."""
    if options.pop("capture_output", False):
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with ForkedPython(words, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


@cache
def _server(modules):
    """Return the socket of the server with these modules; it ends with this process."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", __name__, str(its.fileno()), *modules]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(command, pass_fds=[its.fileno()], env=environ, stdin=subprocess.DEVNULL)
    its.close()
    atexit.register(_end, process, ours)
    return ours


def _end(process, requests):
    requests.close()
    process.wait()


# ---------------------------------------------------------------------------------------------------- in the server
def _next_child(requests):
    """Fork a process for each request and report its end; return only in such a process, with its words."""
    reports = {}
    wakes, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([requests, wakes], [], [])
        if wakes in ready:
            os.read(wakes, REQUEST_BYTES_MAX)
            _report_ended(reports)
        if requests in ready:
            request, fds, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, STREAMS + 2)
            if not request:
                sys.exit()
            pid = os.fork()
            if pid == 0:
                requests.detach()
                return _become(json.loads(request), fds)
            for fd in (*fds[:STREAMS], *fds[STREAMS + 1 :]):
                os.close(fd)
            reports[pid] = fds[STREAMS]
            os.write(reports[pid], array.array("i", [pid]))


def _report_ended(reports):
    """Report the exit codes of all processes that ended."""
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        report = reports.pop(pid)
        os.write(report, array.array("i", [os.waitstatus_to_exitcode(status)]))
        os.close(report)


def _become(request, fds):
    """Turn a forked process into one that a shell would have started; return its words."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["session"]:
        os.setsid()
    for terminal in fds[STREAMS + 1 :]:
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for stream, fd in enumerate(fds[:STREAMS]):
        os.dup2(fd, stream)
    os.closerange(STREAMS, FDS_MAX)
    os.environ.clear()
    os.environ.update(request["environ"])
    time.tzset()
    random.seed()
    os.chdir(request["folder"])
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    return request["words"]


def _execute(option, what, *arguments):
    """Run a module or code as the interpreter does."""
    sys.argv = [option, *arguments]
    if option == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.modules["__main__"] = module = ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), vars(module))


def _load(modules):
    """Import modules; a module that runs as a command is forgotten, so that it runs again without a warning."""
    for name in modules:
        importlib.import_module(name)
        if name.endswith(".__main__"):
            del sys.modules[name]
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _requests = socket.socket(fileno=int(sys.argv[1]))
    _load(sys.argv[2:])
    _execute(*_next_child(_requests))
