"""The parts of the demo, without Spark: its file, its processes, and what it says when a step goes wrong."""

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
FAILED = {"outcome": "Failed", "reason": "SourceNotFound", "message": "no table at /x.", "hint": "Look at the path."}


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


def says(*lines):
    return f"import json\nfor line in {list(lines)!r}: print(line if isinstance(line, str) else json.dumps(line))"


class TestItsFile:
    def test_is_a_backfill(self, demo, tmp_path):
        """Users read and copy the file, so it must be a valid Backfill."""
        found = load_backfill(demo.document())

        assert found.job_id == f"demo/{tmp_path.name}"
        assert (found.spec.verify, found.spec.after) == ("Final", "Exit")

    @pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
    def test_history_takes_as_long_as_it_says(self, tmp_path, story):
        """On any machine that is fast enough: by its own limit."""
        demo = Demo(tmp_path, 1_200_000, Console(file=io.StringIO()), story)
        limit = load_backfill(demo.document()).spec.throttle.rows_per_second

        assert 1_200_000 / limit == pytest.approx(story.history_s)

    def test_has_the_strategy_that_was_asked_for(self, tmp_path):
        """Each of those that are offered is valid with the rest of the file."""
        for name, story in STORIES.items():
            file = Demo(tmp_path, 1_200_000, Console(file=io.StringIO()), story).document()

            assert load_backfill(file).spec.strategy.type == name

    def test_offers_no_strategy_that_may_not_end(self):
        """A rearranged chain needs a source that is quiet at times, and the demo's writer never is."""
        done = backfill("demo", "--strategy", "RearrangedChain")

        assert done.exit_code == 2
        assert "'RearrangedChain' is not one of 'Arrangement', 'Replica', 'Snapshot'" in done.stderr


class TestAProcess:
    def test_its_newest_line_is_kept_and_all_are_in_a_file(self, start, tmp_path):
        """The picture in the docs is drawn from that file."""
        child = start(says({"n": 1}, {"n": 2}))
        assert child.wait_for(lambda words: words.get("n") == 2, 30)
        child.end()

        assert [json.loads(line)["n"] for line in (tmp_path / "0.jsonl").read_text().splitlines()] == [1, 2]

    def test_a_line_that_was_cut_off_is_left_out(self, start):
        """A killed process dies in the middle of a word."""
        child = start(says({"n": 1}, '{"n": '))
        child.wait_for(lambda _: False, 30)

        assert child.newest == {"n": 1}

    def test_waiting_ends_with_the_process(self, start):
        """A demo that hangs shows nothing."""
        assert not start("pass").wait_for(lambda words: "n" in words, 30)

    def test_and_with_time(self, start):
        """Also when the process goes on."""
        assert not start("input()").wait_for(lambda _: False, 0.05)

    def test_a_kill_takes_all_of_it(self, start):
        """A driver whose JVM lives on is not dead."""
        child = start(
            "import json, subprocess, sys\n"
            "other = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
            "print(json.dumps({'pid': other.pid})); other.wait()"
        )
        assert child.wait_for(lambda words: "pid" in words, 30)
        child.kill()
        child.wait_for(lambda _: False, 30)

        assert child.ended, "a process still holds its standard output"

    def test_it_ends_when_its_input_ends(self, start):
        """That is how the writer is told."""
        assert start("import sys; sys.stdin.read(); sys.exit(3)").end() == 3

    def test_one_that_does_not_is_killed(self, start):
        """Nothing of the demo may stay behind."""
        assert start("import signal; signal.pause()").end(timeout_s=0.1) < 0


class TestAStepThatFails:
    def test_says_the_reason_of_the_driver(self, demo, start):
        """And where the logs are."""
        demo.driver = start(says(PROGRESS, FAILED))

        with pytest.raises(DemoError, match=r"waited for .more., got SourceNotFound: no table at /x\.; logs are in "):
            demo.until("more", lambda progress: progress.percent > 90)

    def test_a_step_that_is_reached_goes_on(self, demo, start):
        """With the progress that reached it."""
        demo.driver = start(says(PROGRESS) + "\ninput()")
        demo.until("a tenth", lambda progress: progress.percent >= 10)

        assert demo.progress.rows_done == 300

    def test_a_job_that_was_faster_than_the_eye_has_passed_it(self, demo, start):
        """Its last lines came at once, and only the newest is looked at."""
        demo.driver = start(says(PROGRESS, {"outcome": "Complete", "exitCode": 0}))
        demo.running().wait_for(lambda words: "outcome" in words, 30)

        demo.until("history is complete", lambda progress: progress.phase != "Snapshot")

    def test_a_folder_in_use_is_refused(self, tmp_path, capsys):
        """A user's tables may be in it."""
        (tmp_path / "lake").mkdir()

        assert run_demo(tmp_path, 100_000) == 2
        assert "has a lake already" in " ".join(capsys.readouterr().out.split())


class TestWhatItSays:
    def test_kills_a_driver_that_copies(self):
        """One that waits shows nothing by dying."""
        at_work = Progress(rows_per_second=5, quiet=False)

        assert copies(at_work)
        assert not copies(at_work.model_copy(update={"paused": "History"}))
        assert not copies(at_work.model_copy(update={"quiet": True}))
        assert not copies(at_work.model_copy(update={"rows_per_second": 0}))

    def test_what_to_try_next_can_be_typed_anywhere(self, demo, tmp_path, monkeypatch):
        """From a clone the command is not on the path: then it is said where it lies."""
        monkeypatch.setenv("PATH", str(tmp_path))
        outside = typed()
        done = subprocess.run([*outside, "--version"], cwd=tmp_path, capture_output=True, text=True)

        assert outside != ["backfill"]
        assert Path(outside[0]).is_absolute()
        assert done.returncode == 0, done.stderr

    def test_a_change_is_shown_in_the_copy_before_the_last_row(self, tmp_path, start):
        """That is what Arrangement is chosen for: a reader found it, in a version that the writer made meanwhile."""
        said = io.StringIO()
        demo = Demo(tmp_path, 1000, Console(file=said, width=200), STORIES["Arrangement"])
        demo.writer = start(
            "import itertools, json, select, sys\n"
            "for n in itertools.count(7):\n"
            "    seen = {'version': n, 'rows': 1421, 'seconds': 3.26}\n"
            "    print(json.dumps({'version': n, 'what': 'updated', 'seen': seen}))\n"
            "    select.select([sys.stdin], [], [], 0.02)"
        )
        demo.driver = start(says(PROGRESS) + "\ninput()")
        demo.until("a tenth", lambda progress: progress.percent >= 10)
        assert demo.writer.wait_for(lambda words: "seen" in words, 30)

        demo.show_changes("a reader looks")

        found = re.search(r"1,421 orders, changed in version (\d+), are so in the copy 3.3 s later", said.getvalue())
        assert found is not None
        assert int(found[1]) > 7
        assert "at most; 700 rows are still to be read" in said.getvalue()

    def test_a_reader_that_finds_nothing_is_an_error(self, tmp_path, start):
        """A demo that skips what it promised has shown nothing."""
        demo = Demo(tmp_path, 1000, Console(file=io.StringIO()), STORIES["Arrangement"])
        demo.writer = start(says({"version": 7, "what": "updated", "seen": {"version": 7, "rows": 1, "seconds": 1.0}}))
        demo.writer.wait_for(lambda _: False, 30)

        with pytest.raises(DemoError, match="the reader found no change"):
            demo.show_changes("a reader looks")

    def test_a_strategy_without_the_promise_does_not_show_it(self, demo):
        """With Snapshot changes come after the copy."""
        demo.show_changes("a reader looks")

        assert demo.writer is None

    def test_each_step_after_the_copy_is_told(self, demo, start):
        """They take most of the time; silence looks like a hang."""
        said = io.StringIO()
        demo.console = Console(file=said, width=200)
        steps = [{"name": name, "state": "Done"} for name in ("Start", "Copy", "KeyProof")]
        rest = [{"name": name, "state": "Pending"} for name in ("CatchUp", "Receipt")]
        demo.progress = Progress.model_validate(PROGRESS | {"steps": steps + rest})
        demo.driver = start(says({"outcome": "Complete", "exitCode": 0}))

        demo.tell_steps(demo.steps_after())

        assert "until the copy has caught up" in said.getvalue()
        assert "every row of both sides" in said.getvalue()
        assert "each key stands in one row" not in said.getvalue()


class TestTheWriter:
    def test_says_the_newest_version(self, tmp_path):
        """Of commits; checkpoints and checksums are none."""
        log = tmp_path / "_delta_log"
        log.mkdir()
        for name in (f"{9:020}.json", f"{10:020}.json", f"{11:020}.crc", f"{12:020}.checkpoint.parquet", "_last.json"):
            (log / name).touch()

        assert Writer(None, tmp_path, 1000).version() == 10

    def test_changes_rows_that_are_there(self, tmp_path):
        """A change of nothing would show nothing."""
        writer = Writer(None, tmp_path, 100_000)

        assert all(0 <= writer.place(1_500) <= 100_000 - 1_500 for _ in range(200))
        assert all(writer.place(1_500, within=0.1) <= 10_000 - 1_500 for _ in range(200))
