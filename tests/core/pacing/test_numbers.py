"""Numbers that users act on: each follows its definition in the core, whatever happens to the job."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.simulation.hand_driven import WALL_MS, HandDriven

from backfill_core.job.controls import Controls
from backfill_core.job.phase import JobSettings
from backfill_core.job.state import JobState
from backfill_core.phases.change_batch import ChangeMode
from backfill_core.phases.copied_state import summarize
from backfill_core.phases.replay import Replay
from backfill_core.protocol.commands import Throttle
from backfill_core.protocol.events import CommandReceived, Head, SourcePolled
from backfill_core.strategies.snapshot.stored import decode
from backfill_spark.driver.progress import progress_of, progress_of_state


def shown(job):
    return progress_of(job.view, job.now)


class TestACopyWithoutALimit:
    """A copy reads whole files, so the first commits are seconds apart, and a rate is known after two of them (fault
    U3)."""

    def test_an_unlimited_copy_has_an_eta_before_its_first_commit(self):
        """The ETA comes from the plan: three million rows take neither one second nor one hour."""
        job = HandDriven(*[1_000_000] * 3)
        job.let_pass(2.0)

        assert not any(rows for _, rows in job.sealed)
        assert 1 <= shown(job).eta_seconds <= 60
        assert shown(job).eta_seconds_low < shown(job).eta_seconds < shown(job).eta_seconds_high

    def test_an_unlimited_copy_shows_its_first_commit_in_its_percent(self):
        """A third of the rows is not 0 percent."""
        job = HandDriven(*[1_000_000] * 3)
        job.let_pass(9.0)
        job.finish_split()
        job.let_pass(2.0)

        assert shown(job).rows_done == 1_000_000
        assert shown(job).percent >= 20


def lifted(*, kept_s=None):
    """Read at ten rows per second, lift the limit, and yield the job each second while the earlier quotas are
    committed."""
    job = HandDriven(*[1_000_000] * 20, controls=Controls(rows_per_s=10))
    job.head = Head(4, WALL_MS, kept_s=kept_s)
    job.let_pass(4.5)
    begun = len(job.running)
    job.send(CommandReceived(1, 1, Throttle(None)))
    job.let_pass(1.0)
    for _ in range(begun):
        job.finish_split()
        job.let_pass(1.0)
        yield job
    for _ in range(10):
        job.let_pass(1.0, split_s=1.0)
        yield job


class TestARateOfAnotherLimit:
    """Rows that were started under one limit do not measure the pace under the next (fault U4)."""

    def test_the_rate_of_an_old_limit_does_not_distort_the_eta(self):
        """After the limit of ten rows per second, quotas were committed seconds late, and the ETA of a short copy was
        days."""
        etas = [shown(job).eta_seconds for job in lifted()]

        assert max(eta for eta in etas if eta is not None) < 600
        assert etas[-1] is not None

    def test_the_rate_of_an_old_limit_causes_no_retention_warning(self):
        """A retention of hours is enough for a copy of seconds."""
        assert [[warning.code for warning in job.view.warnings] for job in lifted(kept_s=4 * 3600)] == [[]] * 14


class Behind:
    """A replay of a source that commits, is polled and is consumed at times that a test chooses."""

    def __init__(self):
        self.now_ms, self.replay = WALL_MS, Replay(0, mode=ChangeMode.STAGED, follow=True, batch_target_s=10.0)
        self.commits = [WALL_MS]
        self.replay.know(0, WALL_MS)

    @property
    def lag_ms(self):
        return self.replay.lag_ms(WALL_MS, self.now_ms)

    def act(self, act, ms):
        self.now_ms += ms
        match act:
            case "commit":
                self.commits.append(self.now_ms)
            case "poll":
                self.replay.poll(SourcePolled(Head(len(self.commits) - 1, self.commits[-1])), self.now_ms)
            case "consume" if self.replay.lag_versions:
                self.replay.consumed += 1


class TestTheLag:
    """The lag is the age of the target: at most the time since it was known to hold the newest version (fault D9)."""

    ACTS = st.lists(
        st.tuples(st.sampled_from(["commit", "poll", "consume"]), st.integers(0, 3_600_000)), min_size=1, max_size=60
    )

    @given(ACTS)
    def test_the_lag_grows_no_faster_than_time(self, acts):
        """Two polls once showed 25 s and 1,392 s: the age of the pinned version, because no poll had shown the consumed
        version."""
        behind, current_ms = Behind(), WALL_MS
        for act, ms in acts:
            pending, before = behind.replay.lag_versions, behind.lag_ms
            behind.act(act, ms)
            most = before + ms if pending else behind.now_ms - current_ms
            assert 0 <= behind.lag_ms <= most
            current_ms = behind.now_ms if act == "poll" and not behind.replay.lag_versions else current_ms

    @given(ACTS)
    def test_the_lag_is_zero_if_no_newer_version_is_known(self, acts):
        """A target with a newer version in its source has no lag only for an instant after a commit."""
        behind = Behind()
        for act, ms in acts:
            behind.act(act, ms)
            assert behind.replay.lag_versions or not behind.lag_ms

    def test_the_lag_of_a_quiet_source_is_the_age_of_its_new_version(self):
        """After a quiet day the first commit is seconds old, not a day."""
        behind = Behind()
        for act, ms in [("poll", 1000), ("poll", 86_400_000), ("commit", 500), ("poll", 1500)]:
            behind.act(act, ms)

        assert behind.lag_ms == 2000

    def test_the_lag_of_a_version_between_two_polls_is_interpolated(self):
        """A batch may end at a version that no poll showed as the newest."""
        behind = Behind()
        for act, ms in [("poll", 0), *[("commit", 60_000)] * 10, ("poll", 1000), *[("consume", 0)] * 5]:
            behind.act(act, ms)

        assert behind.lag_ms == 5 * 60_000 + 1000


class TestRowsThatADeletionVectorHides:
    """Hidden rows cost no permit and no time, because no reader sees them (fault M5)."""

    def test_hidden_rows_cost_nothing_under_a_limit(self):
        """100 rows among 4,000 hidden ones once took 374 s at ten rows per second."""
        job = HandDriven(
            4100, 1000, live=(100, 0), controls=Controls(rows_per_s=10), settings=JobSettings(follows=True)
        )
        job.let_pass(14.0, split_s=0.1)

        assert sum(rows for _, rows in job.sealed) == 100
        assert job.view.strategy.phase == "Live"
        assert max(rows for _, rows in job.sealed) <= 21

    def test_hidden_rows_are_not_part_of_the_remaining_rows(self):
        """100 rows take ten seconds, not seven minutes."""
        job = HandDriven(4100, live=(100,), controls=Controls(rows_per_s=10))
        job.let_pass(2.5, split_s=0.1)

        assert job.view.strategy.rows_total == 100
        assert shown(job).eta_seconds <= 12


class Noisy(HandDriven):
    """A filter that excludes every thirtieth row; a part of a file has its rows only on average."""

    def __init__(self, *rows, rng, **more):
        self._rng = rng
        super().__init__(*rows, filtered=True, **more)
        self._passing = 1

    def _rows(self, start, stop):
        read = stop - start
        if not {start, stop} <= {*self._offsets}:
            read = max(0, round(self._rng.gauss(read, read**0.5)))
        return read - read // 30


class TestRowsThatAFilterLeftOut:
    """Filtered rows are counted when they are committed, and the count never falls (fault U9)."""

    @given(st.integers(0, 1000), st.sampled_from([None, 100, 500]))
    @settings(max_examples=8, deadline=None)
    def test_the_count_of_filtered_rows_never_falls(self, seed, limit):
        """The count was once 225, 491, 872, 878, 874, because a part of a file counted its average."""
        job = Noisy(
            1000, 5000, 500, rng=Random(seed), controls=Controls(rows_per_s=limit), settings=JobSettings(follows=True)
        )
        seen = []
        for _ in range(20):
            job.let_pass(1.0, split_s=0.1)
            seen.append((job.view.strategy.rows_filtered, job.view.strategy.rows_done))

        assert seen == sorted(seen)
        assert [done for _, done in seen] == sorted(done for _, done in seen)


class TestAStoppedJob:
    """`status` without a driver reports the numbers that the driver reported after its last commit (fault U15)."""

    @pytest.mark.parametrize("limit", [None, 200_000])
    def test_a_stopped_job_reports_each_number_as_its_driver_did(self, limit):
        """The status once showed 784,247 rows without a driver and 785,125 with one: only the driver counted filtered
        rows."""
        job = HandDriven(*[200_000] * 20, filtered=True, controls=Controls(rows_per_s=limit))
        job.let_pass(4.0, split_s=0.3)
        state = JobState.decode(job.states[-1])
        stored = progress_of_state(state, summarize(decode(state.progress)), lambda _: "").model_dump(
            exclude_unset=True
        )
        live = shown(job).model_dump(exclude_unset=True)

        assert stored["rows_filtered"] > 0
        assert stored.pop("splits_total") >= stored["splits_done"]
        assert stored == {name: live[name] for name in stored}
        assert stored["last_commit_time"] is not None
