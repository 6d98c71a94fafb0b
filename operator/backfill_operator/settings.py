"""Settings of the operator process; the only place of this package that reads the environment."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Mapping
from typing import Annotated, Any, Final, Self, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from backfill_core.cluster_rules.finding import each
from backfill_core.cluster_rules.limits import ENV, METADATA, OPTIONAL_POD_FIELDS, VOLUMES, Limits
from backfill_core.cluster_rules.pod_defaults import default_findings
from backfill_core.cluster_rules.pod_rules import DRIVER_CONTAINER, EXECUTOR_CONTAINER
from backfill_core.errors import EXIT_USAGE, BackfillError

PREFIX: Final = "BACKFILL_OPERATOR_"
SERVICE_LINK: Final = re.compile(
    r"(?:^|_)(?:SERVICE_HOST$|SERVICE_PORT(?:_|$)|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?$)"
)
"""Variables that Kubernetes derives from a Service `backfill-operator` or `backfill-operator-…`."""

LINKED_PORT: Final = re.compile(r"(tcp|udp|sctp)://.*")
"""The value of `…_PORT`, which may also be the name of a setting."""

Port = Annotated[int, Field(ge=0, le=65_535)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Patterns = tuple[Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^*\s]*\*?$")], ...]
"""Names, or prefixes of names that end in `*`."""


def _mapping(given: object) -> object:
    """Parse a mapping that is written as JSON."""
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None


JsonMapping = Annotated[dict[str, Any], BeforeValidator(_mapping)]


class InvalidOperatorSettingError(BackfillError):
    """An environment variable has an invalid value or name; the message names it."""

    reason = "InvalidSetting"
    exit_code = EXIT_USAGE


class OperatorSettings(BaseModel):
    """The settings of the operator process. Each field is read from the variable `BACKFILL_OPERATOR_<FIELD>`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    namespaces: tuple[str, ...] = ()
    """Watched namespaces, separated by commas; empty for all namespaces."""

    namespace_selector: Annotated[str, Field(max_length=2048)] = ""
    """Label selector of further watched namespaces, as `kubectl get namespaces -l` takes it; empty for none. A namespace
    that gets or loses the label is served or released while the process runs."""

    workers: Annotated[int, Field(ge=1, le=256)] = 16
    """Concurrent reconciles; all of them share one thread."""

    queries_per_second: Annotated[float, Field(gt=0, le=10_000)] = 300.0
    """Average rate of requests to the API server."""

    query_burst: Annotated[int, Field(ge=1, le=10_000)] = 600
    """Number of requests that may be sent at once after an idle time."""

    request_timeout_seconds: Seconds = 15.0
    """Time limit for one request to the API server."""

    page_size: Annotated[int, Field(ge=10, le=5_000)] = 500
    """Number of objects in one page of a LIST."""

    relist_min_seconds: Seconds = 60.0
    """Minimum time between two full lists, which repair changes that a watch missed."""

    relist_max_seconds: Seconds = 300.0
    """Maximum time between two full lists. The actual time is random, between minimum and maximum."""

    executors_seconds: Seconds = 30.0
    """Time between two lists of waiting executor pods, plus or minus a quarter. Without a driver, no list is sent."""

    watch_silence_seconds: Seconds = 70.0
    """A watch that is silent for this long is reopened; API servers send a bookmark every minute."""

    watch_retry_max_seconds: Seconds = 30.0
    """Maximum delay before a watch is retried that failed, or that ended at once without events."""

    leader_election: bool = True
    """Disable it only for tests and for a single process: two operators without it undo each other's work."""

    lease_name: str = "backfill-operator"
    lease_namespace: str = "backfill-system"
    lease_seconds: Seconds = 15.0
    """Time for which a leader stays leader without renewing its lease."""

    lease_renew_deadline_seconds: Seconds = 10.0
    """A leader that cannot renew its lease for this time exits. It is less than `lease_seconds`, so that there are never two."""

    lease_retry_seconds: Seconds = 2.0
    """Time between two tries to renew or to take the lease."""

    identity: Annotated[str, Field(min_length=1, max_length=253)] = Field(
        default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}"
    )
    """Name of this process in the lease and in events."""

    max_drivers: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Limit of concurrent drivers in all namespaces; 0 means no limit. Further Backfills wait, and their status reports it."""

    max_drivers_per_namespace: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Limit of concurrent drivers in one namespace; 0 means no limit."""

    default_image: str = "backfill-spark:0.1.0"
    """Image of drivers whose spec names none."""

    service_account: str = "backfill-spark"
    """Service account of drivers whose spec names none."""

    pod_user: Annotated[str, Field(pattern="^([1-9][0-9]{0,9}|none)$")] = "185"
    """User and group of drivers and executors whose template sets none. With `none` the cluster chooses, as on OpenShift."""

    labels: Annotated[dict[str, str], BeforeValidator(_mapping)] = Field(default_factory=dict)
    """Labels of every object of an attempt, as JSON. The operator's own labels take precedence."""

    driver_template: JsonMapping = Field(default_factory=dict)
    """Pod template of every driver, as JSON. A spec's template may add to it."""

    executor_template: JsonMapping = Field(default_factory=dict)
    """Pod template of every executor, as JSON. A spec's template may add to it."""

    allowed_images: Patterns = ()
    """Images that a spec may use in addition to `default_image`. `host/name:tag` is one image, `host/name` any tag or digest,
    `host/path/*` every image below. Code in an image has all permissions of the pod."""

    allowed_service_accounts: Patterns = ()
    """Service accounts that a spec may use in addition to `service_account`."""

    allowed_volumes: tuple[Annotated[str, Field(json_schema_extra={"not": {"enum": ["hostPath", "*"]}})], ...] = VOLUMES
    """Types of volumes that a template may contain. `serviceAccountToken` and `clusterTrustBundle` are sources of a
    projected volume; `hostPath` has a separate setting."""

    allowed_host_paths: tuple[Annotated[str, Field(pattern=r"^/[^*]*$")], ...] = ()
    """Folders of nodes that a template may mount, with their subfolders. The default allows none."""

    allowed_priority_classes: Patterns = ()
    """Priority classes that a template may use. The default allows none."""

    allowed_pod_fields: tuple[Annotated[str, Field(json_schema_extra={"enum": list(OPTIONAL_POD_FIELDS)})], ...] = ()
    """Further pod fields that a template may set, from a fixed list."""

    allowed_env: Patterns = ENV
    """Variables that a template may set: names, or `NAME=value` for one value. Variables of Java, Python, Spark or the loader
    can never be allowed."""

    allowed_metadata: Patterns = METADATA
    """Labels, and annotations with a `.` or `/` in their name, that a template may set; selectors and controllers may act on them."""

    allowed_conf: Patterns = ()
    """Spark settings that `spec.spark.conf` may contain, in addition to the harmless ones."""

    allowed_query_urls: tuple[Annotated[str, Field(pattern=r"^https?://[^/*\s@]+(/[^*\s]*)?(/\*)?$")], ...] = ()
    """Addresses that `spec.throttle.auto.query.url` may name: an address, or one that ends in `/*` with all below it. The default allows none."""

    allow_sidecars: bool = False
    """Allow a template to add containers and init containers. Their images must be in `allowed_images`."""

    encrypt_spark: bool = False
    """Encrypt rows between driver and executors, and in Spark's spill files."""

    control_timeout_seconds: Seconds = 5.0
    """Time limit for one request to a driver."""

    command_wait_seconds: Seconds = 2.0
    """Time for which one request waits for the acknowledgement of a command. It is repeated until acknowledged."""

    poll_seconds: Seconds = 2.0
    """Time between two polls of a driver, plus or minus a quarter."""

    poll_concurrency: Annotated[int, Field(ge=1, le=1_000)] = 64
    """Concurrent polls of drivers."""

    progress_writes_per_second: Annotated[float, Field(gt=0, le=1_000)] = 50.0
    """Limit of status writes in any second that contain only progress, over all Backfills."""

    health_port: Port = 8080
    """Port of `/livez` and `/readyz`."""

    metrics_port: Port = 9090
    """Port of `/metrics`."""

    job_metrics_max: Annotated[int, Field(ge=0, le=100_000)] = 10_000
    """Maximum number of Backfills with metrics of their own, unfinished ones first; 0 for none."""

    bind: str = "::"
    """Address of both ports. `::` is every IPv6 and IPv4 address: a kubelet and Prometheus connect from outside the pod."""

    log_level: Annotated[str, Field(pattern="^(DEBUG|INFO|WARNING|ERROR)$")] = "INFO"
    """Log records below this level are dropped."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if not self.lease_retry_seconds < self.lease_renew_deadline_seconds < self.lease_seconds:
            raise ValueError("lease times must grow: retry < renew deadline < lease")
        if self.relist_min_seconds > self.relist_max_seconds:
            raise ValueError("relist_min_seconds must not exceed relist_max_seconds")
        return self

    @field_validator("allowed_volumes")
    @classmethod
    def _no_host_paths(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        if "hostPath" in given or "*" in given:
            raise ValueError("name the types; folders of nodes belong into BACKFILL_OPERATOR_ALLOWED_HOST_PATHS")
        return given

    @field_validator("allowed_pod_fields")
    @classmethod
    def _of_the_choice(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for name in given:
            if name not in OPTIONAL_POD_FIELDS:
                raise ValueError(f"{name} is none of {', '.join(OPTIONAL_POD_FIELDS)}")
        return given

    @field_validator("driver_template", "executor_template")
    @classmethod
    def _harmless(cls, given: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        container = DRIVER_CONTAINER if info.field_name == "driver_template" else EXECUTOR_CONTAINER
        for finding in each(default_findings(given, "template", container)):
            raise ValueError(str(finding))
        return given

    @property
    def templates(self) -> dict[str, dict[str, Any]]:
        """The administrator's pod templates by the name of our container."""
        return {DRIVER_CONTAINER: self.driver_template, EXECUTOR_CONTAINER: self.executor_template}

    @property
    def limits(self) -> Limits:
        """Limits for the requests of a spec."""
        return Limits(
            images=self.allowed_images,
            service_accounts=self.allowed_service_accounts,
            volumes=self.allowed_volumes,
            host_paths=self.allowed_host_paths,
            priority_classes=self.allowed_priority_classes,
            pod_fields=self.allowed_pod_fields,
            env=self.allowed_env,
            metadata=self.allowed_metadata,
            conf=self.allowed_conf,
            query_urls=self.allowed_query_urls,
            sidecars=self.allow_sidecars,
        )

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> OperatorSettings:
        """Read the variables that begin with `BACKFILL_OPERATOR_`.

        Raises:
            InvalidOperatorSettingError: a variable is unknown, or its value is invalid.
        """
        given = os.environ if environ is None else environ
        values: dict[str, object] = {
            name.removeprefix(PREFIX).lower(): value
            for name, value in given.items()
            if name.startswith(PREFIX) and not _service_link(name.removeprefix(PREFIX), value)
        }
        # An empty variable counts as unset, except for a list, where it means an empty list.
        values = {name: _listed(value) if name in LISTS else value for name, value in values.items()}
        values = {name: value for name, value in values.items() if value != ""}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            variable = PREFIX + str(first["loc"][0]).upper() if first["loc"] else f"{PREFIX}*"
            raise InvalidOperatorSettingError(
                f"{variable}: {first['msg'][:1].lower()}{first['msg'][1:]}.", hint=f"Correct or unset {variable}."
            ) from error


LISTS: Final = frozenset(
    name for name, field in OperatorSettings.model_fields.items() if get_origin(field.annotation) is tuple
)
"""Settings whose values are lists, separated by commas."""


def _listed(value: object) -> tuple[str, ...]:
    return tuple(item.strip() for item in str(value).split(",") if item.strip())


def _service_link(name: str, value: str) -> bool:
    """Return whether Kubernetes set this variable, for a Service whose name begins like our variables."""
    return bool(SERVICE_LINK.search(name) or (name.endswith("PORT") and LINKED_PORT.fullmatch(value)))
