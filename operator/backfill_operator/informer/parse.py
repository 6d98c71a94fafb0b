"""Parses objects of the API server into the values that the rules read; total, because users can edit any field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import to_json

from backfill_api.crd.explain import path_of
from backfill_api.load import SpecError, load_backfill
from backfill_api.names import (
    API_VERSION,
    ATTEMPT_LABEL,
    EXECUTORS_LABEL,
    KIND,
    KIND_LABEL,
    LAUNCHED_FIELDS_ANNOTATION,
    LAUNCHED_LABEL,
    UID_LABEL,
)
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.ending import Ending
from backfill_api.status.status import AttemptKind, BackfillStatus
from backfill_api.timestamps import ms_of
from backfill_core.lifecycle.observation import (
    DriverPod,
    DriverReport,
    LaunchFailed,
    Observation,
    PodPhase,
    SpecRefused,
)
from backfill_operator.kube.read_budget import ReadBudgetError, read_budget
from backfill_operator.kube.resources import Raw

DRIVER_CONTAINER: Final = "driver"
STARTING: Final = frozenset({"ContainerCreating", "PodInitializing"})
"""Waiting reasons that every healthy container has for a short time."""

MESSAGE_CHARACTERS_MAX: Final = 1024
SPEC_BYTES_MAX: Final = 256 * 1024
"""A ConfigMap holds four specs of this size, and a page of a hundred fits into memory."""

STATUS_BYTES_MAX: Final = 256 * 1024
"""Several times the size that the operator writes."""

STATUS_ERRORS_MAX: Final = 100
"""A status with more errors is rejected: listing a hundred thousand of them takes a second."""

_PHASES: Final[Mapping[str, PodPhase]] = {
    "Pending": "Pending", "Running": "Running", "Succeeded": "Succeeded", "Failed": "Failed",
}  # fmt: skip

_UNREADABLE: Final = frozenset(
    {(), ("attempts",), ("attempt",), ("attempt", "number"), ("attempt", "state"), ("attempt", "podUid")}
)
"""Paths that a launch depends on: without them, the operator cannot determine whether a driver runs."""

_ITEMS: Final = frozenset({"conditions", "history"})
_WHOLE: Final = frozenset({"plan", "progress", "receipt"})
_OVER: Final = ("Complete", "Failed")


class StatusUnreadableError(Exception):
    """The stored status is not valid. A person must correct it, because it may record an attempt."""

    reason = "StatusUnreadable"


def observation_of(
    raw: Raw,
    pods: tuple[DriverPod, ...],
    *,
    live: bool = False,
    report: DriverReport | None = None,
    launch_failed: LaunchFailed | None = None,
) -> Observation:
    """Return the observation of a Backfill.

    Raises:
        StatusUnreadableError: the status cannot be read, so no decision may be made on it.
    """
    metadata = _mapping(raw.get("metadata"))
    return Observation(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        generation=_number(metadata.get("generation")) or 0,
        spec=spec_of(raw),
        status=_status_to_decide_on(raw),
        resource_version=str(metadata.get("resourceVersion", "")),
        deletion_ms=ms_of(_text(metadata.get("deletionTimestamp")) or None),
        finalizers=tuple(str(finalizer) for finalizer in metadata.get("finalizers") or ()),
        annotations={str(name): str(value) for name, value in _mapping(metadata.get("annotations")).items()},
        pods=pods,
        live=live,
        report=report,
        launch_failed=launch_failed,
    )


def spec_of(raw: Raw) -> BackfillSpec | SpecRefused:
    """Return the spec, or the reasons for its refusal: a CRD of another version may accept other specs."""
    metadata = _mapping(raw.get("metadata"))
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": metadata.get("name"), "namespace": metadata.get("namespace")},
        "spec": raw.get("spec"),
    }
    size = len(to_json(raw.get("spec")))
    if size > SPEC_BYTES_MAX:
        message = f"spec: has {size:,} bytes, and may have {SPEC_BYTES_MAX:,}"
        return SpecRefused((f"{message}; move long values into the source or into the image",))
    try:
        with read_budget():
            return load_backfill(document).spec
    except SpecError as error:
        return SpecRefused(tuple(str(fault) for fault in error.errors))
    except (RecursionError, ValueError, TypeError) as error:
        return SpecRefused((f"spec cannot be read: {type(error).__name__}: {error}"[:MESSAGE_CHARACTERS_MAX],))


def status_of(raw: Raw) -> BackfillStatus:
    """Return the stored status without its unreadable fields, which a later operator or a user may have written.

    Raises:
        StatusUnreadableError: an unreadable field is one that a launch depends on: the attempt, or the job's end.
    """
    stored = raw.get("status") or {}
    size = len(to_json(stored))
    if size > STATUS_BYTES_MAX:
        raise StatusUnreadableError(f"status cannot be read: it has {size:,} bytes, and may have {STATUS_BYTES_MAX:,}")
    try:
        with read_budget():
            return _status_without_unknown(stored)
    except ReadBudgetError as error:
        raise StatusUnreadableError(f"status cannot be read: {error}") from error


def _status_without_unknown(stored: Any) -> BackfillStatus:
    while True:
        try:
            return BackfillStatus.model_validate(stored)
        except ValidationError as error:
            if error.error_count() > STATUS_ERRORS_MAX:
                raise StatusUnreadableError(f"status cannot be read: it has {error.error_count():,} errors") from error
            errors = error.errors(include_url=False)
            unknown = {_left_out(stored, fault["loc"], known=fault["type"] != "extra_forbidden") for fault in errors}
            if () in unknown:
                shown = "; ".join(f"{path_of(fault['loc'])}: {fault['msg']}" for fault in errors)
                raise StatusUnreadableError(f"status cannot be read: {shown[:MESSAGE_CHARACTERS_MAX]}") from error
            stored = _without(stored, unknown)


def _status_to_decide_on(raw: Raw) -> BackfillStatus:
    try:
        return status_of(raw)
    except StatusUnreadableError:
        if not _text(_mapping(raw.get("metadata")).get("deletionTimestamp")):
            raise
        # A deleted object needs no launch, and its pods are found by owner and label.
        return BackfillStatus()


def _left_out(status: Any, path: tuple[int | str, ...], *, known: bool) -> tuple[int | str, ...]:
    """Return the path to remove so that the rest can be read; it is empty if a launch depends on the field."""
    if not known:
        return path
    if path[:2] in _UNREADABLE:
        return ()
    top = path[0]
    if top in _ITEMS and len(path) > 1 and isinstance(path[1], int):
        item = status[top][path[1]]
        over = top == "conditions" and isinstance(item, dict) and item.get("type") in _OVER
        return () if over else path[:2]
    if top == "control" and path[1:2] == ("pending",):
        return path[:3]
    return path[:1] if top in _WHOLE else path[:2]


def _without(part: Any, paths: set[tuple[int | str, ...]], here: tuple[int | str, ...] = ()) -> Any:
    if isinstance(part, dict):
        kept = ((name, value) for name, value in part.items() if (*here, name) not in paths)
        return {name: _without(value, paths, (*here, name)) for name, value in kept}
    if isinstance(part, list):
        left = ((number, value) for number, value in enumerate(part) if (*here, number) not in paths)
        return [_without(value, paths, (*here, number)) for number, value in left]
    return part


# ------------------------------------------------------------------ pods
def pod_of(raw: Raw) -> DriverPod:
    """Return a pod as the rules read it.

    A driver has ended when its container has ended, even if a sidecar keeps the pod running: restartPolicy is Never.
    """
    metadata, status = _mapping(raw.get("metadata")), _mapping(raw.get("status"))
    labels = _mapping(metadata.get("labels"))
    conditions = {_text(condition.get("type")): condition for condition in _mappings(status.get("conditions"))}
    container = _driver_container(status)
    state = _mapping(container.get("state"))
    ended, waiting = _mapping(state.get("terminated")), _waiting(status, state)
    phase = phase_of(raw)
    if ended and phase not in ("Succeeded", "Failed"):
        phase = "Succeeded" if ended.get("exitCode") == 0 else "Failed"
    termination_message = _text(ended.get("message"))
    ending = Ending.read(termination_message) if termination_message else None
    return DriverPod(
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        owner_uid=owner_uid(raw),
        attempt=_attempt(labels.get(ATTEMPT_LABEL)),
        backfill_uid=_text(labels.get(UID_LABEL)),
        kind=_kind(labels.get(KIND_LABEL)),
        phase=phase,
        ready=container.get("ready") is True,
        started=_started(container, state),
        unready=_unready(raw, status),
        held="" if _started(container, state) else _held(raw, status),
        lingering=_running(status) if ended else "",
        init_failed=_init_failed(raw, status),
        launched_of=_text(labels.get(LAUNCHED_LABEL)),
        launched_fields=_text(_mapping(metadata.get("annotations")).get(LAUNCHED_FIELDS_ANNOTATION)),
        executors_of=_text(labels.get(EXECUTORS_LABEL)),
        created_ms=ms_of(_text(metadata.get("creationTimestamp")) or None) or 0,
        deletion_ms=ms_of(_text(metadata.get("deletionTimestamp")) or None),
        exit_code=_number(ended.get("exitCode")),
        reason=_text(status.get("reason")) or _text(ended.get("reason")),
        message=_text(status.get("message")) or ("" if ending else termination_message),
        waiting=_text(waiting.get("reason")),
        waiting_message=_text(waiting.get("message")),
        scheduled=_says(conditions, "PodScheduled"),
        scheduled_ms=_scheduled_ms(conditions),
        unscheduled=unscheduled_of(raw),
        oom_killed=ended.get("reason") == "OOMKilled",
        disrupted=_says(conditions, "DisruptionTarget"),
        disruption=_joined(conditions.get("DisruptionTarget", {})),
        ending=ending,
    )


def phase_of(raw: Raw) -> PodPhase:
    """Return the phase that the node reports for a pod."""
    return _PHASES.get(_text(_mapping(raw.get("status")).get("phase")), "Unknown")


def unscheduled_of(raw: Raw) -> str:
    """Return the scheduler's reason for an unscheduled pod; empty if the pod has a node or was not processed yet."""
    for condition in _mappings(_mapping(raw.get("status")).get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _text(condition.get("message"))
    return ""


def waiting_of(raw: Raw) -> tuple[str, str]:
    """Return the reason and message of a pod's waiting container; both are empty if none waits, or all are starting."""
    status = _mapping(raw.get("status"))
    for container in _mappings(status.get("containerStatuses")) or [{}]:
        waiting = _waiting(status, _mapping(container.get("state")))
        if waiting:
            return _text(waiting.get("reason")), _text(waiting.get("message"))
    return "", ""


def owner_uid(raw: Raw) -> str | None:
    """Return the UID of the object that controls a pod, or `None`."""
    owners = _mappings(_mapping(raw.get("metadata")).get("ownerReferences"))
    return next((str(owner.get("uid", "")) for owner in owners if owner.get("controller") is True), None)


def pod_ip(raw: Raw) -> str | None:
    """Return the address of a pod; `None` if it has none yet."""
    return _text(_mapping(raw.get("status")).get("podIP")) or None


def label_of(raw: Raw, name: str) -> str:
    """Return a label's value; empty if it is not set."""
    return _text(_mapping(_mapping(raw.get("metadata")).get("labels")).get(name))


def owner_name(raw: Raw) -> str | None:
    """Return the name of the Backfill that owns an object."""
    for owner in _mappings(_mapping(raw.get("metadata")).get("ownerReferences")):
        if owner.get("kind") == KIND and owner.get("apiVersion") == API_VERSION:
            return _text(owner.get("name")) or None
    return None


def _driver_container(status: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = _mappings(status.get("containerStatuses"))
    named = [container for container in containers if container.get("name") == DRIVER_CONTAINER]
    return (named or [{}])[0]


def _unready(raw: Raw, status: Mapping[str, Any]) -> str:
    """Return the first other container that is not ready, with its reason; a webhook may have added the container."""
    for container in (*_sidecars(raw, status), *_mappings(status.get("containerStatuses"))):
        if container.get("name") != DRIVER_CONTAINER and container.get("ready") is not True:
            state = _mapping(container.get("state"))
            ended, waiting = _mapping(state.get("terminated")), _mapping(state.get("waiting"))
            why = _end(ended) if ended else _joined(waiting) or "it runs"
            return f"container {_text(container.get('name'))} is not ready: {why}"[:MESSAGE_CHARACTERS_MAX]
    return ""


def _held(raw: Raw, status: Mapping[str, Any]) -> str:
    """Return the first sidecar that has not started: the kubelet starts the pod's containers after its sidecars."""
    for container in [found for found in _sidecars(raw, status) if found.get("started") is not True]:
        why = _joined(_mapping(_mapping(container.get("state")).get("waiting"))) or "it runs"
        return f"sidecar {_text(container.get('name'))} has not started: {why}"[:MESSAGE_CHARACTERS_MAX]
    return ""


def _sidecars(raw: Raw, status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the statuses of the init containers that run beside the driver."""
    specs = _mappings(_mapping(raw.get("spec")).get("initContainers"))
    names = {container.get("name") for container in specs if container.get("restartPolicy") == "Always"}
    return [found for found in _mappings(status.get("initContainerStatuses")) if found.get("name") in names]


def _running(status: Mapping[str, Any]) -> str:
    """Return the names of the containers that run."""
    containers = _mappings(status.get("containerStatuses"))
    running = [container for container in containers if _mapping(container.get("state")).get("running")]
    return ", ".join(_text(container.get("name")) for container in running)[:MESSAGE_CHARACTERS_MAX]


def _init_failed(raw: Raw, status: Mapping[str, Any]) -> str:
    """Return the failed init container, whose failure ends the pod; a sidecar is restarted, and ends with its pod."""
    for container in _mappings(status.get("initContainerStatuses")):
        ended = _mapping(_mapping(container.get("state")).get("terminated"))
        failed = ended and ended.get("exitCode") != 0 and status.get("phase") == "Failed"
        if failed and container not in _sidecars(raw, status):
            name = _text(container.get("name"))
            return f"init container {name} failed: {_end(ended)}; kubectl logs -c {name} shows its log"
    return ""


def _end(ended: Mapping[str, Any]) -> str:
    """Return how a container ended."""
    code, why = _number(ended.get("exitCode")), _joined(ended)
    return f"exit code {code}" + (f", {why}" if why else "")


def _joined(part: Mapping[str, Any]) -> str:
    """Return the reason and message of a state or condition; a kubelet reports `Error` for every exit code except 0."""
    texts = (_text(part.get("reason")), _text(part.get("message")).strip())
    return ": ".join(text for text in texts if text and text != "Error")[:MESSAGE_CHARACTERS_MAX]


def _scheduled_ms(conditions: Mapping[str, Mapping[str, Any]]) -> int:
    began = (conditions[name] for name in ("PodScheduled", "Initialized") if _says(conditions, name))
    return max((ms_of(_text(condition.get("lastTransitionTime")) or None) or 0 for condition in began), default=0)


def _started(container: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Return whether the container has ever run."""
    ran = _mapping(state.get("running")) or _mapping(state.get("terminated")) or _mapping(container.get("lastState"))
    return bool(ran) or container.get("started") is True


def _waiting(status: Mapping[str, Any], driver: Mapping[str, Any]) -> Mapping[str, Any]:
    states = [_mapping(container.get("state")) for container in _mappings(status.get("initContainerStatuses"))]
    for state in [*states, driver]:
        waiting = _mapping(state.get("waiting"))
        if waiting and _text(waiting.get("reason")) not in STARTING:
            return waiting
    return {}


def _attempt(label: Any) -> int | None:
    text = _text(label)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _kind(label: Any) -> AttemptKind:
    return "Plan" if label == "Plan" else "Run"


def _says(conditions: Mapping[Any, Mapping[str, Any]], type_: str) -> bool:
    return conditions.get(type_, {}).get("status") == "True"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value[:4096] if isinstance(value, str) else ""


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
