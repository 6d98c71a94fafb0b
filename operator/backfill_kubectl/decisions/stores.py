"""Judges stores and the metastore by the reports of jobs.

Nothing connects to a store from here: a driver's pod has another network and other credentials than the user's machine, so an answer to
the user would prove nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from backfill_api.amounts import counted, show_seconds
from backfill_api.spec.locations import PlaceError, place
from backfill_kubectl.decisions.attention import seconds_since
from backfill_kubectl.decisions.installation import SHOWN_MAX, Check, Unreadable
from backfill_kubectl.decisions.stored import StoredBackfill

METASTORE: Final = "metastore"
VOLUME: Final = "local paths"
STORE_REASONS: Final = frozenset({"Transient", "CommitStalled", "PermissionDenied", "StorageFull", "TargetNotFound"})
"""Ends of attempts whose usual cause is a store, the network to it, or the metastore."""

COMMIT_OLD_S: Final = 300
"""Seconds without a commit after which a running job is suspicious; the alert of the chart has the same limit."""


@dataclass(frozen=True, slots=True)
class StoreUse:
    """Evidence of one job about the store of its target."""

    key: str
    store: str
    source: str
    """Store of the source; empty if it is a topic or unknown."""

    running: bool
    commit_age_s: int | None = None
    """Seconds since the newest commit of a running job; `None` if there is none."""

    problem: str = ""


def store_use(backfill: StoredBackfill, now: datetime) -> StoreUse | None:
    """Return the evidence of a job; `None` if its spec names no store, or it has succeeded."""
    store = _store_of(backfill.spec.get("target"))
    if not store or backfill.status.phase == "Succeeded":
        return None
    attempt, progress = backfill.status.attempt, backfill.status.progress
    running = attempt is not None and attempt.state == "Created" and attempt.kind == "Run"
    age_s = seconds_since(progress.last_commit_time, now) if running and progress is not None else None
    return StoreUse(
        backfill.key,
        store,
        _store_of(backfill.spec.get("source")),
        running,
        age_s,
        _problem(backfill, age_s, running=running),
    )


def _store_of(side: Any) -> str:
    """Return the store of a source or target; empty if it is a topic, or not readable."""
    fields = side.values() if isinstance(side, dict) else ()
    places = [value for value in fields if isinstance(value, dict) and {"path", "table"} & value.keys()]
    path, name = (places[0].get("path"), places[0].get("table")) if places else (None, None)
    if isinstance(name, str):
        return METASTORE
    try:
        parsed = place(path) if isinstance(path, str) else None
    except PlaceError:
        return ""
    if parsed is None:
        return ""
    return VOLUME if parsed.is_local else f"{parsed.scheme}://{parsed.authority}"


def _problem(backfill: StoredBackfill, age_s: int | None, *, running: bool) -> str:
    ready, history = backfill.condition("DriverReady"), backfill.status.history
    if running and ready is not None and ready.status == "False" and ready.reason == "CommitStalled":
        return "a commit has no answer"
    if running and age_s is not None and age_s >= COMMIT_OLD_S and not backfill.holds("Paused"):
        return f"no commit for {show_seconds(age_s)}"
    if not running and history and history[-1].reason in STORE_REASONS:
        return f"attempt {history[-1].number} ended with {history[-1].reason}"
    return ""


def check_stores(uses: Sequence[StoreUse] | Unreadable) -> list[Check]:
    """Judge each store of a target: a commit proves that it answers the drivers."""
    if isinstance(uses, Unreadable):
        return [Check("unknown", "stores", uses.why)]
    stores = sorted({use.store for use in uses})
    return [_check(store, [use for use in uses if use.store == store]) for store in stores]


def _check(store: str, uses: Sequence[StoreUse]) -> Check:
    title = store if store in (METASTORE, VOLUME) else f"store {store}"
    problems = [
        f"{use.key}{f' (source {use.source})' if use.source not in ('', store) else ''}: {use.problem}"
        for use in uses
        if use.problem
    ]
    if problems:
        more = f"; {len(problems) - SHOWN_MAX:,} more" if len(problems) > SHOWN_MAX else ""
        first = next(use.key for use in uses if use.problem)
        remedy = f"kubectl backfill logs {first}; if connections time out, add the store to networkPolicy.egress.to."
        return Check("warning", title, "; ".join(problems[:SHOWN_MAX]) + more, remedy)
    ages = [(use.commit_age_s, use.key) for use in uses if use.commit_age_s is not None]
    if not ages:
        return Check("unknown", title, "no driver has committed to it, so nothing shows whether it answers")
    age_s, key = min(ages)
    running = counted(sum(use.running for use in uses), "driver")
    return Check("ok", title, f"newest commit {show_seconds(age_s)} ago, by {key}; used by {running}")
