"""Laws of the simulated world at every step, for any strategy.

The oracle reads only data that a user could read: the target's commits with their state, started work, and sent
acknowledgements. The strategy's model interprets its stored form and its work.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from support.simulation.hidden import PublicationOracle
from support.simulation.knobs.rescaled import DEFAULT, WidthOracle
from support.simulation.law import demand
from support.simulation.model import Model, Progress, Promise
from support.simulation.region import Region
from support.simulation.scenario import Scenario
from support.simulation.tables import APPEND, Commit, Row, Target

from backfill_api.model import member_of
from backfill_core.job.controls import ALL, HISTORY
from backfill_core.job.state import JobState
from backfill_core.protocol.actions import Acknowledge
from backfill_core.protocol.commands import Command, Pause, Resume, Throttle
from backfill_core.protocol.work import Verified, Work, WorkKind

COUNTS = ("rowsDone", "changesDone", "bytesDone")


@dataclass(frozen=True, slots=True)
class StoredState:
    """One state of a target: the job's part, and the strategy's part as JSON."""

    job: JobState
    progress: Progress
    counts: Mapping[str, int]
    """Counts from the JSON text: an attempt's decoding of them may be wrong."""

    @classmethod
    @lru_cache(maxsize=64)
    def read(cls, text: str | None) -> StoredState:
        """Read a commit's state; the checks of one commit read it several times."""
        job, document = JobState.decode(text or ""), json.loads(text or "")
        return cls(job, document[member_of(job.strategy)], {name: document[name] for name in COUNTS})


@dataclass
class _Rate:
    """A limit that has surely been in force since a time, and the rows read under it."""

    rows_per_s: int
    since_s: float
    rows: int = 0
    overshoot: dict[int, int] = field(default_factory=dict)
    worst: int = 0


class Oracle:
    """Judges one world over all its attempts."""

    def __init__(self, model: Model, target: Target, given: Scenario) -> None:
        """Watch a world from its beginning."""
        self._model, self._target, self._given = model, target, given
        self._last: StoredState | None = None
        self._live: dict[tuple[int, int], Region] = {}
        """Positions in flight or staged and not sealed, by (attempt, work id)."""

        self._begun: set[tuple[int, int]] = set()
        self._fenced: set[int] = set()
        self._sealed_paths: set[str] = set()
        self.commands: dict[int, Command] = {}
        """Accepted commands, by revision; those lost in a crash are removed again."""

        self._heard: set[int] = set()
        """Revisions that the newest attempt accepted itself."""

        self._unheard: set[int] = set()
        """Revisions in no state: a late commit of an older attempt, which did not receive them, had a later revision."""

        self._attempt = 0
        self._lost: dict[int, dict[int, Command]] = {}
        """Commands that a lost attempt took and had not sealed; its last commit may still land."""

        self._paused = self._held_by_spec
        self._rate: _Rate | None = None
        self.seals = self.merges = self.acks = self.splits = self.batches = self.receipts = self.proofs = 0
        self.anew = self._merges_before = 0
        """Attempts that removed the rows of the previous one, and the MERGEs until then."""

        self._dropped = False
        """True if the rows were removed since the last seal."""

        self._ahead: set[tuple[int, int]] = set()
        """History work that may have been read ahead."""

        self._held_back = False
        """True if a command lets the newest attempt give up rows that it read ahead."""

        self._refreshes = False
        self.beside = 0
        """Seals of only a state, during a MERGE."""

        self.publication = PublicationOracle(target, given)
        self.width = WidthOracle(given, model.chunk_rows, fixed=given.mode in model.FIXED_WIDTH_MODES)
        self.quarantined = 0
        """Bad records in their separate table."""

        self.full = 0
        """Starts of history that keep all readers busy, for a job with more readers than the default."""

        self.halves = 0
        """Seals that left parts of a piece of work for a later one."""

    # ------------------------------------------------------------------ commits
    def on_seal(self, commit: Commit, attempt: int, paths: list[str], *, late: bool) -> None:
        """Check a seal: the target holds the rows of its state, and the state went forward (R-SNAP-36)."""
        self.seals += 1
        state = StoredState.read(commit.state)
        rows = commit.rows + self.publication.hidden(state.job, commit)
        self._compare(rows, self._model.expected(state.progress), f"seal of epoch {state.job.epoch}")
        if commit.kind == "state":
            self.beside += 1
            demand(
                self._last is not None and state.progress == self._last.progress,
                "rows moved in a commit of only a state",
            )
        else:
            demand(commit.txn == attempt << 32 | state.job.epoch, "the transaction is not that of the epoch")
        demand(state.job.attempt == attempt, "an attempt sealed under another's number")
        demand(not self._sealed_paths.intersection(paths), "a file was sealed twice")
        self._sealed_paths.update(paths)
        if self._last is not None:
            self._follow(self._last, state)
        self._last = state
        self._fenced.add(attempt)
        held = self._model.held(state.progress)
        self._live = {id_: taken for id_, taken in self._live.items() if not taken.within(held)}
        self.halves += any(taken.common(held) for taken in self._live.values())
        if late:
            lost, revision = self._lost.get(attempt, {}), state.job.controls.revision
            if attempt < self._attempt:
                self._unheard |= {revision_ for revision_ in self._heard if revision_ <= revision}
            self.commands |= {revision_: command for revision_, command in lost.items() if revision_ <= revision}
        self._check_controls(state.job)
        if not late:
            self.width.check_stored(state.job, {number: self.commands[number] for number in sorted(self._heard)})

    def on_sealed(self, text: str, quarantine: Target) -> None:
        """Check an answered commit: its bad records are in their table, each once, and the state has their number."""
        state = StoredState.read(text)
        rows = quarantine.newest.rows
        self._compare(rows, self._model.quarantined(state.progress), f"bad records of epoch {state.job.epoch}")
        demand(rows.total() == state.job.quarantine.rows, "the state has another number of bad records")
        self.quarantined = rows.total()

    def _follow(self, before: StoredState, after: StoredState) -> None:
        old, new = before.job, after.job
        demand(new.epoch > old.epoch, "an epoch came twice")
        demand(new.attempt >= old.attempt, "an old attempt sealed after a newer one")
        demand(new.controls.revision >= old.controls.revision, "a command was forgotten")
        if self._dropped:
            self.anew, self._merges_before, self._dropped = self.anew + 1, self.merges, False
            return
        demand(not old.finished or self._refreshes, "a finished job sealed again")
        self._model.check_forward(before.progress, after.progress)
        held = self._model.held(after.progress)
        demand(self._model.held(before.progress).within(held), "sealed positions were forgotten (R-SNAP-38)")
        for name in COUNTS:
            demand(after.counts[name] >= before.counts[name], f"{name} went back (R-SNAP-44)")

    def on_refresh(self) -> None:
        """Record that a finished job runs again: it may seal again."""
        self._refreshes = True

    def on_drop(self) -> None:
        """Record that all rows were removed: earlier seals no longer count."""
        self._dropped = True

    def on_merge(self, commit: Commit, work: Work) -> None:
        """Check a MERGE: the newest seal announced it, and it brings the target to the announced version."""
        self.merges += 1
        state = StoredState.read(commit.state)
        demand(not state.job.finished, "a MERGE ran under a finished state")
        announced = state.progress
        self._compare(commit.rows, self._model.check_merge(announced, work, commit.txn), f"MERGE of {work}")

    @staticmethod
    def _compare(actual: Counter[Row], promise: Promise, where: str) -> None:
        missing, surplus = promise.missing(actual), promise.surplus(actual)
        demand(not missing and not surplus, f"{where}: missing {missing[:5]}, surplus {surplus[:5]}")

    # ------------------------------------------------------------------ work
    def on_start(self, attempt: int, work: Work, now_s: float, in_flight: int) -> None:
        """Check that work starts after the fence (R-CHAIN-1), against no command, at positions that are neither held nor in flight."""
        demand(attempt in self._fenced, "work started before the fence was durable")
        demand((attempt, work.work_id) not in self._begun, "a work id was used twice")
        self._begun.add((attempt, work.work_id))
        assert self._last is not None
        kind, progress = work.kind, self._last.progress
        if kind is WorkKind.CHECK:
            return
        self._check_fresh(attempt, work, self._model.held(progress))
        self._model.check_start(progress, work)
        if kind is WorkKind.HISTORY:
            demand(self._paused is None, "history started while paused (R-SNAP-43)")
            limited = " under a limit" if self._rate else ""
            readers = self.width.check_start(work)
            most = readers if self._given.never_limited else self._model.IN_FLIGHT_MAX * readers // DEFAULT
            demand(in_flight <= most, f"{in_flight} pieces of history in flight{limited}, for {readers} readers")
            self.full += in_flight >= readers > DEFAULT
            self.splits += 1
            self._check_rate(work, now_s)
        else:
            demand(not (self._paused and self._paused.everything), "changes started while everything is paused")
            self.batches += 1

    def _check_fresh(self, attempt: int, work: Work, held: Region) -> None:
        taken = self._model.taken(work)
        demand(taken.size > 0, "work about nothing started")
        demand(not taken.common(held), "sealed positions are read again (R-SNAP-37)")
        for (other, number), under_way in self._live.items():
            # A pause or a low limit gives up rows that were read ahead of a limit (ADR 0026).
            given_up = (other, number) in self._ahead and self._held_back
            overlaps = other == attempt and under_way.common(taken)
            demand(not overlaps or given_up, "positions are read twice in one attempt")
        self._live[attempt, work.work_id] = taken
        if self._rate is None or self._charged_late(self._rate):
            self._ahead.add((attempt, work.work_id))

    def on_shortened(self, attempt: int, work: Work) -> None:
        """Record that a piece of work ended early: it takes no more than this."""
        if (attempt, work.work_id) in self._live:
            self._live[attempt, work.work_id] = self._model.taken(work)

    def on_lost(self, attempt: int, work_id: int) -> None:
        """Record that work failed or was cancelled: its positions may be read again."""
        self._live.pop((attempt, work_id), None)

    def _charged_late(self, rate: _Rate) -> bool:
        """Return whether history is charged when it is sealed, at this limit; then its start is no measure of the rate."""
        return self._model.AHEAD_RATE is not None and rate.rows_per_s >= self._model.AHEAD_RATE

    def _check_rate(self, work: Work, now_s: float) -> None:
        rate = self._rate
        if rate is None:
            return
        demand(rate.rows_per_s > 0, "history started at rate 0 (R-SNAP-41)")
        if self._charged_late(rate):
            return
        assert self._last is not None
        cost = self._model.cost(self._last.progress, work)
        rate.rows += cost.read
        rate.overshoot[work.work_id] = max(0, cost.read - cost.charged)
        rate.worst = max(rate.worst, cost.read - cost.charged)
        slack = sum(rate.overshoot.values()) + rate.worst
        limit = rate.rows_per_s * (now_s - rate.since_s) + rate.rows_per_s * 1.2 + 2 + slack
        demand(rate.rows <= limit, f"{rate.rows} rows against {limit:.1f} at {rate.rows_per_s}/s (R-SNAP-41)")

    def on_staged(self, work_id: int) -> None:
        """Record that history work answered: its excess rows were charged."""
        if self._rate is not None:
            self._rate.overshoot.pop(work_id, None)

    # ------------------------------------------------------------------ commands
    def on_command(self, revision: int, command: Command, *, accepted: bool) -> None:
        """Record a command; rules that it lifts are no longer demanded."""
        if not accepted:
            return
        if revision <= self._stored_revision:
            # The attempt was opened before a late commit of an older one, which it cannot know; it commits no more.
            return
        self.commands[revision] = command
        self._heard.add(revision)
        self._unheard.discard(revision)
        self._held_back = self._held_back or isinstance(command, Pause | Throttle)
        self.width.on_command(command)
        if isinstance(command, Resume | Pause):
            self._paused = None
        if isinstance(command, Throttle):
            self._rate = None

    def on_ack(self, ack: Acknowledge, now_s: float) -> None:
        """Check an acknowledgement: its command must already be durable (R-SNAP-35)."""
        self.acks += 1
        if ack.outcome != "Applied":
            return
        stored = self._stored_revision
        demand(stored >= ack.revision, f"revision {ack.revision} was acknowledged, {stored} is sealed")
        command = self.commands.get(ack.revision)
        if ack.revision in self._heard:
            self.width.on_ack(command, [entry for revision, entry in self.commands.items() if revision > ack.revision])
        pauses = [revision for revision, entry in self.commands.items() if isinstance(entry, Pause | Resume)]
        if isinstance(command, Pause) and ack.revision == max(pauses):
            self._paused = command
        rates = [revision for revision, entry in self.commands.items() if isinstance(entry, Throttle)]
        if isinstance(command, Throttle) and ack.revision == max(rates) and command.for_s is None:
            self._rate = None if command.rows_per_s is None else _Rate(command.rows_per_s, now_s)
        demand(ack.revision <= max(self.commands, default=0), "a revision that was never sent was acknowledged")

    @property
    def _stored_revision(self) -> int:
        return 0 if self._last is None else self._last.job.controls.revision

    def _check_controls(self, state: JobState) -> None:
        """Check that the stored controls are the sum of the commands up to the stored revision."""
        revision = state.controls.revision
        paused = self._given.paused
        taken = {number for number in self.commands if number <= revision} - self._unheard
        for command in (self.commands[number] for number in sorted(taken)):
            if isinstance(command, Pause):
                paused = ALL if command.everything else HISTORY
            elif isinstance(command, Resume):
                paused = None
        demand(state.controls.paused == paused, f"stored pause is not that of revision {revision}")

    @property
    def _held_by_spec(self) -> Pause | None:
        """Return the pause that holds before the first command."""
        return None if self._given.paused is None else Pause(everything=self._given.paused == ALL)

    @property
    def paused(self) -> Pause | None:
        """Return the pause that is surely in force."""
        return self._paused

    def on_quiet_due(self, pause: Pause, running: list[Work]) -> None:
        """Check, after the budget of an acknowledged pause, that the paused work has ended or is being cancelled."""
        if self._paused is not pause:
            return
        held = (WorkKind.HISTORY, WorkKind.CHANGES) if pause.everything else (WorkKind.HISTORY,)
        demand(not any(work.kind in held for work in running), "work continues after the budget of a pause")

    # ------------------------------------------------------------------ ends
    def on_reopen(self, attempt: int, now_s: float) -> None:
        """Begin an attempt; the previous one is gone, with everything that it had not sealed."""
        stored = self._stored_revision
        lost = {revision: command for revision, command in self.commands.items() if revision > stored}
        # Two attempts that open before either has sealed have one number. Once the second has sealed, no commit of the first
        # can land.
        earlier = {} if self._attempt in self._fenced else self._lost.get(self._attempt, {})
        self._lost[self._attempt] = earlier | lost
        self.commands = {revision: command for revision, command in self.commands.items() if revision <= stored}
        self._heard.clear()
        self._attempt = attempt
        self._live = {}
        # A command that is in force from the start, or that expires.
        self._held_back = self._given.paused is not None or bool(self.commands) or self._given.auto
        self._rate = self._stored_rate(now_s)
        self.width.on_reopen(attempt, None if self._last is None else self._last.job)
        pauses = [command for _, command in sorted(self.commands.items()) if isinstance(command, Pause | Resume)]
        last = pauses[-1] if pauses else self._held_by_spec
        self._paused = last if isinstance(last, Pause) else None

    def _stored_rate(self, now_s: float) -> _Rate | None:
        """Return the limit that is in force from the start: that of the last command, or of the spec."""
        limits = [command for _, command in sorted(self.commands.items()) if isinstance(command, Throttle)]
        last = limits[-1] if limits else Throttle(self._given.rows_per_s)
        # The expiry of a limit with an end is unknown here.
        return None if last.rows_per_s is None or last.for_s is not None else _Rate(last.rows_per_s, now_s)

    def on_verified(self, result: Verified) -> None:
        """Check that a receipt is equal: no other writer changes rows in this world."""
        self.receipts += 1
        receipt = result.receipt
        versions = f"source {receipt.source_version} and target {receipt.target_version}"
        demand(receipt.equal, f"a receipt of {versions} differs")

    def on_key_proven(self, target_version: int) -> None:
        """Check the proof that the key of a target version is unique."""
        progress = StoredState.read(self._target.commits[target_version].state).progress
        self._model.check_key_proof(progress, self.merges - self._merges_before)
        self.proofs += 1

    def on_complete(self) -> None:
        """Check the end: the stored state is finished, and the target holds its rows."""
        state = self._last
        assert state is not None
        demand(state.job.finished, "complete, but the stored state is not finished (R-PROG-3)")
        demand(bool(self.publication.published) == self._given.hidden, "complete with rows that no reader sees")
        self._model.check_end(state.progress)
        self._compare(self._target.newest.rows, self._model.expected(state.progress), "the end")
        if self._given.verify_final:
            self._check_last_receipt(state.job)
        if self._given.mode == APPEND:
            demand(max(self._target.newest.rows.values(), default=1) == 1, "a row was doubled")

    def _check_last_receipt(self, state: JobState) -> None:
        """Check the last receipt: other writers may change the target after the end, but not between its receipt and its end."""
        demand(state.receipt is not None, "complete without the requested receipt")
        assert state.receipt is not None
        seals = (commit for commit in self._target.commits if commit.kind in ("seal", "state"))
        *_, end = (commit for commit in seals if StoredState.read(commit.state).job.finished)
        foreign = [commit.version for commit in self._target.others_after(state.receipt.target_version)]
        demand(
            all(commit > end.version for commit in foreign),
            "complete with a receipt that is older than a foreign commit",
        )
