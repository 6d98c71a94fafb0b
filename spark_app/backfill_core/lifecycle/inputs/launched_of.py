"""Hashes of the parts of a spec from which pods are created. The driver pod carries them, which reveals later edits."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from backfill_api.model import leaves
from backfill_api.spec.combinations import width_of
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.status import AttemptKind

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

WIDTH: Final = "maxInFlight"
"""Field of a strategy that the operator sends as a command, unless the job has a fixed width."""

_CHARACTERS: Final = 16
_FIELD_CHARACTERS: Final = 8


def launched_of(spec: BackfillSpec, kind: AttemptKind = "Run") -> str:
    """Return the hash of all fields from which a driver pod of this kind and its objects are created.

    Fields with default values are left out, so that a field of a later version replaces no waiting pod.
    """
    left_out = READ_BY_THE_OPERATOR - READ_BY_A_PLAN if kind == "Plan" else READ_BY_THE_OPERATOR
    document = _without(spec, left_out)
    return _hashed(document if kind == "Plan" else _without_width(spec, document))


def executors_of(spec: BackfillSpec) -> str:
    """Return the hash of all fields from which executor pods are created: `spark`, `executor`, `scratch`, the source's Secret."""
    part = spec.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, include={"spark", "executor", "scratch"}
    )
    return _hashed(part | {"secret": spec.source.params.secret})


def launched_fields(spec: BackfillSpec) -> str:
    """Return the hashes of the fields from which a driver pod and its objects are created: one of all, then each, as `all,after=one`.

    Fields with default values are left out, as in `launched_of`. A mapping with free keys is one field.
    """
    document = _launched(spec)
    return ",".join((_hashed(document), *(f"{path}={digest}" for path, digest in _by_path(document).items())))


def edited_fields(launched: str, spec: BackfillSpec) -> tuple[str, ...]:
    """Return the paths of the fields that differ from `launched_fields` of a driver pod, in alphabetical order."""
    document = _launched(spec)
    whole, *fields = launched.split(",")
    if whole == _hashed(document):
        return ()  # hashes of single fields take three times longer, and most specs are never edited
    before, now = dict(field.split("=", 1) for field in fields if "=" in field), _by_path(document)
    if width_of(spec.strategy, spec.write_mode) is not None:
        before.pop(f"strategy.{spec.strategy.member}.{WIDTH}", None)  # of an earlier version of the operator
    return tuple(sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path)))


def _launched(spec: BackfillSpec) -> dict[str, Any]:
    return _without_width(spec, _without(spec, READ_BY_THE_OPERATOR - IN_THE_POD_TOO))


def _without_width(spec: BackfillSpec, document: dict[str, Any]) -> dict[str, Any]:
    """Return a spec without its `maxInFlight`, if a command changes it."""
    strategy, member = document.get("strategy", {}), spec.strategy.member
    if WIDTH not in strategy.get(member, {}) or width_of(spec.strategy, spec.write_mode) is None:
        return document
    params = {name: value for name, value in strategy[member].items() if name != WIDTH}
    strategy = {name: value for name, value in strategy.items() if name != member} | (
        {member: params} if params else {}
    )
    return {name: value for name, value in document.items() if name != "strategy"} | (
        {"strategy": strategy} if strategy else {}
    )


def _without(spec: BackfillSpec, names: frozenset[str]) -> dict[str, Any]:
    """Return a spec without defaults and without some fields; of those in `PARTS` only that part is left out."""
    left_out: dict[str, Any] = {name: PARTS.get(name, True) for name in names}
    document = spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, exclude=left_out)
    return {name: part for name, part in document.items() if part or name not in PARTS}


def _by_path(document: dict[str, Any]) -> dict[str, str]:
    return {path: _hashed(value)[:_FIELD_CHARACTERS] for path, value in leaves(BackfillSpec, document)}


def _hashed(part: Any) -> str:
    document = json.dumps(part, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(document.encode()).hexdigest()[:_CHARACTERS]
