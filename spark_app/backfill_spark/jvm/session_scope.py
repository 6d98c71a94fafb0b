"""The session of one command: the caller's session, or a new one that is stopped afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from backfill_core.errors import SessionUnfitError
from backfill_spark.jvm.class_archive import warn_when_unused
from backfill_spark.jvm.gateway import activate
from backfill_spark.jvm.java_process import deaths_named, java_died
from backfill_spark.jvm.session import open_session
from backfill_spark.jvm.stop_signal import LOOK_EVERY_S, StoppedEarly, StopSignal
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EMBEDDED = threading.Lock()
"""Held while this process has, starts or stops an embedded Spark: a second session would share that Spark, and stop with it."""

EMBEDDED_WAIT_S = 30.0
"""Maximum wait for `EMBEDDED`; an abandoned start ends within this time."""


@contextmanager
def session_scope(
    spec_conf: Mapping[str, str],
    settings: DriverSettings,
    *,
    app_name: str,
    given: SparkSession | None,
    stop: StopSignal,
) -> Iterator[SparkSession]:
    """Yield `given`, or a new session with the settings of a spec, local or on the cluster, until the block ends.

    The session is the active session of this thread.

    Raises:
        SessionUnfitError: another job of this process uses the embedded Spark.
        JavaDiedError: the Java of the new session ended.
        StoppedEarly: a stop was requested while Spark started, or while the other job ended.
    """
    if given is not None:
        activate(given)
        yield given
        return
    cluster = settings.master == "cluster"
    _wait_for_room(stop)
    try:
        session = open_session(
            app_name=app_name,
            cores=settings.cores,
            memory=settings.memory,
            jars_dir=settings.jars_dir,
            java_home=settings.java_home,
            cluster=cluster,
            conf=spec_conf if cluster else None,
            spec_conf=None if cluster else spec_conf,
            stop=stop,
            given_up=EMBEDDED.release,
        )
    except StoppedEarly:
        raise  # `given_up` releases the lock after the abandoned Spark has stopped
    except BaseException:
        EMBEDDED.release()
        raise
    try:
        with deaths_named(session):
            if cluster:
                warn_when_unused(session, None)
            yield session
    finally:
        try:
            session.stop()
        except (Py4JError, ConnectionError) as error:
            # An ended Java needs no stop, and its end is already reported.
            if not java_died(session, error):
                raise
        finally:
            EMBEDDED.release()


def _wait_for_room(stop: StopSignal) -> None:
    """Take `EMBEDDED`."""
    last_s = time.monotonic() + EMBEDDED_WAIT_S
    while not EMBEDDED.acquire(timeout=min(LOOK_EVERY_S, EMBEDDED_WAIT_S)):
        stop.check()
        if time.monotonic() >= last_s:
            raise SessionUnfitError(
                "another job of this process runs in an embedded Spark.",
                hint="Wait for its end, or build a session and pass it to both jobs: job.run(spark).",
            )
