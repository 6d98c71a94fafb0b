"""Views that the loop passes to its observer, and their times."""

import threading

from backfill_core.job.job import Job
from backfill_core.job.phase import JobSettings
from backfill_core.job.state import JobState
from backfill_core.protocol.commands import Pause, Resume, Stop
from backfill_core.protocol.events import CommandReceived, Event, Head, WorkCancelled
from backfill_core.protocol.strategy import Opened, Pinned
from backfill_core.strategies.snapshot.params import SnapshotSettings
from backfill_core.strategies.snapshot.strategy import snapshot
from backfill_spark.driver.event_loop import Loop, now
from backfill_spark.ports.committer import SealedCommit

ROWS = (1000, 1000)


class NeverDone:
    """An executor whose work ends only when it is cancelled. Seals and polls end at once."""

    def __init__(self):
        self.answers = {}
        self.version = 0

    def start(self, work, answer):
        self.answers[work.work_id] = answer

    def cancel(self, work_id):
        self.answers.pop(work_id)(WorkCancelled(work_id))

    def seal(self, action):
        self.version += 1
        return SealedCommit(self.version)

    def after_seal(self):
        return ()

    def head(self, kept_after):
        return Head(3, now().wall_ms)

    def discard(self, files):
        pass

    def explain(self, error):
        raise error


def progress_after(pause):
    """Run a job until it is paused and quiet; return the events and the observed views in order."""
    pinned = Pinned(3, now().wall_ms, "table", "files", ROWS, sum(ROWS))
    strategy = snapshot(Opened(pinned), SnapshotSettings(merges=True, filtered=False, follow=False, reads_ahead=True))
    story, commanded = [], []

    def observe(view):
        story.append(view)
        if view.running and not commanded:
            commanded.append(1)
            loop.put(CommandReceived(1, 1, pause))
        elif commanded and view.quiet:
            loop.put(CommandReceived(1, 2, Stop(force=True)))

    loop = Loop(
        Job(JobState("a/b", "h", 1, 0, "Snapshot"), strategy, JobSettings(), now()),
        NeverDone(),
        acknowledge=lambda _: None,
        observe=observe,
        watch=lambda seen, _: story.append(seen) if isinstance(seen, Event) else None,
    )
    loop.run()
    return story


def test_a_pause_is_observed_at_once_when_it_is_quiet():
    """A user with a table to repair waits for the pause. The next of four views a second is too late."""
    story = progress_after(Pause(force=True))
    cancelled = [at for at, entry in enumerate(story) if isinstance(entry, WorkCancelled)]

    assert cancelled
    after = story[cancelled[-1] + 1]
    assert not isinstance(after, Event), "the next thing after the end of the work is a view of the job"
    assert after.quiet


def test_the_progress_shows_a_command_before_its_acknowledgement():
    """A user who pauses or resumes a job and then asks for its progress never reads the state before the command."""
    pinned = Pinned(3, now().wall_ms, "table", "files", ROWS, sum(ROWS))
    strategy = snapshot(Opened(pinned), SnapshotSettings(merges=True, filtered=False, follow=False, reads_ahead=True))
    commands = [Pause(force=True), Resume(), Pause(everything=True), Resume(), Stop(force=True)]
    views, seen = [], []

    def acknowledge(ack):
        seen.append((views[-1].controls.paused, views[-1].controls.revision))
        for command in commands[ack.revision : ack.revision + 1]:
            loop.put(CommandReceived(1, ack.revision + 1, command))

    loop = Loop(
        Job(JobState("a/b", "h", 1, 0, "Snapshot"), strategy, JobSettings(), now()),
        NeverDone(),
        acknowledge=acknowledge,
        observe=views.append,
    )
    loop.put(CommandReceived(1, 1, commands[0]))
    loop.run()

    assert seen[:4] == [("History", 1), (None, 2), ("All", 3), (None, 4)]


class HangsInItsCommits(NeverDone):
    """An executor whose commits after the fence have no answer until the test gives one."""

    def __init__(self):
        super().__init__()
        self.begun, self.answer = threading.Event(), threading.Event()

    def seal(self, action):
        if not action.fences:
            self.begun.set()
            assert self.answer.wait(60)
        return super().seal(action)


def test_commit_without_an_answer_is_in_flight():
    """It counts from its start until the loop takes its answer.

    Then no commit is in flight, even if the observer is slow.
    """
    pinned = Pinned(3, now().wall_ms, "table", "files", ROWS, sum(ROWS))
    strategy = snapshot(Opened(pinned), SnapshotSettings(merges=True, filtered=False, follow=False, reads_ahead=True))
    executor = HangsInItsCommits()
    loop = Loop(
        Job(JobState("a/b", "h", 1, 0, "Snapshot"), strategy, JobSettings(), now()),
        executor,
        acknowledge=lambda _: None,
        observe=lambda _view: None,
    )
    running = threading.Thread(target=loop.run)
    running.start()
    loop.put(CommandReceived(1, 1, Pause(force=True)))
    assert executor.begun.wait(60)
    marks = [loop.mark, loop.mark]
    executor.answer.set()
    loop.put(CommandReceived(1, 2, Stop(force=True)))
    running.join(60)

    assert not running.is_alive()
    assert marks[0].epoch == marks[1].epoch is not None
    assert loop.mark.epoch is None
    assert loop.mark.turns > marks[1].turns
