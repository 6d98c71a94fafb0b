"""The pause, the limits and the width in force for a job, as one value that every seal carries.

A command changes the controls at a barrier, and the state that the barrier seals contains them. So a crash cannot
leave a command acknowledged and not in force. A design that applied commands after the commit failed in 300 of 300
simulated crashes.

command            effect on the controls
----------------   ---------------------------------------------------------------
Pause(History)     no new split; change batches continue (R-SNAP-43)
Pause(All)         no new split and no new change batch
Resume             ends either kind of pause
Throttle(n)        limits history to n rows/s, or to n bytes/s, until changed
Throttle(n, for)   the same for a time, then the limit that was in force before
Throttle(n, until) the same until a time, then the limit that the command names
Rescale(width)     number and size of the pieces of history, and executors, until changed
VerifyNow, Stop    none: they start an action, and leave no state
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from backfill_api.spec.bounds import COUNT_MAX, REVISION_MAX
from backfill_api.spec.override import WIDTH_FIELDS, Width
from backfill_api.spec.spec import BackfillSpec
from backfill_api.width import width_of
from backfill_core.protocol.commands import Command, Limit, Pause, Rescale, Resume, Stop, Throttle, VerifyNow
from backfill_core.protocol.stored_fields import StoredFields

HISTORY = "History"
ALL = "All"
ROWS_MAX, BYTES_MAX = 1_000_000_000, 1_000_000_000_000
NUMBERS = {
    "rowsPerSecond": ROWS_MAX, "afterRowsPerSecond": ROWS_MAX, "specRowsPerSecond": ROWS_MAX,
    "bytesPerSecond": BYTES_MAX, "afterBytesPerSecond": BYTES_MAX, "specBytesPerSecond": BYTES_MAX,
    "untilMs": COUNT_MAX, "afterUntilMs": COUNT_MAX, "specUntilMs": COUNT_MAX, "revision": REVISION_MAX, "pausedBy": REVISION_MAX, "limitedBy": REVISION_MAX,
    "afterLimitedBy": REVISION_MAX, "rescaledBy": REVISION_MAX,
}  # fmt: skip
"""Largest values of stored numbers, as in specs and commands."""

NO_WIDTH = Width()
SPEC_WIDTH_FIELDS = {name: f"spec{field[0].upper()}{field[1:]}" for name, field in WIDTH_FIELDS.items()}
"""Stored names of the spec's values of the width, by their names in Python."""


@dataclass(frozen=True, slots=True)
class Controls:
    """Pause, rate and width, with the revision that set them; `Controls()` is running and unlimited."""

    paused: str | None = None
    """`None`, `History` or `All`."""

    rows_per_s: int | None = None
    """Limit of history in rows per second; `None` if unlimited, 0 to read nothing (R-SNAP-41)."""

    until_ms: int | None = None
    """Time at which a limit with an expiry ends, in milliseconds since 1970."""

    after_rows_per_s: int | None = None
    """Limit that returns at `until_ms`."""

    revision: int = 0
    """Newest command in force; 0 for the spec."""

    spec_paused: str | None = None
    spec_rows_per_s: int | None = None

    paused_by: int = 0
    """Revision of the command that set `paused`; 0 for the spec."""

    limited_by: int = 0
    """Revision of the command that set the limits; 0 for the spec."""

    after_limited_by: int = 0
    """Revision of the command that set the limit which returns at `until_ms`; 0 for the spec."""

    bytes_per_s: int | None = None
    """Limit of history in bytes of the source's files per second; the lower of the two limits decides."""

    after_bytes_per_s: int | None = None
    spec_bytes_per_s: int | None = None

    after_until_ms: int | None = None
    """End of the limit that returns at `until_ms`; `None` if it has no end."""

    spec_until_ms: int | None = None

    width: Width = NO_WIDTH
    """Number and size of the pieces of history, and executors; a value that cannot change is `None`."""

    spec_width: Width = NO_WIDTH

    rescaled_by: int = 0
    """Revision of the newest command that set a value of `width`; 0 if all are the spec's."""

    def after(self, command: Command, revision: int, now_ms: int) -> Controls:
        """Return the controls with one more command in force."""
        match command:
            case Pause(everything=everything):
                scope = ALL if everything else HISTORY
                return replace(self, paused=scope, paused_by=revision, revision=revision)
            case Resume():
                return replace(self, paused=None, paused_by=revision, revision=revision)
            case Throttle():
                return replace(self._throttled(command, revision, now_ms).at(now_ms), revision=revision)
            case Rescale(width=change):
                width = self.width.model_copy(update=change.given)
                return replace(self, width=width, rescaled_by=revision, revision=revision)
            case VerifyNow() | Stop():
                return replace(self, revision=revision)
        raise TypeError(f"not a command: {command!r}")

    def _throttled(self, command: Throttle, revision: int, now_ms: int) -> Controls:
        """Return the controls with the limit of a command, and with the limit that follows it."""
        limited = self._limited(command.rows_per_s, command.bytes_per_s, revision)
        if command.until_ms is not None:
            then = command.then or Limit()
            return replace(
                limited,
                until_ms=command.until_ms,
                after_rows_per_s=then.rows_per_s,
                after_bytes_per_s=then.bytes_per_s,
                after_until_ms=then.until_ms,
                after_limited_by=revision,
            )
        if command.for_s is None:
            return limited
        # A second command with an expiry does not make the first one permanent; the spec's limit returns with its own end.
        before = self.at(self.until_ms) if self.until_ms is not None and self.limited_by else self
        return replace(
            limited,
            until_ms=now_ms + round(command.for_s * 1000),
            after_rows_per_s=before.rows_per_s,
            after_bytes_per_s=before.bytes_per_s,
            after_until_ms=before.until_ms,
            after_limited_by=before.limited_by,
        )

    def at(self, now_ms: int) -> Controls:
        """Return the controls at a point in time; a limit past its expiry is removed, and the one after it as well."""
        if self.until_ms is None or now_ms < self.until_ms:
            return self
        after = self._limited(self.after_rows_per_s, self.after_bytes_per_s, self.after_limited_by, self.after_until_ms)
        return after.at(now_ms)

    def _limited(
        self, rows_per_s: int | None, bytes_per_s: int | None, by: int, until_ms: int | None = None
    ) -> Controls:
        """Return the controls with a limit, after whose expiry no limit is in force."""
        return replace(
            self,
            rows_per_s=rows_per_s,
            bytes_per_s=bytes_per_s,
            limited_by=by,
            until_ms=until_ms,
            after_rows_per_s=None,
            after_bytes_per_s=None,
            after_until_ms=None,
            after_limited_by=0,
        )

    def under_spec(
        self,
        paused: str | None,
        rows_per_s: int | None,
        bytes_per_s: int | None = None,
        until_ms: int | None = None,
        width: Width = NO_WIDTH,
    ) -> Controls:
        """Return the controls in force when an attempt starts.

        Earlier commands stay in force after a restart (R-PROG-8), unless the spec's value changed since then: a user who
        edits the file expects the new value to count. Each value of the width is compared for itself.
        """
        controls = self
        if paused != self.spec_paused:
            controls = replace(controls, paused=paused, spec_paused=paused, paused_by=0)
        before = (self.spec_rows_per_s, self.spec_bytes_per_s, self.spec_until_ms)
        if (rows_per_s, bytes_per_s, until_ms) != before:
            limited = controls._limited(rows_per_s, bytes_per_s, 0, until_ms)  # noqa: SLF001 - our own class
            controls = replace(
                limited, spec_rows_per_s=rows_per_s, spec_bytes_per_s=bytes_per_s, spec_until_ms=until_ms
            )
        edited = {name: value for name, value in width if value != getattr(self.spec_width, name)}
        if edited:
            in_force = self.width.model_copy(update=edited)
            by = 0 if in_force == width else self.rescaled_by
            controls = replace(controls, width=in_force, spec_width=width, rescaled_by=by)
        return controls

    def of_attempt(self, spec: BackfillSpec, now_ms: int, fixed_width: Collection[str] = ()) -> Controls:
        """Return the controls in force when an attempt with this spec starts; see `under_spec`.

        Args:
            spec: The spec of the attempt.
            now_ms: Time of its start.
            fixed_width: Names of the values of the width that cannot change.
        """
        paused, limit = spec.pause.scope if spec.desired_state == "Paused" else None, spec.throttle
        width = width_of(spec).model_copy(update=dict.fromkeys(fixed_width))
        limits = (limit.rows_per_second, limit.bytes_per_second, limit.until_ms)
        return self.under_spec(paused, *limits, width=width).at(now_ms)

    @property
    def limited(self) -> bool:
        """True if rows or bytes have a limit."""
        return (self.rows_per_s, self.bytes_per_s) != (None, None)

    @property
    def format_limit(self) -> str:
        """Description of the limits for users; empty without a limit."""
        rows = [] if self.rows_per_s is None else [f"{self.rows_per_s:,} rows/s"]
        return " and ".join(rows + ([] if self.bytes_per_s is None else [f"{self.bytes_per_s:,} bytes/s"]))

    @property
    def history_held(self) -> bool:
        """True if no split may start."""
        return self.paused is not None or 0 in (self.rows_per_s, self.bytes_per_s)

    @property
    def changes_held(self) -> bool:
        """True if no change batch may start."""
        return self.paused == ALL

    def to_json(self) -> dict[str, Any]:
        """Return the form that the target stores, without default values."""
        pairs = {
            "paused": self.paused,
            "rowsPerSecond": self.rows_per_s,
            "bytesPerSecond": self.bytes_per_s,
            "untilMs": self.until_ms,
            "afterRowsPerSecond": self.after_rows_per_s,
            "afterUntilMs": self.after_until_ms,
            "afterBytesPerSecond": self.after_bytes_per_s,
            "revision": self.revision or None,
            "specPaused": self.spec_paused,
            "specRowsPerSecond": self.spec_rows_per_s,
            "specBytesPerSecond": self.spec_bytes_per_s,
            "specUntilMs": self.spec_until_ms,
            "pausedBy": self.paused_by or None,
            "limitedBy": self.limited_by or None,
            "afterLimitedBy": self.after_limited_by or None,
            **{WIDTH_FIELDS[name]: value for name, value in self.width.given.items()},
            **{SPEC_WIDTH_FIELDS[name]: value for name, value in self.spec_width.given.items()},
            "rescaledBy": self.rescaled_by or None,
        }
        return {name: value for name, value in pairs.items() if value is not None}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Controls:
        """Read the output of `to_json`.

        Raises:
            StateMismatchError: the message contains the first invalid field.
        """
        value = {name: field for name, field in value.items() if field is not None}  # null is an absent field
        stored = StoredFields("state.controls", value)
        for name, most in NUMBERS.items():
            if (stored.optional_count(name) or 0) > most:
                raise stored.unfit(name)
        for name in ("paused", "specPaused"):
            if value.get(name) is not None:
                stored.one_of(name, (HISTORY, ALL))
        revision, until = value.get("revision", 0), value.get("untilMs")
        # Older states do not record who set a value: a value that differs from the spec is attributed to the newest command.
        held = revision if value.get("paused") != value.get("specPaused") else 0
        of_spec = until == value.get("specUntilMs") and value.get("rowsPerSecond") == value.get("specRowsPerSecond")
        return cls(
            paused_by=value.get("pausedBy", held),
            limited_by=value.get("limitedBy", 0 if of_spec else revision),
            after_limited_by=value.get("afterLimitedBy", 0),
            paused=value.get("paused"),
            rows_per_s=value.get("rowsPerSecond"),
            bytes_per_s=value.get("bytesPerSecond"),
            until_ms=value.get("untilMs"),
            after_rows_per_s=value.get("afterRowsPerSecond"),
            after_until_ms=value.get("afterUntilMs"),
            spec_until_ms=value.get("specUntilMs"),
            after_bytes_per_s=value.get("afterBytesPerSecond"),
            revision=value.get("revision", 0),
            spec_paused=value.get("specPaused"),
            spec_rows_per_s=value.get("specRowsPerSecond"),
            spec_bytes_per_s=value.get("specBytesPerSecond"),
            width=_stored_width(stored, WIDTH_FIELDS),
            spec_width=_stored_width(stored, SPEC_WIDTH_FIELDS),
            rescaled_by=value.get("rescaledBy", 0),
        )


def _stored_width(stored: StoredFields, names: Mapping[str, str]) -> Width:
    """Return a stored width; with a value outside its bounds, no work might ever start."""
    values = {name: stored.value.get(field) for name, field in names.items()}
    try:
        return Width.model_validate(values)
    except ValidationError as error:
        name, *_ = error.errors()[0]["loc"]
        raise stored.unfit(
            next(field for python, field in names.items() if name in {python, WIDTH_FIELDS[python]})
        ) from None
