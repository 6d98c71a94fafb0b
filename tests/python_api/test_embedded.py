"""The embedded Spark of a process: only one runs at a time, and none survives an abandoned start."""

import threading

import pytest
from support.tables.jobs import document

from backfill_api.load import load_backfill
from backfill_core.errors import SessionUnfitError
from backfill_spark.jvm import session_scope as scope
from backfill_spark.jvm.stop_signal import StoppedEarly, StopSignal
from backfill_spark.settings import DriverSettings

WAIT_S = 30


class TestAStartThatIsGivenUp:
    """The process of a notebook continues, and the next run would adopt the session that is still starting."""

    def test_a_stop_ends_the_wait_at_once_and_the_start_is_undone(self):
        """The thread that started it undoes it once."""
        stop, may_continue, undone = StopSignal(), threading.Event(), threading.Semaphore(0)
        begun = threading.Event()

        def start():
            begun.set()
            assert may_continue.wait(WAIT_S)

        def request_stop():
            assert begun.wait(WAIT_S)
            stop.ask(force=False)

        threading.Thread(target=request_stop).start()
        with pytest.raises(StoppedEarly):
            stop.run_aside(start, undone.release)

        assert not undone.acquire(blocking=False)
        may_continue.set()
        assert undone.acquire(timeout=WAIT_S)
        assert not undone.acquire(timeout=0.2)

    def test_a_start_is_undone_if_the_stop_came_at_its_end(self):
        """The result has no owner in this case either."""
        stop, undone = StopSignal(), threading.Semaphore(0)

        with pytest.raises(StoppedEarly):
            stop.run_aside(lambda: stop.ask(force=False), undone.release)

        assert undone.acquire(timeout=WAIT_S)
        assert not undone.acquire(timeout=0.2)

    def test_a_finished_start_is_kept(self):
        """Its result is returned, and nothing is undone."""
        undone = []

        assert StopSignal().run_aside(lambda: 7, lambda: undone.append(1)) == 7
        assert undone == []

    def test_a_failed_start_raises_its_error(self):
        """The waiting thread raises it."""

        def start():
            raise OSError("no Java")

        with pytest.raises(OSError, match="no Java"):
            StopSignal().run_aside(start)


class TestTwoAtOnce:
    """Two runs would share one Spark, and the first to end would stop it for the other."""

    @pytest.fixture
    def other(self, tmp_path):
        stop = StopSignal()
        conf = load_backfill(document("/s", "/t")).spec.spark.conf
        return stop, scope.session_scope(conf, DriverSettings(state_dir=tmp_path), app_name="x", given=None, stop=stop)

    def test_the_second_run_is_refused_if_the_first_does_not_end(self, monkeypatch, other):
        """The hint names the alternative."""
        monkeypatch.setattr(scope, "EMBEDDED_WAIT_S", 0.01)
        with scope.EMBEDDED, pytest.raises(SessionUnfitError, match="another job") as refused, other[1]:
            pass
        assert "job.run(spark)" in refused.value.hint
        assert not scope.EMBEDDED.locked()

    def test_the_second_run_can_be_stopped_while_it_waits(self, other):
        """Ctrl-C ends it at once, not when the first run ends."""
        stop, second = other
        stop.ask(force=False)
        with scope.EMBEDDED, pytest.raises(StoppedEarly), second:
            pass
        assert not scope.EMBEDDED.locked()
