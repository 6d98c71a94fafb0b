"""A job whose width changes: with each attempt, as after an edit of the spec, or by commands to a running one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random

from support.simulation.law import demand
from support.simulation.scenario import Scenario

from backfill_api.spec.override import WIDTH_FIELDS, Width
from backfill_api.spec.spec import BackfillSpec
from backfill_core.job.state import JobState
from backfill_core.protocol.commands import Command, Rescale
from backfill_core.protocol.work import Work

DEFAULT = 2
"""`maxInFlight` of a spec that does not set it."""

CHOICES = (1, 2, 3, 5)
SECONDS = (1, 4, 20)
ROWS = (0, 2, 3, 5)
FIXED = dict.fromkeys(WIDTH_FIELDS, "it runs one piece at a time")
UNBOUNDED = 10**9
"""Rows of a chunk whose size follows the time."""


def width_of(given: Scenario, attempt: int, chunk_rows: int | None) -> Width:
    """Return the width in the spec of an attempt; `chunk_rows` is the model's own choice."""
    if not given.rescaled:
        return Width(max_in_flight=DEFAULT, split_target_seconds=4, chunk_rows=chunk_rows or 0)
    readers = Random(f"{given.seed}/parallelism/{attempt}").choice(CHOICES)
    sizes = Random(f"{given.seed}/sizes/{attempt}")
    return Width(
        max_in_flight=readers, split_target_seconds=sizes.choice(SECONDS), chunk_rows=sizes.choice((chunk_rows or 0, 4))
    )


def spec_of(spec: BackfillSpec, given: Scenario, attempt: int) -> BackfillSpec:
    """Return the spec of an attempt."""
    if not given.rescaled:
        return spec
    strategy, width = spec.strategy, width_of(given, attempt, None)
    edited = {name: value for name, value in width.given.items() if name != "chunk_rows"}
    params = strategy.params.model_copy(update=edited)
    return spec.model_copy(update={"strategy": strategy.model_copy(update={strategy.member: params})})


def command(chance: Random) -> Rescale:
    """Return a command that changes one value of the width, or several."""
    drawn = {
        "max_in_flight": chance.choice(CHOICES),
        "split_target_seconds": chance.choice(SECONDS),
        "chunk_rows": chance.choice(ROWS),
    }
    names = chance.choice((["max_in_flight"], [*drawn], ["max_in_flight"], ["split_target_seconds", "chunk_rows"]))
    return Rescale(Width(**{name: drawn[name] for name in names}))


def _bounds(width: Width) -> dict[str, int]:
    """Return the upper bounds that a width sets: pieces at the same time, and rows of a chunk."""
    given = width.given
    bounds = {"max_in_flight": given["max_in_flight"]} if "max_in_flight" in given else {}
    return bounds | ({"chunk_rows": given["chunk_rows"] or UNBOUNDED} if "chunk_rows" in given else {})


class WidthOracle:
    """Judges the width: after an acknowledgement no history starts beyond it, and each state has the width in force."""

    def __init__(self, given: Scenario, chunk_rows: int | None, *, fixed: bool) -> None:
        """Watch a world from its beginning; a job with a `fixed` width refuses each change."""
        self._given, self._chunk_rows, self._fixed = given, chunk_rows, fixed
        self._at_start = Width()
        self._begun = False
        self._most = {"max_in_flight": DEFAULT, "chunk_rows": UNBOUNDED}
        """Upper bounds that surely hold."""

        self.changes = 0
        """Acknowledged widths."""

    def on_reopen(self, attempt: int, last: JobState | None) -> None:
        """Begin an attempt: each stored value holds, unless the spec has another one than that of the last attempt."""
        spec = width_of(self._given, attempt, self._chunk_rows)
        in_force = spec
        if last is not None:
            before = width_of(self._given, last.attempt, self._chunk_rows)
            stored = last.controls.width.given
            kept = {name: stored.get(name, value) for name, value in spec if value == getattr(before, name)}
            in_force = spec.model_copy(update=kept)
        self._most |= _bounds(in_force)
        self._at_start = Width() if self._fixed else in_force
        self._begun = True

    def on_command(self, command: Command) -> None:
        """Record a command: it may take effect from now on."""
        if isinstance(command, Rescale) and not self._fixed:
            self._most |= {name: max(self._most[name], bound) for name, bound in _bounds(command.width).items()}

    def on_ack(self, command: Command | None, later: Iterable[Command]) -> None:
        """Record a command that this attempt heard and took; `later` are those that were accepted after it.

        One of an earlier attempt is answered too, and does not tell the width: the spec may have changed since.
        """
        if not isinstance(command, Rescale):
            return
        demand(not self._fixed, "a width was acknowledged that the job cannot change")
        self.changes += 1
        after = [_bounds(each.width) for each in later if isinstance(each, Rescale)]
        for name, bound in _bounds(command.width).items():
            self._most[name] = max([bound, *(bounds[name] for bounds in after if name in bounds)])

    def check_start(self, work: Work) -> int:
        """Check that a piece of history that starts is not larger than a chunk may be; return how many may run at the same time."""
        rows = getattr(work, "rows_max", None)
        most = self._most["chunk_rows"]
        demand(rows is None or rows <= most, f"a chunk of at most {rows} rows started, for {most} rows of a chunk")
        return self._most["max_in_flight"]

    def check_stored(self, state: JobState, heard: Mapping[int, Command]) -> None:
        """Check a state of the newest attempt: its width is that of the commands that it heard and took, one after the other.

        A table that was filled before the first attempt has the state of an earlier job.
        """
        if not self._begun:
            return
        expected = self._at_start
        for revision, command in heard.items():
            if isinstance(command, Rescale) and revision <= state.controls.revision and not self._fixed:
                expected = expected.model_copy(update=command.width.given)
        demand(state.controls.width == expected, f"stored width is not {expected.given}")
