"""The parts of the demo, without Spark: its spec file, its processes, and its messages when a step fails."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from support.console.command_line import backfill

from backfill_api.load import load_backfill
from backfill_api.status.progress import Progress
from demo.orders import Demo, run_demo
from demo.stage import Child, DemoError, copies, typed
from demo.story import STORIES
from demo.writer import Writer

PROGRESS = {"attempt": 1, "epoch": 4, "phase": "Snapshot", "percent": 30, "rowsDone": 300, "rowsTotal": 1000}
FAILED = {"outcome": "Failed", "reason": "SourceNotFound", "message": "no table at /x.", "hint": "Check the path."}


@pytest.fixture
def start(tmp_path):
    """Start a child that runs a line of Python."""
    children = []

    def start(code):
        children.append(Child([sys.executable, "-u", "-c", code], tmp_path / f"{len(children)}.log"))
        return children[-1]

    yield start
    for child in children:
        child.kill()


@pytest.fixture
def demo(tmp_path):
    return Demo(tmp_path, 1_200_000, Console(file=open(os.devnull, "w")))


def prints(*lines):
    return f"import json\nfor line in {list(lines)!r}: print(line if isinstance(line, str) else json.dumps(line))"


class TestItsFile:
    def test_the_file_is_a_valid_backfill(self, demo, tmp_path):
        """Users read and copy the file."""
        loaded = load_backfill(demo.document())

        assert loaded.job_id == f"demo/{tmp_path.name}"
        assert (loaded.spec.verify, loaded.spec.after) == ("Final", "Exit")

    @pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
    def test_history_takes_the_promised_time(self, tmp_path, story):
        """Its rate limit makes it last equally long on every machine that is fast enough."""
        demo = Demo(tmp_path, 1_200_000, Console(file=io.StringIO()), story)
        limit = load_backfill(demo.document()).spec.throttle.rows_per_second

        assert 1_200_000 / limit == pytest.approx(story.history_s)

    def test_the_file_has_the_requested_strategy(self, tmp_path):
        """Each strategy of the demo is valid with the rest of the file."""
        for name, story in STORIES.items():
            file = Demo(tmp_path, 1_200_000, Console(file=io.StringIO()), story).document()

            assert load_backfill(file).spec.strategy.type == name

    def test_the_demo_offers_no_strategy_that_may_not_end(self):
        """A rearranged chain needs a source that is idle at times, and the demo's writer never is."""
        done = backfill("demo", "--strategy", "RearrangedChain")

        assert done.exit_code == 2
        assert "'RearrangedChain' is not one of 'Arrangement', 'InPlace', 'Replica', 'Snapshot'" in done.stderr


class TestAProcess:
    def test_a_process_keeps_its_newest_line_and_logs_all_lines(self, start, tmp_path):
        """The picture in the docs is drawn from that log file."""
        child = start(prints({"n": 1}, {"n": 2}))
        assert child.wait_for(lambda line: line.get("n") == 2, 30)
        child.end()

        assert [json.loads(line)["n"] for line in (tmp_path / "0.jsonl").read_text().splitlines()] == [1, 2]

    def test_a_truncated_line_is_ignored(self, start):
        """A killed process may stop in the middle of a line."""
        child = start(prints({"n": 1}, '{"n": '))
        child.wait_for(lambda _: False, 30)

        assert child.newest == {"n": 1}

    def test_waiting_ends_with_the_process(self, start):
        """A demo that hangs shows nothing."""
        assert not start("pass").wait_for(lambda line: "n" in line, 30)

    def test_waiting_ends_after_the_timeout(self, start):
        """The process may still run."""
        assert not start("input()").wait_for(lambda _: False, 0.05)

    def test_a_kill_ends_the_whole_process_group(self, start):
        """A driver whose JVM survives is not dead."""
        child = start(
            "import json, subprocess, sys\n"
            "other = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
            "print(json.dumps({'pid': other.pid})); other.wait()"
        )
        assert child.wait_for(lambda line: "pid" in line, 30)
        child.kill()
        child.wait_for(lambda _: False, 30)

        assert child.ended, "a process still holds its standard output"

    def test_a_process_ends_when_its_input_ends(self, start):
        """The demo ends its writer in this way."""
        assert start("import sys; sys.stdin.read(); sys.exit(3)").end() == 3

    def test_a_process_that_ignores_the_end_of_input_is_killed(self, start):
        """No process of the demo may survive it."""
        assert start("import signal; signal.pause()").end(timeout_s=0.1) < 0


class TestAStepThatFails:
    def test_a_failed_step_reports_the_reason_of_the_driver(self, demo, start):
        """The message also names the folder of the logs."""
        demo.driver = start(prints(PROGRESS, FAILED))

        with pytest.raises(DemoError, match=r"waited for .more., got SourceNotFound: no table at /x\.; logs are in "):
            demo.until("more", lambda progress: progress.percent > 90)

    def test_a_reached_step_returns_without_an_error(self, demo, start):
        """The demo keeps the progress that reached it."""
        demo.driver = start(prints(PROGRESS) + "\ninput()")
        demo.until("a tenth", lambda progress: progress.percent >= 10)

        assert demo.progress.rows_done == 300

    def test_a_complete_job_has_passed_every_step(self, demo, start):
        """Its last lines arrive together, and the demo reads only the newest."""
        demo.driver = start(prints(PROGRESS, {"outcome": "Complete", "exitCode": 0}))
        demo.running().wait_for(lambda line: "outcome" in line, 30)

        demo.until("history is complete", lambda progress: progress.phase != "Snapshot")

    def test_a_folder_in_use_is_refused(self, tmp_path, capsys):
        """It may contain a user's tables."""
        (tmp_path / "lake").mkdir()

        assert run_demo(tmp_path, 100_000) == 2
        assert "has a lake already" in " ".join(capsys.readouterr().out.split())


class TestWhatItSays:
    def test_the_demo_kills_a_driver_that_copies(self):
        """The death of an idle driver shows nothing."""
        at_work = Progress(rows_per_second=5, quiet=False)

        assert copies(at_work)
        assert not copies(at_work.model_copy(update={"paused": "History"}))
        assert not copies(at_work.model_copy(update={"quiet": True}))
        assert not copies(at_work.model_copy(update={"rows_per_second": 0}))

    def test_the_suggested_command_runs_from_any_folder(self, demo, tmp_path, monkeypatch):
        """The command is not on the path in a clone; the demo then prints its absolute path."""
        monkeypatch.setenv("PATH", str(tmp_path))
        outside = typed()
        done = subprocess.run([*outside, "--version"], cwd=tmp_path, capture_output=True, text=True)

        assert outside != ["backfill"]
        assert Path(outside[0]).is_absolute()
        assert done.returncode == 0, done.stderr

    def test_a_change_is_shown_in_the_copy_before_the_last_row(self, tmp_path, start):
        """This is the promise of Arrangement. The reader finds a change from a version that the writer committed during the copy."""
        output = io.StringIO()
        demo = Demo(tmp_path, 1000, Console(file=output, width=200), STORIES["Arrangement"])
        demo.writer = start(
            "import itertools, json, select, sys\n"
            "for n in itertools.count(7):\n"
            "    seen = {'version': n, 'rows': 1421, 'seconds': 3.26}\n"
            "    print(json.dumps({'version': n, 'what': 'updated', 'seen': seen}))\n"
            "    select.select([sys.stdin], [], [], 0.02)"
        )
        demo.driver = start(prints(PROGRESS) + "\ninput()")
        demo.until("a tenth", lambda progress: progress.percent >= 10)
        assert demo.writer.wait_for(lambda line: "seen" in line, 30)

        demo.show_changes("a reader looks")

        match = re.search(
            r"1,421 orders, changed in version (\d+), are in the copy at most 3.3 s later", output.getvalue()
        )
        assert match is not None
        assert int(match[1]) > 7
        assert "later; 700 rows are still to be read" in output.getvalue()

    def test_a_reader_that_finds_no_change_is_an_error(self, tmp_path, start):
        """A demo that skips its promise has shown nothing."""
        demo = Demo(tmp_path, 1000, Console(file=io.StringIO()), STORIES["Arrangement"])
        demo.writer = start(
            prints({"version": 7, "what": "updated", "seen": {"version": 7, "rows": 1, "seconds": 1.0}})
        )
        demo.writer.wait_for(lambda _: False, 30)

        with pytest.raises(DemoError, match="the reader found no change"):
            demo.show_changes("a reader looks")

    def test_a_strategy_without_the_promise_does_not_show_it(self, demo):
        """Snapshot applies changes after the copy."""
        demo.show_changes("a reader looks")

        assert demo.writer is None

    def test_each_step_after_the_copy_is_described(self, demo, start):
        """These steps take most of the time, and silence looks like a hang."""
        output = io.StringIO()
        demo.console = Console(file=output, width=200)
        steps = [{"name": name, "state": "Done"} for name in ("Start", "Copy", "KeyProof")]
        rest = [{"name": name, "state": "Pending"} for name in ("CatchUp", "Receipt")]
        demo.progress = Progress.model_validate(PROGRESS | {"steps": steps + rest})
        demo.driver = start(prints({"outcome": "Complete", "exitCode": 0}))

        demo.tell_steps(demo.steps_after())

        assert "until the copy has caught up" in output.getvalue()
        assert "every row of source and target" in output.getvalue()
        assert "each key is unique" not in output.getvalue()


class TestTheWriter:
    def test_the_writer_reads_the_newest_version(self, tmp_path):
        """Only commits count, not checkpoints and checksums."""
        log = tmp_path / "_delta_log"
        log.mkdir()
        for name in (f"{9:020}.json", f"{10:020}.json", f"{11:020}.crc", f"{12:020}.checkpoint.parquet", "_last.json"):
            (log / name).touch()

        assert Writer(None, tmp_path, 1000).version() == 10

    def test_the_writer_changes_existing_rows(self, tmp_path):
        """A change of no rows would show nothing."""
        writer = Writer(None, tmp_path, 100_000)

        assert all(0 <= writer.place(1_500) <= 100_000 - 1_500 for _ in range(200))
        assert all(writer.place(1_500, within=0.1) <= 10_000 - 1_500 for _ in range(200))
