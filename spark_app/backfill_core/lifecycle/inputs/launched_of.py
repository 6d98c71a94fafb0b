"""Hashes of the parts of a spec from which pods are created. The driver pod carries them, which reveals later edits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from typing import Any, Final

from backfill_api.model import leaves
from backfill_api.spec.override import WIDTH_FIELDS
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.status import AttemptKind
from backfill_api.width import fixed_width, spec_path

READ_BY_THE_OPERATOR: Final = frozenset({
    "throttle", "pause", "desired_state", "suspend", "approval", "approved", "approved_plan", "backoff_limit", "backoff",
    "active_deadline_seconds", "startup_timeout_seconds", "ttl_seconds_after_finished", "deletion_policy",
    "drain_timeout_seconds", "retain_driver", "priority", "depends_on", "refresh", "switch",
})  # fmt: skip
"""Fields that the operator reads at each decision: an edit of them takes effect without another pod."""

READ_BY_A_PLAN: Final = frozenset({"throttle"})
"""Those of them that a plan covers: it estimates the duration under the limit, and accepts no command."""

IN_THE_POD_TOO: Final = frozenset({"drain_timeout_seconds"})
"""Those of them that a pod contains as well: the drain of a node uses the pod's value."""

PARTS: Final = {"throttle": {"rows_per_second", "bytes_per_second", "until"}, "switch": {"when"}}
"""Fields of which the operator reads a part: it sends limits as commands, and decides when a switch-over begins."""

WIDTH_NAMES: Final = frozenset(WIDTH_FIELDS)
INSTANCES: Final = "executor.instances"
DYNAMIC: Final = "executor.dynamic"

_CHARACTERS: Final = 16
_FIELD_CHARACTERS: Final = 8


def launched_of(spec: BackfillSpec, kind: AttemptKind = "Run") -> str:
    """Return the hash of all fields from which a driver pod of this kind and its objects are created.

    Fields with default values are left out, so that a field of a later version replaces no waiting pod.
    """
    document = _of_kind(spec, kind)
    return _hashed(document if kind == "Plan" else _without_width(spec, document))


def is_launched_of(digest: str, spec: BackfillSpec, kind: AttemptKind = "Run") -> bool:
    """Return whether a pod with this hash was created from a spec; true without a hash.

    An earlier version of the operator hashed the width of the job too. Its upgrade must replace no pod.
    """
    return digest in ("", launched_of(spec, kind)) or digest == _hashed(_of_kind(spec, kind))


def _of_kind(spec: BackfillSpec, kind: AttemptKind) -> dict[str, Any]:
    return _without(spec, READ_BY_THE_OPERATOR - READ_BY_A_PLAN if kind == "Plan" else READ_BY_THE_OPERATOR)


def executors_of(spec: BackfillSpec) -> str:
    """Return the hash of all fields from which executor pods are created: `spark`, `executor`, `scratch`, the source's Secret.

    Their number is left out if a command changes it.
    """
    return _hashed(_without_width(spec, _of_executors(spec)))


def is_executors_of(digest: str, spec: BackfillSpec) -> bool:
    """Return whether the executors of a driver with this hash are created from a spec; true without a hash. See `is_launched_of`."""
    return digest in ("", executors_of(spec)) or digest == _hashed(_of_executors(spec))


def _of_executors(spec: BackfillSpec) -> dict[str, Any]:
    part = spec.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, include={"spark", "executor", "scratch"}
    )
    return part | {"secret": spec.source.params.secret}


def launched_fields(spec: BackfillSpec) -> str:
    """Return the hashes of the fields from which a driver pod and its objects are created: one of all, then each, as `all,after=one`.

    Fields with default values are left out, as in `launched_of`. A mapping with free keys is one field. Only the hash of all leaves out
    the values of the width that a command changes.
    """
    document = _launched(spec)
    whole = _hashed(_without_width(spec, document))
    return ",".join((whole, *(f"{path}={digest}" for path, digest in _by_path(document).items())))


def edited_fields(launched: str, spec: BackfillSpec, reported: Collection[str] = WIDTH_NAMES) -> tuple[str, ...]:
    """Return the paths of the fields that differ from `launched_fields` of a driver pod, in alphabetical order.

    Args:
        launched: The hashes.
        spec: The current spec.
        reported: Values of the width that the driver reports, so that a command changes them; others are fields like any.
    """
    document, fixed = _launched(spec), fixed_width(spec)
    known = {*reported, *fixed} >= WIDTH_NAMES
    if known and launched.partition(",")[0] == _hashed(_without_width(spec, document)):
        return ()  # hashes of single fields take three times longer, and most specs are never edited
    before, now = _recorded(launched), _by_path(document)
    commanded = {".".join(spec_path(name, spec.strategy.member)) for name in reported if name not in fixed}
    if not executors_can_change(launched):
        commanded.discard(INSTANCES)
    paths = (before.keys() | now.keys()) - commanded
    return tuple(sorted(path for path in paths if before.get(path) != now.get(path)))


def executors_can_change(launched: str) -> bool:
    """Return whether a command changes the number of executors of a driver pod with these `launched_fields`; true if none are recorded."""
    before = _recorded(launched)
    fixed = any(path == "queue" or path.startswith(DYNAMIC) for path in before)
    return not fixed and before.get(INSTANCES) != _digest(0)


def _launched(spec: BackfillSpec) -> dict[str, Any]:
    return _without(spec, READ_BY_THE_OPERATOR - IN_THE_POD_TOO)


def _recorded(launched: str) -> dict[str, str]:
    return dict(field.split("=", 1) for field in launched.split(",")[1:] if "=" in field)


def _commanded(spec: BackfillSpec) -> list[tuple[str, ...]]:
    """Return the paths of the values of the width that a command changes."""
    fixed = fixed_width(spec)
    return [spec_path(name, spec.strategy.member) for name in WIDTH_FIELDS if name not in fixed]


def _without_width(spec: BackfillSpec, document: dict[str, Any]) -> dict[str, Any]:
    """Return a spec without the values of its width that a command changes, and without parts that have no other fields."""
    for path in _commanded(spec):
        document = _without_path(document, path)
    return document


def _without_path(document: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    name, *below = path
    if name not in document:
        return document
    part = _without_path(document[name], tuple(below)) if below else {}
    kept = {other: value for other, value in document.items() if other != name}
    return kept | ({name: part} if part else {})


def _without(spec: BackfillSpec, names: frozenset[str]) -> dict[str, Any]:
    """Return a spec without defaults and without some fields; of those in `PARTS` only that part is left out."""
    left_out: dict[str, Any] = {name: PARTS.get(name, True) for name in names}
    document = spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, exclude=left_out)
    return {name: part for name, part in document.items() if part or name not in PARTS}


def _by_path(document: dict[str, Any]) -> dict[str, str]:
    digests = {path: _digest(value) for path, value in leaves(BackfillSpec, document)}
    # It has a meaning without fields too, in place of a fixed number.
    dynamic = document.get("executor", {}).get("dynamic")
    return digests | ({DYNAMIC: _digest(dynamic)} if dynamic == {} else {})


def _digest(value: Any) -> str:
    return _hashed(value)[:_FIELD_CHARACTERS]


def _hashed(part: Any) -> str:
    document = json.dumps(part, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(document.encode()).hexdigest()[:_CHARACTERS]
