"""Pods of a Backfill on a cluster; a local run does not read these fields."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, StrictBool, StrictInt, StringConstraints, model_validator

from backfill_api.model import Model, cel, refused
from backfill_api.spec.bounds import Name, Path, Seconds, Value
from backfill_api.spec.free import Resources, Template
from backfill_api.spec.locations import PlaceError, place_of_spec, scheme_rules
from backfill_api.spec.secret_settings import HARMLESS, NAMES_OF_SECRETS, holds_a_secret

CONF_RESERVED: Final = (
    "spark.master",
    "spark.submit.deployMode",
    "spark.app.id",
    "spark.driver.host",
    "spark.kubernetes.namespace",
    "spark.kubernetes.container.image",
    "spark.kubernetes.driver.pod.name",
    "spark.kubernetes.driver.podTemplateFile",
    "spark.kubernetes.executor.podTemplateFile",
)
CONF_RESERVED_PREFIXES: Final = (
    "spark.authenticate.secret",
    "spark.kubernetes.authenticate.",
    "spark.kubernetes.driver.container.image",
    "spark.kubernetes.executor.container.image",
)
"""Settings that decide where pods run, and under which account. Only the operator sets them."""

Conf = Annotated[dict[str, Value], Field(max_length=256)]
Pods = Annotated[StrictInt, Field(ge=0, le=10_000)]
DiskSize = Annotated[str, StringConstraints(strict=True, max_length=8, pattern=r"^[1-9][0-9]{0,5}(M|G|T|Mi|Gi|Ti)$")]


class Backoff(Model):
    """Wait between attempts."""

    # has(): a cluster checks the default of `backoff`, which is empty, before it fills in the fields' own.
    model_config = cel(
        (
            "!has(self.initialSeconds) || !has(self.maxSeconds) || self.initialSeconds <= self.maxSeconds",
            "initialSeconds must not exceed maxSeconds",
        )
    )

    initial_seconds: Seconds = 10
    """Wait before the second attempt; doubled for each further one."""

    max_seconds: Seconds = 600
    """Longest wait."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.initial_seconds > self.max_seconds:
            raise refused(
                "initialSeconds", f"exceeds maxSeconds ({self.max_seconds})", hint="make it smaller, or maxSeconds larger",
                value=self.initial_seconds,
            )  # fmt: skip
        return self


class EventLogSpec(Model):
    """Spark's event log. A history server shows it after the driver has ended."""

    model_config = cel(*scheme_rules("path"))

    path: Path
    """Folder of event logs in a store that the driver can write; several jobs may share it."""

    max_file_mebibytes: Annotated[StrictInt, Field(ge=10, le=1024)] = 128
    """Size in MiB at which the driver continues in another file of the log; files are compressed."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        try:
            place_of_spec(self.path)
        except PlaceError as error:
            shown = None if "@" in self.path else self.path
            raise refused("path", error.message, hint=error.hint, value=shown) from error
        return self


class SparkSpec(Model):
    """Spark of the driver and its executors, on a cluster."""

    model_config = cel(
        (
            f"!has(self.conf) || self.conf.all(k, !k.matches('{NAMES_OF_SECRETS}') || k.matches('{HARMLESS}'))",
            "conf holds a secret: put it into a Secret, and name that in the templates' env or envFrom",
        ),
        (
            "!has(self.conf) || self.conf.all(k, !(k in ["
            + ", ".join(f"'{name}'" for name in CONF_RESERVED)
            + "])"
            + "".join(f" && !k.startsWith('{prefix}')" for prefix in CONF_RESERVED_PREFIXES)
            + ")",
            "conf holds a setting that belongs to the operator",
        ),
    )

    image: Name | None = None
    """Container image; default: the one that the operator was installed with."""

    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """Pull policy of the image."""

    log_level: Literal["ERROR", "WARN", "INFO", "DEBUG"] = "ERROR"
    """Lowest level that Spark logs in the driver and the executors. Messages of `INFO` and `DEBUG` may contain values of rows."""

    event_log: EventLogSpec | None = None
    """Event log of each driver; default: none. A folder that cannot be written is a warning, and the job works without a log."""

    ui: StrictBool = False
    """`true`: Spark's web UI at port 4040 of the driver's pod and Service. It has no login."""

    conf: Conf = Field(default={})
    """Spark settings. The operator sets master, namespace, image, service accounts and pod templates. Settings that change what
    SQL means (time zone, ANSI, case of names, …) are part of the job, like the transform."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        for name in self.conf:
            if name in CONF_RESERVED or name.startswith(CONF_RESERVED_PREFIXES):
                shown = None if holds_a_secret(name) else self.conf[name]
                raise refused(f'conf["{name}"]', "is set by the operator", hint="remove it", value=shown)
            if holds_a_secret(name):
                message = "is a secret, and everyone who may read the Backfill could read it"
                hint = "use the environment, on a cluster env or envFrom of both templates with a Secret"
                raise refused(f'conf["{name}"]', message, hint=hint)
        return self


class ScratchSpec(Model):
    """Volume of each driver and executor pod for Spark's temporary files: shuffles, spills and blocks."""

    model_config = cel(
        ("!has(self.storageClassName) || has(self.size)", "storageClassName needs size"),
        (
            "!has(self.claimName) || (!has(self.size) && !has(self.storageClassName))",
            "claimName is an existing claim: remove size and storageClassName",
        ),
    )

    size: DiskSize | None = None
    """Size, as `20Gi`. Without a storage class, a pod that writes more to the node's disk is evicted."""

    storage_class_name: Name | None = None
    """Storage class of a new volume for each pod, which is deleted with the pod; default: the node's disk."""

    claim_name: Name | None = None
    """Existing claim. Each pod uses its own folder in it, named like the pod, so executors need `ReadWriteMany`."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.storage_class_name is not None and self.size is None:
            hint = "add size, as 20Gi, or remove storageClassName"
            raise refused("storageClassName", "has no size", hint=hint, value=self.storage_class_name)
        if self.claim_name is not None and not (self.size is None and self.storage_class_name is None):
            hint = "remove claimName, or size and storageClassName"
            raise refused(
                "claimName", "is an existing claim, which has a size and a class", hint=hint, value=self.claim_name
            )
        return self


class DriverSpec(Model):
    """The driver pod."""

    template: Template = Field(default={})
    """Pod template; the operator's settings take precedence."""

    resources: Resources = Field(default={})
    """Container resources."""

    service_account_name: Name | None = None
    """Service account of driver and executors; default: the one that the chart made."""


class DynamicExecutors(Model):
    """A number of executors that follows the load."""

    model_config = cel(("self.min <= self.max", "min must not exceed max"))

    min: Pods = 0
    """Fewest executors."""

    max: Annotated[StrictInt, Field(ge=1, le=10_000)] = 2
    """Most executors."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.min > self.max:
            raise refused("min", f"exceeds max ({self.max})", hint="make it smaller, or max larger", value=self.min)
        return self


class ExecutorSpec(Model):
    """The executor pods."""

    model_config = cel(("!has(self.instances) || !has(self.dynamic)", "give at most one of instances and dynamic"))

    instances: Pods | None = None
    """A fixed number of executors; 0: local mode inside the driver; default: 1."""

    dynamic: DynamicExecutors | None = None
    """A number that follows the load, in place of `instances`."""

    template: Template = Field(default={})
    """Pod template; the operator's settings take precedence."""

    resources: Resources = Field(default={})
    """Container resources."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.instances is not None and self.dynamic is not None:
            raise refused("instances", "dynamic is given too", hint="remove instances or dynamic", value=self.instances)
        return self
