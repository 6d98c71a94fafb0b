"""A run without Spark: its display, its end, and its stop; the driver is scripted."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from support.console.command_line import running
from support.tables.jobs import document

from backfill import Backfill, NotRunningError, Progress, Settings, display
from backfill.display import LiveBlock, Newest, html
from backfill.errors import SourceNotFoundError
from backfill.run import run_to_end
from backfill_spark.driver.attempt import RunOutcome

WAIT_S = 30
HALF = Progress(attempt=1, epoch=3, phase="Snapshot", percent=50, rows_total=10, rows_done=5)


class ScriptedDriver:
    """Reports one progress, and then ends, fails, or runs until it is stopped."""

    def __init__(self, end):
        self.end, self.requests = end, []

    def run_driver(self, backfill, *, settings, observe, starting, spark, stop):
        """Satisfies `backfill.run.Driver`."""
        starting("looking at the tables")
        observe(HALF)
        if self.end == "crash":
            raise ZeroDivisionError
        if self.end == "fail":
            error = SourceNotFoundError("no table at /s.", hint="Check the path.")
            return RunOutcome("Failed", 22, error.reason, error.message, error.hint, None, None, error)
        if self.end == "stop":
            stop_requested = threading.Event()
            with stop.subscribe(lambda request: (self.requests.append(request.force), stop_requested.set())):
                assert stop_requested.wait(WAIT_S)
            return RunOutcome("Stopped", 10, "Stopped", "stopped at a barrier", "", HALF, None)
        return RunOutcome("Complete", 0, "Complete", "", "", HALF, None)


class Seen:
    """Keeps all progress that it receives."""

    def __init__(self):
        self.reports, self.closed = [], False

    def see(self, progress):
        """Keep a progress."""
        self.reports.append(progress)

    def close(self):
        """Record the end of the view."""
        self.closed = True


@pytest.fixture
def job(tmp_path):
    """A job whose tables are never opened."""
    return Backfill.of(document("/s", "/t"), settings=Settings(state_dir=tmp_path / "state"))


class TestHowItEnds:
    """`wait` returns the outcome, or raises the error of the job."""

    def test_wait_returns_the_outcome(self, job):
        """The view received the start and the progress, and was closed."""
        seen = Seen()
        run = job.shown_by(lambda _: seen, driver=ScriptedDriver("complete"))

        outcome = run.wait(WAIT_S)

        assert (outcome.state, outcome.progress, run.done) == ("Complete", HALF, True)
        assert [report.reason or report.percent for report in seen.reports] == ["looking at the tables", 50]
        assert seen.closed

    def test_a_failure_is_raised_as_its_own_class(self, job):
        """A caller catches `SourceNotFoundError`, and reads the hint."""
        with pytest.raises(SourceNotFoundError) as failed:
            job.shown_by(lambda _: Seen(), driver=ScriptedDriver("fail")).wait(WAIT_S)

        assert failed.value.hint == "Check the path."

    def test_a_defect_is_raised(self, job):
        """An error on another thread must not be lost."""
        with pytest.raises(ZeroDivisionError):
            job.shown_by(lambda _: Seen(), driver=ScriptedDriver("crash")).wait(WAIT_S)

    def test_a_wait_has_a_deadline(self, job):
        """The run continues, and can be stopped from another thread."""
        driver = ScriptedDriver("stop")
        run = job.shown_by(lambda _: Seen(), driver=driver)

        with pytest.raises(TimeoutError):
            run.wait(0)
        run.stop(force=True)

        assert run.wait(WAIT_S).state == "Stopped"
        assert set(driver.requests) == {True}

    def test_two_runs_in_one_process_are_stopped_separately(self, job, tmp_path):
        """A stop of one run does not affect the other."""
        first, second = (job.shown_by(lambda _: Seen(), driver=ScriptedDriver("stop")) for _ in range(2))

        first.stop()

        assert first.wait(WAIT_S).state == "Stopped"
        assert not second.done
        second.stop()
        second.wait(WAIT_S)


class TestOnProgress:
    """A callback of the caller runs concurrently with the job."""

    def test_a_callback_receives_the_last_progress(self):
        """Reports that arrive while it runs are skipped, except the last one."""
        received, free = [], threading.Event()

        def slow(progress):
            free.wait(WAIT_S)
            received.append(progress.percent)

        newest = Newest(slow, lambda error: None)
        for percent in range(100):
            newest.see(HALF.model_copy(update={"percent": percent}))
        free.set()
        newest.close()

        assert received[-1] == 99
        assert len(received) <= 3

    def test_a_callback_that_raises_stops_the_run(self, job):
        """`wait` raises the caller's error."""

        def refuse(progress):
            raise KeyError("mine")

        run = job.shown_by(lambda run: Newest(refuse, run.give_up), driver=ScriptedDriver("stop"))

        with pytest.raises(KeyError, match="mine"):
            run.wait(WAIT_S)


class Display:
    """IPython's `display` for a notebook: it keeps each call and each update."""

    def __init__(self, *, until=0, closed=False):
        self.shown, self.until, self.closed = [], until, closed
        self.reached = threading.Event()

    def __call__(self, block, *, display_id):
        assert display_id
        self.shown.append(block._repr_html_())
        return self

    def update(self, block):
        """Replace the shown block."""
        if self.closed:
            raise OSError("the connection is closed")
        self.shown.append(block._repr_html_())
        if len(self.shown) == self.until:
            self.reached.set()


class TestANotebook:
    """A block that is redrawn without a terminal."""

    def test_the_block_is_updated_in_place(self, job):
        """It shows the start and the last progress."""
        display = Display()

        job.shown_by(lambda run: LiveBlock(display, run.job_id), driver=ScriptedDriver("complete")).wait(WAIT_S)

        assert "starting Spark" in display.shown[0]
        assert "50 %" in display.shown[-1]
        assert "5 of 10" in display.shown[-1]

    def test_the_block_is_redrawn_while_the_driver_is_silent(self, job, monkeypatch):
        """Opening tables takes seconds without a progress, and the seconds of the step count up."""
        monkeypatch.setattr(display, "REDRAW_EVERY_S", 0.01)
        shown = Display(until=4)
        block = LiveBlock(shown, "j")

        assert shown.reached.wait(WAIT_S)
        block.close()

    def test_a_closed_notebook_ends_the_block_and_not_the_job(self, job, monkeypatch):
        """The connection of the kernel to the browser is gone."""
        monkeypatch.setattr(display, "REDRAW_EVERY_S", 0.01)
        run = job.shown_by(lambda run: LiveBlock(Display(closed=True), run.job_id), driver=ScriptedDriver("complete"))

        assert run.wait(WAIT_S).state == "Complete"

    def test_a_handle_displays_itself(self, job):
        """The last line of a cell is enough."""
        run = job.shown_by(lambda _: Seen(), driver=ScriptedDriver("complete"))
        run.wait(WAIT_S)

        assert "50 %" in run._repr_html_()

    def test_html_in_a_message_is_escaped(self):
        """A job id or a reason may contain any characters."""
        drawn = html("<b>", HALF.model_copy(update={"reason": "<script>", "warnings": ("<i>",)}))

        assert [tag for tag in ("<b><", "<script>", "<i>") if tag in drawn] == []


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_run import ScriptedDriver
from backfill import Backfill
from backfill.display import in_lines
from backfill.run import run_to_end
job = Backfill.load(sys.argv[2])
driver = ScriptedDriver("stop")
try:
    run_to_end(lambda: job.shown_by(lambda run: in_lines(run.job_id), driver=driver))
except KeyboardInterrupt as stopped:
    print("interrupted:", stopped, set(driver.requests))
"""


class TestAnInterrupt:
    """Ctrl-C, or a notebook's stop button, which sends the same signal."""

    def test_an_interrupt_stops_the_run_at_a_barrier_and_is_raised(self, tmp_path):
        """The exception keeps the cells below from running; the barrier lets the next run resume."""
        file = tmp_path / "job.yaml"
        file.write_text(
            "apiVersion: backfill.dev/v1alpha1\nkind: Backfill\nmetadata: {name: job}\nspec:\n"
            "  source: {type: Delta, delta: {path: /s, key: [id]}}\n  target: {type: Delta, delta: {path: /t}}\n"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, os.path.dirname(__file__), str(file)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        with child:
            assert any("50 %" in line for line in child.stderr)
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=WAIT_S)

        assert out == "interrupted: stopped at a barrier {False}\n", err

    def test_an_interrupt_during_the_start_stops_the_run_too(self, job):
        """No attempt continues without a handle, however early the interrupt comes."""
        driver = ScriptedDriver("stop")

        def start():
            signal.raise_signal(signal.SIGINT)
            run = job.shown_by(lambda _: Seen(), driver=driver)
            signal.raise_signal(signal.SIGINT)
            return run

        with pytest.raises(KeyboardInterrupt, match="stopped at a barrier"):
            run_to_end(start)

        assert set(driver.requests) == {True}


class TestCommands:
    """Commands reach the driver of the job on this machine, in any process."""

    def test_each_command_is_acknowledged_once_it_is_in_force(self, job, tmp_path):
        """This object did not start the driver."""
        with running(tmp_path / "state") as scripted:
            acks = [job.pause(scope="All"), job.resume(), job.throttle(200, for_seconds=60)]

            assert [ack.outcome for ack in acks] == ["Applied"] * 3
            assert len(scripted.seen) == 3

    def test_a_width_has_the_values_that_are_given(self, job, tmp_path):
        """The status shows them; a call without a value is an error of the caller."""
        with running(tmp_path / "state"):
            assert job.rescale(3, chunk_rows=0).outcome == "Applied"
            assert job.rescale(split_target_seconds=9, executors=2).outcome == "Applied"
            status = job.status()

            assert (status.max_in_flight, status.split_target_seconds, status.chunk_rows, status.executors) == (
                3,
                9,
                0,
                2,
            )
            with pytest.raises(ValueError, match="changes nothing"):
                job.rescale()

    def test_status_and_verify_use_the_driver(self, job, tmp_path):
        """The driver has more information than the target, and the caller needs no Spark."""
        with running(tmp_path / "state"):
            status = job.status()

            assert (status.state, status.rows_done, status.progress.percent) == ("Running", 1000, 25)
            assert job.verify().mismatches == ()

    def test_a_command_without_a_driver_fails(self, job):
        """The error is the same as on the command line."""
        with pytest.raises(NotRunningError):
            job.pause()
