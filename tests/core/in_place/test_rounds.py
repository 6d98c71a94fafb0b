"""Order of files, size of batches and distance of commits."""

import itertools

from backfill_core.in_place.conflicts import ForeignChanges, Replacement
from backfill_core.in_place.files import FillScope, FillState, LiveFile, is_append
from backfill_core.in_place.rounds import (
    BYTES_FIRST,
    DISTANCE_MAX_MS,
    LISTING_MAX_MS,
    QUIET_MS,
    Filled,
    InPlaceRounds,
    ListFiles,
    StageFiles,
    WaitUntil,
)
from backfill_core.in_place.writer_conflicts import BUSY_REWRITES, WriterConflicts
from backfill_core.log_shipping.actions import DeletionVector, FileAdded, FileRemoved

NOW_MS = 10**9
SCOPE = FillScope("job-1", ("a", "b"))


def file(path, **fields):
    """Return a file that no writer changed for long."""
    return LiveFile(path, **{"bytes": 1_000, "rows": 100, **fields})


def rounds_of(*files, scope=SCOPE):
    """Return rounds after the first listing, of version 7."""
    rounds = InPlaceRounds(scope, WriterConflicts(2))
    assert rounds.next_step(NOW_MS) == ListFiles()
    rounds.listed(7, files, NOW_MS)
    return rounds


def staged(rounds, now_ms=NOW_MS):
    """Stage the next batch; return its paths."""
    step = rounds.next_step(now_ms)
    assert isinstance(step, StageFiles)
    rounds.begin()
    rounds.staged(step, [Replacement(file) for file in step.files])
    return [file.path for file in step.files]


def committed(rounds, foreign=None, now_ms=NOW_MS, version=8):
    """Take the commit that is due, and answer it."""
    assert rounds.take_commit(now_ms) is not None
    return rounds.committed(version, foreign or ForeignChanges(), now_ms)


def rewritten(*paths, versions=1):
    """Return foreign changes that removed files."""
    changes = ForeignChanges()
    for _ in range(versions):
        changes = changes.after([FileRemoved(path, True) for path in paths])
    return changes


class TestAFile:
    """The log decides alone whether it is a file to do."""

    def test_is_excluded_only_if_no_column_has_a_null(self):
        """The job fills all columns of a file at once."""
        assert SCOPE.state(file("x", nulls={"a": 0, "b": 0})) is FillState.NO_NULLS
        assert SCOPE.state(file("x", nulls={"a": 0, "b": 1})) is FillState.TO_DO
        assert SCOPE.state(file("x", nulls={"a": 0})) is FillState.TO_DO

    def test_is_not_excluded_by_null_counts_under_another_condition(self):
        """`setWhere` may choose rows with a value."""
        scope = FillScope("job-1", ("a",), fills_nulls=False)

        assert scope.state(file("x", nulls={"a": 0})) is FillState.TO_DO

    def test_of_another_job_is_to_do(self):
        """The tag identifies the expressions."""
        assert SCOPE.state(file("x", tag="job-1")) is FillState.FILLED
        assert SCOPE.state(file("x", tag="job-2")) is FillState.TO_DO

    def test_without_visible_rows_is_not_to_do(self):
        """A vector may hide all rows."""
        assert SCOPE.state(file("x", vector=DeletionVector("u", "0" * 20, 1, 8, 100))) is FillState.EMPTY

    def test_of_a_writer_is_excluded_only_if_it_holds_new_rows(self):
        """RESTORE adds old rows without a removal."""
        scope = FillScope("job-1", ("a",), writers_since=5)

        assert [scope.state(file("x", appended_at=at)) for at in (4, 5, None)] == [
            FillState.TO_DO,
            FillState.OF_WRITERS,
            FillState.TO_DO,
        ]
        assert is_append("WRITE", removes=False)
        assert not is_append("WRITE", removes=True)
        assert not is_append("RESTORE", removes=False)


class TestARound:
    """It stages the files of one listing, and commits them."""

    def test_ends_the_job_only_if_it_lists_no_file_to_do(self):
        """A file may have been rewritten during the round."""
        rounds = rounds_of(file("x"))
        staged(rounds)

        assert isinstance(rounds.next_step(NOW_MS), WaitUntil)
        committed(rounds)
        assert rounds.next_step(NOW_MS) == ListFiles()
        rounds.listed(8, [file("y", tag="job-1")], NOW_MS)
        assert rounds.next_step(NOW_MS) == Filled(8)
        assert (rounds.files_filled, rounds.rows_filled, rounds.files_left) == (1, 100, 0)

    def test_takes_files_in_use_last_and_one_at_first(self):
        """A writer that changed a file will often change it again."""
        rounds = rounds_of(
            file("new", changed_ms=NOW_MS),
            file("newer", changed_ms=NOW_MS + 1),
            file("old", changed_ms=5),
            file("older"),
        )

        assert (rounds.files_left, rounds.rows_left) == (4, 400)
        assert staged(rounds) == ["older", "old"]
        committed(rounds, rewritten("older"))
        later_ms = NOW_MS + QUIET_MS * 2
        assert staged(rounds, later_ms) == ["new"]

    def test_stages_small_batches_first(self):
        """The first commit follows soon, and shows an error early."""
        rounds = rounds_of(*(file(name, bytes=BYTES_FIRST // 2) for name in "abcdef"))

        assert staged(rounds) == ["a", "b"]
        committed(rounds)
        assert staged(rounds) == ["c", "d", "e", "f"]

    def test_commits_its_last_files_at_once(self):
        """The next round lists the version of this commit, and the job waits for it."""
        rounds = rounds_of(file("x", bytes=BYTES_FIRST), file("y", bytes=BYTES_FIRST))
        staged(rounds)
        assert not rounds.ends_round
        staged(rounds)

        assert rounds.ends_round
        assert rounds.take_commit(NOW_MS - 60_000) is not None  # whatever the clock says
        assert not rounds.ends_round

    def test_keeps_the_distance_before_its_last_files(self):
        """Writers rewrote files meanwhile."""
        rounds = rounds_of(*(file(name, bytes=BYTES_FIRST) for name in "ab"))
        staged(rounds)
        committed(rounds, rewritten("other"), NOW_MS + 1_000)
        staged(rounds, NOW_MS + 1_000)

        assert not rounds.ends_round

    def test_begins_again_after_a_change_of_metadata(self):
        """Types, features and expressions must be checked before the next file is computed."""
        rounds = rounds_of(file("x"), file("y", bytes=BYTES_FIRST))
        staged(rounds)

        result = committed(rounds, ForeignChanges().after([], redefined=True))

        assert [lost.replaced.path for lost in result.lost] == ["x"]
        assert rounds.next_step(NOW_MS) == ListFiles()

    def test_gives_a_waiting_file_the_vector_of_the_newest_version(self):
        """The next check begins at that version, and no longer sees the change."""
        vector = DeletionVector("u", "1" * 20, 1, 8, 3)
        rounds = rounds_of(file("x"), file("y", bytes=BYTES_FIRST), file("z", bytes=BYTES_FIRST))
        staged(rounds)
        changes = ForeignChanges().after([FileRemoved("y", True), FileAdded("y", 1, 100, True, vector, "{}")])

        committed(rounds, changes)

        assert staged(rounds, NOW_MS + DISTANCE_MAX_MS) == ["z"]
        committed(rounds, now_ms=NOW_MS + DISTANCE_MAX_MS, version=9)
        step = rounds.next_step(NOW_MS + DISTANCE_MAX_MS)
        assert [(file.path, file.vector) for file in step.files] == [("y", vector)]


class TestAnOutdatedList:
    """Its files may be gone: a writer removes them, and VACUUM follows while the job is paused."""

    def test_is_made_again_after_lost_work_and_after_an_hour(self):
        """Another try would read the same missing file."""
        lost, old = rounds_of(file("x")), rounds_of(file("x"))
        lost.lost()

        assert lost.next_step(NOW_MS) == ListFiles()
        assert old.next_step(NOW_MS + LISTING_MAX_MS).files == (file("x"),)
        assert old.next_step(NOW_MS + LISTING_MAX_MS + 1) == ListFiles()
        assert lost.files_left == 1  # a user must not read that nothing is left
        lost.listed(8, [file("y")], NOW_MS)
        assert staged(lost) == ["y"]

    def test_lets_staged_files_commit_first(self):
        """They are complete, and the commit checks them."""
        rounds = rounds_of(file("x"), file("y", bytes=BYTES_FIRST))
        staged(rounds)
        rounds.lost()

        assert isinstance(rounds.next_step(NOW_MS), WaitUntil)
        committed(rounds)
        assert rounds.next_step(NOW_MS) == ListFiles()


class TestABatchInProgress:
    """Commits of the job and of writers pass while its files are computed."""

    def begun(self):
        """Return rounds with a staged file, another one that is computed, and its batch."""
        rounds = rounds_of(file("x"), file("y", bytes=BYTES_FIRST))
        staged(rounds)
        batch = rounds.next_step(NOW_MS)
        rounds.begin()
        return rounds, batch

    def test_loses_a_file_that_a_writer_removed_before_the_commit(self):
        """The next check begins after that version, so that it would not see the removal."""
        rounds, batch = self.begun()
        committed(rounds, rewritten("y"))

        result = rounds.staged(batch, [Replacement(file) for file in batch.files])

        assert [lost.replaced.path for lost in result.lost] == ["y"]
        assert rounds.take_commit(NOW_MS + DISTANCE_MAX_MS) is None

    def test_takes_the_deletion_vector_of_that_commit(self):
        """The copy has the rows in their order, so the vector fits."""
        vector = DeletionVector("u", "1" * 20, 1, 8, 3)
        rounds, batch = self.begun()
        committed(rounds, ForeignChanges().after([FileRemoved("y", True), FileAdded("y", 1, 100, True, vector, "{}")]))
        rounds.staged(batch, [Replacement(file) for file in batch.files])

        [waiting] = rounds.take_commit(NOW_MS + DISTANCE_MAX_MS).files

        assert waiting.replaced.vector == vector

    def test_is_not_in_the_commit_that_passes_meanwhile(self):
        """Its files have no result yet, and are to do."""
        rounds, _ = self.begun()

        committed(rounds)

        assert (rounds.files_filled, rounds.files_left) == (1, 1)

    def test_has_about_the_rows_that_a_limit_admits(self):
        """A file is not cut, so a batch has one at least."""
        rounds = rounds_of(file("x"), file("y"), file("z"))

        assert [len(rounds.next_step(NOW_MS, rows_max=rows).files) for rows in (1, 150, 200, 1e9)] == [1, 1, 2, 3]

    def test_waits_for_no_distance_before_a_pause(self):
        """Otherwise staged files would wait for the end of the pause."""
        rounds = rounds_of(*(file(name, bytes=BYTES_FIRST) for name in "abc"))
        staged(rounds)
        committed(rounds, rewritten("other"), NOW_MS + 1_000)
        staged(rounds, NOW_MS + 1_000)

        assert rounds.take_commit(NOW_MS + 2_000) is None
        assert rounds.take_commit(NOW_MS + 2_000, early=True) is not None


class TestBusyWriters:
    """A commit that removes files makes a concurrent MERGE fail."""

    def test_meet_a_commit_at_most_once_in_fifty_transactions(self):
        """At a merge a second, 2 % of them may fail."""
        second_ms = 1_000
        rounds = rounds_of(*(file(f"{at:03d}", bytes=BYTES_FIRST) for at in range(400)))
        commits = []
        for now_ms in range(NOW_MS, NOW_MS + 400 * second_ms, second_ms):
            if isinstance(rounds.next_step(now_ms), StageFiles):
                staged(rounds, now_ms)
            if rounds.take_commit(now_ms) is not None:
                since_ms = commits[-1] if commits else NOW_MS
                rounds.committed(8, rewritten("other", versions=(now_ms - since_ms) // second_ms), now_ms)
                commits.append(now_ms)

        distances = [(after - before) // second_ms for before, after in itertools.pairwise(commits)]
        assert len(distances) >= 5
        assert min(distances[1:]) >= 50  # the first commit knows no writer yet
        assert distances[1] > 90  # so the next one waits longer
        assert rounds.conflicts.percent <= 2

    def test_that_were_busy_before_the_listing_delay_the_first_commit(self):
        """The results are staged meanwhile; a single earlier rewrite delays nothing."""
        due = {}
        for rewrites in (BUSY_REWRITES - 1, 60):
            rounds = InPlaceRounds(SCOPE, WriterConflicts(2))
            rounds.listed(7, [file("x")], NOW_MS, recent_rewrites=rewrites)
            staged(rounds)
            due[rewrites] = [rounds.take_commit(NOW_MS + at_ms) is not None for at_ms in (0, 49_000, 50_000)]

        assert due[BUSY_REWRITES - 1][0]
        assert due[60] == [False, False, True]

    def test_make_files_in_use_wait_longer_after_each_loss(self):
        """Otherwise two writers would undo each other's work for ever."""
        rounds, now_ms, waits = rounds_of(), NOW_MS, []
        for _ in range(4):
            rounds.listed(7, [file("x", changed_ms=now_ms)], now_ms)
            step = rounds.next_step(now_ms)
            waits.append(step.at_ms - now_ms if isinstance(step, WaitUntil) else 0)
            now_ms += DISTANCE_MAX_MS * 2 if not waits[-1] else waits[-1]
            staged(rounds, now_ms)
            committed(rounds, ForeignChanges(absent=frozenset({"x"})), now_ms)

        assert waits == [0, 1_000, 2_000, 4_000]
