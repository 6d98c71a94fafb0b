"""The steps of a job, the time of each, and the finished part of the whole job.

step       covers                                                 its share of the whole is estimated from
--------   ----------------------------------------------------   ------------------------------------------------
Start      opening Spark and both tables, the fence               the time that it took
Copy       every row of the pinned version                        rows, and the rate of the last seals or the limit
KeyProof   one read of the key of every row of the target         rows, and the measured cost of copying a row
CatchUp    the versions after the pinned one                      versions, and the cost of a version so far
Receipt    one read of every row of both sides                    rows, and the measured cost of copying a row

An estimate starts as a guess from rows, and each measured step corrects the estimates of later steps. Percent starts as the share of
time that is spent. From then on, it closes the gap to 100 by the share of the remaining time that was worked off. So an estimate that
changes, for example because of a limit, changes the speed of percent and not its value. Percent never falls, and it keeps moving while
rows are committed. 100 is the end (R-PROG-1).

While rows or versions count, users see the percent of the newest durable commit: a restart begins there (R-PROG-4). A proof and a
receipt commit nothing, so only time moves their shown percent. An attempt after a kill starts them again from their beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from backfill_core.protocol.eta import Eta
from backfill_core.protocol.strategy import Facts

START, COPY, KEY_PROOF, CATCH_UP, RECEIPT = "Start", "Copy", "KeyProof", "CatchUp", "Receipt"
STEPS = (START, COPY, KEY_PROOF, CATCH_UP, RECEIPT)

ROWS_PER_S = 600_000.0
"""Guessed rows per second of a copy before one was measured: two cores, cold."""

START_S = 10.0
"""Seconds that a start takes on an idle machine. A start that takes three times longer triples all other fixed costs."""

SLOWER_MAX = 10.0

SCAN_S = 3.0
"""Fixed seconds of a scan of a whole table: planning, and code that is not compiled yet."""

PROOF_SHARE, RECEIPT_SHARE = 0.38, 0.6
"""Duration of the proof and of the receipt, relative to copying the same rows.

Measured for the proof: 0.22 for a key of integers, 0.66 for a key of strings. The job's key type is not known here, and the
middle is off by less than UNSURE for both."""

BATCH_S = 3.0
"""Fixed seconds of a batch of changes."""

VERSION_S = 0.1
"""Guessed seconds of a source version before one was applied."""

UNLIMITED_S = 5.0
"""Most seconds that a limit saves: for rows that were in flight when it came, for a full bucket, and for rows after the last commit."""

UNSURE = 2.0
"""Factor by which an estimate without a measurement may be off, in either direction."""

NEARLY = 0.95
"""Shown part of a step that takes longer than estimated: almost done."""

SEEN_EVERY_S = 0.25

COUNTED = (COPY, CATCH_UP)
"""Steps whose progress is committed."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a job at one time."""

    name: str
    state: str
    """Pending, Running or Done."""

    spent_s: float | None
    """Seconds in the step so far, without pauses; `None` if this attempt has not begun it."""

    left: Eta | None
    """Time left of the step; `None` if it is done or unknown."""

    done: float
    """Finished part, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Measured speed of this machine, relative to the guesses. The rate of a copy measures rows, whose width says nothing of fixed costs."""

    fixed: float = 1.0
    """Speed of fixed costs, from the start of the driver."""

    rows: float = 1.0
    """Speed of each row."""

    def scan_s(self, name: str, rows: int) -> float:
        """Return the seconds of the proof or the receipt."""
        return SCAN_S / self.fixed + _share(name) * rows / (ROWS_PER_S * self.rows)

    def times(self, factor: float) -> Speed:
        """Return the speed after a step that took `1 / factor` of its estimate."""
        return Speed(self.fixed * factor, self.rows * factor)


@dataclass(frozen=True, slots=True)
class StepTimeline:
    """Progress of a job through its steps; `seen` updates it."""

    names: tuple[str, ...]
    """The steps of this job, in order."""

    at: str = START
    """The current step; empty if all are done."""

    reached: float = 0.0
    """Percent of the whole job; it never falls."""

    shown: int = 0
    """Percent shown to users, rounded down; it never falls either."""

    steps: tuple[Step, ...] = ()
    estimated: tuple[Step, ...] = ()
    """The steps when the time left of each was last known, less the work done since then."""

    spent: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each step that this attempt was in."""

    seen_s: float = 0.0
    speed: Speed = Speed()

    @property
    def percent(self) -> int:
        """Percent of the whole job, rounded down; 100 is the end. It may be shown once a commit stores it."""
        return int(self.reached) if self.steps and _all_done(self.steps) else min(99, int(self.reached))

    @property
    def eta(self) -> Eta | None:
        """Return the time left of the whole job; `None` if it is unknown, or if nothing is left."""
        left = [step.left for step in self.steps if step.state != "Done"]
        estimates = [eta for eta in left if eta is not None]
        if not left or len(estimates) < len(left):
            return None
        return Eta(
            sum(eta.seconds for eta in estimates), sum(eta.low for eta in estimates), sum(eta.high for eta in estimates)
        )

    def due(self, at: str, now_s: float) -> bool:
        """Return whether an update is due: every `SEEN_EVERY_S`, and at once when the step changes."""
        return at != self.at or now_s - self.seen_s >= SEEN_EVERY_S

    def seen(self, at: str, facts: Facts, now_s: float, *, durable: int = 0) -> StepTimeline:
        """Return the progress updated to now.

        Args:
            at: The current step, empty if all are done.
            facts: Measurements of the job.
            now_s: Monotonic time of the update.
            durable: Percent in the newest durable commit.
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
            before_s = sum(step.left.seconds for step in steps if step.left is not None)
            steps.append(self._step(name, at, facts.later(before_s), spent, speed))
        reached, estimated = self._reached(tuple(steps)), self._known(tuple(steps))
        seen = replace(
            self,
            at=at,
            reached=reached,
            steps=tuple(steps),
            estimated=estimated,
            spent=spent,
            seen_s=now_s,
            speed=speed,
        )
        most = min(seen.percent, durable) if at in COUNTED else seen.percent
        return replace(seen, shown=max(self.shown, most))

    def ahead(self, facts: Facts, rows: int, now_s: float) -> int:
        """Return the percent after a commit of this number of rows. That commit stores it, so it may be shown afterwards."""
        later = replace(facts, rows_left=max(0, facts.rows_left - rows))
        return max(self.shown, self.seen(self.at, later, now_s).percent)

    def _reached(self, steps: tuple[Step, ...]) -> float:
        """Return the percent, with the progress since the last update."""
        if _all_done(steps):
            return 100.0
        left_s = sum(_left_s(step) for step in self.estimated)
        if not left_s:
            return max(self.reached, 0.0 if self.estimated else _percent(steps))
        worked_off_s = sum(_left_s(was) * _gain(was, now) for was, now in zip(self.estimated, steps, strict=True))
        return self.reached + (100 - self.reached) * worked_off_s / left_s

    def _known(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Return the steps with their known time left; work that is done is not counted twice."""
        if not self.estimated:
            return steps if all(step.state == "Done" or step.left is not None for step in steps) else ()
        return tuple(_behind(was, now) for was, now in zip(self.estimated, steps, strict=True))

    def _corrected(self, at: str, facts: Facts, spent: Mapping[str, float]) -> Speed:
        """Return the speed of this machine, from the newest step that measures it."""
        if self.at in (KEY_PROOF, RECEIPT) and at != self.at and facts.rows:
            return self.speed.times(self.speed.scan_s(self.at, facts.rows) / max(spent[self.at], 1e-3))
        # Under a limit, the rate of the copy does not measure the machine.
        if at == COPY and facts.rows_per_s and facts.limit_rows_per_s is None:
            return replace(self.speed, rows=facts.rows_per_s / ROWS_PER_S)
        return self.speed

    def _step(self, name: str, at: str, facts: Facts, spent: Mapping[str, float], speed: Speed) -> Step:
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


def begin(names: Sequence[str], spent: Mapping[str, float], *, percent: int, now_s: float) -> StepTimeline:
    """Return the progress of an attempt that has not fenced yet.

    Args:
        names: The steps ahead, in order.
        spent: Seconds of each step that ran before the job's own clock started.
        percent: Percent that an earlier attempt reached.
        now_s: Monotonic time.
    """
    before = tuple(name for name in STEPS if name in spent and name not in names)
    ordered = (START, *before, *(name for name in names if name != START))
    steps = tuple(Step(name, "Running" if name == START else "Pending", spent.get(name), None, 0.0) for name in ordered)
    speed = Speed().times(1 / slower(spent.get(START, START_S)))
    spent = {START: 0.0, **spent}
    return StepTimeline(
        ordered, reached=float(percent), shown=percent, steps=steps, spent=spent, seen_s=now_s, speed=speed
    )


def slower(start_s: float) -> float:
    """Return the slowness of a machine relative to the guess, from the seconds of its start; at least 1."""
    return min(max(start_s / START_S, 1.0), SLOWER_MAX)


def scan_s(name: str, rows: int, rows_per_s: float = ROWS_PER_S) -> float:
    """Return the seconds of the proof or the receipt, on a machine that copies `rows_per_s`."""
    return Speed(rows=rows_per_s / ROWS_PER_S).scan_s(name, rows)


def _share(name: str) -> float:
    return PROOF_SHARE if name == KEY_PROOF else RECEIPT_SHARE


def copy_s(rows: int, rows_per_s: float, limit_rows_per_s: float | None) -> float:
    """Return the seconds of copying rows at a rate, or at a lower limit."""
    if not rows:
        return 0.0
    return rows / min(rows_per_s, limit_rows_per_s or rows_per_s)


def merge_s(rows: int, rows_per_s: float, limit_rows_per_s: float | None, *, batch_s: float) -> float:
    """Return the seconds of rows that are merged one batch after the other.

    Args:
        rows: Rows left to read.
        rows_per_s: Rows read per second.
        limit_rows_per_s: Limit of rows; a batch then contains the rows of one second.
        batch_s: Target seconds of a batch without a limit, its fixed costs included.
    """
    of_batch = rows_per_s * max(batch_s - BATCH_S, 1.0)
    batches = ceil(rows / min(of_batch, limit_rows_per_s or of_batch))
    return max(copy_s(rows, rows_per_s, limit_rows_per_s), rows / rows_per_s + batches * BATCH_S)


def catch_up_s(versions: int, version_s: float | None) -> float:
    """Return the seconds of applying a number of versions."""
    return 0.0 if not versions else BATCH_S + versions * (VERSION_S if version_s is None else version_s)


def _left(name: str, facts: Facts, spent_s: float, speed: Speed) -> Eta | None:
    match name:
        case "Copy" if facts.copy is not None:
            # A full bucket lets rows pass faster than the limit for a short time.
            least_s = facts.rows_left / facts.limit_rows_per_s if facts.limit_rows_per_s else 0.0
            seconds, high = max(facts.copy.seconds, least_s), max(facts.copy.high, least_s)
            return Eta(seconds, max(facts.copy.low, least_s - UNLIMITED_S), high)
        case "Copy" if facts.limit_rows_per_s:
            seconds = facts.rows_left / facts.limit_rows_per_s
            return Eta(seconds, max(0.0, seconds - UNLIMITED_S), seconds * UNSURE)
        case "Copy" if facts.rows_left and facts.fresh:
            return _unsure(copy_s(facts.rows_left, ROWS_PER_S * speed.rows, None))
        case "Copy" if facts.rows_left:
            return None
        case "Copy" | "Start":
            return Eta(0.0, 0.0, 0.0)
        case "CatchUp":
            # New versions arrive while old ones are applied. The first batch runs on a cold JVM, so it does not measure their cost.
            gained = facts.versions_per_s * (facts.version_s or 0.0) if facts.batches > 1 else 0.0
            return _unsure(catch_up_s(facts.versions_left, facts.version_s) / max(1 - gained, 0.1))
        case _:
            whole_s = speed.scan_s(name, facts.rows)
            return _unsure(max(whole_s - spent_s, whole_s * (1 - NEARLY)))


def _done(name: str, facts: Facts, spent_s: float, speed: Speed) -> float:
    match name:
        case "Copy":
            return 1 - facts.rows_left / facts.rows if facts.rows else 1.0
        case "CatchUp":
            versions = facts.versions_done + facts.versions_left
            return facts.versions_done / versions if versions else 0.0
        case "Start":
            return 0.0
        case _:
            return min(NEARLY, spent_s / speed.scan_s(name, facts.rows))


def _unsure(seconds: float) -> Eta:
    return Eta(seconds, seconds / UNSURE, seconds * UNSURE)


def _all_done(steps: tuple[Step, ...]) -> bool:
    return all(step.state == "Done" for step in steps)


def _left_s(step: Step) -> float:
    return 0.0 if step.left is None else step.left.seconds


def _gain(was: Step, now: Step) -> float:
    """Return the part of a step's missing work that is done by now, 0 to 1."""
    if now.state == "Done":
        return 1.0
    return max(0.0, now.done - was.done) / (1 - was.done) if was.done < 1 else 0.0


def _behind(was: Step, now: Step) -> Step:
    """Return the current step. If its time left is unknown, as in a pause, use the last known time less the work since then."""
    if now.state == "Done":
        return now
    left = now.left
    if left is None and was.left is not None:
        rest = 1 - _gain(was, now)
        left = Eta(was.left.seconds * rest, was.left.low * rest, was.left.high * rest)
    return replace(now, left=left, done=max(was.done, now.done))


def _percent(steps: tuple[Step, ...]) -> float:
    """Weigh each step by its seconds: spent seconds, or seconds projected from the time left; 0 if a step is unknown."""
    made = whole = 0.0
    for step in steps:
        weight = _weight(step)
        if weight is None:
            return 0.0
        whole += weight
        made += weight * step.done
    return 100 * made / whole if whole else 0.0


def _weight(step: Step) -> float | None:
    if step.state == "Done":
        return step.spent_s or 0.0
    if step.left is None:
        return None
    return step.left.seconds / (1 - step.done) if step.done < 1 else step.spent_s or 0.0
