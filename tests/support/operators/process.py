"""Operators in processes: they start in a fraction of a second, run `main`, and die of SIGKILL.

A server process has imported everything and forks one operator after the other. A fork does not cover the command line and its
environment: tests/control_plane/process/test_process.py covers them, because it starts `python -m backfill_operator`.
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
        """Kill it with SIGKILL, at once."""
        if self.alive:
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.join(60)
        assert not self.alive

    async def stop(self):
        """Stop it as a cluster does; a process that was not killed must end by itself."""
        was_alive = self.alive
        self._process.terminate()
        # Only this thread reads its exit code: of two concurrent readers one gets 255.
        await asyncio.to_thread(wait, [self._process.sentinel], 10)
        if was_alive and self._process.exitcode != 0:
            self.error = f"ended with {self._process.exitcode}: {self.log.read_text()[-2000:]}"
            self.kill()


def _main(kubeconfig, environ, log):
    """Run `python -m backfill_operator` in a process that has already imported it."""
    from kubernetes.aio import config

    from backfill_operator.__main__ import main

    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        del os.environ[name]
    os.environ.update(environ)
    # The client bound it at import.
    config.KUBE_CONFIG_DEFAULT_LOCATION = config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION = kubeconfig
    with Path(log).open("a") as output:
        os.dup2(output.fileno(), 2)
        os.dup2(output.fileno(), 1)
    raise SystemExit(main())
