"""`backfill status`, `jobs` and `--watch` against a driver without Spark."""

import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.console.command_line import backfill, running
from support.drivers.fake_driver import ScriptedJob
from support.endings import assert_ending

from backfill.status import of_running
from backfill_api.status.progress import Progress
from backfill_spark.control.local_registry import LocalRegistry


class TestStatus:
    def test_table(self, job):
        """A person reads rows with separators, not JSON."""
        done = backfill("status")
        assert done.exit_code == 0
        assert "1,000 of 4,000 rows" in done.stdout

    def test_json(self, job):
        """Scripts read the same fields as the progress of a run."""
        words = json.loads(backfill("status", "-o", "json").stdout)
        assert (words["jobId"], words["rowsDone"]) == ("default/job", 1000)

    def test_yaml(self, job):
        """The fields of the spec are read as YAML, so these are too."""
        assert "rowsDone: 1000" in backfill("status", "-o", "yaml").stdout

    def test_it_shows_what_was_commanded(self, job):
        """A user must see that a command made the job slow."""
        backfill("throttle", "200k")
        shown = backfill("status").stdout
        assert "throttled by command (revision 1)" in shown
        assert "revision 1 applied at epoch" in shown

    def test_a_driver_that_ends_while_it_is_looked_at_is_no_driver(self, state_dir):
        """With --offline the target is asked then (here for the file it needs), instead of saying `refused`."""
        with running(state_dir) as job:
            job.server.close()
            assert backfill("status").exit_code == 4
            done = backfill("status", "--offline")
        assert (done.exit_code, "give the Backfill with -f FILE" in done.stderr) == (2, True)

    @pytest.mark.parametrize("answer", [b"", b"HTTP/1.0 200 OK\r\nContent-Length: 90\r\n\r\n{", b"what?\r\n\r\n"])
    def test_an_answer_that_was_cut_off_is_none(self, state_dir, answer):
        """A driver may die in the middle of a word."""
        with socket.create_server(("127.0.0.1", 0)) as listening, LocalRegistry(state_dir, "default/job") as registry:
            registry.publish(url=f"http://127.0.0.1:{listening.getsockname()[1]}", token="t", attempt=1)

            def once():
                connection, _ = listening.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer)

            with ThreadPoolExecutor(1) as pool:
                pool.submit(once)
                done = backfill("status")
        assert (done.exit_code, "error: NotRunning" in done.stderr) == (4, True)

    def test_jobs(self, state_dir):
        """All that run on this machine."""
        assert "no backfill runs" in backfill("jobs").stdout
        with running(state_dir, "a/1"), running(state_dir, "a/2"):
            assert sorted(line.split()[0] for line in backfill("jobs").stdout.splitlines()) == ["a/1", "a/2"]
            found = json.loads(backfill("jobs", "-o", "json").stdout)
            assert {one["jobId"] for one in found} == {"a/1", "a/2"}
            assert {type(one["progress"]["epoch"]) for one in found} == {int}

    def test_watch_ends_with_the_driver(self, job):
        """A watch that outlives its job hangs a script."""
        watch = subprocess.Popen(
            [sys.executable, "-m", "backfill_cli", "status", "--watch", "-o", "json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert json.loads(watch.stdout.readline())["rowsDone"] == 1000
        job.server.close()
        _, said = watch.communicate(timeout=30)
        assert (watch.returncode, "ended" in said) == (0, True)


@pytest.fixture
def starting(state_dir):
    """A driver that opens Spark."""
    with LocalRegistry(state_dir, "default/job") as registry:
        registry.announce("looking at the tables")
        yield registry


class TestADriverThatStarts:
    """It takes 10 to 25 seconds, and is no driver that does not run (fault U13)."""

    def test_is_shown_with_its_step(self, starting):
        """A table for people, the state for programs."""
        shown, words = backfill("status"), json.loads(backfill("status", "-o", "json").stdout)

        assert (shown.exit_code, "looking at the tables" in shown.stdout) == (0, True)
        assert (words["state"], words["reason"], "percent" in words) == ("Starting", "looking at the tables", False)
        assert "looking at the tables" in backfill("jobs").stdout

    def test_refuses_a_command_that_cannot_wait_for_it(self, starting):
        """By name: the user can wait."""
        done = backfill("pause", "--timeout", "0")

        assert_ending(done, "DriverStarting")
        assert "looking at the tables" in done.stderr

    @pytest.mark.parametrize("command", ["pause", "verify"])
    def test_gets_the_commands_that_wait_for_it(self, starting, command):
        """As soon as it takes commands, whatever it did before."""
        sender = subprocess.Popen(
            [sys.executable, "-m", "backfill_cli", command, "--timeout", "60"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        waiting = sender.stderr.readline()
        with ScriptedJob() as job:
            starting.publish(url=job.server.url, token=job.token, attempt=job.attempt)
            _, said = sender.communicate(timeout=30)

        assert "the driver is starting (looking at the tables)" in waiting
        assert (sender.returncode, len(job.seen)) == (0, 1), said

    def test_that_ends_is_not_waited_for(self, starting):
        """Its spec may be wrong."""
        sender = subprocess.Popen(
            [sys.executable, "-m", "backfill_cli", "pause", "--timeout", "60"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        sender.stderr.readline()
        starting.withdraw()
        _, said = sender.communicate(timeout=30)

        assert (sender.returncode, "ended while it started" in said) == (4, True)


class TestTheFieldsOfAStatus:
    """Programs read the same names with and without a driver (fault U15)."""

    def test_of_a_driver_are_those_of_its_progress(self, job):
        """And what is known besides: the state, the newest receipt."""
        backfill("verify")
        words = json.loads(backfill("status", "-o", "json").stdout)

        assert (words["state"], words["receipt"]["rows"]) == ("Running", 4000)
        assert {"rowsDone", "rowsTotal", "percent", "epoch", "tableVersion", "receipt"} <= words.keys()

    def test_that_are_not_known_are_absent(self):
        """No driver means no rate: 0 would be a claim."""
        words = of_running("a/b", Progress(attempt=1, rows_done=5), None).to_json()

        assert {*words} == {"time", "jobId", "state", "attempt", "rowsDone"}
