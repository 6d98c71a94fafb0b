"""`backfill status`, `jobs` and `--watch` against a driver without Spark."""

import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.console.command_line import backfill, running

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
