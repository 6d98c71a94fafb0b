"""Measurements for `throttle.auto` that only the driver can make: refused requests of stores, and the number of a query."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from py4j.protocol import Py4JError

from backfill_api.spec.auto_throttle import AutoThrottleSpec
from backfill_core.errors import InvalidSpecError
from backfill_core.job.auto_pace import COMMIT_SECONDS, LAG_SECONDS_MAX, QUERY, STORE_ERRORS
from backfill_core.pacing.auto_throttle import AutoSettings, Target
from backfill_core.protocol.events import QueryAnswered, StoreCounted
from backfill_spark.control.query_client import query
from backfill_spark.driver.job_context import OpenedJob
from backfill_spark.jvm.store_requests import StoreRequests

COUNTS_EVERY_S: Final = 1.0
QUERY_EVERY_S: Final = 15.0
"""Monitoring systems scrape about that often; a more frequent query would return the same number."""

Report = StoreCounted | QueryAnswered
Gauge = tuple[float, Callable[[], Report]]
"""Seconds between two measurements, and the function that measures."""


def auto_settings(auto: AutoThrottleSpec | None) -> AutoSettings | None:
    """Return the targets of the automatic limit, with the messages that name them; `None` without `throttle.auto`."""
    if auto is None:
        return None
    targets = {
        COMMIT_SECONDS: ("commits take", " s", auto.commit_seconds),
        LAG_SECONDS_MAX: ("changes lag by", " s", auto.lag_seconds_max),
        STORE_ERRORS: ("the store refuses", " % of requests", auto.store_errors),
        QUERY: ("the query returns", "", None if auto.query is None else auto.query.max),
    }
    given = {
        name: Target(what, unit, most, is_refused_share=name == STORE_ERRORS)
        for name, (what, unit, most) in targets.items()
        if most is not None
    }
    return AutoSettings(given, auto.floor, auto.ceiling)


def gauges(opened: OpenedJob) -> tuple[Gauge, ...]:
    """Return the measurements of a job; call it before the first write.

    Raises:
        InvalidSpecError: a target cannot be measured.
    """
    auto = opened.backfill.spec.throttle.auto
    if auto is None:
        return ()
    made: list[Gauge] = []
    if auto.store_errors is not None:
        made.append((COUNTS_EVERY_S, _requests(opened).read))
    if auto.query is not None:
        url, expression = auto.query.url, auto.query.expression
        made.append((QUERY_EVERY_S, lambda: query(url, expression)))
    return tuple(made)


def _requests(opened: OpenedJob) -> StoreRequests:
    requests = StoreRequests(opened.spark, opened.tables.folders)
    if not requests.counted:
        raise InvalidSpecError(
            "spec.throttle.auto.storeErrors: only S3 stores (s3a://) count refused requests, and the job uses none.",
            hint="Remove it, or use commitSeconds.",
        )
    return requests


@contextmanager
def measuring(made: Sequence[Gauge], put: Callable[[Report], None]) -> Iterator[None]:
    """Report each measurement while the block runs; one that hangs delays no other one. The threads are daemons."""
    over = threading.Event()

    def run(every_s: float, measure: Callable[[], Report]) -> None:
        while not over.is_set():
            # Without a report, the core lowers the limit; Java's end is reported by the work.
            with suppress(Py4JError, ConnectionError):
                put(measure())
            over.wait(every_s)

    for number, gauge in enumerate(made):
        threading.Thread(target=run, args=gauge, name=f"gauge {number}", daemon=True).start()
    try:
        yield
    finally:
        over.set()
