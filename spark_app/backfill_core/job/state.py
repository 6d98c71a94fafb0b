"""The state of a job as its target keeps it: one JSON text in the domain metadata, at most 64 KiB.

The target table is the checkpoint: this text is committed together with the rows it speaks of. It never
holds a list of rows or files, so it does not grow with the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from backfill_core.errors import StateMismatchError
from backfill_core.job.controls import Controls
from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.epochs import txn_version
from backfill_core.protocol.quarantine import Quarantine
from backfill_core.protocol.receipt import FileMismatch, Receipt, VnodeMismatch
from backfill_core.protocol.work import Position

FORMAT = 1
SIZE_MAX_BYTES = 64 * 1024
MISMATCHES_STORED_MAX = 64
FILES_STORED_MAX, FILE_WORDS_MAX = 8, 200
"""Files that differ of which a stored receipt tells, and characters of each of their texts."""


@dataclass(frozen=True, slots=True)
class JobState:
    """Everything that a new attempt needs to go on where the last seal left off."""

    job_id: str
    spec_hash: str
    attempt: int
    epoch: int
    strategy: str
    """Name of the strategy; its own state is `progress`, under the same name in the JSON."""

    progress: Mapping[str, Any] = field(default_factory=dict)
    """What the strategy stores, as JSON; only its own codec reads it (`StrategyPlugin.decode`)."""

    consumed: Position | None = None
    """Position of the source that the target is complete up to; None while it is complete up to none."""

    rows_done: int = 0
    changes_done: int = 0
    bytes_done: int = 0
    controls: Controls = field(default_factory=Controls)
    receipt: Receipt | None = None
    finished: bool = False
    spec_fields: Mapping[str, str] = field(default_factory=dict)
    """Hash of each field of the spec that must not change, by its path; empty in states of earlier releases."""

    percent: int = 0
    """Part of the whole job that was done, as it was shown; what is shown next is never less."""

    driver: str = ""
    """Random name of the process: two that took the same attempt number do not take each other's seal for theirs."""

    quarantine: Quarantine = field(default_factory=Quarantine)
    """Bad records that went into a table of their own."""

    committed_ms: int | None = None
    """Time of the commit that stores this state, in milliseconds; `None` in states of earlier releases."""

    def encode(self) -> str:
        """Return the JSON text.

        Raises:
            ValueError: it is larger than 64 KiB; a strategy must bound its state before that.
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
        }
        text = json.dumps(document, separators=(",", ":"))
        if len(text.encode()) > SIZE_MAX_BYTES:
            raise ValueError(f"the state has {len(text.encode())} bytes, more than {SIZE_MAX_BYTES}")
        return text

    def dropped(self, txn: int | None) -> bool:
        """Is the newest transaction the one that took its rows out? Then it is past, whatever it says.

        A driver that was thought dead may commit its state, even that it has finished, just before its rows go.
        """
        return txn == txn_version(self.attempt + 1, 0)

    def begun_anew(self) -> JobState:
        """Return the state of the same job with nothing done: its attempts, epochs and controls go on."""
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
        )

    @classmethod
    def decode(cls, text: str) -> JobState:
        """Read what `encode` wrote.

        Raises:
            StateMismatchError: the text is of another format (a newer release wrote it).
        """
        document = json.loads(text)
        if document.get("format") != FORMAT:
            raise StateMismatchError(
                f"the target's state has format {document.get('format')}, this release reads {FORMAT}.",
                hint="Use the release that wrote it, or another target.",
            )
        strategy = document["strategy"]
        # Earlier releases stored this beside what the strategy stores.
        early = {name: document[name] for name in ("keyProven",) if name in document}
        return cls(
            job_id=document["jobId"],
            spec_hash=document["specHash"],
            attempt=document["attempt"],
            epoch=document["epoch"],
            strategy=strategy,
            progress={**early, **document[strategy[:1].lower() + strategy[1:]]},
            consumed=document["consumed"],
            rows_done=document["rowsDone"],
            changes_done=document["changesDone"],
            bytes_done=document["bytesDone"],
            controls=Controls.from_json(document["controls"]),
            receipt=None if document["receipt"] is None else receipt_from_json(document["receipt"]),
            finished=document["finished"],
            percent=document.get("percent", 0),
            spec_fields=document.get("specFields", {}),
            driver=document.get("driver", ""),
            committed_ms=document.get("committedMs"),
            quarantine=Quarantine.decode(document.get("quarantine")),
        )


def check_same_spec(
    stored: JobState, *, job_id: str, spec_hash: str, spec_fields: Mapping[str, str] | None = None
) -> None:
    """Refuse to go on with the state of another spec, and name the fields that differ.

    Raises:
        StateMismatchError: job, source, transform, target or strategy differ from those of the state.
    """
    if stored.job_id == job_id and stored.spec_hash == spec_hash:
        return
    then, now = stored.spec_fields, spec_fields or {}
    changed = sorted(name for name in {*then, *now} if then.get(name) != now.get(name)) if then and now else []
    whose = f"the state of job {stored.job_id!r} (attempt {stored.attempt}, epoch {stored.epoch})"
    words = (
        f"the target holds {whose}, and {', '.join(changed)} changed since that job began."
        if changed
        else f"the target holds {whose} with spec {stored.spec_hash[:12]}; "
        f"this is job {job_id!r} with spec {spec_hash[:12]}."
    )
    raise StateMismatchError(
        words,
        hint="Source, transform, target and strategy of a job cannot change: restore them, "
        "or give the changed job another jobId and another target.",
    )


def receipt_to_json(receipt: Receipt) -> dict[str, Any]:
    """Return the stored form of a receipt; of many mismatches, and of many files that differ, only the first are kept."""
    kept = receipt.mismatches[:MISMATCHES_STORED_MAX]
    return {
        "sourceVersion": receipt.source_version,
        "targetVersion": receipt.target_version,
        "epoch": receipt.epoch,
        "rows": receipt.rows,
        "vnodes": receipt.vnodes,
        "digest": receipt.digest,
        "mismatches": [[one.vnode, one.source_rows, one.target_rows] for one in kept],
        "mismatchCount": len(receipt.mismatches),
        "seconds": receipt.seconds,
        "verifiedMs": receipt.verified_ms,
        "complete": receipt.complete,
        "rowsFiltered": receipt.rows_filtered,
        "rowsTotal": receipt.rows_total,
        **({"cutOff": _spans_to_json(receipt.cut_off)} if receipt.cut_off else {}),
        # A version says itself.
        **({"source": receipt.source_position} if receipt.source_version is None else {}),
        **_files_to_json(receipt),
    }


def _files_to_json(receipt: Receipt) -> dict[str, Any]:
    if receipt.rows_by_rows is None and not receipt.files:
        return {}
    files = [[one.path[-FILE_WORDS_MAX:], one.what[:FILE_WORDS_MAX]] for one in receipt.files[:FILES_STORED_MAX]]
    return {"filesByBytes": receipt.files_by_bytes, "rowsByRows": receipt.rows_by_rows, "files": files}


def _spans_to_json(ranges: tuple[OffsetRange, ...]) -> list[list[Any]]:
    return [[one.partition, one.start, one.stop] for one in ranges[:MISMATCHES_STORED_MAX]]


def receipt_from_json(value: dict[str, Any]) -> Receipt:
    """Read what `receipt_to_json` wrote."""
    return Receipt(
        source_version=value["sourceVersion"],
        target_version=value["targetVersion"],
        epoch=value["epoch"],
        rows=value["rows"],
        vnodes=value["vnodes"],
        digest=value["digest"],
        mismatches=tuple(VnodeMismatch(*one) for one in value["mismatches"]),
        seconds=value["seconds"],
        verified_ms=value.get("verifiedMs"),
        complete=value.get("complete", True),
        rows_filtered=value.get("rowsFiltered"),
        rows_total=value.get("rowsTotal"),
        source_position=value.get("source", f"version {value['sourceVersion']}"),
        files_by_bytes=value.get("filesByBytes", 0),
        rows_by_rows=value.get("rowsByRows"),
        files=tuple(FileMismatch(*one) for one in value.get("files", ())),
        cut_off=tuple(OffsetRange(*one) for one in value.get("cutOff", ())),
    )
