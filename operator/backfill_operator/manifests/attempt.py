"""What the builders need to know, and how they refuse."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.status import AttemptKind
from backfill_operator.manifests.rules.limits import Limits


class ManifestRefusedError(Exception):
    """The spec asks for an object that the operator does not make; treated like a refusal of the API server."""

    def __init__(self, path: str, message: str, *, hint: str) -> None:
        """Keep the parts: the path is that of the spec's field."""
        super().__init__(f"{path}: {message}; {hint}")
        self.path = path
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Installation:
    """What the chart says about every driver."""

    image: str
    """Used where a spec names none."""

    service_account: str = "backfill-spark"
    """Of drivers whose spec names none."""

    master: str = "k8s://https://kubernetes.default.svc"
    """The API server as a driver reaches it."""

    image_pull_secrets: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    """On every object, below what the operator sets."""

    encrypt: bool = False
    """Are rows encrypted between pods, and where they spill?"""

    limits: Limits = field(default_factory=Limits)
    """What a spec may ask for."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One attempt that is to be launched."""

    namespace: str
    name: str
    """Of the Backfill."""

    uid: str
    attempt: int
    kind: AttemptKind
    spec: BackfillSpec
    installation: Installation
    paused: Literal["History", "All"] | None = None
    """Controls to start with: spec and override together."""

    rows_per_second: int | None = None

    @property
    def image(self) -> str:
        """Image of driver and executors."""
        return self.spec.spark.image or self.installation.image

    @property
    def local(self) -> bool:
        """Does the driver do all the work itself? A plan always does."""
        executor = self.spec.executor
        return self.kind == "Plan" or (executor.instances == 0 and executor.dynamic is None)
