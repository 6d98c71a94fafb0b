"""The executor answers exactly once for each piece of work, also when its handling of a failure fails."""

import queue
import threading
from dataclasses import dataclass, replace

import pytest
from support.drivers.opened_job import opened_job
from support.tables.jobs import make_orders

from backfill_core.errors import InvalidSpecError, StateMovedError, TransientError
from backfill_core.positions.file_ranges import FileRange
from backfill_core.protocol.events import WorkCancelled, WorkFailed, WorkFinished
from backfill_core.protocol.work import ApplyChanges, ReadSplit, WorkKind
from backfill_spark.driver.action_executor import SparkActionExecutor
from backfill_spark.jvm.workers import Workers
from backfill_spark.rows.write_modes import UPSERT
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.sink import DeltaSink
from backfill_spark.sources.delta.source import DeltaTableSource

APP, TXN = "backfill-x", (1 << 32) + 2
WAITS_S = 240


class SealerOfAStorageThatIsAway(DeltaCommitter):
    """A committer that cannot read the target's state."""

    def read_state(self):
        raise TransientError("the storage is away")


class SinkThatLosesTheAnswer(DeltaSink):
    """A sink that merges and then reports a failure."""

    def merge(self, net, **numbers):
        super().merge(net, **numbers)
        raise TransientError("the connection broke")


class SinkThatCannotRemove(DeltaSink):
    """A sink that stages nothing and removes nothing."""

    def folder_of(self, attempt, work_id, segment=None):
        raise TransientError("no staging")

    def discard_work(self, attempt, work_id):
        raise OSError("no removing either")


class WorkersThatAreWaitedFor(Workers):
    """Workers that run work on another thread and return when the thread has ended."""

    def submit(self, run):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()


@dataclass(frozen=True)
class UnknownWork:
    """Work of a strategy whose package has no code to run it."""

    work_id: int
    kind: WorkKind = WorkKind.HISTORY


class ExecutorUnderTest(SparkActionExecutor):
    """An executor that shows its job, and may lose its session or its pool of threads."""

    @property
    def job(self):
        return self._job

    def lose_session(self):
        self._tables = replace(self._tables, spark=None)

    def run_in_turn(self):
        self._workers = WorkersThatAreWaitedFor(1, "work")


@pytest.fixture
def executor(spark, tmp_path):
    """Return a factory of executors between a source with one change and a target with its first version."""
    made = []

    def make(sink_of=DeltaSink, sealer_of=DeltaCommitter):
        make_orders(spark, str(tmp_path / "s"), 20, files=1)
        source = DeltaTableSource(spark, str(tmp_path / "s"), key=("id",))
        source.pin(None)
        spark.sql(f"UPDATE delta.`{tmp_path / 's'}` SET amount = 5 WHERE id = 3")
        sink = sink_of(spark, str(tmp_path / "t"), write_mode=UPSERT, key=("id",), job_id="j")
        sink.prepare(source.pinned.schema)
        committer = sealer_of(spark, sink.path, app_id=APP, domain="backfill.x")
        job = opened_job(spark, source, sink, committer, mode=UPSERT, key=("id",))
        new = ExecutorUnderTest(job, attempt=1)
        made.append(new)
        return new

    yield make
    for open_executor in made:
        open_executor.close()


def answers(executor, work):
    """Return all answers to one piece of work."""
    events = queue.SimpleQueue()
    executor.start(work, events.put)
    first = events.get(timeout=WAITS_S)
    return [first, *(events.get() for _ in range(events.qsize()))]


def test_cancelled_work_does_not_stop_work_of_another_job_with_its_number(executor):
    """A job that starts again in the same session numbers its work from the start.

    Spark's cancelled work must not include it.
    """
    work = ReadSplit(7, (FileRange(0, 0, 10, 20),), 0, 10, 1)  # a part of a file is decoded, by a Spark job
    first = executor()
    first.cancel(work.work_id)

    [answer] = answers(ExecutorUnderTest(first.job, attempt=1), work)

    assert isinstance(answer, WorkFinished)


BATCH = ApplyChanges(7, 0, 1, 2, TXN)
SPLIT = ReadSplit(8, (FileRange(0, 0, 20, 20),), 0, 20, 1)


class TestEveryPieceOfWorkIsAnsweredOnce:
    """The job waits forever for work without an answer."""

    def test_work_that_succeeds_has_one_answer(self, executor):
        """Nothing fails here."""
        [event] = answers(executor(), BATCH)

        assert isinstance(event, WorkFinished)

    def test_work_whose_staged_files_cannot_be_removed_has_one_answer(self, executor):
        """The files stay orphans, and the answer has the first error."""
        [event] = answers(executor(SinkThatCannotRemove), SPLIT)

        assert isinstance(event, WorkFailed)
        assert "no staging" in event.error.message

    def test_work_without_a_session_has_one_answer(self, executor):
        """A failure of the clean-up must not hide the answer."""
        lost = executor()
        lost.lose_session()

        assert [type(event) for event in answers(lost, BATCH)] == [WorkFailed]

    def test_cancelled_work_has_one_answer(self, executor):
        """The job waits for this answer before it continues."""
        cancelling = executor(SinkThatCannotRemove)
        split = replace(SPLIT, work_id=60)  # a cancelled number stays cancelled in this session
        cancelling.cancel(split.work_id)

        assert answers(cancelling, split) == [WorkCancelled(split.work_id)]

    def test_work_that_no_code_can_run_has_one_answer(self, executor):
        """Only half of a plug-in is installed: its strategy requests work that no code can run."""
        [event] = answers(executor(), UnknownWork(9))

        assert isinstance(event.error, InvalidSpecError)
        assert "UnknownWork" in event.error.message

    @pytest.mark.parametrize(
        ("moment", "answer", "landed"),
        [("as_stored", WorkCancelled, False), ("merge", WorkFinished, True)],
        ids=["before its MERGE: at once, and none comes", "in its MERGE: what became of it"],
    )
    def test_a_cancelled_batch_has_one_answer(self, executor, moment, answer, landed):
        """Java plans for seconds before it notices a cancellation, but the executor waits for rows that may reach the target."""
        tested, batch = (
            executor(),
            replace(BATCH, work_id=70 + landed),
        )  # a cancelled number stays cancelled in this session
        sink = tested.job.sink
        original = getattr(sink, moment)

        def cancelled(*given, **named):
            done = original(*given, **named)
            tested.cancel(batch.work_id)
            return done

        setattr(sink, moment, cancelled)
        tested.run_in_turn()
        [event] = answers(tested, batch)

        assert isinstance(event, answer)
        assert (tested.job.committer.read_state().txn_version == TXN) is landed


class TestAMergeWhoseAnswerWasLost:
    """A MERGE whose answer was lost may have landed. The state must not report less than the target contains."""

    def test_a_merge_that_landed_counts(self, executor):
        """A second MERGE would add its rows twice."""
        [event] = answers(executor(SinkThatLosesTheAnswer), BATCH)

        assert isinstance(event, WorkFinished)

    def test_a_lost_answer_ends_the_attempt_if_the_target_cannot_be_read(self, executor, spark, tmp_path):
        """The next attempt first reads the state, which has the announced number."""
        [event] = answers(executor(SinkThatLosesTheAnswer, SealerOfAStorageThatIsAway), BATCH)

        assert isinstance(event, WorkFailed)
        assert isinstance(event.error, StateMovedError)
        assert event.error.retryable
        assert (
            DeltaCommitter(spark, str(tmp_path / "t"), app_id=APP, domain="backfill.x").read_state().txn_version == TXN
        )
