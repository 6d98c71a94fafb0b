"""Steps of a job: each step has its own time; `percent` covers all steps and never decreases."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from support.simulation.hand_driven import HandDriven

from backfill_api.status.progress import Progress
from backfill_core.job.controls import Controls
from backfill_core.job.phase import JobSettings
from backfill_core.job.state import JobState
from backfill_core.job.steps import CATCH_UP, COPY, KEY_PROOF, RECEIPT, START, begin, merge_s, scan_s
from backfill_core.protocol.commands import Pause, Resume, Throttle
from backfill_core.protocol.eta import Eta
from backfill_core.protocol.events import CommandReceived, Head, Tick, WorkFinished
from backfill_core.protocol.receipt import TableReceipt
from backfill_core.protocol.strategy import Facts, Opened, Pinned
from backfill_core.protocol.work import ApplyChanges, ChangesApplied, KeyProven, Verified, Verify
from backfill_core.strategies.snapshot.params import SnapshotSettings
from backfill_core.strategies.snapshot.stored import decode
from backfill_core.strategies.snapshot.strategy import snapshot
from backfill_spark.driver.progress import progress_of

WHOLE = (START, COPY, KEY_PROOF, CATCH_UP, RECEIPT)
FILES = [1_000_000] * 20
EVERYTHING = JobSettings(verify_final=True)


def shown(job):
    return progress_of(job.view, job.now)


def through(job, *, seconds):
    """Advance a job in steps of one second, one split per second, at most to its end; return the progress that users
    saw."""
    seen = []
    for _ in range(seconds):
        job.let_pass(1.0, split_s=1.0)
        seen.append(shown(job))
        if job.finish is not None:
            break
    return seen


def seconds_of(job, seconds):
    """Advance a job with four splits per second; return the progress that users saw at the end of each second."""
    seen = []
    for _ in range(seconds):
        for _ in range(2):
            job.let_pass(0.5, split_s=0.25)
        seen.append(shown(job))
    return seen


class Worked(HandDriven):
    """A job whose proofs, batches and receipts take `takes_s` virtual seconds."""

    def __init__(self, *rows, takes_s, **more):
        self.takes_s = takes_s
        self.due = []
        super().__init__(*rows, **more)

    def _execute(self, actions):
        for action in actions:
            work = getattr(action, "work", None)
            if isinstance(work, Verify):
                receipt = TableReceipt(work.position, work.target_version, work.epoch, 1, 1, "", (), 1.0)
                self.due.append((self.now_s + self.takes_s, Verified(work.work_id, receipt)))
            elif isinstance(work, ApplyChanges):
                self.due.append((self.now_s + self.takes_s, ChangesApplied(work.work_id, 1)))
            elif type(work).__name__ == "ProveKey":
                self.due.append((self.now_s + self.takes_s, KeyProven(work.work_id)))
        super()._execute(actions)

    def send(self, event):
        super().send(event)
        ready = [entry for entry in self.due if entry[0] <= self.now_s]
        self.due = [entry for entry in self.due if entry[0] > self.now_s]
        for _, result in ready:
            super().send(WorkFinished(result))


class TestPercentCoversTheWholeJob:
    """The percentage covers all steps of the job, not only the copy."""

    def test_a_finished_copy_is_not_a_finished_job(self):
        """The proof and the receipt take most of the time, so the job must not report 100 percent after the copy."""
        job = Worked(*FILES, takes_s=30.0, settings=EVERYTHING, proves_key=True)
        job.head = Head(9, job.head.timestamp_ms)
        seen = through(job, seconds=150)
        copied = next(progress for progress in seen if progress.step == KEY_PROOF)

        assert copied.rows_done == copied.rows_total
        assert copied.percent < 75
        assert [step.name for step in copied.steps] == list(WHOLE)
        assert copied.eta_seconds > 5
        assert (seen[-1].percent, seen[-1].step, job.finish.outcome) == (100, "", "Complete")
        assert {step.state for step in seen[-1].steps} == {"Done"}
        took = {step.name: step.seconds for step in seen[-1].steps}
        assert all(30 <= took[name] <= 33 for name in (KEY_PROOF, CATCH_UP, RECEIPT)), took

    def test_percent_never_falls_and_reaches_100_only_at_the_end(self):
        """R-PROG-1: the law holds with pauses, limits, a source that outruns the job, and work that is slower than
        estimated."""
        for seed in range(10):
            rng = random.Random(seed)
            job = Worked(
                *FILES[: rng.randint(1, 12)], takes_s=rng.choice([0.5, 9.0, 40.0]), settings=EVERYTHING, proves_key=True
            )
            percents = [0]
            for revision in range(1, 40):
                command = rng.choice(
                    [Pause(), Pause(everything=True), Resume(), Throttle(rng.choice([None, 50_000, 0]))]
                )
                job.send(
                    CommandReceived(1, revision, command if revision < 30 else (Resume(), Throttle(None))[revision % 2])
                )
                job.head = Head(job.head.position + rng.randint(0, 3), job.head.timestamp_ms + 3000)
                percents += [progress.percent for progress in through(job, seconds=rng.randint(1, 6))]
            job.head = Head(job.head.position, job.head.timestamp_ms)
            percents += [progress.percent for progress in through(job, seconds=400)]

            assert percents == sorted(percents)
            assert (job.finish is not None) == (percents[-1] == 100), seed
            assert job.finish is not None

    @pytest.mark.parametrize("commit_every", [1, 5])
    def test_a_new_attempt_continues_from_the_last_shown_percent(self, commit_every):
        """R-PROG-4: a driver that is killed during a copy or a replay must not look like lost work."""
        settings = JobSettings(follows=True, commit_every=commit_every)
        limited = Controls(rows_per_s=250_000)
        job = Worked(*[100_000] * 60, takes_s=4.0, follow=True, settings=settings, controls=limited)
        job.head = Head(9, job.head.timestamp_ms)
        moved = set()
        for _ in range(200):
            job.let_pass(0.25, split_s=0.25)
            seen = shown(job)
            next_attempt = begin(WHOLE, {}, percent=JobState.decode(job.states[-1]).percent, now_s=0.0)
            assert seen.step not in (COPY, CATCH_UP) or next_attempt.shown >= seen.percent, seen
            moved.add((seen.step, seen.percent))

        assert len({percent for step, percent in moved if step == COPY}) > 5
        assert len({percent for step, percent in moved if step == CATCH_UP}) > 1
        assert seen.percent == 100

    def test_percent_is_part_of_a_stored_state(self):
        """R-PROG-4: the replacement of a driver must not look like lost work."""
        stored = JobState.decode(replace(JobState("a/b", "h", 1, 0, "Snapshot"), percent=61).encode())

        assert begin(WHOLE, {}, percent=stored.percent, now_s=0.0).percent == 61

    def test_percent_does_not_fall_after_a_step_without_commits(self):
        """R-PROG-1: the newest commit may be older than the proof of the key."""
        facts = Facts(6_000_000, 0, rows_per_s=600_000.0, versions_left=5)
        proving = begin(WHOLE, {}, percent=0, now_s=0.0).seen(KEY_PROOF, facts, 1.0).seen(KEY_PROOF, facts, 4.0)
        replaying = proving.seen(CATCH_UP, facts, 5.0, durable=1)

        assert proving.shown > 1
        assert replaying.shown == proving.shown

    def test_a_state_of_an_earlier_release_has_no_percent(self):
        """A target of an earlier release must open after an upgrade."""
        text = JobState("a/b", "h", 1, 0, "Snapshot").encode().replace('"percent":0,', "")

        assert '"percent"' not in text
        assert JobState.decode(text).percent == 0

    def test_a_following_job_shows_100_percent_once_it_has_caught_up(self):
        """A job that follows has no end, and a receipt is not one of its steps."""
        job = Worked(*FILES[:2], takes_s=1.0, follow=True, settings=replace(EVERYTHING, follows=True), proves_key=True)
        seen = through(job, seconds=30)

        assert (seen[-1].percent, seen[-1].step, seen[-1].phase) == (100, "", "Live")
        assert [step.name for step in seen[-1].steps] == [START, COPY, KEY_PROOF, CATCH_UP]


class TestALimitChangesThePace:
    """A limit changes the pace, not the progress. The demo once showed 49 percent for a minute, because a limit made
    the copy look like most of the job."""

    @pytest.fixture
    def limited(self):
        """A copy at 500,000 rows per second until two fifths; then the last progress and each second under a fifth of
        that rate."""
        job = Worked(*[100_000] * 60, takes_s=8.0, settings=EVERYTHING, proves_key=True)
        job.send(CommandReceived(1, 1, Throttle(500_000)))
        before = seconds_of(job, 4)[-1]
        job.send(CommandReceived(1, 2, Throttle(100_000)))
        return job, before, seconds_of(job, 15)

    def test_percent_does_not_jump(self, limited):
        """A slower job has not progressed further."""
        _, before, seen = limited

        assert seen[1].percent - before.percent <= 2

    def test_percent_moves_with_the_rows(self, limited):
        """The percentage moves under the limit and after the limit ends."""
        job, _, seen = limited
        every_4_s = [progress.percent for progress in seen[1::4]]
        job.send(CommandReceived(1, 3, Throttle(None)))
        after = seconds_of(job, 3)[-1]

        assert all(now > was for was, now in pairwise(every_4_s)), every_4_s
        assert after.percent > seen[-1].percent

    def test_no_time_left_is_shorter_than_the_limit_allows(self, limited):
        """Until the meter forgets them, recent commits have the rate of the previous limit."""
        _, _, seen = limited

        for progress in seen:
            assert progress.eta_seconds >= (progress.rows_total - progress.rows_done) // 100_000

    def test_rows_committed_during_a_pause_count(self):
        """The next barriers commit the work that was running when the pause arrived."""
        job = HandDriven(*FILES)
        job.let_pass(12.0, split_s=2.0)
        job.send(CommandReceived(1, 1, Pause()))
        before = shown(job)
        while job.running:
            job.finish_split()
        job.let_pass(2.5)
        after = shown(job)

        assert after.rows_done > before.rows_done
        assert after.percent > before.percent
        job.let_pass(5.0)
        assert shown(job).percent == after.percent


class TestTheTimeThatIsLeft:
    """The estimate covers every remaining step."""

    def test_a_limit_gives_an_estimate_at_once(self):
        """The estimate of total / limit needs no measurement."""
        job = HandDriven(*FILES)
        job.send(CommandReceived(1, 1, Throttle(10_000)))
        job.let_pass(1.5)

        assert 1900 <= shown(job).eta_seconds <= 2020

    def test_a_lifted_limit_does_not_count_as_the_pace(self):
        """No estimate is better than one from the old limit: a job once showed 15 minutes for its last 30 seconds."""
        job = HandDriven(*FILES)
        job.send(CommandReceived(1, 1, Throttle(10_000)))
        job.let_pass(20.0, split_s=1.0)
        limited = shown(job)
        job.send(CommandReceived(1, 2, Throttle(None)))
        job.let_pass(1.5)
        lifted = shown(job)
        job.let_pass(10.0, split_s=1.0)
        free = shown(job)

        assert limited.eta_seconds > 1500
        assert lifted.eta_seconds is None
        assert free.eta_seconds < 100

    def test_the_first_batch_does_not_decide_the_time_of_changes(self):
        """The first batch runs on a cold JVM. 44 s for three versions do not prove that a source with a version every 7
        s is nearly as fast."""
        facts = Facts(3_000_000, 0, versions_left=5, versions_per_s=1 / 7, version_s=44 / 3, batches=1)
        first, second = (
            begin((START, COPY, CATCH_UP), {}, percent=0, now_s=0.0).seen(CATCH_UP, case, 1.0).eta.seconds
            for case in (facts, replace(facts, version_s=5.0, batches=2))
        )

        assert (first, second) == (pytest.approx(3 + 5 * 44 / 3), pytest.approx((3 + 5 * 5) / (1 - 5 / 7)))

    def test_the_estimate_includes_every_remaining_step(self):
        """The estimate is the sum of the time left in each step."""
        job = Worked(*FILES, takes_s=5.0, settings=EVERYTHING, proves_key=True)
        job.let_pass(12.0, split_s=2.0)
        seen = shown(job)
        left = sum(step.seconds_left or 0 for step in seen.steps)

        assert abs(seen.eta_seconds - left) <= 3
        assert seen.eta_seconds_low <= seen.eta_seconds <= seen.eta_seconds_high
        assert {step.name for step in seen.steps if step.seconds_left} >= {COPY, KEY_PROOF, RECEIPT}

    def test_a_measured_step_corrects_the_estimate(self):
        """A proof that takes twice as long as estimated doubles the estimate of the receipt."""
        facts = Facts(rows=10_000_000, rows_left=0)
        course = begin(WHOLE, {}, percent=0, now_s=0.0).seen(KEY_PROOF, facts, 1.0)
        took_s = 2 * scan_s(KEY_PROOF, facts.rows)
        before = course.steps[-1].left.seconds
        after = course.seen(CATCH_UP, facts, 1.0 + took_s).steps[-1].left.seconds

        assert after == pytest.approx(2 * before)

    def test_a_slow_start_raises_all_estimates(self):
        """A busy machine is slow at every step."""
        facts = Facts(rows=1000, rows_left=0)
        quick, slow = (
            begin(WHOLE, {START: took_s}, percent=0, now_s=0.0).seen(KEY_PROOF, facts, 1.0) for took_s in (8.0, 40.0)
        )

        assert slow.eta.seconds > 3 * quick.eta.seconds

    def test_a_limit_does_not_change_the_estimate_of_later_steps(self):
        """A copy limited to 1,000 rows/s does not make the receipt take hours."""
        facts = Facts(10_000_000, 5_000_000, Eta(5000, 4000, 6000), rows_per_s=1000, limit_rows_per_s=1000)
        course = begin(WHOLE, {}, percent=0, now_s=0.0).seen(COPY, facts, 1.0)

        assert course.steps[-1].left.seconds == scan_s(RECEIPT, 10_000_000)

    def test_the_estimate_includes_versions_written_during_the_copy(self):
        """An hour of copying leaves an hour of versions to apply."""
        facts = Facts(10_000_000, 10_000_000, Eta(3600, 3600, 3600), versions_per_s=1.0, version_s=0.5, batches=9)
        course = begin((START, COPY, CATCH_UP), {}, percent=0, now_s=0.0).seen(COPY, facts, 1.0)

        assert course.steps[-1].left.seconds > 3600

    def test_a_pause_takes_no_time(self):
        """A paused job is not slow, and the end of the pause is unknown."""
        job = HandDriven(*FILES)
        job.let_pass(10.0, split_s=2.0)
        job.send(CommandReceived(1, 1, Pause()))
        job.let_pass(2.0)
        before = shown(job)
        job.let_pass(60.0)
        job.send(Tick())

        assert shown(job).steps == before.steps
        assert shown(job).eta_seconds is None


class TestRowsThatAreMergedInOrder:
    """The estimate of an ordered merge includes its MERGEs. The plan of a topic with one row per key once had no time
    for them."""

    def test_each_batch_costs_a_merge(self):
        """A batch takes 10 s: 7 s of reading and 3 s for the MERGE."""
        assert merge_s(7_000_000, 100_000, None, batch_s=10) == 70 + 10 * 3

    def test_a_limit_gives_each_batch_one_second_of_rows(self):
        """A MERGE for each second of rows takes longer than the limit alone."""
        assert merge_s(10_000, 100_000, 1000, batch_s=10) == pytest.approx(0.1 + 10 * 3)
        assert merge_s(10_000, 100, 1000, batch_s=10) == pytest.approx(100 + 15 * 3)

    def test_no_rows_take_no_time(self):
        """A topic may be empty."""
        assert merge_s(0, 100, None, batch_s=10) == 0


class TestWhatAnEarlierReleaseWrote:
    """Progress and states of an earlier release stay readable."""

    def test_progress_without_steps_is_read(self):
        """A driver of the previous release may still run with a new operator."""
        reported = {"phase": "LogStore", "percent": 100, "rowsDone": 5, "rowsTotal": 5, "attempt": 1, "epoch": 3}

        assert (Progress.model_validate(reported).steps, Progress.model_validate(reported).step) == ((), "")

    def test_a_job_resumes_from_a_state_stored_during_catch_up(self):
        """The earlier release named this phase after a storage class of Delta."""
        opened = Opened(Pinned(3, 0, "table", "files", (10,), 10))
        settings = SnapshotSettings(merges=True, filtered=False)
        fresh = snapshot(opened, settings).stored.encode()
        early = fresh | {"phase": "LogStore", "done": [[0, 10]], "rowsRead": 10, "consumed": 5}
        resumed = snapshot(opened, settings, decode(early))

        assert resumed.stored.phase == "CatchUp"
        assert (resumed.status.covered, resumed.status.consumed) == (None, 5)


class TestWhatWasDoneBefore:
    """Steps that ran before the first write count."""

    def test_a_proof_before_the_first_write_is_a_step(self):
        """The proof takes time, no matter when it runs."""
        course = begin((START, COPY, CATCH_UP), {START: 9.0, KEY_PROOF: 4.0}, percent=0, now_s=0.0)
        steps = course.seen(COPY, Facts(10, 10), 1.0).steps

        assert [(step.name, step.state, step.spent_s) for step in steps] == [
            (START, "Done", 10.0), (KEY_PROOF, "Done", 4.0), (COPY, "Running", 0.0), (CATCH_UP, "Pending", None),
        ]  # fmt: skip
