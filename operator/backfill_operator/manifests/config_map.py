"""The ConfigMap that a driver reads at its start: the Backfill, Spark's properties, and the executor template."""

from __future__ import annotations

from typing import Any

import yaml

from backfill_api.names import API_VERSION, KIND
from backfill_api.width import BY_TIME, spec_path, width_of
from backfill_operator.manifests.attempt import Launch
from backfill_operator.manifests.driver_pod import executor_template
from backfill_operator.manifests.names import CONF_KEY, EXECUTOR_KEY, SPEC_KEY, metadata
from backfill_operator.manifests.spark_conf import executors_max, properties, properties_text
from backfill_operator.manifests.spark_pages import observing_settings

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""libyaml's dumper if it is installed: it is ten times as fast, and a launch waits for it."""


def config_map(launch: Launch) -> dict[str, Any]:
    """Return the ConfigMap; a repeated launch replaces it, because no driver has read it yet."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(launch),
        "data": {
            SPEC_KEY: _yaml(backfill_document(launch)),
            CONF_KEY: properties_text(properties(launch)),
            EXECUTOR_KEY: _yaml(executor_template(launch)),
        },
    }


def backfill_document(launch: Launch) -> dict[str, Any]:
    """Return the Backfill for its driver, with the controls in force now, override included."""
    spec = launch.spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    # The operator applies these fields; a driver needs only the conf, and one of an earlier version refuses unknown fields.
    for name in (
        "spark",
        "driver",
        "executor",
        "throttle",
        "desiredState",
        "pause",
        "suspend",
        "priority",
        "queue",
        "dependsOn",
        "refresh",
        "scratch",
    ):
        spec.pop(name, None)
    if launch.procedure != "Close":
        spec.pop("deletionPolicy", None)
    if conf := {**launch.spec.spark.conf, **observing_settings(launch)}:
        spec["spark"] = {"conf": conf}
    if launch.paused is not None:
        spec |= {"desiredState": "Paused", "pause": {"scope": launch.paused}}
    throttle: dict[str, Any] = {
        name: limit
        for name, limit in (("rowsPerSecond", launch.rows_per_second), ("bytesPerSecond", launch.bytes_per_second))
        if limit is not None
    }
    if throttle and launch.until is not None:
        throttle["until"] = launch.until
    if launch.spec.throttle.auto is not None:
        throttle["auto"] = launch.spec.throttle.auto.model_dump(mode="json", by_alias=True)
    if throttle:
        spec["throttle"] = throttle
    _set_width(spec, launch)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": launch.name, "namespace": launch.namespace},
        "spec": spec,
    }


def _set_width(spec: dict[str, Any], launch: Launch) -> None:
    """Set the number of executors, and the values of the width that an override sets: a driver takes them for those of its spec."""
    executor = launch.spec.executor
    if executor.dynamic is None and executor.instances != 0 and launch.spec.queue is not None:
        # A driver of an earlier version refuses the field `queue`. No command changes a number between equal bounds either.
        number = executors_max(launch)
        spec["executor"] = {"dynamic": {"min": number, "max": number}}
    elif executor.dynamic is not None or executor.instances is not None:
        spec["executor"] = executor.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, include={"instances", "dynamic"}
        )
    given, strategy = width_of(launch.spec).given, launch.spec.strategy
    for name, value in launch.width.given.items():
        if value == given.get(name):
            continue
        *above, field = spec_path(name, strategy.member)
        if above[0] == "strategy":
            spec.setdefault("strategy", {"type": strategy.type})
        part = spec
        for below in above:
            part = part.setdefault(below, {})
        part[field] = value
        if (name, value) == ("chunk_rows", BY_TIME):
            del part[field]  # a spec has no number for it


def _yaml(document: dict[str, Any]) -> str:
    text: str = yaml.dump(document, Dumper=_DUMPER, sort_keys=False, allow_unicode=False)
    return text
