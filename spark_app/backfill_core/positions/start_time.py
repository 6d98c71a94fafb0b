"""Decides from which version a job starts if its spec names a time, and what a job without a snapshot cannot do."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_api.spec.spec import BackfillSpec
from backfill_api.timestamps import rfc3339_ms
from backfill_core.errors import InvalidSpecError, SnapshotExpiredError


def check_comparable(spec: BackfillSpec) -> None:
    """Reject a comparison of whole tables for a job that copies no snapshot.

    Raises:
        InvalidSpecError: names the field.
    """
    if spec.source.params.skips_snapshot:
        raise InvalidSpecError(
            f"spec.source.{spec.source.member}.changesOnly is set: a receipt compares whole tables, and the rows that never changed are "
            "not from this job.",
            hint="Compare the changed rows by a query of source and target.",
        )


@dataclass(frozen=True, slots=True)
class LoggedVersion:
    """A version that can be read, with the time of its commit."""

    number: int
    timestamp_ms: int


def check_not_in_future(wanted_ms: int, *, now_ms: int, field: str) -> None:
    """Reject a time whose version later commits may still change.

    Raises:
        InvalidSpecError: names the field, the time and the clock.
    """
    if wanted_ms > now_ms:
        raise InvalidSpecError(
            f"{field}: {rfc3339_ms(wanted_ms)} is in the future: the clock of this machine is at {rfc3339_ms(now_ms)}.",
            hint="Name an earlier time, or remove the field to start from the newest version.",
        )


def start_version(wanted_ms: int, nearest: LoggedVersion, *, path: str, field: str) -> int:
    """Return the version of a table as of a time.

    Args:
        wanted_ms: The time, in milliseconds since 1970.
        nearest: The newest readable version that is not newer than the time, else the oldest readable one.
        path: The table.
        field: Field of the spec.

    Raises:
        InvalidSpecError: the table did not exist then.
        SnapshotExpiredError: log cleanup removed the version.
    """
    if nearest.timestamp_ms <= wanted_ms:
        return nearest.number
    wanted, oldest = rfc3339_ms(wanted_ms), rfc3339_ms(nearest.timestamp_ms)
    if nearest.number == 0:
        raise InvalidSpecError(
            f"{field}: {wanted} is before the first version of {path}, which is from {oldest}.",
            hint=f"Name {oldest} or a later time.",
        )
    raise SnapshotExpiredError(
        f"{field}: the version of {path} as of {wanted} can no longer be read: the oldest is {nearest.number}, from {oldest}.",
        hint=f"Name {oldest} or a later time, or use a new target and the newest version.",
    )
