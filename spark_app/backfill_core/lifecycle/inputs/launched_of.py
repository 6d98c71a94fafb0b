"""The parts of a spec that pods are made of, as hashes: the driver pod carries them, so it tells what was edited since."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.status import AttemptKind

READ_BY_THE_OPERATOR: Final = frozenset({
    "throttle", "pause", "desired_state", "suspend", "approval", "approved", "approved_plan", "backoff_limit", "backoff",
    "active_deadline_seconds", "startup_timeout_seconds", "ttl_seconds_after_finished", "deletion_policy",
    "drain_timeout_seconds", "retain_driver",
})  # fmt: skip
"""Fields that the operator reads at each decision: an edit of them is in force without another pod."""

READ_BY_A_PLAN: Final = frozenset({"throttle"})
"""Those of them that a plan is about: it says how long the job takes under its limit, and takes no command."""

_CHARACTERS: Final = 16


def launched_of(spec: BackfillSpec, kind: AttemptKind = "Run") -> str:
    """Return the hash of all that a driver pod of this kind and its objects are made of.

    Fields with their defaults are left out: a field that a later version adds replaces no pod that waits.
    """
    left_out = READ_BY_THE_OPERATOR - READ_BY_A_PLAN if kind == "Plan" else READ_BY_THE_OPERATOR
    return _hashed(
        spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, exclude=set(left_out))
    )


def executors_of(spec: BackfillSpec) -> str:
    """Return the hash of all that executor pods are made of: image, settings of Spark, template, resources, the source's Secret."""
    part = spec.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, include={"spark", "executor"}
    )
    return _hashed(part | {"secret": spec.source.params.secret})


def _hashed(part: dict[str, Any]) -> str:
    text = json.dumps(part, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_CHARACTERS]
