"""What must hold in the simulated world at every step; knows the rules, not the core's insides.

It reads only what a user could read: the target's commits with their stored state, the work that starts, and the
acknowledgements that leave.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from support.simulation.tables import APPEND, CHANGELOG, INSERT, UPSERT, Commit, Row, Target, Upstream

from backfill_core.positions.intervals import IntervalSet
from backfill_core.protocol.messages import (
    Acknowledge,
    ApplyChanges,
    Command,
    Pause,
    ReadSplit,
    Resume,
    Throttle,
    Verified,
)

AHEAD_RATE = 100_000
"""Limit from which on a split is no measure of the rate."""

PHASES = {"Snapshot": 0, "CatchUp": 1, "Live": 2}


class Broken(AssertionError):
    """A promise does not hold; the message says which, the seed is in the test's name."""


def demand(holds: bool, promise: str) -> None:
    """Raise unless it holds."""
    if not holds:
        raise Broken(promise)


@dataclass
class _Rate:
    """A limit that is known to be in force since a moment, and what was read under it."""

    rows_per_s: int
    since_s: float
    rows: int = 0
    overshoot: dict[int, int] = field(default_factory=dict)
    worst: int = 0


class Oracle:
    """Judges one world over all its attempts."""

    def __init__(
        self, upstream: Upstream, target: Target, mode: str, *, filtered: bool, paused: str | None = None
    ) -> None:
        """Watch a world from its beginning, in which the spec pauses `History`, `All` or nothing."""
        self._upstream, self._target = upstream, target
        self._mode, self._filtered = mode, filtered
        self._last: dict[str, Any] | None = None
        self._live: dict[tuple[int, int], tuple[int, int]] = {}
        """Splits under way or staged and not sealed, by (attempt, work id)."""
        self._fenced: set[int] = set()
        self._sealed_paths: set[str] = set()
        self.commands: dict[int, Command] = {}
        """Commands accepted, by revision; those lost in a crash are taken out again."""
        self._attempt = 0
        self._lost: dict[int, dict[int, Command]] = {}
        """Commands that an attempt took and had not sealed when it was lost; its last commit may still land."""
        self._spec_paused = paused
        self._paused = self._held_by_spec
        self._rate: _Rate | None = None
        self.seals = self.merges = self.acks = self.splits = self.receipts = self.proofs = 0
        self._ahead: set[tuple[int, int]] = set()
        """Splits that may have been read ahead."""

        self._held_back = False
        """Was there a command by which the newest attempt may give up what it read ahead?"""

        self.halves = 0
        """Seals that left parts of a split for a later one."""

    # ------------------------------------------------------------------ commits
    def expected(self, state: dict[str, Any]) -> Counter[Row]:
        """Return the rows that a target with this state must hold: the core invariant."""
        progress = state["snapshot"]
        version, upstream = progress["version"], self._upstream
        if progress["phase"] == "Snapshot":
            covered = upstream.covered(version, [(low, high) for low, high in progress["done"]])
            return Counter(self._first_image(version, row) for row in covered)
        if self._mode != CHANGELOG:
            return upstream.view(progress["consumed"])
        rows: Counter[Row] = Counter(self._first_image(version, row) for row in upstream.view(version).elements())
        rows.update(upstream.logged(version, progress["consumed"]))
        return rows

    def _first_image(self, version: int, row: Row) -> Row:
        return (INSERT, version, *row) if self._mode == CHANGELOG else row

    def on_seal(self, commit: Commit, attempt: int, paths: list[str], *, late: bool) -> None:
        """A seal: the target holds what its state says, and the state went forward (R-SNAP-36)."""
        self.seals += 1
        state = json.loads(commit.state or "")
        self._compare(commit.rows, self.expected(state), f"seal of epoch {state['epoch']}")
        demand(commit.txn == attempt << 32 | state["epoch"], "the transaction is not that of the epoch")
        demand(state["attempt"] == attempt, "an attempt sealed under another's number")
        demand(not self._sealed_paths.intersection(paths), "a file was sealed twice")
        self._sealed_paths.update(paths)
        if self._last is not None:
            self._forward(self._last, state)
        self._last = state
        self._fenced.add(attempt)
        done = self._done(state)
        self._live = {id_: span for id_, span in self._live.items() if done.gaps(*span).size}
        self.halves += any(0 < done.gaps(*span).size < span[1] - span[0] for span in self._live.values())
        if late:
            revision = state["controls"].get("revision", 0)
            self.commands |= {one: command for one, command in self._lost.get(attempt, {}).items() if one <= revision}
        self._check_controls(state)

    def _forward(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        old, new = before["snapshot"], after["snapshot"]
        demand(after["epoch"] > before["epoch"], "an epoch came twice")
        demand(after["attempt"] >= before["attempt"], "an old attempt sealed after a newer one")
        demand(new["version"] == old["version"], "the pinned version changed (R-SNAP-8)")
        demand(all(self._done(after).covers(*span) for span in old["done"]), "sealed rows were forgotten")
        demand(new["consumed"] >= old["consumed"], "a consumed version was forgotten (R-SNAP-38)")
        demand(PHASES[new["phase"]] >= PHASES[old["phase"]], "the phase went back")
        for counter in ("rowsDone", "changesDone", "bytesDone"):
            demand(after[counter] >= before[counter], f"{counter} went back (R-SNAP-44)")
        demand(not before["finished"], "a finished job sealed again")
        demand(after["controls"].get("revision", 0) >= before["controls"].get("revision", 0), "a command was forgotten")

    @staticmethod
    def _done(state: dict[str, Any]) -> IntervalSet:
        return IntervalSet.from_json(state["snapshot"]["done"])

    def on_merge(self, commit: Commit, work: ApplyChanges) -> None:
        """A MERGE: it was announced by the newest seal, and the target is the view of its last version."""
        self.merges += 1
        stored = json.loads(commit.state or "")["snapshot"]
        demand(stored["merging"] is not None, "a MERGE was not announced")
        demand(stored["merging"]["txn"] == work.txn_version == commit.txn, "a MERGE ran under another number")
        demand((stored["consumed"], stored["merging"]["upto"]) == (work.after, work.upto), "not the announced MERGE")
        self._compare(commit.rows, self._upstream.view(work.upto), f"MERGE up to {work.upto}")

    @staticmethod
    def _compare(found: Counter[Row], wanted: Counter[Row], where: str) -> None:
        if found != wanted:
            missing, surplus = wanted - found, found - wanted
            raise Broken(f"{where}: missing {sorted(missing.elements())[:5]}, surplus {sorted(surplus.elements())[:5]}")

    # ------------------------------------------------------------------ work
    def on_start(self, attempt: int, work: object, now_s: float, in_flight: int) -> None:
        """Work starts: after the fence, against no command, and for rows that nobody has or reads."""
        demand(attempt in self._fenced, "work started before the fence was durable")
        state = self._last
        assert state is not None
        if isinstance(work, ReadSplit):
            demand(self._paused is None, "a split started while paused (R-SNAP-43)")
            self._check_fresh(attempt, work, self._done(state))
            limited = self._rate is not None
            demand(in_flight <= 4, f"{in_flight} splits in flight{' under a limit' if limited else ''}")
            self.splits += 1
            self._check_rate(attempt, work, now_s)
        if isinstance(work, ApplyChanges):
            demand(not (self._paused and self._paused.everything), "a change batch started while all is paused")
            demand(work.upto > work.after, "an empty change batch")
            if self._mode == UPSERT:
                demand(state["snapshot"]["phase"] != "Snapshot", "changes before the snapshot is sealed (R-SNAP-9)")

    def _check_fresh(self, attempt: int, work: ReadSplit, done: IntervalSet) -> None:
        span = (work.start, work.stop)
        demand(work.start < work.stop, "an empty split")
        demand(done.gaps(*span).size == work.stop - work.start, "sealed rows are read again (R-SNAP-37)")
        for (other, number), (start, stop) in self._live.items():
            overlaps = other == attempt and start < work.stop and work.start < stop
            # What was read ahead of a limit is given up by a pause or a low limit (ADR 0018).
            given_up = (other, number) in self._ahead and self._held_back
            demand(not overlaps or given_up, "rows are read twice in one attempt")
        self._live[attempt, work.work_id] = span
        if self._rate is None or self._rate.rows_per_s >= AHEAD_RATE:
            self._ahead.add((attempt, work.work_id))

    def on_lost(self, attempt: int, work_id: int) -> None:
        """Work failed or was cancelled: its rows may be read again."""
        self._live.pop((attempt, work_id), None)

    def _check_rate(self, attempt: int, work: ReadSplit, now_s: float) -> None:
        rate = self._rate
        if rate is None:
            return
        demand(rate.rows_per_s > 0, "a split started at rate 0 (R-SNAP-41)")
        if rate.rows_per_s >= AHEAD_RATE:
            # What is read ahead is charged when it is sealed: tests/core/strategies/snapshot/test_prefetch.py looks at the rate.
            return
        charged = work.stop - work.start
        version = (self._last or {})["snapshot"]["version"]
        read = charged if self._filtered else len(self._upstream.read(version, work.pieces))
        rate.rows += read
        rate.overshoot[work.work_id] = max(0, read - charged)
        rate.worst = max(rate.worst, read - charged)
        slack = sum(rate.overshoot.values()) + rate.worst
        limit = rate.rows_per_s * (now_s - rate.since_s) + rate.rows_per_s * 1.2 + 2 + slack
        demand(rate.rows <= limit, f"{rate.rows} rows against {limit:.1f} at {rate.rows_per_s}/s (R-SNAP-41)")

    def on_staged(self, work_id: int) -> None:
        """A split answered: what it read too much was charged."""
        if self._rate is not None:
            self._rate.overshoot.pop(work_id, None)

    # ------------------------------------------------------------------ commands
    def on_command(self, revision: int, command: Command, *, accepted: bool) -> None:
        """A command is handed in; whatever it undoes is no longer demanded."""
        if not accepted:
            return
        self.commands[revision] = command
        self._held_back = self._held_back or isinstance(command, Pause | Throttle)
        if isinstance(command, Resume | Pause):
            self._paused = None
        if isinstance(command, Throttle):
            self._rate = None

    def on_ack(self, ack: Acknowledge, now_s: float) -> None:
        """An acknowledgement leaves: what it says must be durable already."""
        self.acks += 1
        if ack.outcome != "Applied":
            return
        stored = (self._last or {}).get("controls", {}).get("revision", 0)
        demand(stored >= ack.revision, f"revision {ack.revision} was acknowledged, {stored} is sealed")
        newest = max(self.commands, default=0)
        command = self.commands.get(ack.revision)
        pauses = [revision for revision, one in self.commands.items() if isinstance(one, Pause | Resume)]
        if isinstance(command, Pause) and ack.revision == max(pauses):
            self._paused = command
        rates = [revision for revision, one in self.commands.items() if isinstance(one, Throttle)]
        if isinstance(command, Throttle) and ack.revision == max(rates) and command.for_s is None:
            limited = command.rows_per_s is not None
            self._rate = _Rate(command.rows_per_s or 0, now_s) if limited else None
        demand(ack.revision <= newest, "a revision nobody sent was acknowledged")

    def _check_controls(self, state: dict[str, Any]) -> None:
        """The stored controls are the sum of the commands up to the stored revision."""
        revision = state["controls"].get("revision", 0)
        paused = self._spec_paused
        for _, command in sorted(item for item in self.commands.items() if item[0] <= revision):
            if isinstance(command, Pause):
                paused = "All" if command.everything else "History"
            elif isinstance(command, Resume):
                paused = None
        demand(state["controls"].get("paused") == paused, f"stored pause is not that of revision {revision}")

    @property
    def _held_by_spec(self) -> Pause | None:
        """Return what holds while nobody has commanded."""
        return None if self._spec_paused is None else Pause(everything=self._spec_paused == "All")

    @property
    def paused(self) -> Pause | None:
        """Return the pause that is known to be in force."""
        return self._paused

    def on_quiet_due(self, pause: Pause, running: list[object]) -> None:
        """The budget of an acknowledged pause is over: what it holds has ended or is being cancelled."""
        if self._paused is not pause:
            return
        held = (ReadSplit, ApplyChanges) if pause.everything else (ReadSplit,)
        demand(not any(isinstance(work, held) for work in running), "work goes on after the budget of a pause")

    # ------------------------------------------------------------------ ends
    def on_reopen(self, attempt: int) -> None:
        """An attempt begins; the one before it is gone, and with it what it had not sealed."""
        stored = (self._last or {}).get("controls", {}).get("revision", 0)
        lost = {revision: one for revision, one in self.commands.items() if revision > stored}
        self._lost.setdefault(self._attempt, {}).update(lost)
        self.commands = {revision: one for revision, one in self.commands.items() if revision <= stored}
        self._attempt = attempt
        self._live = {}
        # A command that is in force from the start, or that runs out.
        self._held_back = self._spec_paused is not None or bool(self.commands)
        self._rate = None
        pauses = [one for _, one in sorted(self.commands.items()) if isinstance(one, Pause | Resume)]
        last = pauses[-1] if pauses else self._held_by_spec
        self._paused = last if isinstance(last, Pause) else None

    def on_verified(self, result: Verified) -> None:
        """A receipt in a world where nobody else writes is always equal."""
        self.receipts += 1
        receipt = result.receipt
        demand(
            receipt.equal, f"a receipt of source {receipt.source_version} and target {receipt.target_version} differs"
        )

    def on_key_proven(self, target_version: int) -> None:
        """The proof is about the snapshot alone: a MERGE before it may have hidden two rows with one key."""
        demand(self.merges == 0, "the key was proven after a MERGE")
        state = json.loads(self._target.commits[target_version].state or "")
        demand(state["snapshot"]["phase"] != "Snapshot", "the key was proven before all of the snapshot was there")
        self.proofs += 1

    def on_complete(self, *, verify_final: bool) -> None:
        """The end: the stored state says so, and the target is the source as of `consumed`."""
        state = self._last
        assert state is not None
        demand(state["finished"], "complete, but the stored state does not say so")
        demand(state["snapshot"]["phase"] == "Live", "complete before it had caught up")
        self._compare(self._target.newest.rows, self.expected(state), "the end")
        demand(not verify_final or state["receipt"] is not None, "complete without the receipt that was asked for")
        if verify_final:
            (end,) = (one for one in self._target.commits if one.kind == "seal" and json.loads(one.state)["finished"])
            others = [one.version for one in self._target.others_after(state["receipt"]["targetVersion"])]
            demand(all(one > end.version for one in others), "complete with a receipt that knows less than the target")
        if self._mode == APPEND:
            demand(max(self._target.newest.rows.values(), default=1) == 1, "a row was doubled")
