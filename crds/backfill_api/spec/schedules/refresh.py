"""Schedule of a finished job that runs again: the model of `spec.refresh`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Self

from pydantic import StringConstraints, model_validator

from backfill_api.model import Model, cel, refused
from backfill_api.spec.schedules.cron import parse_schedule, zone_named
from backfill_api.spec.strategies import Strategy

SCHEDULE_FORM: Final = "^ *(@[a-z]+|[^ ]+( +[^ ]+){4}) *$"
"""A cluster checks only this; the operator reads the rest."""

Schedule = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=255)]
Zone = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=64)]


class RefreshSpec(Model):
    """Times at which a finished job runs again, with the changes since its last position."""

    model_config = cel(
        (
            f"self.schedule.matches('{SCHEDULE_FORM}')",
            "schedule has five fields: minute, hour, day of month, month, day of week",
        )
    )

    schedule: Schedule
    """Times as in a Kubernetes CronJob: minute, hour, day of month, month, day of week, or `@daily`. Only an operator runs a schedule."""

    time_zone: Zone = "Etc/UTC"
    """Time zone of the schedule: a name of the IANA database, such as `Europe/Berlin`."""

    @property
    def text(self) -> str:
        """Schedule and time zone in one string."""
        return f"{self.schedule} {self.time_zone}"

    def next_after_ms(self, now_ms: int) -> int | None:
        """Return the first time after a time, in milliseconds since 1970; `None` if the calendar ends before it."""
        return parse_schedule(self.schedule).next_after_ms(now_ms, zone_named(self.time_zone))

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        try:
            parse_schedule(self.schedule)
        except ValueError as error:
            hint = "write minute, hour, day of month, month and day of week, as in '0 2 * * *' for each night at 02:00"
            raise refused("schedule", str(error), hint=hint, value=self.schedule) from error
        try:
            zone_named(self.time_zone)
        except ValueError as error:
            hint = "use a name such as Europe/Berlin, or remove it for Etc/UTC"
            raise refused("timeZone", str(error), hint=hint, value=self.time_zone) from error
        return self


def check_refresh(refresh: RefreshSpec, strategy: Strategy, *, after: str, ttl_seconds: int | None) -> None:
    """Refuse a schedule of a job that never ends, ends for good, or is deleted after its end.

    Raises:
        PydanticCustomError: With the path of the field that does not fit.
    """
    if after == "Follow":
        message = "a job that follows its source does not end, so it has no refresh"
        raise refused("after", message, hint="set after: Exit, or remove refresh", value=after)
    if strategy.params.ENDS_FOR_GOOD:
        message = f"strategy {strategy.type} cannot continue a job that has ended: {strategy.params.ENDS_FOR_GOOD}"
        hint = f"use strategy.type: {' or '.join(_refreshing())}"
        raise refused("refresh.schedule", message, hint=hint, value=refresh.schedule)
    if ttl_seconds is not None:
        message = "deletes the object, and a schedule needs it for the next refresh"
        raise refused("ttlSecondsAfterFinished", message, hint="remove it, or remove refresh", value=ttl_seconds)


def refresh_rules() -> Iterator[tuple[str, str]]:
    """Yield the CEL form of `check_refresh`."""
    yield "!has(self.refresh) || self.after == 'Exit'", "refresh works with after: Exit"
    names = _refreshing()
    yield f"!has(self.refresh) || self.strategy.type in {names}", f"refresh works with strategy {' or '.join(names)}"
    message = "refresh works without ttlSecondsAfterFinished"
    yield "!has(self.refresh) || !has(self.ttlSecondsAfterFinished)", message


def _refreshing() -> list[str]:
    return [name for name, variant in Strategy.VARIANTS.items() if not getattr(variant.params, "ENDS_FOR_GOOD", "")]
