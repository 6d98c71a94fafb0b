"""Every function that reads input of a user, a driver, an API server or a source's log; each takes a string, and may reject it."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError
from support.operators.observations import spec

from backfill_api.crd.explain import LOOKED_AT_CHARACTERS_MAX, child, nearest, shown
from backfill_api.names import API_VERSION, KIND, OVERRIDE_ANNOTATION, RESTART_ANNOTATION, VERIFY_ANNOTATION
from backfill_api.shallow_json import loads, shallow
from backfill_api.spec.free import TEMPLATE_BYTES_MAX
from backfill_api.spec.locations import place, without_user
from backfill_api.spec.secret_settings import holds_a_secret
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.ending import Ending
from backfill_api.status.progress import Progress
from backfill_api.timestamps import ms_of
from backfill_api.typed_amounts import parse_byte_rate, parse_duration_s, parse_rate
from backfill_api.wire import CommandRequest
from backfill_cli.terminal.amounts import parse_memory
from backfill_core.cluster_rules.container_sizes import quantity
from backfill_core.cluster_rules.finding import ManifestRefusedError
from backfill_core.cluster_rules.limits import below, image_allowed
from backfill_core.lifecycle.inputs.desired import desired_of
from backfill_core.lifecycle.naming import driver_name, number_of
from backfill_core.positions.key_order import has_order
from backfill_core.positions.source_names import source_of
from backfill_kubectl.decisions.redaction import redact
from backfill_operator.drivers.control_client import DriverUnreachableError, _read
from backfill_operator.informer.cache import Cache
from backfill_operator.informer.executors import executor_of
from backfill_operator.informer.parse import StatusUnreadableError, observation_of, pod_of, spec_of
from backfill_operator.informer.pruned_fields import LAST_APPLIED
from backfill_operator.informer.targets import target_of
from backfill_operator.kube.rate import retry_after_s
from backfill_operator.kube.server_clock import ServerClock
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.config_map import config_map
from backfill_operator.manifests.driver_pod import driver_pod
from backfill_spark.control.server import _number
from backfill_spark.delta.log import action_of, lines_of
from backfill_spark.delta.partition_values import instant
from backfill_spark.delta.properties import kept_seconds
from backfill_spark.delta.types import quoted
from backfill_spark.jvm.errors import first_line, row_failure
from backfill_spark.jvm.failures import describe_error, is_about, trouble_of
from backfill_spark.jvm.log_stores.refusals import hint_of
from backfill_spark.rows.columns import instead
from backfill_spark.rows.sql_parser import _reason
from backfill_spark.sinks.delta.staging import listed_files
from backfill_spark.sources.kafka.failures import explain as explain_kafka

INSTALLATION = Installation("registry/backfill:1")
SOURCE = {"type": "Delta", "delta": {"path": "/data/a", "key": ["id"]}}
RICH = {
    "source": SOURCE, "target": {"type": "Delta", "delta": {"path": "/data/b", "clusterBy": ["a"], "properties": {"a": "b"}}},
    "jobId": "a", "transform": {"select": ["id"], "where": "id > 5"}, "after": "Follow", "verify": "None",
    "strategy": {"type": "Snapshot", "snapshot": {"splitTargetSeconds": 4}},
    "spark": {"conf": {"spark.sql.shuffle.partitions": "8"}, "image": INSTALLATION.image},
    "executor": {"instances": 2, "resources": {"limits": {"memory": "2Gi"}}, "template": {"spec": {"nodeSelector": {"a": "b"}}}},
    "driver": {
        "serviceAccountName": INSTALLATION.service_account, "resources": {"requests": {"cpu": "1"}},
        "template": {
            "metadata": {"labels": {"user.backfill.dev/a": "b"}, "annotations": {"a": "b"}},
            "spec": {
                "tolerations": [{"key": "a", "operator": "Exists"}],
                "volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}],
                "containers": [{
                    "name": "driver", "env": [{"name": "AWS_REGION", "value": "b"}],
                    "volumeMounts": [{"name": "a", "mountPath": "/lake"}],
                }],
            },
        },
    },
}  # fmt: skip
TOPIC = {
    "type": "Kafka",
    "kafka": {
        "bootstrapServers": "a:1",
        "topic": "a",
        "options": {"client.id": "a"},
        "partitionStartingOffsets": {"0": 1},
    },
}
STATUS = {
    "phase": "Running", "observedGeneration": 1, "message": "a",
    "attempt": {"number": 1, "kind": "Run", "state": "Created", "podUid": "a", "podName": "a"},
    "conditions": [{"type": "Ready", "status": "True", "reason": "A", "message": "a", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    "history": [{"number": 1, "reason": "a"}], "progress": {"phase": "a"}, "control": {"pending": {"a": "b"}},
}  # fmt: skip
POD = {
    "metadata": {
        "name": "a", "namespace": "shop", "uid": "a", "resourceVersion": "1", "labels": {"a": "b"},
        "ownerReferences": [{"kind": KIND, "apiVersion": API_VERSION, "name": "a", "uid": "a", "controller": True}],
    },
    "status": {
        "phase": "Failed", "reason": "a", "message": "a", "podIP": "a",
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "a"}],
        "containerStatuses": [{"name": "driver", "state": {"terminated": {"exitCode": 1, "message": "a", "reason": "a"}}}],
    },
}  # fmt: skip
ANNOTATIONS = dict.fromkeys((OVERRIDE_ANNOTATION, RESTART_ANNOTATION, VERIFY_ANNOTATION, LAST_APPLIED), "a")


def backfill(spec_: Mapping[str, Any] = RICH, status: Mapping[str, Any] = STATUS) -> dict[str, Any]:
    """Return a Backfill as an API server returns it."""
    metadata = {
        "name": "orders", "namespace": "shop", "uid": "uid-1", "generation": 1, "resourceVersion": "1",
        "annotations": ANNOTATIONS, "finalizers": ["a"],
    }  # fmt: skip
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec_, "status": status}


def paths(node: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a document."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, value in pairs:
        yield (*here, name)
        yield from paths(value, (*here, name))


def changed(document: Mapping[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Return a document with another value at a path."""
    made = copy.deepcopy(dict(document))
    node: Any = made
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    return made


# ------------------------------------------------------------------ readers of a string
class JavaSaysError(Exception):
    """An error of Java, given as a string."""


def _explained(text: str) -> None:
    error = JavaSaysError(text)
    for explain in (first_line, row_failure, trouble_of, describe_error):
        explain(error)
    is_about(error, "/lake/orders")
    hint_of(error, "")
    explain_kafka(error, topic="a", address="b:1")
    _reason(error)


TEXTS: dict[str, Callable[[str], object]] = {
    "a path of a table": place,
    "a path in a message": lambda text: without_user(text[:LOOKED_AT_CHARACTERS_MAX]),
    "a value in an error": shown,
    "the name of a field in an error": lambda text: (child("spec", text), nearest(text, ["Follow", "Exit"])),
    "the name of a setting": lambda text: holds_a_secret(text[:TEMPLATE_BYTES_MAX]),
    "a termination message": Ending.read,
    "the annotation override": lambda text: desired_of(spec(), {OVERRIDE_ANNOTATION: text}, 0),
    "a command": CommandRequest.model_validate_json,
    "the query of a request": lambda text: _number(urlsplit(f"/v1/acks?{text[:8192]}"), "after"),
    "a time of the API server": ms_of,
    "a name of a Backfill": lambda text: driver_name(text, 1),
    "a name of a pod": lambda text: number_of("orders", text),
    "the type of a key": has_order,
    "the name of a target's file": source_of,
    "an object of the API server": lambda text: loads(text.encode(errors="replace")),
    "a nested object of the API server": lambda text: shallow(text.encode(errors="replace")),
    "a target": lambda text: target_of({"metadata": {}, "spec": {"target": {"delta": {"path": text}}}}),
    "the header Date": ServerClock(lambda: 0).on_response,
    "the header Retry-After": lambda text: retry_after_s(text, None),
    "a quantity": lambda text: quantity(text, "a"),
    "an image": lambda text: image_allowed(text, ("registry/*", "registry/backfill")),
    "a folder of a node": lambda text: below(text, ("/lake",)),
    "a line of a log": lambda text: [action_of(line) for line in lines_of(text)],
    "a timestamp of a partition": instant,
    "a table property": lambda text: kept_seconds(lambda _: text),
    "an error of Java": lambda text: _explained(text[:MESSAGE_CHARACTERS_MAX]),
    "the name of a column": lambda text: (quoted(text), instead(text, ["id", "name"])),
    "a list of files": listed_files,
    "a text of a report": lambda text: redact({"message": text[:REPORTED_CHARACTERS_MAX]}),
    "a rate": parse_rate,
    "a rate of bytes": parse_byte_rate,
    "a duration": parse_duration_s,
    "a memory size": parse_memory,
}  # fmt: skip

MESSAGE_CHARACTERS_MAX = 256 * 1024
"""Longest message of Java, which goes through ten searches; each of them is linear."""

REPORTED_CHARACTERS_MAX = 64 * 1024
"""Part of a text in a report: removing secrets is linear, but ten expressions take up to 0.6 s for a megabyte."""

REFUSALS = (
    ManifestRefusedError,
    StatusUnreadableError,
    DriverUnreachableError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RecursionError,
)


# ------------------------------------------------------------------ readers of an object
def _observed(raw: dict[str, Any]) -> None:
    observation_of(raw, ())


def _cached(raw: dict[str, Any]) -> None:
    Cache().put_backfill(raw)


def _launched(raw: dict[str, Any]) -> None:
    read = spec_of(raw)
    if isinstance(read, BackfillSpec):
        launch = Launch("shop", "orders", "uid-1", 1, "Run", read, INSTALLATION)
        config_map(launch)
        driver_pod(launch)


def _driver_answers(raw: dict[str, Any]) -> None:
    _read(Progress, raw["status"]["progress"])


OBJECTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "observed": _observed,
    "cached": _cached,
    "launched": _launched,
    "said by a driver": _driver_answers,
}
PODS: dict[str, Callable[[dict[str, Any]], object]] = {
    "pod": pod_of,
    "executor": executor_of,
    "cached pod": lambda raw: Cache().put_pod(raw),
}


def tried(read: Callable[[Any], object], value: Any) -> None:
    """Read a value; a rejection is as good as a result."""
    with contextlib.suppress(*REFUSALS, ValidationError):
        read(value)
