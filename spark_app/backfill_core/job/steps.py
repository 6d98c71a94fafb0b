"""The steps that a job pays for, how long each takes, and how much of the whole job is done.

step       is paid for                                            its share of the whole is known from
--------   ----------------------------------------------------   ------------------------------------------------
Start      opening Spark and both tables, the fence               what it took
Copy       every row of the pinned version                        rows, and the rate of the last seals or the limit
KeyProof   one look at the key of every row of the target         rows, and what copying a row costs here
CatchUp    the versions after the pinned one                      versions, and what a version cost so far
Receipt    one look at every row of both sides                    rows, and what copying a row costs here

An estimate begins as a guess from rows, and each step that was measured corrects those to come. Percent begins as the part of the
time that is spent. From then on it moves through what is missing to 100 by the part of the time left that was worked off: an estimate
that changes, as by a limit, changes how fast percent moves and not where it is. So it never falls, and does not stand still while rows
are committed. 100 is the end (R-PROG-1).

What people see while rows or versions count is what the newest durable commit says: a restart begins there (R-PROG-4). A proof and a
receipt commit nothing, so time alone moves what is seen of them; an attempt that follows them by a kill begins where they began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from backfill_core.pacing.eta import Eta
from backfill_core.protocol.strategy import Facts

START, COPY, KEY_PROOF, CATCH_UP, RECEIPT = "Start", "Copy", "KeyProof", "CatchUp", "Receipt"
STEPS = (START, COPY, KEY_PROOF, CATCH_UP, RECEIPT)

ROWS_PER_S = 600_000.0
"""Rows a second that a copy is guessed to make before one was measured: two cores, cold."""

START_S = 10.0
"""What a start takes on a machine that is not busy; one that took three times as long makes the fixed costs of all others so, too."""

SLOWER_MAX = 10.0

SCAN_S = 3.0
"""What a look at a whole table costs, however small it is: planning, and code that is not compiled yet."""

PROOF_SHARE, RECEIPT_SHARE = 0.38, 0.6
"""Seconds of the proof and of the receipt in seconds of copying the same rows.

Measured of a proof: 0.22 for a key of whole numbers, 0.66 for one of texts. Which one a job has is not known here: their middle
is off by less than UNSURE for both."""

BATCH_S = 3.0
"""What a batch of changes costs, however few they are."""

VERSION_S = 0.1
"""What a version of the source is guessed to cost before one was applied."""

UNSURE = 2.0
"""An estimate that nothing measured is off by this factor, either way."""

NEARLY = 0.95
"""A step that takes longer than estimated is shown as almost done."""

SEEN_EVERY_S = 0.25

COUNTED = (COPY, CATCH_UP)
"""The steps whose progress is committed."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a job at one moment."""

    name: str
    state: str
    """Pending, Running or Done."""

    spent_s: float | None
    """Time in it so far, pauses left out; None: not begun by this attempt."""

    left: Eta | None
    """Time left of it; None: it is done, or unknown."""

    done: float
    """Part of it that is done, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Course:
    """A job's way through its steps; `seen` is told of each moment."""

    names: tuple[str, ...]
    """The steps that this job has, in their order."""

    at: str = START
    """The step that it is in; empty: all are done."""

    reached: float = 0.0
    """Percent of the whole job; it never falls."""

    shown: int = 0
    """What people see of it, rounded down; it never falls either."""

    steps: tuple[Step, ...] = ()
    known: tuple[Step, ...] = ()
    """The same, as they were when the time left of each was known last; what was done since then is taken from it."""

    spent: Mapping[str, float] = field(default_factory=dict)
    """Seconds by step, of those that this attempt was in."""

    seen_s: float = 0.0
    speed: float = 1.0
    """How much faster than guessed this machine looks at rows, as far as it was measured."""

    @property
    def percent(self) -> int:
        """Of the whole job, rounded down; 100 is the end. A commit stores it, and then it may be shown."""
        return int(self.reached) if self.steps and _all_done(self.steps) else min(99, int(self.reached))

    @property
    def eta(self) -> Eta | None:
        """Return the time left of the whole job; None while it is unknown, or when nothing is left."""
        left = [one.left for one in self.steps if one.state != "Done"]
        known = [one for one in left if one is not None]
        if not left or len(known) < len(left):
            return None
        return Eta(sum(one.seconds for one in known), sum(one.low for one in known), sum(one.high for one in known))

    def due(self, at: str, now_s: float) -> bool:
        """Is it time to look again? At once when the step is another one."""
        return at != self.at or now_s - self.seen_s >= SEEN_EVERY_S

    def seen(self, at: str, facts: Facts, now_s: float, *, durable: int = 0) -> Course:
        """Take a look.

        Args:
            at: The step that the job is in now, empty when all are done.
            facts: What is known of the job now.
            now_s: The moment.
            durable: The percent in the newest durable commit.
        """
        passed = 0.0 if facts.held else max(0.0, now_s - self.seen_s)
        spent = dict(self.spent)
        if self.at:
            spent[self.at] = spent.get(self.at, 0.0) + passed
        if at:
            spent.setdefault(at, 0.0)
        speed = self._corrected(at, facts, spent)
        steps: list[Step] = []
        for name in self.names:
            before_s = sum(one.left.seconds for one in steps if one.left is not None)
            steps.append(self._step(name, at, facts.later(before_s), spent, speed))
        reached, known = self._reached(tuple(steps)), self._known(tuple(steps))
        seen = replace(
            self, at=at, reached=reached, steps=tuple(steps), known=known, spent=spent, seen_s=now_s, speed=speed
        )
        most = min(seen.percent, durable) if at in COUNTED else seen.percent
        return replace(seen, shown=max(self.shown, most))

    def ahead(self, facts: Facts, rows: int, now_s: float) -> int:
        """Return the percent once so many more rows are committed: the commit that holds them says it, so it may be shown then."""
        later = replace(facts, rows_left=max(0, facts.rows_left - rows))
        return max(self.shown, self.seen(self.at, later, now_s).percent)

    def _reached(self, steps: tuple[Step, ...]) -> float:
        """Return the percent with what was done since the last look."""
        if _all_done(steps):
            return 100.0
        left_s = sum(_left_s(one) for one in self.known)
        if not left_s:
            return max(self.reached, 0.0 if self.known else _percent(steps))
        worked_off_s = sum(_left_s(was) * _gain(was, now) for was, now in zip(self.known, steps, strict=True))
        return self.reached + (100 - self.reached) * worked_off_s / left_s

    def _known(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Return the steps with the time left that is known of each, and nothing that is done twice."""
        if not self.known:
            return steps if all(one.state == "Done" or one.left is not None for one in steps) else ()
        return tuple(_behind(was, now) for was, now in zip(self.known, steps, strict=True))

    def _corrected(self, at: str, facts: Facts, spent: Mapping[str, float]) -> float:
        """Return the speed of this machine by the newest step that says something about it."""
        if self.at in (KEY_PROOF, RECEIPT) and at != self.at and facts.rows:
            return scan_s(self.at, facts.rows) / max(spent[self.at], 1e-3)
        # A limit says how fast the copy may be, not how fast it could be.
        if at == COPY and facts.rows_per_s and facts.limit_rows_per_s is None:
            return facts.rows_per_s / ROWS_PER_S
        return self.speed

    def _step(self, name: str, at: str, facts: Facts, spent: Mapping[str, float], speed: float) -> Step:
        where = self.names.index(name)
        now = self.names.index(at) if at else len(self.names)
        if where < now:
            return Step(name, "Done", spent.get(name), None, 1.0)
        state = "Running" if where == now else "Pending"
        so_far = spent.get(name)
        if facts.held and state == "Running":
            return Step(name, state, so_far, None, _done(name, facts, so_far or 0.0, speed))
        left, done = _left(name, facts, so_far or 0.0, speed), _done(name, facts, so_far or 0.0, speed)
        return Step(name, state, so_far, left, done)


def begin(names: Sequence[str], spent: Mapping[str, float], *, percent: int, now_s: float) -> Course:
    """Return the course of an attempt that has not fenced yet.

    Args:
        names: The steps that are before it, in their order.
        spent: Seconds by step, of what was done before the job's own clock began.
        percent: What an earlier attempt had reached.
        now_s: The moment.
    """
    before = tuple(name for name in STEPS if name in spent and name not in names)
    ordered = (START, *before, *(name for name in names if name != START))
    steps = tuple(Step(name, "Running" if name == START else "Pending", spent.get(name), None, 0.0) for name in ordered)
    speed = 1 / slower(spent.get(START, START_S))
    spent = {START: 0.0, **spent}
    return Course(ordered, reached=float(percent), shown=percent, steps=steps, spent=spent, seen_s=now_s, speed=speed)


def slower(start_s: float) -> float:
    """Return how much slower than guessed a machine is whose start took so long; at least 1."""
    return min(max(start_s / START_S, 1.0), SLOWER_MAX)


def scan_s(name: str, rows: int, rows_per_s: float = ROWS_PER_S) -> float:
    """Return the seconds that the proof or the receipt takes, on a machine that copies so many rows a second."""
    share = PROOF_SHARE if name == KEY_PROOF else RECEIPT_SHARE
    return SCAN_S + share * rows / rows_per_s


def copy_s(rows: int, rows_per_s: float, limit_rows_per_s: float | None) -> float:
    """Return the seconds that copying so many rows takes at a rate, or at a limit below it."""
    if not rows:
        return 0.0
    return rows / min(rows_per_s, limit_rows_per_s or rows_per_s)


def merge_s(rows: int, rows_per_s: float, limit_rows_per_s: float | None, *, batch_s: float) -> float:
    """Return the seconds that rows take which are merged one batch after the other.

    Args:
        rows: That are to be read.
        rows_per_s: That are read in a second.
        limit_rows_per_s: A batch takes what a second of it admits.
        batch_s: So long a batch without a limit should take, its own cost included.
    """
    of_batch = rows_per_s * max(batch_s - BATCH_S, 1.0)
    batches = ceil(rows / min(of_batch, limit_rows_per_s or of_batch))
    return max(copy_s(rows, rows_per_s, limit_rows_per_s), rows / rows_per_s + batches * BATCH_S)


def catch_up_s(versions: int, version_s: float | None) -> float:
    """Return the seconds that applying so many versions takes."""
    return 0.0 if not versions else BATCH_S + versions * (VERSION_S if version_s is None else version_s)


def _left(name: str, facts: Facts, spent_s: float, speed: float) -> Eta | None:
    match name:
        case "Copy" if facts.copy is not None:
            # A full bucket lets more rows pass for a moment.
            least_s = facts.rows_left / facts.limit_rows_per_s if facts.limit_rows_per_s else 0.0
            return Eta(*(max(one, least_s) for one in (facts.copy.seconds, facts.copy.low, facts.copy.high)))
        case "Copy" if facts.limit_rows_per_s:
            seconds = facts.rows_left / facts.limit_rows_per_s
            return Eta(seconds, seconds, seconds * UNSURE)
        case "Copy" if facts.rows_left and facts.fresh:
            return _unsure(copy_s(facts.rows_left, ROWS_PER_S * speed, None))
        case "Copy" if facts.rows_left:
            return None
        case "Copy" | "Start":
            return Eta(0.0, 0.0, 0.0)
        case "CatchUp":
            # New versions come while old ones are applied. The first batch runs on a cold JVM, and does not tell how fast that is.
            gained = facts.versions_per_s * (facts.version_s or 0.0) if facts.batches > 1 else 0.0
            return _unsure(catch_up_s(facts.versions_left, facts.version_s) / max(1 - gained, 0.1))
        case _:
            whole_s = scan_s(name, facts.rows) / speed
            return _unsure(max(whole_s - spent_s, whole_s * (1 - NEARLY)))


def _done(name: str, facts: Facts, spent_s: float, speed: float) -> float:
    match name:
        case "Copy":
            return 1 - facts.rows_left / facts.rows if facts.rows else 1.0
        case "CatchUp":
            versions = facts.versions_done + facts.versions_left
            return facts.versions_done / versions if versions else 0.0
        case "Start":
            return 0.0
        case _:
            return min(NEARLY, spent_s / (scan_s(name, facts.rows) / speed))


def _unsure(seconds: float) -> Eta:
    return Eta(seconds, seconds / UNSURE, seconds * UNSURE)


def _all_done(steps: tuple[Step, ...]) -> bool:
    return all(one.state == "Done" for one in steps)


def _left_s(one: Step) -> float:
    return 0.0 if one.left is None else one.left.seconds


def _gain(was: Step, now: Step) -> float:
    """Return how much of what was missing of a step is done by now, 0 to 1."""
    if now.state == "Done":
        return 1.0
    return max(0.0, now.done - was.done) / (1 - was.done) if was.done < 1 else 0.0


def _behind(was: Step, now: Step) -> Step:
    """Return a step as it is now; where the time left is not known, as in a pause, it is what was known less what was done since."""
    if now.state == "Done":
        return now
    left = now.left
    if left is None and was.left is not None:
        rest = 1 - _gain(was, now)
        left = Eta(was.left.seconds * rest, was.left.low * rest, was.left.high * rest)
    return replace(now, left=left, done=max(was.done, now.done))


def _percent(steps: tuple[Step, ...]) -> float:
    """Weigh each step by its seconds: those it took, or what is done of it at the pace of what is left; 0: not known."""
    made = whole = 0.0
    for one in steps:
        weight = _weight(one)
        if weight is None:
            return 0.0
        whole += weight
        made += weight * one.done
    return 100 * made / whole if whole else 0.0


def _weight(one: Step) -> float | None:
    if one.state == "Done":
        return one.spent_s or 0.0
    if one.left is None:
        return None
    return one.left.seconds / (1 - one.done) if one.done < 1 else one.spent_s or 0.0
