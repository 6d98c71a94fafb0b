"""Decides whether a table can be fenced, and what the log entry of a fence or of its end contains.

The log answers every question: whether a fence holds, which job set it, and since which version. A caller reads the newest version,
writes the entry that a function here returns, and reads again, until no entry is needed. A lost answer, a concurrent commit and a
kill at any point therefore lead to the same result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, Self

from backfill_core.errors import InvalidSpecError, SourceFencedError, SwitchBlockedError
from backfill_core.source_fence.fenceable import check_fenceable, in_commit_timestamps
from backfill_core.source_fence.table_protocol import FENCED, SWITCH, TableProtocol, typed_fields

FENCE, UNFENCE = "FENCE", "UNFENCE"
"""Operations in the table's history."""

OPERATIONS: Final = (FENCE, UNFENCE)
Purpose = Literal["", "switch"]
"""`switch` if a switch-over sets the fence, and lifts it if it gives up; empty if a user sets it with `backfill fence`."""

SWITCHING: Final = "switch"
ENGINE_INFO: Final = "backfill"
REASON_CHARACTERS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class TableHead:
    """Newest version of a table, as its log contains it."""

    path: str
    version: int
    timestamp_ms: int
    """Time of its commit; the in-commit timestamp if the table has them."""

    metadata: Mapping[str, Any]
    """Fields of its `metaData` action."""

    protocol: TableProtocol

    @property
    def properties(self) -> Mapping[str, str]:
        """Table properties."""
        return self.metadata.get("configuration") or {}

    @property
    def fence(self) -> SourceFence | None:
        """The fence that the table's property describes; `None` if the property is missing, unreadable or a copy from another table."""
        fence = SourceFence.decode(self.properties.get(FENCED, ""))
        return None if fence is None or not 0 < fence.version <= self.version else fence


@dataclass(frozen=True, slots=True)
class SourceFence:
    """A fence, as a table property describes it to operators."""

    job: str
    """Id of the job that set it, and that may lift it."""

    reason: str
    time: str
    """Time of the request, RFC 3339."""

    version: int
    """Version of the log entry with the fence: the table's rows stay as they are in this version."""

    reader: int
    writer: int
    """Versions of the protocol before the fence."""

    purpose: Purpose = ""

    def encode(self) -> str:
        """Return the value of the table property."""
        fields = {name: value for name, value in asdict(self).items() if (name, value) != ("purpose", "")}
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def decode(cls, text: str) -> Self | None:
        """Parse the value of the table property; `None` if it is not valid."""
        kinds = {"job": str, "reason": str, "time": str, "version": int, "reader": int, "writer": int}
        values = typed_fields(text, kinds)
        if values is None:
            return None
        switching = typed_fields(text, {"purpose": str}) == {"purpose": SWITCHING}
        return cls(**values, purpose=SWITCHING if switching else "")

    def __str__(self) -> str:
        """Format the fence for a message."""
        return f"job {self.job!r} at version {self.version}, {self.time} ({self.reason})"


@dataclass(frozen=True, slots=True)
class Request:
    """Request to fence a table, or to lift its fence."""

    job: str
    time: str
    """RFC 3339."""

    now_ms: int
    entry_id: str
    """Unique id of the request, for the table's history."""

    reason: str = ""
    purpose: Purpose = ""

    def __post_init__(self) -> None:
        """Reject a reason that is too long for a table property."""
        if len(self.reason) > REASON_CHARACTERS_MAX:
            raise InvalidSpecError(
                f"reason: {len(self.reason):,} characters, but at most {REASON_CHARACTERS_MAX} are allowed.",
                hint="Shorten it, for example to the id of a change request.",
            )


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One commit; it must be written only if its version does not exist yet."""

    version: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fenced:
    """The table is fenced by the job."""

    fence: SourceFence


@dataclass(frozen=True, slots=True)
class Open:
    """The table has no fence."""

    version: int


def fence_step(head: TableHead, request: Request) -> Fenced | LogEntry:
    """Return the fence of a table, or the log entry that sets it.

    Raises:
        SourceFencedError: another job holds the fence.
        UnsupportedSourceFeatureError: the table cannot be fenced; names the feature, the property or the versions.
    """
    if head.protocol.is_fenced:
        return Fenced(held_by(head, request.job))
    check_fenceable(head.path, head.protocol, head.metadata)
    before = head.protocol
    fence = SourceFence(
        request.job, request.reason, request.time, head.version + 1, reader=before.reader, writer=before.writer,
        purpose=request.purpose,
    )  # fmt: skip
    properties = {**_unmarked(head), FENCED: fence.encode()}
    return _entry(head, request, FENCE, before.with_fence(), properties, {"job": request.job, "reason": request.reason})


def unfence_step(head: TableHead, request: Request, *, force: bool) -> Open | LogEntry:
    """Return that a table has no fence, or the log entry that lifts it.

    Args:
        head: Newest version of the table.
        request: The request; only the job that set the fence may lift it.
        force: Lift the fence of any job.

    Raises:
        SourceFencedError: another job holds the fence.
    """
    if not head.protocol.is_fenced:
        return Open(head.version)
    fence = head.fence if force else held_by(head, request.job)
    if SWITCH in head.properties and not force:
        raise SwitchBlockedError(
            f"{head.path} is fenced for a switch-over ({fence}): readers and writers may use the target already.",
            hint="Use `backfill switch --undo` or `backfill switch --complete`; --force lifts the fence in any case.",
        )
    return lift_entry(head, request, force=force)


def lift_entry(head: TableHead, request: Request, *, force: bool = False) -> LogEntry:
    """Return the log entry that lifts the fence of a table and removes its properties."""
    versions = None if head.fence is None else (head.fence.reader, head.fence.writer)
    properties = {name: value for name, value in _unmarked(head).items() if name != FENCED}
    parameters = {"job": request.job, "force": str(force).lower()}
    return _entry(head, request, UNFENCE, head.protocol.without_fence(versions), properties, parameters)


def property_entry(
    head: TableHead, request: Request, operation: str, properties: Mapping[str, str], parameters: Mapping[str, str]
) -> LogEntry:
    """Return a log entry that changes only the properties of a table."""
    return _entry(head, request, operation, head.protocol, properties, parameters)


def feature_entry(head: TableHead, request: Request, operation: str, feature: str) -> LogEntry:
    """Return a log entry that removes a feature of writers from the protocol of a table that has no use for it."""
    protocol = head.protocol.without(feature)
    return _entry(head, request, operation, protocol, head.properties, {"job": request.job, "feature": feature})


def files_entry(
    head: TableHead, request: Request, operation: str, parameters: Mapping[str, str], lines: Sequence[str]
) -> LogEntry:
    """Return a log entry with other actions, given as lines of a commit; protocol and properties stay."""
    timed = in_commit_timestamps(head.protocol, head.properties)
    info = _commit_info(head, request, operation, parameters, timed=timed)
    return LogEntry(head.version + 1, (_line(info), *lines))


def _unmarked(head: TableHead) -> dict[str, str]:
    """Return the properties without the mark of a switch-over."""
    return {name: value for name, value in head.properties.items() if name != SWITCH}


def held_by(head: TableHead, job: str) -> SourceFence:
    """Return the fence of a fenced table if the job holds it.

    Raises:
        SourceFencedError: another job holds it, or its property names no job.
    """
    fence = head.fence
    if fence is None:
        raise SourceFencedError(
            f"{head.path} has the table feature {FENCED}, but its property {FENCED} names no job.",
            hint="Lift the fence with `backfill unfence --force` if no switch-over of this table is under way.",
        )
    if fence.job != job:
        raise SourceFencedError(
            f"{head.path} is fenced by {fence}; this is job {job!r}.",
            hint="Wait until that job lifts its fence, or lift it with `backfill unfence --force`.",
        )
    return fence


def _entry(
    head: TableHead,
    request: Request,
    operation: str,
    protocol: TableProtocol,
    properties: Mapping[str, str],
    parameters: Mapping[str, str],
) -> LogEntry:
    """Return a commit that changes only the protocol and the table properties."""
    info = _commit_info(head, request, operation, parameters, timed=in_commit_timestamps(protocol, properties))
    metadata = {**head.metadata, "configuration": dict(properties)}
    actions = (info, {"protocol": protocol.fields()}, {"metaData": metadata})
    return LogEntry(head.version + 1, tuple(map(_line, actions)))


def _commit_info(
    head: TableHead, request: Request, operation: str, parameters: Mapping[str, str], *, timed: bool
) -> dict[str, Any]:
    """Return the information about a commit; with in-commit timestamps, it must come first in the commit."""
    info: dict[str, Any] = {
        "timestamp": request.now_ms, "operation": operation, "operationParameters": dict(parameters),
        "isBlindAppend": False, "engineInfo": ENGINE_INFO, "txnId": request.entry_id,
    }  # fmt: skip
    # Readers search versions by this time, which must grow with the versions even if the clock does not.
    time = {"inCommitTimestamp": max(request.now_ms, head.timestamp_ms + 1)} if timed else {}
    return {"commitInfo": {**time, **info}}


def _line(action: Mapping[str, Any]) -> str:
    return json.dumps(action, separators=(",", ":"), ensure_ascii=False)
