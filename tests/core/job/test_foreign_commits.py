"""Foreign events while a job runs: commits of other writers, removed staged files, a dead JVM."""

import pytest
from support.simulation.hand_driven import WALL_MS, HandDriven

from backfill_core.errors import (
    AccountingError,
    ForeignCommit,
    JavaDiedError,
    StagedFilesGoneError,
    TargetChangedError,
    TransientError,
)
from backfill_core.job.commit import COMPARED_AGAIN_MAX, describe_suspects
from backfill_core.job.phase import JobSettings
from backfill_core.phases.accounting import check_read, check_staged
from backfill_core.protocol.actions import Seal, StartWork
from backfill_core.protocol.events import (
    Head,
    HooksRan,
    OthersCommitted,
    PollFailed,
    SealFailed,
    WorkFailed,
    WorkFinished,
)
from backfill_core.protocol.receipt import FileDifference, TableReceipt, VnodeMismatch
from backfill_core.protocol.work import Verified, Verify

DELETED = ForeignCommit(8, "DELETE", "delta-rs 1.0")


class ToldToTheEnd(HandDriven):
    """A job without rows that waits for its receipts; foreign commits reject its last seals."""

    def __init__(self, *suspects):
        self.verifies, self.lasts, self.others = [], [], []
        super().__init__(0, settings=JobSettings(verify_final=True, suspects=suspects))

    def _execute(self, actions):
        for action in actions:
            if isinstance(action, StartWork) and isinstance(action.work, Verify):
                self.verifies.append(action.work)
            elif isinstance(action, Seal) and action.compared is not None and self.others:
                commit = self.others.pop(0)
                error = TargetChangedError("others came", commits=(commit,), newest=commit.version)
                self.send(SealFailed(action.epoch, error))
            else:
                if isinstance(action, Seal):
                    self.lasts.append(action)
                super()._execute((action,))

    def answer(self, *wrong, files=()):
        work = self.verifies[-1]
        receipt = TableReceipt(3, work.target_version, work.epoch, 0, 8, "", wrong, 0.1, files=files)
        self.send(WorkFinished(Verified(work.work_id, receipt)))
        self.let_pass(0.2)


@pytest.fixture
def job():
    job = ToldToTheEnd()
    job.let_pass(3.0)
    assert len(job.verifies) == 1
    return job


class TestACommitAfterTheReceipt:
    """The job once said `Complete` although it had not compared the rows of a later commit."""

    def test_a_later_commit_makes_the_job_compare_the_target_again(self, job):
        """The receipt must describe the version at which the job ends."""
        job.others = [DELETED]
        job.answer()

        assert (job.finish, job.verifies[-1].target_version) == (None, 8)
        job.answer()
        assert job.finish.outcome == "Complete"
        assert job.lasts[-1].compared == 8

    def test_a_foreign_delete_is_named_when_the_next_receipt_fails(self, job):
        """The user must learn that another writer removed the rows."""
        job.others = [DELETED]
        job.answer()
        job.answer(VnodeMismatch(1, 10, 0))

        assert job.finish.error.reason == "VerificationFailed"
        assert "Other writers committed version 8 (DELETE by delta-rs 1.0)" in job.finish.error.message
        assert job.finish.error.hint.startswith("Another writer changed the target: ")
        # The last view of the job still shows its activity.
        assert job.view.course.at == "Receipt"

    def test_no_foreign_commit_is_blamed_for_differences_without_one(self, job):
        """A source that was read incorrectly differs without any other writer (fault B9)."""
        job.answer(VnodeMismatch(1, 10, 0))

        assert job.finish.error.reason == "VerificationFailed"
        assert job.finish.error.hint.startswith("No commit of another writer to the target is known. ")

    @pytest.mark.parametrize(
        ("where", "partitions", "pinned", "named"),
        [
            (None, (), None, "is known. Find the rows"),
            ("p = ''", (), 3, "is known, and the rows are decided by the filter spec.transform.where (p = ''), the changes after"),
            (None, ("p", "day"), 3, "decided by the partition columns of the source (p, day), the changes after version 3."),
        ],
    )  # fmt: skip
    def test_differences_without_a_foreign_commit_name_the_suspects(self, where, partitions, pinned, named):
        """The job reads a filter, a partition column and a change in separate ways (fault B9)."""
        job = ToldToTheEnd(*describe_suspects(where, partitions, pinned))
        job.let_pass(3.0)
        job.answer(VnodeMismatch(1, 10, 0))

        assert named in job.finish.error.hint
        assert "and report them with the spec" in job.finish.error.hint

    def test_a_file_that_differs_ends_the_job_by_its_name(self, job):
        """No commit removed rows and no row was compared: the bytes of a file differ."""
        job.answer(files=tuple(FileDifference(f"w-{number}.parquet", "bits") for number in range(5)))

        error = job.finish.error
        assert error.reason == "VerificationFailed"
        assert (
            "differ in file w-0.parquet (bits), file w-1.parquet (bits), file w-2.parquet (bits) and 2 more"
            in error.message
        )
        assert "without a commit" in error.hint

    def test_endless_foreign_commits_end_the_job(self, job):
        """A target that changes all the time would keep the job comparing forever."""
        job.others = [ForeignCommit(8 + number, "WRITE", "x") for number in range(9)]
        for _ in range(COMPARED_AGAIN_MAX + 1):
            job.answer()

        assert len(job.verifies) == COMPARED_AGAIN_MAX + 1
        assert (job.finish.error.reason, job.finish.error.exit_code) == ("TargetChanged", 51)
        assert "version 11 (WRITE by x)" in job.finish.error.message


class TestFailuresOfTheLastCommit:
    """Storage failures and foreign commits alternate."""

    def test_storage_failures_keep_their_count_when_the_receipt_is_repeated(self, job):
        """A new count for each receipt would retry a missing storage several times as long."""
        refused = []

        class Storage(ToldToTheEnd):
            def _execute(self, actions):
                for action in actions:
                    if isinstance(action, Seal) and action.compared is not None:
                        refused.append(action)
                        foreign = TargetChangedError("others", commits=(DELETED,), newest=8)
                        error = foreign if len(refused) == 4 else TransientError("away")
                        self.send(SealFailed(action.epoch, error))
                    else:
                        super()._execute((action,))

        job = Storage()
        job.let_pass(3.0)
        job.answer()
        job.let_pass(60.0)
        job.answer()
        job.let_pass(200.0)

        assert job.finish.error.reason == "Transient"
        assert len(refused) == 4 + JobSettings().retries_max + 1 - 3


class TestACommitWhileTheJobRuns:
    """A foreign commit during the job is reported as a warning."""

    def test_a_foreign_commit_is_a_warning_with_version_operation_and_engine(self):
        """These three facts lead a user to the other writer."""
        job = HandDriven(1000)
        job.send(OthersCommitted((DELETED,)))
        job.send(OthersCommitted((DELETED, ForeignCommit(9, "", ""))))

        [warning] = job.view.warnings
        assert "version 8 (DELETE by delta-rs 1.0), version 9 (unknown operation by unknown engine)" in warning.message

    def test_many_foreign_commits_make_a_short_warning(self):
        """A busy target must not fill the status."""
        job = HandDriven(1000)
        job.send(OthersCommitted(tuple(ForeignCommit(number, "WRITE", "x") for number in range(100))))

        [warning] = job.view.warnings
        assert len(warning.message) < 200
        assert "version 99" in warning.message


class HandDrivenWithLateCommits(HandDriven):
    """A job whose commits get no answer once `late` is set."""

    late = False

    def _execute(self, actions):
        super()._execute(tuple(action for action in actions if not (self.late and isinstance(action, Seal))))


class TestStagedFilesThatAreGone:
    """A VACUUM may remove staged files before they are sealed."""

    def test_missing_staged_files_end_the_attempt_so_that_the_next_stages_them_again(self):
        """The state to be sealed counts their rows."""
        job = HandDrivenWithLateCommits(1000, settings=JobSettings())
        job.late = True
        job.let_pass(0.2)
        job.finish_split()
        job.send(SealFailed(2, StagedFilesGoneError("gone")))

        assert (job.finish.outcome, job.finish.error.retryable) == ("Failed", True)

    def test_missing_staged_files_are_detected_by_their_rows(self):
        """A vacuum and an internal error need different errors."""
        check_staged("x", written=5, found=5)
        with pytest.raises(StagedFilesGoneError, match="5 rows of x were staged, but their files contain 0 rows"):
            check_staged("x", written=5, found=0)
        with pytest.raises(AccountingError):
            check_staged("x", written=5, found=6)

    def test_a_source_with_too_few_rows_is_a_different_error(self):
        """The source is not at fault when staged files are missing."""
        check_read("x", read=4, promised=4)
        with pytest.raises(AccountingError, match="yielded 4 rows, but the table's metadata records 5"):
            check_read("x", read=4, promised=5)


class TestAJavaProcessThatDied:
    """A dead JVM ends the attempt at once."""

    @pytest.mark.parametrize(
        "event", [PollFailed, lambda error: WorkFailed(1, error), lambda error: SealFailed(1, error)]
    )
    def test_a_dead_java_process_receives_no_more_requests(self, event):
        """Retries against a dead JVM once took 12 s and hid the reason."""
        job = HandDriven(1000)
        job.head = Head(4, WALL_MS)
        job.send(event(JavaDiedError("gone")))

        assert (job.finish.error.reason, job.finish.error.retryable) == ("JavaDied", True)


class RefusedAtOnce(HandDriven):
    """A job whose first commit with files fails, because another writer changed the files that it replaces."""

    def _execute(self, actions):
        for action in actions:
            if isinstance(action, Seal) and action.files:
                self.send(
                    SealFailed(action.epoch, TargetChangedError("version 8 (DELETE by x) took files of this job"))
                )
            else:
                super()._execute((action,))


class TestFilesThatACommitReplaces:
    """A replica may only remove files that it added."""

    def test_replaced_files_with_foreign_changes_end_the_job(self):
        """No receipt can be repeated here: a retry would overwrite rows of another writer."""
        job = RefusedAtOnce(10)
        job.let_pass(3.0, split_s=0.5)

        assert (job.finish.outcome, job.finish.error.reason) == ("Failed", "TargetChanged")
        assert "version 8" in job.finish.error.message


class TestACheckpointThatFails:
    """Readers of the target replay more and more commits, so users must learn about the failure (fault B1)."""

    def test_a_failed_checkpoint_warns_until_one_succeeds(self):
        """A short outage of the store leaves no warning behind."""
        job = HandDriven(10)
        job.send(HooksRan(TransientError("the store is away.")))

        [warning] = job.view.warnings
        assert warning.code == "CheckpointFailed"
        assert "the store is away." in warning.message
        job.send(HooksRan(None))
        assert job.view.warnings == ()

    def test_a_failed_checkpoint_does_not_end_the_job(self):
        """Rows are durable without a checkpoint."""
        job = HandDriven(10)
        job.send(HooksRan(TransientError("the store is away.")))
        job.let_pass(3.0)

        assert job.finish is None or job.finish.error is None
