"""`backfill status`, `jobs` and `--watch` against a driver without Spark."""

import json
import os
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.console.command_line import backfill, running
from support.console.forked import ForkedPython
from support.drivers.fake_driver import ScriptedJob
from support.endings import assert_ending

from backfill import Backfill, DriverSilentError, NotRunningError, Settings
from backfill.control import find
from backfill.status import of_running
from backfill_api.status.progress import Progress
from backfill_spark.control.local_registry import LocalRegistry


class TestStatus:
    def test_status_prints_a_table(self, job):
        """A user reads numbers with separators, not JSON."""
        done = backfill("status")
        assert done.exit_code == 0
        assert "1,000 of 4,000 rows" in done.stdout

    @pytest.mark.parametrize("command", ["status", "verify"])
    def test_a_terminal_without_unicode_gets_ascii(self, job, command):
        """Serial consoles and some logs show nothing else."""
        done = backfill(command, "--ascii")

        assert done.exit_code == 0
        assert done.stdout.isascii()
        assert not backfill(command).stdout.isascii()

    def test_status_prints_json(self, job):
        """Scripts read the same fields as in the progress of a run."""
        status = json.loads(backfill("status", "-o", "json").stdout)
        assert (status["jobId"], status["rowsDone"]) == ("default/job", 1000)

    def test_status_prints_yaml(self, job):
        """Specs are YAML, so a status may be YAML too."""
        assert "rowsDone: 1000" in backfill("status", "-o", "yaml").stdout

    def test_status_shows_the_last_command(self, job):
        """A user must see that a command made the job slow."""
        backfill("throttle", "200k")
        shown = backfill("status").stdout
        assert "throttled by command (revision 1)" in shown
        assert "throttle applied at epoch" in shown

    def test_a_driver_that_ends_during_the_request_counts_as_missing(self, state_dir):
        """`status --offline` then reads the target, which needs the file, instead of reporting a refused connection."""
        with running(state_dir) as job:
            job.server.close()
            assert backfill("status").exit_code == 4
            done = backfill("status", "--offline")
        assert (done.exit_code, "give the Backfill with -f FILE" in done.stderr) == (2, True)

    @pytest.mark.parametrize("answer", [b"", b"HTTP/1.0 200 OK\r\nContent-Length: 90\r\n\r\n{", b"what?\r\n\r\n"])
    def test_a_truncated_answer_counts_as_no_driver(self, state_dir, answer):
        """A driver may die while it sends."""
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

    def test_jobs_lists_all_running_jobs(self, state_dir):
        """The list contains all jobs on this machine."""
        assert "no backfill runs" in backfill("jobs").stdout
        with running(state_dir, "a/1"), running(state_dir, "a/2"):
            assert sorted(line.split()[0] for line in backfill("jobs").stdout.splitlines()) == ["a/1", "a/2"]
            jobs = json.loads(backfill("jobs", "-o", "json").stdout)
            assert {job["jobId"] for job in jobs} == {"a/1", "a/2"}
            assert {type(job["progress"]["epoch"]) for job in jobs} == {int}

    def test_watch_ends_with_the_driver(self, job):
        """A watch that outlives its job hangs a script."""
        watch = ForkedPython(
            ["-m", "backfill_cli", "status", "--watch", "-o", "json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert json.loads(watch.stdout.readline())["rowsDone"] == 1000
        job.server.close()
        _, errors = watch.communicate(timeout=30)
        assert (watch.returncode, "ended" in errors) == (0, True)


@pytest.fixture
def silent(state_dir, monkeypatch):
    """A driver that lives and does not answer, as after SIGSTOP."""
    monkeypatch.setattr("backfill.control.LOOK_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listening, LocalRegistry(state_dir, "default/job") as registry:
        registry.publish(url=f"http://127.0.0.1:{listening.getsockname()[1]}", token="t", attempt=1)
        yield registry


class TestADriverThatIsSilent:
    """It was reported as none, so that a user started it again, or read old values of the target as the newest."""

    FILE = """{apiVersion: backfill.dev/v1alpha1, kind: Backfill, metadata: {name: job, namespace: default}, spec: {jobId: default/job,
        source: {type: Delta, delta: {path: /s, key: [id]}}, target: {type: Delta, delta: {path: /t}}}}"""

    def test_status_of_a_file_names_the_silent_driver(self, silent, tmp_path):
        """The target is read only with --offline."""
        file = tmp_path / "job.yaml"
        file.write_text(self.FILE)

        done = backfill("status", "-f", str(file))

        assert_ending(done, "DriverSilent")
        assert f"the driver of 'default/job' (pid {os.getpid()}) runs, and does not answer" in done.stderr
        assert "reading the target" not in done.stderr

    def test_status_in_python_raises_it(self, silent, state_dir):
        """A notebook must not open the target for it, either."""
        with pytest.raises(DriverSilentError, match="runs, and does not answer"):
            Backfill.of(self.FILE).status()

    def test_jobs_lists_it(self, silent):
        """Other jobs are listed, too."""
        done = backfill("jobs")

        assert (done.exit_code, "default/job  attempt 1" in done.stdout, "does not answer" in done.stdout) == (
            0,
            True,
            True,
        )

    def test_a_driver_that_ended_meanwhile_is_none(self, silent):
        """It removes its address before its server ends."""
        client = find(Settings.from_environ().state_dir, "default/job")
        silent.withdraw()

        with pytest.raises(NotRunningError):
            client.progress()


@pytest.fixture
def starting(state_dir):
    """A driver that opens Spark."""
    with LocalRegistry(state_dir, "default/job") as registry:
        registry.announce("looking at the tables")
        yield registry


class TestADriverThatStarts:
    """It takes 10 to 25 seconds, and must not be reported as not running (fault U13)."""

    def test_a_starting_driver_is_shown_with_its_step(self, starting):
        """The output is a table for users, and a state for programs."""
        shown, status = backfill("status"), json.loads(backfill("status", "-o", "json").stdout)

        assert (shown.exit_code, "looking at the tables" in shown.stdout) == (0, True)
        assert (status["state"], status["reason"], "percent" in status) == ("Starting", "looking at the tables", False)
        assert "looking at the tables" in backfill("jobs").stdout

    def test_a_command_without_a_timeout_is_refused(self, starting):
        """The reason is DriverStarting, so the user knows that waiting helps."""
        done = backfill("pause", "--timeout", "0")

        assert_ending(done, "DriverStarting")
        assert "looking at the tables" in done.stderr

    @pytest.mark.parametrize("command", ["pause", "verify"])
    def test_a_starting_driver_receives_the_waiting_commands(self, starting, command):
        """It receives them as soon as its server runs, in any step before."""
        sender = ForkedPython(
            ["-m", "backfill_cli", command, "--timeout", "60"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        waiting = sender.stderr.readline()
        with ScriptedJob() as job:
            starting.publish(url=job.server.url, token=job.token, attempt=job.attempt)
            _, errors = sender.communicate(timeout=30)

        assert "the driver is starting (looking at the tables)" in waiting
        assert (sender.returncode, len(job.seen)) == (0, 1), errors

    def test_a_command_stops_waiting_for_a_driver_that_ends(self, starting):
        """Its spec may be wrong."""
        sender = ForkedPython(
            ["-m", "backfill_cli", "pause", "--timeout", "60"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        sender.stderr.readline()
        starting.withdraw()
        _, errors = sender.communicate(timeout=30)

        assert (sender.returncode, "ended while it started" in errors) == (4, True)


class TestTheFieldsOfAStatus:
    """Programs read the same names with and without a driver (fault U15)."""

    def test_a_status_contains_the_fields_of_progress(self, job):
        """It adds the state and the newest receipt."""
        backfill("verify")
        status = json.loads(backfill("status", "-o", "json").stdout)

        assert (status["state"], status["receipt"]["rows"]) == ("Running", 4000)
        assert {"rowsDone", "rowsTotal", "percent", "epoch", "tableVersion", "receipt"} <= status.keys()

    def test_unknown_fields_are_absent(self):
        """Without a driver there is no rate: 0 would be wrong."""
        status = of_running("a/b", Progress(attempt=1, rows_done=5), None).to_json()

        assert {*status} == {"time", "jobId", "state", "attempt", "rowsDone"}
