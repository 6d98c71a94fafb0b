"""A Spark session as users have it, in the Spark of the tests: settings of its builder, its own, and those of other threads.

Spark applies the settings of a builder to every session of its context. Code that names no session gets the *active* session of
its thread, or else the *default* one. A caller may have any of them, so a job may rely on none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from backfill_spark.jvm.gateway import java, java_context, java_session

ELSEWHERE = {
    "spark.sql.session.timeZone": "Asia/Kolkata",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
}
"""Settings of a session that another cell of the caller's notebook has made active on the calling thread."""


def active_session(spark: Any) -> Any:
    """Return Java's active session of this thread."""
    return sessions_of(spark).getActiveSession().get()


def sessions_of(spark: Any) -> Any:
    """Return the Java object with the default session and the active one of each thread."""
    return java(spark).org.apache.spark.sql.classic.SparkSession


@contextmanager
def callers_session(spark: Any, built: Mapping[str, str], own: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Yield a caller's session. The default session has `built`, the active one of this thread `ELSEWHERE`; both are reset afterwards.

    Args:
        spark: The session of the tests.
        built: Settings of the builder, which every new session inherits.
        own: Settings that the caller set later, in the session that is yielded.
    """
    conf, sessions = java_context(spark).sc().conf(), sessions_of(spark)
    before = {name: conf.get(name) if conf.contains(name) else None for name in built}
    for name, value in built.items():
        conf.set(name, value)
    try:
        caller, active = spark.newSession(), spark.newSession()
        for session, settings in ((caller, own or {}), (active, ELSEWHERE)):
            for name, value in settings.items():
                session.conf.set(name, value)
        sessions.setDefaultSession(java_session(caller))
        sessions.setActiveSession(java_session(active))
        yield caller
    finally:
        sessions.setDefaultSession(java_session(spark))
        sessions.setActiveSession(java_session(spark))
        for name, value in before.items():
            conf.remove(name) if value is None else conf.set(name, value)
