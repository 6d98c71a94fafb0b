"""The input of the builders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from backfill_api.spec.override import Width
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.procedure import ProcedureKind
from backfill_api.status.status import AttemptKind
from backfill_core.cluster_rules.limits import Limits, Policy


@dataclass(frozen=True, slots=True)
class Installation:
    """The settings of this installation for every driver."""

    image: str
    """Image of drivers whose spec names none."""

    service_account: str = "backfill-spark"
    """Service account of drivers whose spec names none."""

    user: int | None = 185
    """User and group of pods whose template sets none; 185 is that of Spark's own images. `None`: the cluster chooses."""

    master: str = "k8s://https://kubernetes.default.svc"
    """Address of the API server for drivers."""

    labels: dict[str, str] = field(default_factory=dict)
    """Labels of every object; the operator's own labels take precedence."""

    encrypt: bool = False
    """True to encrypt rows between pods and in spill files."""

    limits: Limits = field(default_factory=Limits)
    """Limits for the requests of a spec."""

    templates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The administrator's pod template by the name of our container."""

    @property
    def policy(self) -> Policy:
        """The requests that this installation allows."""
        return Policy(self.image, self.service_account, self.limits, self.templates)


@dataclass(frozen=True, slots=True)
class Placement:
    """What a queue adds to the pods of one kind, so that they run where it reserved quota for them."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()

    def with_more(self, more: Placement) -> Placement:
        """Return the sum of two placements; the second one takes precedence."""
        return Placement(
            {**self.node_selector, **more.node_selector},
            {**self.labels, **more.labels},
            {**self.annotations, **more.annotations},
            (*self.tolerations, *(item for item in more.tolerations if item not in self.tolerations)),
        )

    @property
    def template(self) -> dict[str, Any]:
        """A pod template with these values."""
        made: dict[str, Any] = {"metadata": {"labels": dict(self.labels), "annotations": dict(self.annotations)}}
        spec: dict[str, Any] = {"nodeSelector": dict(self.node_selector), "tolerations": list(self.tolerations)}
        return made | {"spec": {name: value for name, value in spec.items() if value}}


@dataclass(frozen=True, slots=True)
class Launch:
    """An attempt to launch."""

    namespace: str
    name: str
    """Name of the Backfill."""

    uid: str
    attempt: int
    kind: AttemptKind
    spec: BackfillSpec
    installation: Installation
    paused: Literal["History", "All"] | None = None
    """Initial pause: spec and override combined."""

    rows_per_second: int | None = None
    bytes_per_second: int | None = None
    until: str | None = None
    """End of the limit, RFC 3339; `None` if it has no end."""

    width: Width = Width()  # noqa: RUF009 - it is frozen
    """Values of the width that an override sets; the spec has the others."""

    refresh: bool = False
    """True if the driver continues a job that has ended."""

    procedure: ProcedureKind | None = None
    """The procedure that the driver performs instead of running the job."""

    detached: bool = False
    """True if its objects have no owner."""

    driver_placement: Placement = Placement()
    executor_placement: Placement = Placement()

    @property
    def image(self) -> str:
        """Image of driver and executors."""
        return self.spec.spark.image or self.installation.image

    @property
    def service_account(self) -> str:
        """Service account of driver and executors; it has the cloud identity and the Secrets for pulling images."""
        return self.spec.driver.service_account_name or self.installation.service_account

    @property
    def local(self) -> bool:
        """True if the driver works without executors: a plan, the end of a deleted job, and a copy back, which lasts for weeks, always do."""
        executor = self.spec.executor
        alone = self.kind == "Plan" or self.procedure in ("Close", "FollowBack")
        return alone or (executor.instances == 0 and executor.dynamic is None)
