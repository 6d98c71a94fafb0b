"""The state of a job as its target stores it: one JSON string in the domain metadata, at most 64 KiB.

The target table is the checkpoint: the state is committed together with the rows that it describes. It never
contains a list of rows or files, so it does not grow with the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from backfill_api.spec.bounds import MESSAGE_MAX
from backfill_core.errors import StateMismatchError
from backfill_core.job.controls import Controls
from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.epochs import attempt_of, txn_version
from backfill_core.protocol.publication import Publication
from backfill_core.protocol.quarantine import Quarantine
from backfill_core.protocol.receipt import FileDifference, ReceiptBasis, TableReceipt, VnodeMismatch
from backfill_core.protocol.refresh import Refresh
from backfill_core.protocol.stored_fields import HINT, StoredFields, check_numbers
from backfill_core.protocol.work import Position

FORMAT = 1
DIGEST_CHARACTERS, PARTITION_CHARACTERS = 128, 64
SIZE_MAX_BYTES = 64 * 1024
MISMATCHES_STORED_MAX = 64
FILES_STORED_MAX, FILE_CHARACTERS = 8, 200
"""Limits of a stored receipt: differing files, and characters of each path and description."""


@dataclass(frozen=True, slots=True)
class JobState:
    """Everything that a new attempt needs to resume from the last seal."""

    job_id: str
    spec_hash: str
    attempt: int
    epoch: int
    strategy: str
    """Name of the strategy; `progress` is stored in the JSON under this name, starting in lower case."""

    progress: Mapping[str, Any] = field(default_factory=dict)
    """State of the strategy, as JSON; only its own codec reads it (`StrategyPlugin.decode`)."""

    consumed: Position | None = None
    """Position of the source that the target is complete up to; `None` before the first one."""

    rows_done: int = 0
    changes_done: int = 0
    bytes_done: int = 0
    controls: Controls = field(default_factory=Controls)
    receipt: TableReceipt | None = None
    finished: bool = False
    spec_fields: Mapping[str, str] = field(default_factory=dict)
    """Hash of each field of the spec that must not change, by its path; empty in states of earlier releases."""

    percent: int = 0
    """Finished part of the whole job, as shown to users; the shown value never falls."""

    driver: str = ""
    """Random name of the process, so that two processes with the same attempt number recognize their own seals."""

    quarantine: Quarantine = field(default_factory=Quarantine)
    """Bad records, which are written to a separate table."""

    committed_ms: int | None = None
    """Time of the commit that stores this state, in milliseconds; `None` in states of earlier releases."""

    refresh: Refresh | None = None
    """Last refresh; `None` if the job ran only once."""

    publication: Publication | None = None
    """Staged files that become visible together; `None` if each commit makes its files visible."""

    created_target: bool = False
    """True if the target did not exist before the job; false in states of earlier releases."""

    def encode(self) -> str:
        """Return the JSON string.

        Raises:
            ValueError: it is larger than 64 KiB; a strategy must limit its state before that.
        """
        document = {
            "format": FORMAT,
            "jobId": self.job_id,
            "specHash": self.spec_hash,
            "attempt": self.attempt,
            "epoch": self.epoch,
            "strategy": self.strategy,
            self.strategy[:1].lower() + self.strategy[1:]: dict(self.progress),
            "consumed": self.consumed,
            "rowsDone": self.rows_done,
            "changesDone": self.changes_done,
            "bytesDone": self.bytes_done,
            "controls": self.controls.to_json(),
            "receipt": None if self.receipt is None else receipt_to_json(self.receipt),
            "finished": self.finished,
            "percent": self.percent,
            "specFields": dict(self.spec_fields),
            "driver": self.driver,
            **({} if self.committed_ms is None else {"committedMs": self.committed_ms}),
            **({"quarantine": self.quarantine.encode()} if self.quarantine.rows else {}),
            **({} if self.refresh is None else {"refresh": self.refresh.encode()}),
            **({} if self.publication is None else {"publication": self.publication.encode()}),
            **({"createdTarget": True} if self.created_target else {}),
        }
        text = json.dumps(document, separators=(",", ":"))
        if len(text.encode()) > SIZE_MAX_BYTES:
            raise ValueError(f"the state has {len(text.encode())} bytes, more than {SIZE_MAX_BYTES}")
        return text

    def dropped(self, txn: int | None) -> bool:
        """Return whether the newest transaction is the one that removed the job's rows; if so, the state is obsolete.

        A driver that was considered dead may still commit its state, even a finished one, just before its rows are removed.
        """
        return txn == txn_version(self.attempt + 1, 0)

    def is_returned(self, returned: JobState, txn: int | None) -> bool:
        """Return whether an undo that was killed has stored this state already, and no later attempt has a transaction.

        Args:
            returned: The state that the undo stores.
            txn: Version of the job's newest transaction; `None` if there is none.
        """
        return self.consumed == returned.consumed and txn is not None and self.attempt == attempt_of(txn)

    def begun_anew(self) -> JobState:
        """Return the state of the same job with nothing done; its attempts, epochs and controls continue."""
        return replace(
            self,
            progress={},
            consumed=None,
            rows_done=0,
            changes_done=0,
            bytes_done=0,
            receipt=None,
            finished=False,
            percent=0,
            quarantine=Quarantine(),
            refresh=None,
            publication=None if self.publication is None else Publication(),
        )

    def continued(self, now_ms: int, *, follows: bool) -> JobState:
        """Return the state of a finished job that takes later changes of its source.

        A refresh stays finished until its first change, so a refresh that fails before it leaves a finished job. A job that follows is
        unfinished from its fence on, because it keeps the target.
        """
        refresh = None
        if not follows and self.consumed is not None:
            refresh = Refresh(self.consumed, now_ms, self.changes_done)
        return replace(self, finished=not follows, percent=0, refresh=refresh)

    @classmethod
    def decode(cls, text: str) -> JobState:
        """Read the output of `encode`.

        Raises:
            StateMismatchError: the format is another one (of a newer release), or a field is invalid and named.
        """
        document = _document(text)
        if document.get("format") != FORMAT:
            raise StateMismatchError(
                f"the target's state has format {str(document.get('format'))[:80]}, this release reads {FORMAT}.",
                hint=HINT,
            )
        stored = StoredFields("state", document)
        strategy = stored.typed("strategy", str)
        member = strategy[:1].lower() + strategy[1:]
        # Earlier releases stored this next to the state of the strategy.
        early = {name: document[name] for name in ("keyProven",) if name in document}
        return cls(
            job_id=stored.typed("jobId", str),
            spec_hash=stored.typed("specHash", str),
            attempt=stored.count("attempt"),
            epoch=stored.count("epoch"),
            strategy=strategy,
            progress={**early, **stored.typed(member, dict)},
            consumed=stored.parsed("consumed", _position),
            rows_done=stored.count("rowsDone"),
            changes_done=stored.count("changesDone"),
            bytes_done=stored.count("bytesDone"),
            controls=stored.parsed("controls", Controls.from_json),
            receipt=stored.parsed("receipt", lambda value: None if value is None else receipt_from_json(value)),
            finished=stored.typed("finished", bool),
            percent=min(stored.count("percent", 0), 100),
            spec_fields=stored.parsed("specFields", lambda value: dict(value or {})),
            driver=str(document.get("driver", "")),
            committed_ms=stored.count("committedMs") if document.get("committedMs") is not None else None,
            quarantine=Quarantine.decode(document.get("quarantine")),
            refresh=stored.parsed("refresh", Refresh.decode) if "refresh" in document else None,
            publication=stored.parsed("publication", Publication.decode) if "publication" in document else None,
            created_target=document.get("createdTarget") is True,
        )


def _document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
        json.dumps(document, ensure_ascii=False).encode()  # rejects half of a surrogate pair
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise StateMismatchError(f"the target's state is no JSON object: {text[:80]!r}.", hint=HINT)
    return document


def _position(value: Any) -> Position | None:
    """Check a position, which only its source can interpret; its numbers must be in the range of every reader."""
    check_numbers(value)
    if type(value) in {bool, float} or (type(value) is int and value < 0):
        raise ValueError("no position")
    return value


def check_same_spec(
    stored: JobState, *, job_id: str, spec_hash: str, spec_fields: Mapping[str, str] | None = None
) -> None:
    """Refuse to resume from the state of another spec, and name the fields that differ.

    Raises:
        StateMismatchError: the job, source, transform, target or strategy differs from that of the state.
    """
    if stored.job_id == job_id and stored.spec_hash == spec_hash:
        return
    then, now = stored.spec_fields, spec_fields or {}
    changed = sorted(name for name in {*then, *now} if then.get(name) != now.get(name)) if then and now else []
    whose = f"the state of job {stored.job_id!r} (attempt {stored.attempt}, epoch {stored.epoch})"
    message = (
        f"the target holds {whose}, and {', '.join(changed)} changed since that job began."
        if changed
        else f"the target holds {whose} with spec {stored.spec_hash[:12]}; "
        f"this is job {job_id!r} with spec {spec_hash[:12]}."
    )
    raise StateMismatchError(
        message,
        hint="Source, transform, target and strategy of a job cannot change: restore them, "
        "or give the changed job another jobId and another target.",
    )


def receipt_to_json(receipt: TableReceipt) -> dict[str, Any]:
    """Return the stored form of a receipt; only the first mismatches and differing files are kept."""
    kept = receipt.mismatches[:MISMATCHES_STORED_MAX]
    return {
        "sourceVersion": receipt.source_version,
        "targetVersion": receipt.target_version,
        "epoch": receipt.epoch,
        "rows": receipt.rows,
        "vnodes": receipt.vnodes,
        "digest": receipt.digest,
        "mismatches": [[mismatch.vnode, mismatch.source_rows, mismatch.target_rows] for mismatch in kept],
        "mismatchCount": len(receipt.mismatches),
        "seconds": receipt.seconds,
        "verifiedMs": receipt.verified_ms,
        "complete": receipt.complete,
        "rowsFiltered": receipt.rows_filtered,
        "rowsTotal": receipt.rows_total,
        **({"cutOff": _spans_to_json(receipt.cut_off)} if receipt.cut_off else {}),
        # The position of a versioned source is its version, which is stored above.
        **({"source": receipt.source_position} if receipt.source_version is None else {}),
        **_files_to_json(receipt),
        **({} if receipt.basis is None else {"basis": list(astuple(receipt.basis))}),
        **({} if receipt.undo_version is None else {"undo": receipt.undo_version}),
    }


def _files_to_json(receipt: TableReceipt) -> dict[str, Any]:
    if receipt.rows_by_rows is None and not receipt.files:
        return {}
    files = [[file.path[-FILE_CHARACTERS:], file.what[:FILE_CHARACTERS]] for file in receipt.files[:FILES_STORED_MAX]]
    return {"filesByBytes": receipt.files_by_bytes, "rowsByRows": receipt.rows_by_rows, "files": files}


def _spans_to_json(ranges: tuple[OffsetRange, ...]) -> list[list[Any]]:
    return [[span.partition, span.start, span.stop] for span in ranges[:MISMATCHES_STORED_MAX]]


def receipt_from_json(value: dict[str, Any]) -> TableReceipt:
    """Read the output of `receipt_to_json`.

    Raises:
        StateMismatchError: the message contains the first invalid field.
        ValueError, TypeError: an element of a list is invalid.
    """
    check_numbers(value)
    stored = StoredFields("state.receipt", value)
    version = stored.optional_count("sourceVersion")
    seconds = value["seconds"]
    if type(seconds) not in {int, float} or seconds < 0:
        raise stored.unfit("seconds")
    return TableReceipt(
        source_version=version,
        target_version=stored.count("targetVersion"),
        epoch=stored.count("epoch"),
        rows=stored.count("rows"),
        vnodes=stored.count("vnodes"),
        digest=stored.typed("digest", str)[:DIGEST_CHARACTERS],
        mismatches=tuple(_mismatch(*mismatch) for mismatch in value["mismatches"]),
        seconds=seconds,
        verified_ms=stored.optional_count("verifiedMs"),
        complete=value.get("complete", True) is True,
        rows_filtered=stored.optional_count("rowsFiltered"),
        rows_total=stored.optional_count("rowsTotal"),
        source_position=str(value.get("source", f"version {version}"))[:MESSAGE_MAX],
        files_by_bytes=stored.count("filesByBytes", 0),
        rows_by_rows=stored.optional_count("rowsByRows"),
        files=tuple(FileDifference(*map(str, file)) for file in value.get("files", ())),
        cut_off=tuple(_cut_off(*span) for span in value.get("cutOff", ())),
        basis=_basis(value.get("basis")),
        undo_version=stored.optional_count("undo"),
    )


def _basis(value: Any) -> ReceiptBasis | None:
    return None if value is None else ReceiptBasis(*(str(text)[:DIGEST_CHARACTERS] for text in value))


def _mismatch(vnode: Any, source_rows: Any, target_rows: Any) -> VnodeMismatch:
    if type(target_rows) is not int:
        raise ValueError("no count of rows")
    return VnodeMismatch(_whole(vnode), _whole(source_rows), target_rows)


def _cut_off(partition: Any, start: Any, stop: Any) -> OffsetRange:
    return OffsetRange(str(partition)[:PARTITION_CHARACTERS], _whole(start), _whole(stop))


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("no count")
    return value
