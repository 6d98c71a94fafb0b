"""The page about a driver's state machines: diagrams from running the machines, tables from their modules."""

import copy
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from backfill_core.errors import DuplicateKeyError, TargetChangedError, TransientError
from backfill_core.job import commands, commit, phase, source_watch
from backfill_core.job.job import Job
from backfill_core.job.phase import JobSettings
from backfill_core.job.state import JobState
from backfill_core.phases import key_proof, replay
from backfill_core.phases.change_batch import ChangeMode
from backfill_core.phases.replay import Replay
from backfill_core.protocol.actions import Action, CancelWork, PollSource, StartWork
from backfill_core.protocol.clock import Now
from backfill_core.protocol.commands import Stop
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import (
    CommandReceived,
    Event,
    Head,
    Sealed,
    SealFailed,
    SourcePolled,
    StopRequested,
    Tick,
    WorkCancelled,
    WorkFailed,
    WorkFinished,
)
from backfill_core.protocol.receipt import TableReceipt, VnodeMismatch
from backfill_core.protocol.strategy import Opened, Permits, Pinned
from backfill_core.protocol.work import (
    ApplyChanges,
    ChangesApplied,
    KeyProven,
    ReadSplit,
    Result,
    SplitStaged,
    StagedFile,
    Verified,
    Verify,
    Work,
)
from backfill_core.strategies.rearranged_chain import strategy as rearranged_chain
from backfill_core.strategies.replica import strategy as replica
from backfill_core.strategies.snapshot import strategy
from backfill_core.strategies.snapshot.params import SnapshotSettings
from backfill_core.strategies.snapshot.strategy import snapshot

ROOT = Path(__file__).parent.parent
DRIVER_FILE = ROOT / "docs" / "driver-lifecycle.md"
WALL_MS = 1_800_000_000_000
AWAY, DOUBLED = TransientError("away"), DuplicateKeyError("doubled")
ROWS = 10

Edges = dict[tuple[str, str], set[str]]


class Walker:
    """A job with the state of its shell: the work in progress, and the number of its newest commit."""

    def __init__(self, *, verify_final: bool) -> None:
        """Start before the fence."""
        pinned = Pinned(3, WALL_MS, "table", "files", (ROWS,), ROWS)
        made = snapshot(Opened(pinned, proves_key=True), SnapshotSettings(merges=True, filtered=False))
        settings = JobSettings(verify_final=verify_final)
        self.now_s, self._verify_final = 0.0, verify_final
        self.work: dict[int, Work] = {}
        self.polls = 0
        """Number of polls without a result."""

        self.job = Job(JobState("a/b", "h", 1, 0, "Snapshot"), made, settings, self.now)
        self._take(self.job.start(self.now))

    @property
    def now(self) -> Now:
        """The current time."""
        return Now(self.now_s, WALL_MS + round(self.now_s * 1000))

    def send(self, event: Event) -> None:
        """Send an event to the job; only a tick takes time, enough for a barrier and for every deadline."""
        if isinstance(event, Tick):
            self.now_s += 1.1
        self.polls -= isinstance(event, SourcePolled)
        work_id = event.result.work_id if isinstance(event, WorkFinished) else getattr(event, "work_id", 0)
        self.work.pop(work_id, None)
        self._take(self.job.on(event, self.now))

    def _take(self, actions: tuple[Action, ...]) -> None:
        self.work |= {action.work.work_id: action.work for action in actions if isinstance(action, StartWork)}
        self.polls += sum(isinstance(action, PollSource) for action in actions)
        cancelled = [action.work_id for action in actions if isinstance(action, CancelWork)]
        for work_id in cancelled:
            if self.work.pop(work_id, None):
                self._take(self.job.on(WorkCancelled(work_id), self.now))

    def key(self) -> tuple[Any, ...]:
        """Return the values that distinguish two jobs in the exploration, without numbers that only grow."""
        view, kinds = self.job.view(self.now), sorted(type(work).__name__ for work in self.work.values())
        return (
            self._verify_final, repr(type(self.job.phase)), phase.stop_in(self.job.phase) is not None, type(self.job.commit).__name__, tuple(kinds),
            view.strategy.phase, view.strategy.caught_up, view.strategy.head is not None, view.strategy.lag_versions,
            self.polls, view.course.at, view.stopping, view.receipt is None, "trying" in view.reason, min(getattr(self.job.commit, "failures", 0), 1),
        )  # fmt: skip

    def events(self) -> Iterator[tuple[str, Event]]:
        """Yield the possible next events, each with its label."""
        yield "time passes", Tick()
        if self.polls:
            yield "the source is polled", SourcePolled(Head(3, WALL_MS))
            yield "the source is polled", SourcePolled(Head(4, WALL_MS))
        yield "stop", CommandReceived(1, 1, Stop())
        yield "stop", StopRequested()
        flight = commit.under_way(self.job.commit)
        if isinstance(self.job.commit, commit.Committing) and flight is not None:
            epoch, version = flight.action.epoch, flight.action.epoch
            yield "the commit is durable", Sealed(epoch, version, 0.1)
            yield "the commit fails", SealFailed(epoch, AWAY)
            yield "the commit fails for good", SealFailed(epoch, DOUBLED)
            if flight.action.compared is not None:
                yield (
                    "another writer changed the target",
                    SealFailed(epoch, TargetChangedError("others", commits=(), newest=version)),
                )
        for work_id, work in self.work.items():
            for label, result in _results(work):
                yield label, WorkFinished(result)
            yield "work fails", WorkFailed(work_id, AWAY)
            yield "work fails for good", WorkFailed(work_id, DOUBLED)


def _results(work: Work) -> Iterator[tuple[str, Result]]:
    match work:
        case ReadSplit():
            yield "work is done", SplitStaged(work.work_id, (StagedFile("s", 1, work.stop - work.start),))
        case ApplyChanges():
            yield "work is done", ChangesApplied(work.work_id, 1)
        case Verify():
            receipt = TableReceipt(work.position, work.target_version, work.epoch, 1, 1, "", (), 0.1)
            yield "both sides are equal", Verified(work.work_id, receipt)
            other = TableReceipt(
                work.position, work.target_version, work.epoch, 1, 1, "", (VnodeMismatch(0, 1, 2),), 0.1
            )
            yield "both sides differ", Verified(work.work_id, other)
        case _:
            yield "work is done", KeyProven(work.work_id)


def explore() -> tuple[Edges, Edges]:
    """Explore all transitions from a new job; return those of its phases and those of its commit in flight."""
    phases: Edges = defaultdict(set)
    commits: Edges = defaultdict(set)
    todo, explored = [Walker(verify_final=verify_final) for verify_final in (False, True)], set[tuple[Any, ...]]()
    while todo:
        before = todo.pop()
        for label, event in before.events():
            after = copy.deepcopy(before)
            after.send(event)
            _note(phases, _phase(before), _phase(after), label)
            _note(commits, type(before.job.commit).__name__, type(after.job.commit).__name__, label)
            if not isinstance(after.job.phase, phase.Over) and (key := after.key()) not in explored:
                explored.add(key)
                todo.append(after)
    return phases, commits


def _phase(walker: Walker) -> str:
    here = walker.job.phase
    return here.finish.outcome if isinstance(here, phase.Over) else type(here).__name__


def _note(edges: Edges, before: str, after: str, label: str) -> None:
    if before != after:
        edges[before, after].add(label)


def explore_batch() -> Edges:
    """Explore a replay; return the transitions of its batch."""
    edges: Edges = defaultdict(set)
    now, epoch, ids = Now(0.0, WALL_MS), Epoch(1, 5), count(1)
    permits = Permits(history=True, changes=True, checks=True, epoch=epoch, first_id=1)
    first = Replay(3, mode=ChangeMode.MERGED, follow=True, batch_target_s=10.0)
    first.poll(SourcePolled(Head(9, WALL_MS)))
    steps: dict[str, Callable[[Replay], object]] = {
        "a commit announces it": lambda machine: machine.announce(epoch),
        "a commit revokes it": lambda machine: machine.announce(None),
        "that commit is durable": lambda machine: machine.propose(permits, ids, now, dirty=False),
        "its work is done": lambda machine: machine.finish(ChangesApplied(_work_id(machine), 1), now),
        "its work is lost": lambda machine: machine.lose(_work_id(machine)),
        "a commit includes it": lambda machine: machine.take_applied(),
    }
    todo, explored = [first], {_batch(first)}
    while todo:
        before = todo.pop()
        for label, step in steps.items():
            after = copy.deepcopy(before)
            step(after)
            _note(edges, _batch(before), _batch(after), label)
            if _batch(after) not in explored:
                explored.add(_batch(after))
                todo.append(after)
    return edges


def _work_id(machine: Replay) -> int:
    return machine.batch.work_id if isinstance(machine.batch, replay.RunningBatch) else 0


def _batch(machine: Replay) -> str:
    return "Idle" if machine.batch is None else type(machine.batch).__name__


# ------------------------------------------------------------------ the page
INTRODUCTION = """\
<!-- Generated by build-tools/driver_page.py (`make docs`); do not edit. -->
# State machines of a driver

The core of a driver takes one event at a time and returns actions
([`backfill_core.job`](../spark_app/backfill_core/job/job.py)). It consists of small state machines. The diagrams on this page are
generated from them; the tables come from their modules.
"""
TABLE = re.compile(r"^(\S.*)\n(-{3,}(?: +-{3,})+)\n((?:.+\n?)+)", flags=re.MULTILINE)


def tables(module: Any) -> str:
    """Return the tables of a module's docstring for a page."""
    return "\n".join(_table(*match.groups()) for match in TABLE.finditer(module.__doc__.strip()))


def _table(head: str, rule: str, body: str) -> str:
    spans = [match.span() for match in re.finditer(r"-+", rule)]
    rows: list[list[str]] = []
    for line in [head, *body.splitlines()]:
        cells = [
            line[start:following].strip()
            for start, following in zip(
                [start for start, _ in spans], [*(start for start, _ in spans[1:]), len(line)], strict=True
            )
        ]
        if cells[0] or not rows:
            rows.append(cells)
        else:
            rows[-1] = [f"{cell} {more}".strip() for cell, more in zip(rows[-1], cells, strict=True)]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([lines[0], "|" + "---|" * len(spans), *lines[1:]]) + "\n"


def _picture(edges: Edges, first: str, ends: tuple[str, ...] = ()) -> str:
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {first}"]
    lines += [
        f"    {before} --> {after}: {', '.join(sorted(labels))}" for (before, after), labels in sorted(edges.items())
    ]
    return "\n".join([*lines, *(f"    {end} --> [*]" for end in ends), "```", ""])


def render() -> str:
    """Return the page."""
    phases, commits = explore()
    batches = explore_batch()
    parts = [
        INTRODUCTION,
        "## An attempt\n\nA stop during the last receipt or the last commit takes effect if the job does not\nend with it.\n",
        _picture(phases, "Fencing", ("Complete", "Stopped", "Failed")),
        tables(phase),
        "## The commit in flight\n",
        _picture(commits, "Idle"),
        tables(commit),
        "## Commands\n",
        tables(commands),
        "## Polls of the source\n",
        tables(source_watch),
        "## Snapshot: phases and the proof of the key\n",
        tables(strategy),
        tables(key_proof),
        "## RearrangedChain: phases\n",
        tables(rearranged_chain),
        "## Replica: phases\n",
        tables(replica),
        "## The batch of changes\n\nThe batch of a job that merges changes (`Upsert`):\n",
        _picture(batches, "Idle"),
        tables(replay),
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(render())
