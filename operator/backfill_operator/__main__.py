"""`python -m backfill_operator`: runs until SIGTERM or a fatal error; settings come from the environment."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import load_config
from kubernetes.aio.config.config_exception import ConfigException

from backfill_api.json_lines import log_what_python_prints
from backfill_core.errors import EXIT_USAGE
from backfill_operator.app import Operator
from backfill_operator.kube.election import LeadershipLostError
from backfill_operator.logs import configure_logging
from backfill_operator.settings import InvalidOperatorSettingError, OperatorSettings

EXIT_FAILED = 1

_log = logging.getLogger("backfill_operator")


def main() -> int:
    """Run the operator; return the exit code."""
    configure_logging("INFO")
    log_what_python_prints()
    try:
        settings = OperatorSettings.from_environ()
    except InvalidOperatorSettingError as error:
        _log.error("%s %s", error, error.hint)
        return EXIT_USAGE
    configure_logging(settings.log_level)
    return asyncio.run(_run(settings))


async def _run(settings: OperatorSettings) -> int:
    configuration = Configuration()
    try:
        await load_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except ConfigException as error:
        _log.error("no kubeconfig and no service account was found: %s", error)
        return EXIT_USAGE
    operator = Operator(configuration, settings)
    running = asyncio.create_task(operator.run(), name="operator")
    taking = asyncio.create_task(_take_signals(operator.watching, running), name="signals")
    try:
        await running
    except asyncio.CancelledError:
        return 0
    except ExceptionGroup as group:
        lost, others = group.split(LeadershipLostError)
        if lost is not None:
            _log.error("leadership is lost: %s", lost.exceptions[0])
        if others is not None:
            _log.error("the operator failed", exc_info=others)
        return EXIT_FAILED
    finally:
        taking.cancel()
    return EXIT_FAILED


async def _take_signals(watching: asyncio.Event, running: asyncio.Task[None]) -> None:
    """End the operator on SIGINT and SIGTERM; kopf replaces the handlers when it starts, so they are set twice."""
    loop = asyncio.get_running_loop()
    for _ in range(2):
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, running.cancel)
        await watching.wait()


if __name__ == "__main__":
    sys.exit(main())
