"""Operators that are processes: they start in a fraction of a second, run `main`, and die of SIGKILL.

A server process has imported everything and forks one operator after the other. What a fork cannot show, the command line
and its environment, is in tests/control_plane/process/test_process.py, which starts `python -m backfill_operator`.
"""

import asyncio
import multiprocessing
import os
import signal
from multiprocessing.connection import wait
from pathlib import Path

from backfill_operator.settings import PREFIX

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["support.operators.process", "backfill_operator.__main__"])


def environ_of(settings):
    """Return settings as the variables that the operator reads."""
    given = settings if isinstance(settings, dict) else settings.model_dump(exclude_defaults=True)
    given = {name: ",".join(value) if isinstance(value, tuple) else str(value) for name, value in given.items()}
    return {PREFIX + name.upper(): value for name, value in given.items()}


class OperatorProcess:
    """One operator, from its start to its SIGKILL."""

    def __init__(self, kubeconfig, settings, log):
        arguments = str(kubeconfig), environ_of(settings), str(log)
        self.log, self.error, self._stopped = Path(log), None, False
        self._process = _CONTEXT.Process(target=_main, args=arguments, daemon=True)
        self._process.start()

    @property
    def alive(self):
        return self._process.is_alive()

    def kill(self):
        """Have the kernel end it, now."""
        if self.alive:
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.join(10)
        assert not self.alive

    async def stop(self):
        """End it as a cluster does; a process that was not killed must come to that end by itself."""
        was_alive = self.alive
        self._process.terminate()
        # Its exit code is read in this thread only: of two that read it at a time one gets 255.
        await asyncio.to_thread(wait, [self._process.sentinel], 10)
        if was_alive and self._process.exitcode != 0:
            self.error = f"ended with {self._process.exitcode}: {self.log.read_text()[-2000:]}"
            self.kill()


def _main(kubeconfig, environ, log):
    """What `python -m backfill_operator` does, in a process that has imported it already."""
    from kubernetes.aio import config

    from backfill_operator.__main__ import main

    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        del os.environ[name]
    os.environ.update(environ)
    # Bound when the client was imported.
    config.KUBE_CONFIG_DEFAULT_LOCATION = config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION = kubeconfig
    with Path(log).open("a") as said:
        os.dup2(said.fileno(), 2)
        os.dup2(said.fileno(), 1)
    raise SystemExit(main())
