"""Settings of the operator process; the only place of this package that reads the environment."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from backfill_core.errors import EXIT_USAGE, BackfillError

PREFIX: Final = "BACKFILL_OPERATOR_"
SERVICE_LINK: Final = re.compile(
    r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
"""Names that Kubernetes makes of a Service `backfill-operator` or `backfill-operator-…`."""

LINKED_PORT: Final = re.compile(r"(tcp|udp|sctp)://.*")
"""What it puts into `…_PORT`, which may be the name of a setting."""

Port = Annotated[int, Field(ge=0, le=65_535)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]


class InvalidOperatorSettingError(BackfillError):
    """A variable of the environment cannot be used; the message names it."""

    reason = "InvalidSetting"
    exit_code = EXIT_USAGE


class OperatorSettings(BaseModel):
    """How this process runs; nothing of it changes what becomes of a Backfill.

    Every field is read from the variable `BACKFILL_OPERATOR_<FIELD>`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespaces: tuple[str, ...] = ()
    """Namespaces that are watched, separated by commas; empty: all of them."""

    workers: Annotated[int, Field(ge=1, le=256)] = 16
    """Backfills that are looked at at the same time; all of them share one thread."""

    queries_per_second: Annotated[float, Field(gt=0, le=10_000)] = 300.0
    """Requests to the API server, on average."""

    query_burst: Annotated[int, Field(ge=1, le=10_000)] = 600
    """Requests that may be made at once after a quiet time."""

    request_timeout_seconds: Seconds = 15.0
    """How long the API server may take to answer one request."""

    page_size: Annotated[int, Field(ge=10, le=5_000)] = 500
    """Objects of one page of a LIST."""

    relist_min_seconds: Seconds = 60.0
    relist_max_seconds: Seconds = 300.0
    """Everything is listed again after a random time between these two: it repairs what a watch lost."""

    watch_silence_seconds: Seconds = 70.0
    """A watch that says nothing for so long is made anew; API servers send a bookmark every minute."""

    leader_election: bool = True
    """Without it two operators fight; for tests and for a single process on a laptop."""

    lease_name: str = "backfill-operator"
    lease_namespace: str = "backfill-system"
    lease_seconds: Seconds = 15.0
    """How long a leader that is not heard of stays leader."""

    lease_renew_deadline_seconds: Seconds = 10.0
    """A leader that could not renew for so long exits; less than `lease_seconds`, so that there are never two."""

    lease_retry_seconds: Seconds = 2.0
    """Between two tries to renew or to take the lease."""

    identity: Annotated[str, Field(min_length=1, max_length=253)] = Field(
        default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}"
    )
    """This process, in the lease and in events."""

    default_image: str = "backfill-spark:0.1.0"
    """Image of drivers whose spec names none."""

    service_account: str = "backfill-spark"
    """Service account of drivers whose spec names none."""

    cluster_domain: str = "cluster.local"
    """Suffix of the cluster's service names."""

    control_timeout_seconds: Seconds = 5.0
    """How long a driver may take to answer a look."""

    command_wait_seconds: Seconds = 2.0
    """How long one request waits for the acknowledgement of a command; it is sent again until there is one."""

    poll_seconds: Seconds = 2.0
    """Between two looks at a driver, give or take a quarter."""

    poll_concurrency: Annotated[int, Field(ge=1, le=1_000)] = 64
    """Looks at drivers at the same time."""

    progress_writes_per_second: Annotated[float, Field(gt=0, le=1_000)] = 50.0
    """Status writes for the sake of progress alone, of all Backfills together, at most in any one second."""

    health_port: Port = 8080
    """`/livez` and `/readyz`."""

    metrics_port: Port = 9090
    """`/metrics`."""

    bind: str = "0.0.0.0"  # noqa: S104 - a kubelet and Prometheus come from outside the pod
    """Address of both ports."""

    log_level: Annotated[str, Field(pattern="^(DEBUG|INFO|WARNING|ERROR)$")] = "INFO"
    """Lines below it are not written."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if not self.lease_retry_seconds < self.lease_renew_deadline_seconds < self.lease_seconds:
            raise ValueError("lease times must grow: retry < renew deadline < lease")
        if self.relist_min_seconds > self.relist_max_seconds:
            raise ValueError("relist_min_seconds must not exceed relist_max_seconds")
        return self

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> OperatorSettings:
        """Read the variables that begin with `BACKFILL_OPERATOR_`; an unknown one is an error, not a surprise.

        Raises:
            InvalidOperatorSettingError: one of them says nothing usable.
        """
        given = os.environ if environ is None else environ
        values: dict[str, object] = {
            name.removeprefix(PREFIX).lower(): value
            for name, value in given.items()
            if name.startswith(PREFIX) and value and not _service_link(name.removeprefix(PREFIX), value)
        }
        if "namespaces" in values:
            values["namespaces"] = tuple(one.strip() for one in str(values["namespaces"]).split(",") if one.strip())
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            variable = PREFIX + str(first["loc"][0]).upper() if first["loc"] else f"{PREFIX}*"
            raise InvalidOperatorSettingError(
                f"{variable}: {first['msg'][:1].lower()}{first['msg'][1:]}.", cure=f"Mend or unset {variable}."
            ) from error


def _service_link(name: str, value: str) -> bool:
    """Did Kubernetes set this variable, for a Service whose name begins like our variables?"""
    return bool(SERVICE_LINK.fullmatch(name) or (name.endswith("PORT") and LINKED_PORT.fullmatch(value)))
