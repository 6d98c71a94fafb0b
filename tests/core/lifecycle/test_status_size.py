"""A status is bounded in bytes, whatever drivers, plans and annotations contain."""

from __future__ import annotations

import json
import types
import typing
from dataclasses import replace

import pytest
from annotated_types import Ge, Le, MaxLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import PLAIN, T0, observed, report, running

from backfill_api.names import CHANGED_BY_ANNOTATION, RESTART_ANNOTATION, VERIFY_ANNOTATION
from backfill_api.status.conditions import CONDITION_TYPES, Condition
from backfill_api.status.losses import PodLoss
from backfill_api.status.plan import Plan
from backfill_api.status.progress import Progress, ProgressSummary
from backfill_api.status.receipt import ReceiptSummary
from backfill_api.status.status import Acknowledgement, Attempt, BackfillStatus, Control, PastAttempt, PendingCommand
from backfill_core.lifecycle.decide import decide
from backfill_core.lifecycle.observation import DriverReport
from backfill_core.lifecycle.status.size import STATUS_BYTES_MAX, bounded, size_of

ODD = ["x", "é", "😀", "<", "\u2028", "\x01", '"']
"""Characters of one to six bytes in the JSON of an API server."""

EXACT = {
    (ProgressSummary, "grid"): (100, 40) * 32, (Progress, "grid"): (100, 40) * 32, (PodLoss, "reason"): "BackoffLimitExceeded",
    (ReceiptSummary, "digest"): "a" * 64, (ReceiptSummary, "mismatch_map"): "f" * 64,
}  # fmt: skip
"""Values of fields with a form."""


LOSSES = tuple(PodLoss(reason=chr(97 + number) * 64, count=2**53 - 1) for number in range(16))


def largest(model: type[BaseModel], odd: str, **given: object) -> BaseModel:
    """Return the largest value of a model: each text has its longest length, and each list its most entries."""
    values = {
        name: given[name] if name in given else EXACT.get((model, name)) or _largest(field, odd)
        for name, field in model.model_fields.items()
    }
    return model(**values)


def _largest(field: FieldInfo, odd: str) -> object:
    return _value(field.annotation, field.metadata, odd)


def _value(kind: object, rules: list[object], odd: str) -> object:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        inner = [
            rule for extra in arguments[1:] for rule in (extra.metadata if isinstance(extra, FieldInfo) else [extra])
        ]
        return _value(arguments[0], [*rules, *inner], odd)
    if origin in (typing.Union, types.UnionType):
        return _value(next(part for part in arguments if part is not type(None)), rules, odd)
    if origin is typing.Literal:
        return max(arguments, key=len)
    length = next((rule.max_length for rule in rules if isinstance(rule, MaxLen)), 64)
    if origin is tuple:
        return tuple(_value(arguments[0], [], odd) for _ in range(length))
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return largest(kind, odd)
    if kind is str:
        return "x" + odd * (length - 1)
    if kind is bool:
        return True
    most = [rule.le for rule in rules if isinstance(rule, Le)]
    least = [rule.ge for rule in rules if isinstance(rule, Ge)]
    return min(most, default=2**53 - 1) if kind is int else (least or [0])[0]


def stored(odd: str) -> BackfillStatus:
    """Return the largest status that an operator may have stored."""
    conditions = tuple(
        Condition(type=name, status="False", reason="BackoffLimitExceeded", message=odd * 4096, last_transition_time="2026-11-26T21:37:02Z")
        for name in CONDITION_TYPES
    )  # fmt: skip
    attempt = STATUSES["running"].attempt
    assert isinstance(attempt, Attempt)
    acks = tuple(largest(Acknowledgement, odd, type="Throttle", time="2026-11-26T21:37:02Z") for _ in range(8))
    pending = tuple(
        PendingCommand(revision=7 + number, command={"type": kind}, time="2026-11-26T21:37:02.123Z", by=odd * 64, note=odd * 256)
        for number, kind in enumerate(("Pause", "Verify", "Stop"))
    )  # fmt: skip
    control = Control(
        attempt=1, acks=acks, pending=pending, desired_revision=9, verify_token=odd * 256, restart_token=odd * 256, claim_of="a" * 32
    )  # fmt: skip
    past = PastAttempt(
        number=2**53 - 1, start="2026-11-26T21:37:02Z", end="2026-11-26T21:37:02Z", reason="OOMKilled" * 7
    )
    return STATUSES["running"].model_copy(
        update={
            "conditions": conditions, "control": control, "history": (past,) * 5, "plan": largest(Plan, odd),
            "attempt": attempt.model_copy(update={"token_hashes": ("a" * 32,) * 8, "pod_name": "p" * 253, "executors_lost": LOSSES}),
            "lost_drivers": LOSSES, "lost_executors": LOSSES,
            "progress": largest(ProgressSummary, odd), "receipt": largest(ReceiptSummary, odd),
        }
    )  # fmt: skip


class TestTheSize:
    """An object stays below 32 KiB with a usual spec."""

    @pytest.mark.parametrize("odd", ODD)
    def test_the_largest_status_is_small(self, odd: str) -> None:
        """Fields at their bounds have a megabyte together, and each watcher would receive it every two seconds."""
        progress = largest(Progress, odd, attempt=1, table_version=3, revision=8)
        assert isinstance(progress, Progress)
        receipt = largest(ReceiptSummary, odd)
        assert isinstance(receipt, ReceiptSummary)
        observation = observed(
            status=stored(odd), pods=(running(),), report=DriverReport(1, T0, progress, receipt), finalizers=("backfill.dev/drain",),
            annotations={
                VERIFY_ANNOTATION: odd * 300, RESTART_ANNOTATION: odd * 256,
                CHANGED_BY_ANNOTATION: json.dumps({"by": odd * 64, "note": odd * 256}),
            },
        )  # fmt: skip
        before = size_of(observation.status.model_dump(mode="json", by_alias=True, exclude_none=True))

        status = decide(observation, T0).status
        document = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        spec = PLAIN.model_dump(mode="json", by_alias=True, exclude_none=True)

        assert before > 100_000
        assert _stored_bytes(document) <= STATUS_BYTES_MAX
        assert _stored_bytes({"spec": spec, "status": document}) < 32 * 1024 - 2048  # names, labels, and the finalizer
        assert BackfillStatus.model_validate(document) == status

    def test_decisions_depend_on_nothing_that_is_cut(self) -> None:
        """A cut token would request another receipt, and a cut UID another driver."""
        whole, cut = stored("😀"), bounded(stored("😀"))

        assert cut.attempt == whole.attempt
        assert cut.history == whole.history
        assert cut.control is not None
        assert whole.control is not None
        for name in set(Control.model_fields) - {"acks", "pending"}:
            assert getattr(cut.control, name) == getattr(whole.control, name)
        assert [wait.command for wait in cut.control.pending] == [wait.command for wait in whole.control.pending]
        assert [item.reason for item in cut.conditions] == [item.reason for item in whole.conditions]
        assert len(bounded(stored("é")).progress.partitions) == 21
        assert cut.progress.grid == whole.progress.grid
        assert cut.receipt.mismatch_map == "f" * 64

    def test_a_usual_status_is_unchanged(self) -> None:
        """Nothing is cut before it must be."""
        status = decide(replace(observed(status=STATUSES["running"], pods=(running(),)), report=report()), T0).status

        assert bounded(status) is status


def _stored_bytes(document: object) -> int:
    """Return the bytes that Go's encoder writes, which escapes the characters of HTML: counted apart from the product's code."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029\x7f":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return len(text.encode())
