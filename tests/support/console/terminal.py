"""A command in a real terminal: a separate session and size, keys that are pressed, a terminal that is closed."""

import fcntl
import os
import re
import signal
import struct
import subprocess
import termios
import threading
import time

from support.console.forked import ForkedPython

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CTRL_C, CTRL_Z = b"\x03", b"\x1a"


class Terminal:
    """A child whose standard streams are a terminal, or the given pipes."""

    def __init__(self, command, *, columns=80, lines=24, env=None, cwd=None, **streams):
        """Start it; `stdout` or `stderr`, when given, replace the terminal."""
        self.master, slave = os.openpty()
        self.resize(columns, lines)
        given = {"stdin": slave, "stdout": slave, "stderr": slave, **streams}
        self.process = self._started(command, slave, env=env, cwd=cwd, start_new_session=True, **given)
        os.close(slave)
        self._bytes = bytearray()
        self._changed = threading.Condition()
        self._over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _started(self, command, slave, **options):
        return subprocess.Popen(command, preexec_fn=lambda: self._begin(slave), **options)

    def _begin(self, slave):
        """Become a job in the foreground; a process in the background of a script has Ctrl-C ignored."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    def _read(self):
        try:
            while got := os.read(self.master, 65536):
                with self._changed:
                    self._bytes += got
                    self._changed.notify_all()
        except OSError:  # the last process with the terminal open ended, or we closed it
            pass
        with self._changed:
            self._over = True
            self._changed.notify_all()

    @property
    def raw(self):
        """All output that was written to the terminal."""
        return self._bytes.decode(errors="replace")

    @property
    def text(self):
        """The same without escapes."""
        return ESCAPES.sub("", self.raw)

    def wait_for(self, expected, timeout_s=90.0, since=0):
        """Wait until the text contains a string after `since`; return the position after the string.

        Raises:
            AssertionError: it does not occur in time.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while expected not in self.text[since:]:
                left_s = deadline_s - time.monotonic()
                assert left_s > 0, f"waited {timeout_s:g} s for {expected!r} in:\n{self.text[-3000:]}"
                assert not self._over, f"ended without {expected!r}:\n{self.text[-3000:]}"
                self._changed.wait(min(left_s, 1.0))
        return self.text.index(expected, since) + len(expected)

    def press(self, keys=CTRL_C):
        """Type keys."""
        os.write(self.master, keys)

    def send(self, number, *, group=False):
        """Send a signal to the process, or to all processes that it started."""
        (os.killpg if group else os.kill)(self.process.pid, number)

    def resize(self, columns, lines):
        """Change the size of the terminal."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def hang_up(self):
        """Close the terminal, as when its window or its connection closes."""
        os.close(self.master)
        self.master = -1

    def ends(self, timeout_s=60.0):
        """Wait for the end; return the exit code and the elapsed seconds."""
        began_s = time.monotonic()
        code = self.process.wait(timeout_s)
        took_s = time.monotonic() - began_s
        self._reader.join(timeout_s)
        return code, took_s

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.master >= 0:
            os.close(self.master)


class PythonTerminal(Terminal):
    """A child that is forked from a Python with loaded modules; the command is the interpreter's words."""

    def _started(self, command, slave, **options):
        return ForkedPython(command, terminal=slave, **options)
