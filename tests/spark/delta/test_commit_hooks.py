"""Tests of the order of hooks of commits on two threads; no table is read."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from backfill_core.errors import TransientError
from backfill_spark.delta.checkpoint_hooks import CommitHooks

DEADLINE_S = 60


class Checksum:
    """A checksum of Kernel that appends its version to a list; it can wait, or fail."""

    def __init__(self, written, version, *, waits_for=None, failures=0):
        self._written, self._version, self._waits_for, self._failures = written, version, waits_for, failures
        self.begun = threading.Event()

    def getType(self):  # noqa: N802 - Kernel's name
        return "CHECKSUM_SIMPLE"

    def threadSafeInvoke(self, engine):  # noqa: N802 - Kernel's name
        self.begun.set()
        if self._waits_for is not None:
            assert self._waits_for.wait(DEADLINE_S)
        if self._failures:
            self._failures -= 1
            raise TransientError("the store failed.")
        self._written.append(("checksum", self._version))


class CheckpointRequest:
    """Kernel's request for a checkpoint."""

    def getType(self):  # noqa: N802 - Kernel's name
        return "CHECKPOINT"


class HooksOfATable(CommitHooks):
    """Hooks of a table whose checkpoints end when the test allows it."""

    def __init__(self):
        super().__init__(None, "/lake/orders", None, None)
        self.written, self.begun, self.may_end = [], threading.Event(), threading.Event()

    def _checkpoint(self, version):
        self.begun.set()
        assert self.may_end.wait(DEADLINE_S)
        self.written.append(("checkpoint", version))

    def committed(self, version, *hooks):
        """Take the hooks of a commit."""
        self.waiting = [*self.waiting, *((version, hook) for hook in hooks)]


@pytest.fixture
def threads():
    with ThreadPoolExecutor(2) as pool:
        yield pool


class TestHooksOfTwoThreads:
    """A barrier never waits for a checkpoint, whatever the size of the table."""

    def test_checksums_are_written_while_a_checkpoint_is(self, threads):
        """A commit without the checksum of the version before reads every commit since the last one."""
        hooks = HooksOfATable()
        hooks.committed(10, Checksum(hooks.written, 10), CheckpointRequest())
        running = threads.submit(hooks.run)
        assert hooks.begun.wait(DEADLINE_S)

        for version in (11, 12):
            hooks.committed(version, Checksum(hooks.written, version))
            hooks.run()
        during = list(hooks.written)
        hooks.may_end.set()
        running.result(DEADLINE_S)

        assert during == [("checksum", 10), ("checksum", 11), ("checksum", 12)]
        assert hooks.written == [*during, ("checkpoint", 10)]

    def test_a_checkpoint_follows_the_checksum_of_its_version(self, threads):
        """It is compared with the number of files there, also if another thread writes the checksum."""
        hooks, may_write = HooksOfATable(), threading.Event()
        hooks.may_end.set()
        checksum = Checksum(hooks.written, 10, waits_for=may_write)
        hooks.committed(10, checksum)
        first = threads.submit(hooks.run)
        assert checksum.begun.wait(DEADLINE_S)
        hooks.committed(10, CheckpointRequest())
        second = threads.submit(hooks.run)
        early = hooks.begun.wait(0.05)

        may_write.set()
        first.result(DEADLINE_S)
        second.result(DEADLINE_S)

        assert (early, hooks.written) == (False, [("checksum", 10), ("checkpoint", 10)])

    def test_the_newest_checkpoint_that_is_due_follows_the_one_that_runs(self, threads):
        """No two run at once, and those between them are unnecessary."""
        hooks = HooksOfATable()
        hooks.committed(10, CheckpointRequest())
        running = threads.submit(hooks.run)
        assert hooks.begun.wait(DEADLINE_S)
        for version in (20, 30):
            hooks.committed(version, CheckpointRequest())
            hooks.run()

        hooks.may_end.set()
        running.result(DEADLINE_S)

        assert (hooks.written, hooks.waiting) == ([("checkpoint", 10), ("checkpoint", 30)], [])

    def test_a_failed_checksum_is_written_by_the_next_run(self):
        """The checkpoint does not wait for it."""
        hooks = HooksOfATable()
        hooks.may_end.set()
        hooks.committed(10, Checksum(hooks.written, 10, failures=1), CheckpointRequest())

        with pytest.raises(TransientError, match="the store failed"):
            hooks.run()
        hooks.run()

        assert hooks.written == [("checkpoint", 10), ("checksum", 10)]
