"""`backfill run`: what is shown, how it ends, and the two presses of Ctrl-C; with a scripted driver in a real process."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.jobs import write_yaml

TESTS = Path(__file__).parent.parent

SCRIPT = """
import sys, threading
from pathlib import Path
from backfill_api.load import load_backfill
from backfill_api.progress import Progress
from backfill_cli.running import Run, Shown
from backfill_core.messages import Receipt
from backfill_spark.driver import RunOutcome
from backfill_spark.settings import DriverSettings

class ScriptedDriver:
    def __init__(self, script):
        self.script, self.stop = script, threading.Event()

    def request_stop(self, force):
        self.stop.set()

    def run_driver(self, backfill, *, settings, observe):
        import os
        os.write(1, b"JVM WORDS\\n")
        progress = Progress(attempt=1, epoch=3, phase="Snapshot", percent=50, rows_total=10, rows_done=5, table_version=4)
        observe(progress)
        if self.script == "wait":
            os.write(2, b"READY\\n")
            self.stop.wait()
            return RunOutcome("Stopped", 10, "Stopped", "stopped at a barrier", "", progress, None)
        if self.script == "stuck":
            os.write(2, b"READY\\n")
            while True:
                self.stop.wait(0.05)
        if self.script == "fail":
            return RunOutcome("Failed", 22, "SourceNotFound", "no table at /x.", "Look at the path.", None, None)
        observe(progress.model_copy(update={"phase": "Live", "percent": 100, "rows_done": 10, "consumed_version": 8}))
        receipt = Receipt(8, 9, 7, 10, 256, "ab" * 32, (), 0.5)
        done = progress.model_copy(update={"rows_done": 10, "changes_done": 2, "consumed_version": 8})
        return RunOutcome("Complete", 0, "Complete", "", "", done, receipt)

script, spec, *flags = sys.argv[1:]
log = Path(flags[flags.index("--log") + 1]) if "--log" in flags else None
shown = Shown(json_lines="--json" in flags, log_file=log)
sys.exit(Run(ScriptedDriver(script), load_backfill(Path(spec).read_text()), DriverSettings.from_environ(), shown).to_end())
"""


@pytest.fixture
def start(tmp_path):
    spec = write_yaml(tmp_path / "job.yaml", "/s", "/t")
    environ = {**os.environ, "BACKFILL_STATE_DIR": str(tmp_path / "state")}
    started = []

    def run(script, *flags):
        command = [sys.executable, "-c", SCRIPT, script, str(spec), *flags]
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ, start_new_session=True
        )
        started.append(child)
        return child

    yield run
    for child in started:
        if child.poll() is None:
            child.kill()
        child.communicate()


class TestHowItEnds:
    def test_complete(self, start):
        """A log must hold the phases, the receipt and the end."""
        child = start("complete")
        out, err = child.communicate(timeout=60)
        assert child.returncode == 0
        for fact in (
            "Snapshot 50 %",
            "Live 100 %",
            "source and target are equal",
            "complete: 10 rows of history and 2 changes",
        ):
            assert fact in out
        assert "JVM WORDS" in err

    def test_failed(self, start):
        """One red line, the cure, and the reason's own code."""
        child = start("fail")
        _, err = child.communicate(timeout=60)
        assert child.returncode == 22
        assert "error: SourceNotFound: no table at /x.\ncure: Look at the path.\n" in err

    def test_json_lines(self, start):
        """Whatever the JVM says, standard output is JSON only."""
        child = start("complete", "--json")
        out, _ = child.communicate(timeout=60)
        lines = [json.loads(line) for line in out.splitlines()]
        assert [line.get("rowsDone") for line in lines[:-1]] == [5, 10]
        assert (lines[-1]["outcome"], lines[-1]["exitCode"], lines[-1]["receipt"]["rows"]) == ("Complete", 0, 10)

    def test_the_driver_log(self, start, tmp_path):
        """Spark's words are there when they are needed, and only there."""
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
    def test_the_first_stops_at_a_barrier(self, start, number):
        """And says so, because it takes a moment."""
        child = start("wait")
        self.ready(child)
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
        assert child.returncode == 10
        assert "stopping at a barrier; Ctrl-C again: at once" in err
        assert "stopped: stopped at a barrier" in out

    def test_the_second_ends_at_once(self, start):
        """Whatever the driver is stuck in."""
        child = start("stuck")
        self.ready(child)
        child.send_signal(signal.SIGINT)
        assert "stopping" in child.stderr.readline()
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
        assert child.returncode == 130
        assert "ended at once" in err
