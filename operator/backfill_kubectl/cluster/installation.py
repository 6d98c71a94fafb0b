"""Reads the parts of an installation; a part that the user may not read is reported, and the others are still read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from backfill_api.names import KIND, ROLE_LABEL
from backfill_api.resources import BACKFILLS, DEPLOYMENTS, LEASES, PODS
from backfill_core.errors import BackfillError
from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.decisions.attention import JobLine, job_line
from backfill_kubectl.decisions.installation import Unreadable
from backfill_kubectl.decisions.stored import Json, read_stored
from backfill_kubectl.decisions.stores import StoreUse, store_use
from backfill_kubectl.errors import BackfillNotFoundError, CrdMissingError

OPERATOR_LABELS: Final = "app.kubernetes.io/name=backfill-operator"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Installation:
    """Parts of an installation, as far as the user may read them."""

    server: Json | Unreadable
    schema: Json | Unreadable
    deployments: list[Json] | Unreadable
    lease: Json | Unreadable
    drivers: list[Json] | Unreadable
    jobs: list[JobLine] | Unreadable
    stores: list[StoreUse] | Unreadable


def read_installation(
    api: ApiServer, namespace: str | None, operator_namespace: str, lease: str, now: datetime
) -> Installation:
    """Return the parts of an installation.

    Args:
        api: The API server.
        namespace: Namespace of jobs and drivers; `None` for all.
        operator_namespace: Namespace of the operator.
        lease: Name of its lease.
        now: Current time.
    """
    jobs = _part(lambda: _jobs(api, namespace, now))
    return Installation(
        server=_part(api.version),
        schema=_part(lambda: read_schema(api)),
        deployments=_part(lambda: api.objects(DEPLOYMENTS, operator_namespace, labels=OPERATOR_LABELS)),
        lease=_part(lambda: api.get(LEASES, operator_namespace, lease)),
        drivers=_part(lambda: api.objects(PODS, namespace, labels=f"{ROLE_LABEL}=driver")),
        jobs=jobs if isinstance(jobs, Unreadable) else [line for line, _ in jobs],
        stores=jobs if isinstance(jobs, Unreadable) else [use for _, use in jobs if use is not None],
    )


def read_schema(api: ApiServer) -> Json:
    """Return the schema of a Backfill on the cluster."""
    api.served()
    schemas: dict[str, Any] = (api.schema().get("components") or {}).get("schemas") or {}
    return next((schema for name, schema in schemas.items() if name.endswith(f".{KIND}")), {})


def _jobs(api: ApiServer, namespace: str | None, now: datetime) -> list[tuple[JobLine, StoreUse | None]]:
    """Return the line and the evidence of each job; the objects are not kept."""
    stored = (read_stored(item) for page in api.pages(BACKFILLS, namespace) for item in page)
    return [(job_line(backfill, now), store_use(backfill, now)) for backfill in stored]


def _part(read: Callable[[], T]) -> T | Unreadable:
    try:
        return read()
    except BackfillError as error:
        return Unreadable(error.message, absent=isinstance(error, BackfillNotFoundError | CrdMissingError))
