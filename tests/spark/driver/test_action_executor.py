"""The executor answers once for every piece of work, also when what they look after in a failure fails too."""

import queue
import threading
from dataclasses import dataclass, replace

import pytest
from support.drivers.opened_job import opened_job
from support.tables.jobs import make_orders

from backfill_core.errors import InvalidSpecError, StateMovedError, TransientError
from backfill_core.protocol.events import WorkCancelled, WorkFailed, WorkFinished
from backfill_core.protocol.work import ApplyChanges, FileRange, ReadSplit, WorkKind
from backfill_spark.driver.action_executor import SparkActionExecutor
from backfill_spark.jvm.workers import Workers
from backfill_spark.rows.write_modes import UPSERT
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.sink import DeltaSink
from backfill_spark.sources.delta.source import DeltaSource

APP, TXN = "backfill-x", (1 << 32) + 2
WAITS_S = 240


class SealerOfAStorageThatIsAway(DeltaCommitter):
    """Cannot read the target's state."""

    def read_state(self):
        raise TransientError("the storage is away")


class SinkThatLosesTheAnswer(DeltaSink):
    """Merges, and says that it did not."""

    def merge(self, net, **numbers):
        super().merge(net, **numbers)
        raise TransientError("the connection broke")


class SinkThatCannotRemove(DeltaSink):
    """Stages nothing and removes nothing."""

    def folder_of(self, attempt, work_id, segment=None):
        raise TransientError("no staging")

    def discard_work(self, attempt, work_id):
        raise OSError("no removing either")


class WorkersThatAreWaitedFor(Workers):
    """Run on another thread, and return when nothing of it comes any more."""

    def submit(self, run):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()


@dataclass(frozen=True)
class UnknownWork:
    """Work of a strategy whose distribution names no code for it."""

    work_id: int
    kind: WorkKind = WorkKind.HISTORY


class ExecutorUnderTest(SparkActionExecutor):
    """Shows its job, and may lose its session or its pool of threads."""

    @property
    def job(self):
        return self._job

    def lose_session(self):
        self._job = replace(self._job, spark=None)

    def run_in_turn(self):
        self._workers = WorkersThatAreWaitedFor(1, "work")


@pytest.fixture
def executor(spark, tmp_path):
    """Makes executors between a source with one change and a target that holds its first version."""
    made = []

    def make(sink_of=DeltaSink, sealer_of=DeltaCommitter):
        make_orders(spark, str(tmp_path / "s"), 20, files=1)
        source = DeltaSource(spark, str(tmp_path / "s"), key=("id",))
        source.pin(None)
        spark.sql(f"UPDATE delta.`{tmp_path / 's'}` SET amount = 5 WHERE id = 3")
        sink = sink_of(spark, str(tmp_path / "t"), write_mode=UPSERT, key=("id",), job_id="j")
        sink.prepare(source.pinned.schema)
        committer = sealer_of(spark, sink.path, app_id=APP, domain="backfill.x")
        job = opened_job(spark, source, sink, committer, mode=UPSERT, key=("id",))
        one = ExecutorUnderTest(job, attempt=1)
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()


def answers(executor, work):
    """Return all answers to one piece of work."""
    found = queue.SimpleQueue()
    executor.start(work, found.put)
    first = found.get(timeout=WAITS_S)
    return [first, *(found.get() for _ in range(found.qsize()))]


def test_work_that_was_cancelled_does_not_hinder_that_of_another_job_of_its_name(executor):
    """In one session a job may begin anew, and its work has the same numbers: of what Spark was told to cancel it is no part."""
    work = ReadSplit(7, (FileRange(0, 0, 10, 20),), 0, 10, 1)  # a part of a file is decoded, by a Spark job
    first = executor()
    first.cancel(work.work_id)

    [answer] = answers(ExecutorUnderTest(first.job, attempt=1), work)

    assert isinstance(answer, WorkFinished)


BATCH = ApplyChanges(7, 0, 1, 2, TXN)
SPLIT = ReadSplit(8, (FileRange(0, 0, 20, 20),), 0, 20, 1)


class TestEveryPieceOfWorkIsAnsweredOnce:
    """Who does not answer is waited for, for ever."""

    def test_when_nothing_fails(self, executor):
        """The plain case has one answer too."""
        [event] = answers(executor(), BATCH)

        assert isinstance(event, WorkFinished)

    def test_when_what_was_staged_cannot_be_removed(self, executor):
        """It stays an orphan; the reason is the first one."""
        [event] = answers(executor(SinkThatCannotRemove), SPLIT)

        assert isinstance(event, WorkFailed)
        assert "no staging" in event.error.message

    def test_when_the_session_is_of_no_use(self, executor):
        """A failure of the clean-up must not hide the answer."""
        one = executor()
        one.lose_session()

        assert [type(event) for event in answers(one, BATCH)] == [WorkFailed]

    def test_when_it_was_cancelled(self, executor):
        """The job waits for this answer before it goes on."""
        one = executor(SinkThatCannotRemove)
        split = replace(SPLIT, work_id=60)  # what is cancelled stays so in this session
        one.cancel(split.work_id)

        assert answers(one, split) == [WorkCancelled(split.work_id)]

    def test_when_nothing_does_such_work(self, executor):
        """Half a plug-in is installed: its strategy decides, and what it asks for is done nowhere."""
        [event] = answers(executor(), UnknownWork(9))

        assert isinstance(event.error, InvalidSpecError)
        assert "UnknownWork" in event.error.message

    @pytest.mark.parametrize(
        ("moment", "answer", "landed"),
        [("as_stored", WorkCancelled, False), ("merge", WorkFinished, True)],
        ids=["before its MERGE: at once, and none comes", "in its MERGE: what became of it"],
    )
    def test_when_a_batch_is_cancelled(self, executor, moment, answer, landed):
        """Java plans for seconds before it notices; but what may be in the target is waited for."""
        one, batch = executor(), replace(BATCH, work_id=70 + landed)  # what is cancelled stays so in this session
        sink = one.job.sink
        original = getattr(sink, moment)

        def cancelled(*given, **named):
            done = original(*given, **named)
            one.cancel(batch.work_id)
            return done

        setattr(sink, moment, cancelled)
        one.run_in_turn()
        [event] = answers(one, batch)

        assert isinstance(event, answer)
        assert (one.job.committer.read_state().txn_version == TXN) is landed


class TestAMergeWhoseAnswerWasLost:
    """It may have landed: the state must not say less than the target holds."""

    def test_counts_when_it_is_there(self, executor):
        """Applied twice, its rows would be there twice."""
        [event] = answers(executor(SinkThatLosesTheAnswer), BATCH)

        assert isinstance(event, WorkFinished)

    def test_ends_the_attempt_when_the_target_cannot_be_read(self, executor, spark, tmp_path):
        """The next attempt reads the state first, and finds the announced number there."""
        [event] = answers(executor(SinkThatLosesTheAnswer, SealerOfAStorageThatIsAway), BATCH)

        assert isinstance(event, WorkFailed)
        assert isinstance(event.error, StateMovedError)
        assert event.error.retryable
        assert (
            DeltaCommitter(spark, str(tmp_path / "t"), app_id=APP, domain="backfill.x").read_state().txn_version == TXN
        )
