"""A job whose parallelism changes: with each attempt, as after an edit of the spec, or by commands to a running one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random

from support.simulation.law import demand
from support.simulation.scenario import Scenario

from backfill_api.spec.spec import BackfillSpec
from backfill_core.job.state import JobState
from backfill_core.protocol.commands import Command, Rescale

DEFAULT = 2
"""`maxInFlight` of a spec that does not set it."""

CHOICES = (1, 2, 3, 5)


def max_in_flight(given: Scenario, attempt: int) -> int:
    """Return the `maxInFlight` of an attempt."""
    return Random(f"{given.seed}/parallelism/{attempt}").choice(CHOICES) if given.rescaled else DEFAULT


def spec_of(spec: BackfillSpec, given: Scenario, attempt: int) -> BackfillSpec:
    """Return the spec of an attempt."""
    if not given.rescaled:
        return spec
    strategy = spec.strategy
    params = strategy.params.model_copy(update={"max_in_flight": max_in_flight(given, attempt)})
    return spec.model_copy(update={"strategy": strategy.model_copy(update={strategy.member: params})})


class WidthOracle:
    """Judges the width: after an acknowledgement no history starts beyond it, and each state has the width in force."""

    def __init__(self, given: Scenario, *, fixed: bool) -> None:
        """Watch a world from its beginning; a job with a `fixed` width refuses each change."""
        self._given, self._fixed = given, fixed
        self._at_start: int | None = None
        self._begun = False
        self.most = DEFAULT
        """Pieces of history that may surely run at the same time."""

        self.changes = 0
        """Acknowledged widths."""

    def on_reopen(self, attempt: int, last: JobState | None) -> None:
        """Begin an attempt: the stored width holds, unless the spec has another one than that of the last attempt."""
        spec = max_in_flight(self._given, attempt)
        before = None if last is None else max_in_flight(self._given, last.attempt)
        stored = None if last is None else last.controls.in_flight_max
        self.most = stored if stored is not None and spec == before else spec
        self._at_start = None if self._fixed else self.most
        self._begun = True

    def on_command(self, command: Command) -> None:
        """Record a command: it may take effect from now on."""
        if isinstance(command, Rescale) and not self._fixed:
            self.most = max(self.most, command.in_flight_max)

    def on_ack(self, command: Command | None, later: Iterable[Command]) -> None:
        """Record a command that this attempt heard and took; `later` are those that were accepted after it.

        One of an earlier attempt is answered too, and does not tell the width: the spec may have changed since.
        """
        if not isinstance(command, Rescale):
            return
        demand(not self._fixed, "a width was acknowledged that the job cannot change")
        self.changes += 1
        widths = [each.in_flight_max for each in later if isinstance(each, Rescale)]
        self.most = max([command.in_flight_max, *widths])

    def check_stored(self, state: JobState, heard: Mapping[int, Command]) -> None:
        """Check a state of the newest attempt: its width is that of the last command of those that it heard and took.

        A table that was filled before the first attempt has the state of an earlier job.
        """
        if not self._begun:
            return
        taken = [command for revision, command in heard.items() if revision <= state.controls.revision]
        widths = [] if self._fixed else [each.in_flight_max for each in taken if isinstance(each, Rescale)]
        expected = widths[-1] if widths else self._at_start
        demand(state.controls.in_flight_max == expected, f"stored width is not {expected}")
