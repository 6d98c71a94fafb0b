"""The first read of an attempt without a limit: it is small, and its commit comes soon."""

from __future__ import annotations

from support.arrangement.by_hand import ByHand, ids
from support.reference.arrangement import Key

from backfill_core.phases.key_copy import CHUNK_ROWS_MIN, FIRST_CUT_ROWS
from backfill_core.positions.vnode_positions import UpTo, VnodePositions
from backfill_core.protocol.events import WorkFinished
from backfill_core.protocol.work import KeyRangeStaged, ReadKeyRange, StagedFile

FILE = 1_000_000
CUTS = ids(FILE, 2 * FILE, 3 * FILE)


def begun(**settings: int) -> ByHand:
    """Return an attempt over four files of a million rows each; no test reads all of them."""
    return ByHand([ids(*range(4))], cuts=CUTS, rows_per_cut=FILE, **settings)


def stage(attempt: ByHand, chunk: object, last: int | str, seconds: float = 1.0) -> None:
    """Let a read end that was cut off at a key; its rows need not exist."""
    assert isinstance(chunk, ReadKeyRange)
    del attempt.running[chunk.work_id]
    attempt.now_s += seconds
    file = StagedFile("first", 1, CHUNK_ROWS_MIN, ())
    staged = KeyRangeStaged(chunk.work_id, (file,), CHUNK_ROWS_MIN, (last,), None)
    attempt.strategy.on(WorkFinished(staged), attempt.now)


class TestTheFirstRead:
    """A user waits for the first commit. In a Java that has just started, a file of a million rows takes three seconds."""

    def test_the_first_read_of_a_large_file_is_small(self) -> None:
        """The rest of the file is the second read."""
        attempt = begun()

        (first,) = attempt.start()
        stage(attempt, first, 49_999)
        rest, following = attempt.start()

        assert isinstance(first, ReadKeyRange)
        assert isinstance(rest, ReadKeyRange)
        assert isinstance(following, ReadKeyRange)
        assert (first.low, first.high, first.rows_max) == (None, (FILE,), CHUNK_ROWS_MIN)
        assert (rest.low, rest.high, rest.rows_max) == ((49_999,), (FILE,), None)
        assert (following.low, following.high, following.rows_max) == ((FILE,), (2 * FILE,), None)

    def test_a_first_read_that_is_lost_is_small_again(self) -> None:
        """No commit contains rows yet."""
        attempt = begun()
        (first,) = attempt.start()
        attempt.lose(first)

        (again,) = attempt.start()

        assert isinstance(again, ReadKeyRange)
        assert (again.low, again.rows_max) == (None, CHUNK_ROWS_MIN)

    def test_a_first_read_whose_end_is_no_position_is_repeated_whole(self) -> None:
        """A key of 9 KiB cannot be stored. Any row may be the last one of the first read; the ends of files are chosen."""
        attempt = ByHand([[("a", 1)]], types=("string",), key=Key((0,)), cuts=[("b",)], rows_per_cut=FILE)
        (first,) = attempt.start()
        stage(attempt, first, "a" * 9000)

        again, *_ = attempt.start()

        assert attempt.strategy.status.failure is None
        assert isinstance(again, ReadKeyRange)
        assert (again.low, again.high, again.rows_max) == (None, ("b",), None)

    def test_the_first_read_of_a_small_file_is_whole(self) -> None:
        """A cut costs a Spark job that finds the key of the last row."""
        attempt = ByHand([ids(*range(4))], cuts=CUTS, rows_per_cut=FIRST_CUT_ROWS)

        work = attempt.start()

        assert [piece.rows_max for piece in work if isinstance(piece, ReadKeyRange)] == [None, None]

    def test_the_users_size_is_kept(self) -> None:
        """`chunkRows` bounds every read, also the first one."""
        attempt = begun(chunk_rows=200_000)

        (first,) = attempt.start()

        assert isinstance(first, ReadKeyRange)
        assert first.rows_max == 200_000

    def test_the_size_of_later_chunks_does_not_follow_from_the_first_read(self) -> None:
        """The first read has the start-up time of Java in it: 50,000 rows in 4 s would ask for small chunks."""
        attempt = begun()
        (first,) = attempt.start()
        before = attempt.strategy.view(attempt.now)

        stage(attempt, first, 49_999, seconds=4.0)

        assert attempt.strategy.view(attempt.now).splits_left == before.splits_left


class TestTheFirstCommit:
    """The next barrier is up to a second away."""

    def test_the_first_rows_are_committed_at_once(self) -> None:
        """R-ARR-42: that commit contains the rows up to one position."""
        attempt = begun()
        (first,) = attempt.start()
        assert not attempt.strategy.status.wants_commit
        stage(attempt, first, 49_999)

        assert attempt.strategy.status.wants_commit
        request = attempt.prepare()

        assert [file.rows for file in request.files] == [CHUNK_ROWS_MIN]
        assert attempt.stored.positions == VnodePositions.of([UpTo((49_999,))])
        assert not attempt.strategy.status.wants_commit

    def test_later_rows_wait_for_a_barrier(self) -> None:
        """A commit for each chunk would be too many."""
        attempt = ByHand([ids(*range(10))], cuts=ids(*range(9)), chunk_rows=1)
        attempt.round()
        (chunk, _) = attempt.start()
        attempt.finish(chunk)

        assert not attempt.strategy.status.wants_commit

    def test_the_first_rows_wait_for_a_barrier_under_a_limit(self) -> None:
        """A limit admits rows only at barriers."""
        attempt = ByHand([ids(*range(10))], cuts=ids(*range(9)))
        attempt.limit(5)
        attempt.second()
        (chunk, *_) = attempt.start()
        attempt.finish(chunk)

        assert not attempt.strategy.status.wants_commit
