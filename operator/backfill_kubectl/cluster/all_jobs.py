"""Writes the switch for all jobs, and waits until each running job has acknowledged it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from backfill_api.names import ALL_JOBS_CONFIG_MAP, ALL_JOBS_KEY
from backfill_api.resources import BACKFILLS, CONFIG_MAPS, DEPLOYMENTS, NAMESPACES
from backfill_api.spec.change_claim import PauseAll
from backfill_core.errors import BackfillError
from backfill_core.lifecycle.inputs.all_jobs import read_switch
from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.cluster.installation import OPERATOR_LABELS
from backfill_kubectl.cluster.watch import follow_all
from backfill_kubectl.decisions.acknowledgement import InForce, Recorded, Rejected, Waiting
from backfill_kubectl.decisions.all_jobs import switch_answer, unfinished
from backfill_kubectl.decisions.installation import OperatorNamespaces, watched_namespaces
from backfill_kubectl.decisions.stored import StoredBackfill, read_stored
from backfill_kubectl.errors import BackfillNotFoundError, ForbiddenError


@dataclass(frozen=True, slots=True)
class Scope:
    """Jobs whose acknowledgements are awaited."""

    namespace: str | None
    """`None` for all namespaces."""

    watched: frozenset[str] | None = None
    """Namespaces of the operator; `None` for all, or if the user may not read them."""

    @property
    def partial(self) -> bool:
        """Return whether jobs outside are not awaited, because the user may not list them."""
        return self.namespace is not None


@dataclass(slots=True)
class SwitchedJobs:
    """Answers of the jobs so far, by `namespace/name`."""

    acknowledged: dict[str, InForce] = field(default_factory=dict)
    missing: dict[str, Waiting | Rejected] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    """Jobs without a driver."""

    seconds: float = 0.0
    """Seconds from the write to the newest acknowledgement."""


def stored_switch(api: ApiServer, operator_namespace: str) -> PauseAll | None:
    """Return the switch that is in force; `None` if the user may not read it, or its content is invalid.

    Raises:
        BackfillNotFoundError: The ConfigMap does not exist.
    """
    try:
        return read_switch(api.get(CONFIG_MAPS, operator_namespace, ALL_JOBS_CONFIG_MAP).get("data"))
    except (ForbiddenError, ValueError):
        return None
    except BackfillNotFoundError as error:
        hint = "Name the operator's namespace with --operator-namespace, or upgrade the chart, which contains this ConfigMap."
        raise BackfillNotFoundError(error.message, hint=hint) from error


def write_switch(api: ApiServer, operator_namespace: str, switch: PauseAll) -> float:
    """Write the switch; return the time of the monotonic clock before the write."""
    at_s = time.monotonic()
    text = switch.model_dump_json(by_alias=True, exclude_defaults=True)
    api.patch(CONFIG_MAPS, operator_namespace, ALL_JOBS_CONFIG_MAP, {"data": {ALL_JOBS_KEY: text}})
    return at_s


def scope_of(api: ApiServer, namespace: str, operator_namespace: str) -> Scope | None:
    """Return the jobs of the operator that the user may list: those of all namespaces, or of one; `None` if none."""
    try:
        deployments = api.objects(DEPLOYMENTS, operator_namespace, labels=OPERATOR_LABELS)
    except BackfillError:
        deployments = []
    lists = [_watched(api, watched_namespaces(deployment)) for deployment in deployments]
    known = [names for names in lists if names is not None]
    watched = frozenset[str]().union(*known) if known and len(known) == len(lists) else None
    for where in (None, namespace):
        try:
            next(api.pages(BACKFILLS, where), None)
        except ForbiddenError:
            continue
        return Scope(where, watched)
    return None


def _watched(api: ApiServer, namespaces: OperatorNamespaces) -> frozenset[str] | None:
    """Return the names of an operator's namespaces; `None` for all, or if the user may not read those with its labels."""
    if not namespaces.selector:
        return namespaces.names or None
    try:
        selected = api.objects(NAMESPACES, None, labels=namespaces.selector)
    except BackfillError:
        return None  # without their names, jobs would be paused and not awaited
    return namespaces.names | {str(each["metadata"]["name"]) for each in selected}


def await_switch(
    api: ApiServer, scope: Scope, switch: PauseAll, *, at_s: float, wait_s: float,
    on_answer: Callable[[StoredBackfill, InForce, float], None],
) -> SwitchedJobs:  # fmt: skip
    """Return the answers of all jobs, once each running job has answered, or the time is over.

    Args:
        api: The API server.
        scope: The jobs.
        switch: The written switch.
        at_s: Time of the monotonic clock before the write.
        wait_s: Seconds to wait.
        on_answer: Called with each job that acknowledges, and the seconds since the write.
    """
    jobs, listed = SwitchedJobs(), False
    for type_, raw in follow_all(api, scope.namespace, until_s=at_s + wait_s):
        listed = listed or type_ == "LISTED"
        if type_ not in {"LISTING", "LISTED"}:
            job = read_stored(raw)
            if scope.watched is None or job.namespace in scope.watched:
                _take(jobs, switch, job, deleted=type_ == "DELETED", at_s=at_s, on_answer=on_answer)
        if listed and not any(isinstance(answer, Waiting) for answer in jobs.missing.values()):
            break
    return jobs


def _take(
    jobs: SwitchedJobs, switch: PauseAll, job: StoredBackfill, *, deleted: bool, at_s: float,
    on_answer: Callable[[StoredBackfill, InForce, float], None],
) -> None:  # fmt: skip
    """Record the answer of a job; a job that has acknowledged stays so."""
    if job.key in jobs.acknowledged:
        return
    jobs.missing.pop(job.key, None)
    jobs.held.discard(job.key)
    if deleted or not unfinished(job):
        return
    match switch_answer(switch, job, round(time.time() * 1000)):
        case InForce() as answer:
            jobs.seconds = time.monotonic() - at_s
            jobs.acknowledged[job.key] = answer
            on_answer(job, answer, jobs.seconds)
        case Recorded():
            jobs.held.add(job.key)
        case Waiting() | Rejected() as answer:
            jobs.missing[job.key] = answer
