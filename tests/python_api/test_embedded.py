"""The embedded Spark of a process: one at a time, and none stays behind a start that was given up."""

import threading

import pytest
from support.tables.jobs import document

from backfill_api.load import load_backfill
from backfill_core.errors import SessionUnfitError
from backfill_spark.jvm import session_scope as scope
from backfill_spark.settings import DriverSettings
from backfill_spark.stop_signal import StoppedEarly, StopSignal

WAIT_S = 30


class TestAStartThatIsGivenUp:
    """In a notebook the process goes on, and the next run would adopt what still starts."""

    def test_ends_the_wait_at_once_and_is_undone_when_it_has_ended(self):
        """Undone once, by the thread that started it."""
        stop, go_on, undone = StopSignal(), threading.Event(), threading.Semaphore(0)
        begun = threading.Event()

        def start():
            begun.set()
            assert go_on.wait(WAIT_S)

        def ask():
            assert begun.wait(WAIT_S)
            stop.ask(force=False)

        threading.Thread(target=ask).start()
        with pytest.raises(StoppedEarly):
            stop.run_aside(start, undone.release)

        assert not undone.acquire(blocking=False)
        go_on.set()
        assert undone.acquire(timeout=WAIT_S)
        assert not undone.acquire(timeout=0.2)

    def test_is_undone_too_when_the_stop_came_at_its_end(self):
        """The result has no owner then either."""
        stop, undone = StopSignal(), threading.Semaphore(0)

        with pytest.raises(StoppedEarly):
            stop.run_aside(lambda: stop.ask(force=False), undone.release)

        assert undone.acquire(timeout=WAIT_S)
        assert not undone.acquire(timeout=0.2)

    def test_one_that_is_not_given_up_is_kept(self):
        """Its result is returned, and nothing is undone."""
        undone = []

        assert StopSignal().run_aside(lambda: 7, lambda: undone.append(1)) == 7
        assert undone == []

    def test_one_that_fails_says_why(self):
        """Its error is raised where it was waited for."""

        def start():
            raise OSError("no Java")

        with pytest.raises(OSError, match="no Java"):
            StopSignal().run_aside(start)


class TestTwoAtOnce:
    """They would share one Spark, and the first to end would stop it under the other."""

    @pytest.fixture
    def other(self, tmp_path):
        stop = StopSignal()
        conf = load_backfill(document("/s", "/t")).spec.spark.conf
        return stop, scope.session_scope(conf, DriverSettings(state_dir=tmp_path), app_name="x", given=None, stop=stop)

    def test_the_second_is_refused_when_the_first_does_not_end(self, monkeypatch, other):
        """With what to do instead."""
        monkeypatch.setattr(scope, "EMBEDDED_WAIT_S", 0.01)
        with scope.EMBEDDED, pytest.raises(SessionUnfitError, match="another job") as refused, other[1]:
            pass
        assert "job.run(spark)" in refused.value.hint
        assert not scope.EMBEDDED.locked()

    def test_the_second_hears_a_stop_while_it_waits(self, other):
        """Ctrl-C ends it at once, not when the first has ended."""
        stop, second = other
        stop.ask(force=False)
        with scope.EMBEDDED, pytest.raises(StoppedEarly), second:
            pass
        assert not scope.EMBEDDED.locked()
