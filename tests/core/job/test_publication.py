"""Rows that become visible together: the manifest, and the commits of a job that publishes late (ADR 0041)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulation.hand_driven import HandDriven

from backfill_core.errors import StateMismatchError, TargetChangedError
from backfill_core.job.phase import JobSettings
from backfill_core.job.publishing import step_of
from backfill_core.job.state import JobState
from backfill_core.protocol.actions import StartWork
from backfill_core.protocol.commands import Pause, Resume
from backfill_core.protocol.events import CommandReceived, Head, SealFailed, WorkFinished
from backfill_core.protocol.publication import JOINED, Publication, Publish
from backfill_core.protocol.receipt import TableReceipt, VnodeMismatch
from backfill_core.protocol.work import StagedFile, Verified, Verify

STATE = JobState("a/b", "h", 1, 0, "Snapshot", publication=Publication())


class HiddenJob(HandDriven):
    """A job of one file with 100 rows that publishes late."""

    def __init__(self, publish, *, verify_final=False):
        self.verifies, self.refuses_publication = [], None
        settings = JobSettings(publish=publish, verify_final=verify_final)
        super().__init__(100, settings=settings, publication=Publication())

    def _execute(self, actions):
        for action in actions:
            if isinstance(action, StartWork) and isinstance(action.work, Verify):
                self.verifies.append(action.work)
            elif getattr(action, "publishes", None) is not None and self.refuses_publication:
                self.send(SealFailed(action.epoch, self.refuses_publication))
            else:
                super()._execute((action,))

    def copy_all(self):
        self.let_pass(0.2)
        while self.running:
            self.finish_split()
            self.let_pass(1.1)

    def answer(self, *wrong):
        work = self.verifies[-1]
        receipt = TableReceipt(
            3, work.target_version, work.epoch, 100, 8, "", wrong, 0.1, complete=work.covered is None
        )
        self.send(WorkFinished(Verified(work.work_id, receipt)))
        self.let_pass(0.2)

    @property
    def publications(self):
        return [commit for commit in self.commits if commit.publishes is not None]


class TestAScopeOfThePublication:
    """The version from which the scope belongs to the job is stored, and reaches each commit that needs it."""

    def test_every_commit_of_a_job_has_the_version_of_its_start(self):
        """Also the publication, and also after a restart from the stored state."""
        publication = Publication(scope_pin=7)
        staged, _ = Publication.decode(publication.encode()).staged([StagedFile("/t/a", 1, 1)], 4)
        step = step_of(staged, (), 5, publishes=True)

        assert step_of(publication, [StagedFile("/t/a", 1, 1)], 4, publishes=False).scope_pin == 7
        assert (step.scope_pin, len(step.publishes)) == (7, 1)
        assert step.publication == Publication(published=True, scope_pin=7)

    def test_a_job_without_a_scope_stores_no_version(self):
        """The state of an earlier release stays readable, and that of this one by it."""
        assert Publication().encode() == {"published": False, "parts": []}
        assert Publication.decode(Publication().encode()).scope_pin is None


class TestAManifest:
    """A state names every staged file, and stays small."""

    @given(st.lists(st.integers(1, 3), max_size=400))
    def test_any_number_of_commits_needs_few_parts_that_name_every_file(self, commits):
        """The parts of a day of commits must fit into 64 KiB beside everything else."""
        publication, manifests, every = Publication(), {}, []
        for txn, count in enumerate(commits):
            files = [StagedFile(f"a1/s{txn}/{number}", 10 * number, txn) for number in range(count)]
            publication, write = publication.staged(files, txn)
            joined = [file for part in write.joins for file in manifests[part.txn]]
            manifests[write.part.txn] = [*joined, *files]
            every += files

        named = [file for part in publication.parts for file in manifests[part.txn]]
        assert named == every
        assert all(part.matches(manifests[part.txn]) for part in publication.parts)
        assert len(publication.parts) <= (JOINED - 1) * 4
        assert Publication.decode(publication.encode()) == publication

    @pytest.mark.parametrize("change", [{"path": "other"}, {"size_bytes": 6}, {"rows": 8}])
    def test_a_manifest_with_another_file_does_not_match(self, change):
        """A part of another attempt, or a damaged one, would publish other rows."""
        file = StagedFile("a1/s1/0", 5, 7)
        publication, _ = Publication().staged([file], 1)

        assert publication.parts[0].matches([file])
        assert not publication.parts[0].matches([replace(file, **change)])
        assert not publication.parts[0].matches([])

    @pytest.mark.parametrize("parts", [None, [[1]], [[1, 0, 1, -1, "00"]], [[1, 0, 1, 1, "no number"]], "text"])
    def test_a_damaged_state_is_refused_by_its_field(self, parts):
        """A state that cannot be read must not start the job from the beginning."""
        text = STATE.encode().replace('"parts":[]', '"parts":' + repr(parts).replace("'", '"').replace("None", "null"))

        with pytest.raises(StateMismatchError, match=r"state\.publication"):
            JobState.decode(text)

    def test_a_job_that_publishes_continuously_stores_nothing_about_it(self):
        """States of earlier releases have no such field."""
        assert "publication" not in replace(STATE, publication=None).encode()


class TestAJobThatPublishesWhenComplete:
    """All rows become visible in one commit."""

    def test_no_commit_before_the_last_row_adds_a_file(self):
        """Each commit of rows writes a manifest in their place."""
        job = HiddenJob(Publish.WHEN_COMPLETE)
        job.copy_all()

        before, (publication,) = job.commits[: job.commits.index(job.publications[0])], job.publications
        staged = [commit for commit in before if commit.files]
        assert staged
        assert all(commit.manifest is not None for commit in staged)
        assert publication.files == ()
        assert sum(part.rows for part in publication.publishes) == 100
        assert JobState.decode(publication.state).publication == Publication(published=True)
        assert job.finish.outcome == "Complete"

    def test_changes_wait_for_the_publication(self):
        """A MERGE reads the target's rows, so it must not run while they are hidden."""
        job = HiddenJob(Publish.WHEN_COMPLETE)
        job.head = Head(5, job.head.timestamp_ms)
        job.copy_all()

        announced = next(number for number, text in enumerate(job.states) if JobState.decode(text).progress["merging"])
        assert job.commits[announced].publishes is None
        assert announced > job.commits.index(job.publications[0])

    def test_a_pause_of_everything_keeps_the_rows_hidden(self):
        """A user who pauses the whole job expects readers to see no change."""
        job = HiddenJob(Publish.WHEN_COMPLETE)
        job.let_pass(0.2)
        job.send(CommandReceived(1, 1, Pause(everything=True)))
        while job.running:
            job.finish_split()
        job.let_pass(3.0)
        assert job.publications == []

        job.send(CommandReceived(1, 2, Resume()))
        job.let_pass(1.1)
        job.copy_all()
        assert len(job.publications) == 1

    def test_rows_of_other_writers_end_the_job_before_anything_is_visible(self):
        """Another attempt would meet the same rows."""
        job = HiddenJob(Publish.WHEN_COMPLETE)
        job.refuses_publication = TargetChangedError("another writer added rows")
        job.copy_all()

        assert job.finish.error.reason == "TargetChanged"
        assert job.publications == []


class TestAJobThatPublishesWhenVerified:
    """The staged rows are compared first."""

    def test_rows_become_visible_after_an_equal_receipt_over_the_staged_files(self):
        """The receipt names the version that readers see."""
        job = HiddenJob(Publish.WHEN_VERIFIED, verify_final=True)
        job.copy_all()
        assert (job.publications, len(job.verifies)) == ([], 1)
        assert job.view.reason == "comparing the copied rows with the source before they become visible"
        assert sum(part.rows for part in job.verifies[0].staged) == 100

        job.answer()
        (publication,) = job.publications
        assert job.finish.outcome == "Complete"
        version = job.commits.index(publication) + 1
        assert JobState.decode(job.states[-1]).receipt.target_version == version

    def test_the_receipt_of_the_publication_is_the_last_one_if_no_change_followed(self):
        """A second comparison of the same rows would only cost time."""
        job = HiddenJob(Publish.WHEN_VERIFIED, verify_final=True)
        job.copy_all()
        job.answer()

        assert len(job.verifies) == 1
        assert job.commits[-1].compared is not None

    def test_a_difference_ends_the_job_and_nothing_is_visible(self):
        """Readers must never see a copy that is known to be wrong."""
        job = HiddenJob(Publish.WHEN_VERIFIED)
        job.copy_all()
        job.answer(VnodeMismatch(1, 10, 9))

        assert job.finish.error.reason == "VerificationFailed"
        assert job.publications == []
        # A repair would add the rows to the target, and the publication would then find rows of another writer.
        assert "backfill repair" not in job.finish.error.hint
        assert "backfill release --force" in job.finish.error.hint
