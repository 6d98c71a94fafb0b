"""Pods of a Backfill on a cluster; a local run does not read these fields."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, StrictInt, model_validator

from backfill_api.model import Model, cel, refused
from backfill_api.spec.bounds import Name, Seconds, Value
from backfill_api.spec.free import Resources, Template
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
