"""The page about a driver's machines: the pictures are drawn by asking them, the tables are those of their modules."""

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
from backfill_core.phases.replay import ChangeWay, Replay
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
from backfill_core.protocol.receipt import Receipt, VnodeMismatch
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
from backfill_core.strategies.snapshot.strategy import SnapshotStrategy

ROOT = Path(__file__).parent.parent
DRIVER_FILE = ROOT / "docs" / "driver-lifecycle.md"
WALL_MS = 1_800_000_000_000
AWAY, DOUBLED = TransientError("away"), DuplicateKeyError("doubled")
ROWS = 10

Edges = dict[tuple[str, str], set[str]]


class Walker:
    """A job with what its shell would hold: the work under way, and the number of its newest commit."""

    def __init__(self, *, verify_final: bool) -> None:
        """Begin before the fence."""
        pinned = Pinned(3, WALL_MS, "table", "files", (ROWS,), ROWS)
        made = SnapshotStrategy(Opened(pinned, proves_key=True), SnapshotSettings(merges=True, filtered=False))
        settings = JobSettings(verify_final=verify_final)
        self.now_s, self._verify_final = 0.0, verify_final
        self.work: dict[int, Work] = {}
        self.polls = 0
        """Those that are awaited."""

        self.job = Job(JobState("a/b", "h", 1, 0, "Snapshot"), made, settings, self.now)
        self._take(self.job.start(self.now))

    @property
    def now(self) -> Now:
        """The moment."""
        return Now(self.now_s, WALL_MS + round(self.now_s * 1000))

    def send(self, event: Event) -> None:
        """Hand in an event; only a tick takes time, enough for a barrier and for every deadline."""
        if isinstance(event, Tick):
            self.now_s += 1.1
        self.polls -= isinstance(event, SourcePolled)
        work_id = event.result.work_id if isinstance(event, WorkFinished) else getattr(event, "work_id", 0)
        self.work.pop(work_id, None)
        self._take(self.job.on(event, self.now))

    def _take(self, actions: tuple[Action, ...]) -> None:
        self.work |= {one.work.work_id: one.work for one in actions if isinstance(one, StartWork)}
        self.polls += sum(isinstance(one, PollSource) for one in actions)
        cancelled = [one.work_id for one in actions if isinstance(one, CancelWork)]
        for work_id in cancelled:
            if self.work.pop(work_id, None):
                self._take(self.job.on(WorkCancelled(work_id), self.now))

    def key(self) -> tuple[Any, ...]:
        """Return what tells two jobs apart for the walk; numbers that only grow do not."""
        view, kinds = self.job.view(self.now), sorted(type(one).__name__ for one in self.work.values())
        return (
            self._verify_final, repr(type(self.job.phase)), phase.stop_in(self.job.phase) is not None, type(self.job.commit).__name__, tuple(kinds),
            view.strategy.phase, view.strategy.caught_up, view.strategy.head is not None, view.strategy.lag_versions,
            self.polls, view.course.at, view.stopping, view.receipt is None, "trying" in view.reason, min(getattr(self.job.commit, "failures", 0), 1),
        )  # fmt: skip

    def events(self) -> Iterator[tuple[str, Event]]:
        """Yield what may happen next, each with its words."""
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
                    "others changed the target",
                    SealFailed(epoch, TargetChangedError("others", commits=(), newest=version)),
                )
        for work_id, work in self.work.items():
            for words, result in _results(work):
                yield words, WorkFinished(result)
            yield "work fails", WorkFailed(work_id, AWAY)
            yield "work fails for good", WorkFailed(work_id, DOUBLED)


def _results(work: Work) -> Iterator[tuple[str, Result]]:
    match work:
        case ReadSplit():
            yield "work is done", SplitStaged(work.work_id, (StagedFile("s", 1, work.stop - work.start),))
        case ApplyChanges():
            yield "work is done", ChangesApplied(work.work_id, 1)
        case Verify():
            receipt = Receipt(work.position, work.target_version, work.epoch, 1, 1, "", (), 0.1)
            yield "both sides are equal", Verified(work.work_id, receipt)
            other = Receipt(work.position, work.target_version, work.epoch, 1, 1, "", (VnodeMismatch(0, 1, 2),), 0.1)
            yield "both sides differ", Verified(work.work_id, other)
        case _:
            yield "work is done", KeyProven(work.work_id)


def explore() -> tuple[Edges, Edges]:
    """Walk from a new job through every answer; return who follows whom, of its phases and of its commit in flight."""
    phases: Edges = defaultdict(set)
    commits: Edges = defaultdict(set)
    todo, known = [Walker(verify_final=one) for one in (False, True)], set[tuple[Any, ...]]()
    while todo:
        before = todo.pop()
        for words, event in before.events():
            after = copy.deepcopy(before)
            after.send(event)
            _note(phases, _phase(before), _phase(after), words)
            _note(commits, type(before.job.commit).__name__, type(after.job.commit).__name__, words)
            if not isinstance(after.job.phase, phase.Over) and (key := after.key()) not in known:
                known.add(key)
                todo.append(after)
    return phases, commits


def _phase(walker: Walker) -> str:
    here = walker.job.phase
    return here.finish.outcome if isinstance(here, phase.Over) else type(here).__name__


def _note(edges: Edges, before: str, after: str, words: str) -> None:
    if before != after:
        edges[before, after].add(words)


def explore_batch() -> Edges:
    """Walk a replay; return which state of its batch follows which."""
    edges: Edges = defaultdict(set)
    now, epoch, ids = Now(0.0, WALL_MS), Epoch(1, 5), count(1)
    permits = Permits(history=True, changes=True, checks=True, epoch=epoch, first_id=1)
    first = Replay(3, way=ChangeWay.MERGED, follow=True, batch_target_s=10.0)
    first.poll(SourcePolled(Head(9, WALL_MS)))
    steps: dict[str, Callable[[Replay], object]] = {
        "a commit announces it": lambda one: one.announce(epoch),
        "a commit takes it back": lambda one: one.announce(None),
        "that commit is durable": lambda one: one.propose(permits, ids, now, dirty=False),
        "its work is done": lambda one: one.finish(ChangesApplied(_work_id(one), 1), now),
        "its work is lost": lambda one: one.lose(_work_id(one)),
        "a commit takes it along": lambda one: one.take_applied(),
    }
    todo, known = [first], {_batch(first)}
    while todo:
        before = todo.pop()
        for words, step in steps.items():
            after = copy.deepcopy(before)
            step(after)
            _note(edges, _batch(before), _batch(after), words)
            if _batch(after) not in known:
                known.add(_batch(after))
                todo.append(after)
    return edges


def _work_id(one: Replay) -> int:
    return one.batch.work_id if isinstance(one.batch, replay.Running) else 0


def _batch(one: Replay) -> str:
    return "Idle" if one.batch is None else type(one.batch).__name__


# ------------------------------------------------------------------ the page
INTRODUCTION = """\
<!-- Generated by build-tools/driver_page.py (`make docs`); do not edit. -->
# The machines of a driver

The core of a driver takes one event at a time and answers with actions
([`backfill_core.job`](../spark_app/backfill_core/job/job.py)). It consists of small machines. The pictures on this page are generated
from them; the tables come from their modules.
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
            rows[-1] = [f"{one} {more}".strip() for one, more in zip(rows[-1], cells, strict=True)]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([lines[0], "|" + "---|" * len(spans), *lines[1:]]) + "\n"


def _picture(edges: Edges, first: str, ends: tuple[str, ...] = ()) -> str:
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {first}"]
    lines += [
        f"    {before} --> {after}: {', '.join(sorted(words))}" for (before, after), words in sorted(edges.items())
    ]
    return "\n".join([*lines, *(f"    {end} --> [*]" for end in ends), "```", ""])


def render() -> str:
    """Return the page."""
    phases, commits = explore()
    batches = explore_batch()
    parts = [
        INTRODUCTION,
        "## An attempt\n\nA stop during the last receipt or the last commit takes effect if the job does not\nend by it.\n",
        _picture(phases, "Fencing", ("Complete", "Stopped", "Failed")),
        tables(phase),
        "## The commit in flight\n",
        _picture(commits, "Idle"),
        tables(commit),
        "## Commands\n",
        tables(commands),
        "## Polls of the source\n",
        tables(source_watch),
        "## Snapshot: its phases and the proof of the key\n",
        tables(strategy),
        tables(key_proof),
        "## RearrangedChain: its phases\n",
        tables(rearranged_chain),
        "## Replica: its phases\n",
        tables(replica),
        "## The batch of changes\n\nWhere changes are merged (`Upsert`):\n",
        _picture(batches, "Idle"),
        tables(replay),
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(render())
