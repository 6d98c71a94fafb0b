"""`backfill run`: its output, its end, and one or two presses of Ctrl-C; with a scripted driver in a real process."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from support.console.forked import ForkedPython
from support.tables.jobs import write_yaml

TESTS = Path(__file__).parents[2]

TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")
SCRIPT = """
import sys, threading
from pathlib import Path
from backfill import Backfill, Progress
from backfill_cli.commands.run import RunCommand, Shown
from backfill_core.errors import SourceNotFoundError
from backfill_core.protocol.receipt import TableReceipt
from backfill_spark.driver.attempt import RunOutcome

class ScriptedDriver:
    def __init__(self, script):
        self.script, self.stop = script, threading.Event()

    def run_driver(self, backfill, *, settings, observe, starting, spark, stop):
        with stop.subscribe(lambda request: self.stop.set()):
            return self.run(observe)

    def run(self, observe):
        import os
        os.write(1, b"JVM WORDS\\n")
        progress = Progress(
            attempt=1, epoch=3, phase="Snapshot", percent=50, rows_total=10, rows_done=5, table_version=4, grid=(50,)
        )
        observe(progress)
        if self.script == "chatty":
            for rows in range(1, 30_000):
                observe(progress.model_copy(update={"rows_done": rows}))
            os.write(2, b"SAID ALL\\n")
            self.stop.wait()
            return RunOutcome("Stopped", 10, "Stopped", "stopped at a barrier", "", progress, None)
        if self.script == "turning":
            for revision in range(5_000):
                observe(progress.model_copy(update={"revision": revision}))
            os.write(2, b"SAID ALL\\n")
            return RunOutcome("Stopped", 10, "Stopped", "stopped at a barrier", "", progress, None)
        if self.script == "reporting":
            os.write(2, b"READY\\n")
            revision = 0
            while not self.stop.wait(0.01):
                revision += 1
                observe(progress.model_copy(update={"revision": revision}))
            return RunOutcome("Stopped", 10, "Stopped", "stopped at a barrier", "", progress, None)
        if self.script == "wait":
            os.write(2, b"READY\\n")
            self.stop.wait()
            return RunOutcome("Stopped", 10, "Stopped", "stopped at a barrier", "", progress, None)
        if self.script == "stuck":
            os.write(2, b"READY\\n")
            while True:
                self.stop.wait(0.05)
        if self.script == "fail":
            error = SourceNotFoundError("no table at /x.", hint="Check the path.")
            return RunOutcome("Failed", 22, error.reason, error.message, error.hint, None, None, error)
        observe(progress.model_copy(update={"phase": "Live", "percent": 100, "rows_done": 10, "consumed_version": 8}))
        receipt = TableReceipt(8, 9, 7, 10, 256, "ab" * 32, (), 0.5)
        done = progress.model_copy(update={"rows_done": 10, "changes_done": 2, "consumed_version": 8})
        return RunOutcome("Complete", 0, "Complete", "", "", done, receipt)

script, spec, *flags = sys.argv[1:]
log = Path(flags[flags.index("--log") + 1]) if "--log" in flags else None
shown = Shown(
    json_lines="--json" in flags, log_file=log, grid="--grid" in flags, quiet="--quiet" in flags, verbose="--verbose" in flags
)
sys.exit(RunCommand(Backfill.load(spec), shown, ScriptedDriver(script)).to_end())
"""


@pytest.fixture
def start(tmp_path):
    spec = write_yaml(tmp_path / "job.yaml", "/s", "/t")
    environ = {**os.environ, "BACKFILL_STATE_DIR": str(tmp_path / "state")}
    started = []

    def run(script, *flags):
        words = ["-c", SCRIPT, script, spec, *flags]
        child = ForkedPython(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ, start_new_session=True
        )
        started.append(child)
        return child

    yield run
    for child in started:
        if child.poll() is None:
            child.kill()
        child.communicate()


class TestHowItEnds:
    def test_a_complete_run_shows_phases_and_receipt(self, start):
        """A log must contain the phases, the receipt and the end."""
        child = start("complete")
        out, err = child.communicate(timeout=60)
        assert child.returncode == 0
        for fact in (
            "Snapshot 50 %",
            "Live 100 %",
            "source and target are equal",
            "complete: 10 rows of the snapshot and 2 changes",
            "default/job  Snapshot 50 % 5 of 10 rows",
            "running for",
            "(after",
        ):
            assert fact in out
        assert all(TIME.match(line) for line in out.splitlines() if " % " in line)
        assert err == ""

    def test_quiet_and_verbose_change_the_output(self, start):
        """A cron job needs only the end; a user who searches for an error also needs Spark's output."""
        quiet = start("complete", "--quiet")
        out, err = quiet.communicate(timeout=60)
        assert (quiet.returncode, "Snapshot" in out, "complete: 10 rows" in out, err) == (0, False, True, "")
        _, err = start("complete", "--verbose").communicate(timeout=60)
        assert "JVM WORDS" in err

    def test_a_failed_run_shows_reason_and_hint(self, start):
        """It prints one red line and the hint, and ends with the reason's own code."""
        child = start("fail")
        _, err = child.communicate(timeout=60)
        assert child.returncode == 22
        assert "error: SourceNotFound: no table at /x.\nhint: Check the path.\n" in err

    def test_json_output_is_json_only(self, start):
        """Standard output is only JSON, even if the JVM writes to it."""
        child = start("complete", "--json")
        out, _ = child.communicate(timeout=60)
        lines = [json.loads(line) for line in out.splitlines()]
        assert [line.get("rowsDone") for line in lines[:-1]] == [0, 5, 10]
        assert all(TIME.match(line["time"]) and line["jobId"] == "default/job" for line in lines)
        assert [line["reason"] for line in lines if "grid" in line or "elapsedSeconds" not in line] == []
        assert (lines[-1]["outcome"], lines[-1]["exitCode"], lines[-1]["receipt"]["rows"]) == ("Complete", 0, 10)

    def test_the_log_file_receives_the_output_of_the_jvm(self, start, tmp_path):
        """Spark's output is in the log file only."""
        log = tmp_path / "spark.log"
        child = start("fail", "--log", str(log))
        out, err = child.communicate(timeout=60)
        assert log.read_text() == "JVM WORDS\n"
        assert "JVM" not in out + err
        assert f"log: {log}" in err


class TestCtrlC:
    def ready(self, child):
        for line in child.stderr:
            if "READY" in line:
                return

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_the_first_signal_stops_at_a_barrier(self, start, number):
        """The output announces the stop, because it takes time."""
        child = start("wait", "--verbose")
        self.ready(child)
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
        assert child.returncode == 10
        assert "stopping at a barrier; Ctrl-C again: at once" in err
        assert "stopped at a barrier (after " in out
        assert "stopped: stopped" not in out

    def test_the_second_signal_ends_at_once(self, start):
        """It ends even a driver that is stuck."""
        child = start("stuck", "--verbose")
        self.ready(child)
        child.send_signal(signal.SIGINT)
        assert "stopping" in child.stderr.readline()
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
        assert child.returncode == 130
        assert "ended at once" in err


class TestWhoReads:
    """A slow reader does not delay the job, and a closed output stops it at a barrier."""

    def test_a_slow_reader_does_not_delay_the_job(self, start):
        """A pager that shows its first page, or a terminal held by Ctrl-S, does not stop the seals."""
        child = start("turning", "--json", "--verbose")  # 5,000 lines; the pipe holds a few hundred
        assert "SAID ALL\n" in child.stderr  # the driver has sent all of them, and the test has read none
        out, _ = child.communicate(timeout=60)

        assert child.returncode == 10
        assert [json.loads(line)["time"] for line in out.splitlines()] != []

    def test_json_output_has_at_most_one_line_a_second(self, start):
        """Four lines a second of 64 numbers each fill a disk without new information."""
        child = start("chatty", "--json", "--verbose")
        assert "SAID ALL\n" in child.stderr
        child.send_signal(signal.SIGTERM)
        out, _ = child.communicate(timeout=60)
        lines = [json.loads(line) for line in out.splitlines()]

        assert len(lines) <= 4 + lines[-1]["elapsedSeconds"]
        assert lines[-1]["outcome"] == "Stopped"

    def test_a_closed_output_stops_the_run_at_a_barrier(self, start):
        """`backfill run | head -1`: other tools end here too."""
        child = start("reporting", "--verbose")
        assert "READY\n" in child.stderr  # the driver runs, and each of its reports is a line
        child.stdout.close()
        lines = list(child.stderr)

        assert (child.wait(timeout=60), lines[-1]) == (
            10,
            "standard output was closed: stopping at a barrier\n",
        )
