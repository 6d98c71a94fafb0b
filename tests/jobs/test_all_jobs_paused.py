"""All drivers of this machine are paused and resumed together, as its page does."""

import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import pytest
from support.tables.jobs import make_orders, write_yaml

from backfill.control import drivers
from backfill_cli.page import local_jobs
from backfill_cli.page.local_jobs import LocalJobs
from backfill_page.seen import PauseAllJobs, ResumeAllJobs

NAMES = ("default/first", "default/second")
ROUNDS, START_S = 3, 240


@pytest.mark.rest
class TestTwoDrivers:
    """Each one acknowledges with its own commit, and reports the command from then on."""

    def test_both_report_each_command_as_soon_as_they_acknowledge_it(self, spark, tmp_path, monkeypatch):
        """After "pause all", no status says that a job still runs; after "resume all", none says that it is paused."""
        monkeypatch.setattr(local_jobs, "ACK_WAIT_S", START_S)
        make_orders(spark, str(tmp_path / "source"), 4000, files=2)
        state = tmp_path / "state"
        with ExitStack() as started:
            for name in NAMES:
                file = write_yaml(
                    tmp_path / f"{name.partition('/')[2]}.yaml", str(tmp_path / "source"), str(tmp_path / name),
                    name=name.partition("/")[2], throttle={"rowsPerSecond": 2},
                )  # fmt: skip
                started.callback(_end, _driver(file, state))
            jobs = LocalJobs(state)
            _until(lambda: {client.address.job_id for client in drivers(state)} == set(NAMES))
            _until(lambda: all(jobs.job(name).frame.progress.rows_done for name in NAMES))
            for _ in range(ROUNDS):
                for action, paused in ((PauseAllJobs("incident 4711"), "All"), (ResumeAllJobs(""), None)):
                    answer = jobs.act_on_all(action)

                    assert answer.ok, answer
                    assert [jobs.job(name).frame.progress.paused for name in NAMES] == [paused, paused]


def _driver(file, state):
    env = {**os.environ, "BACKFILL_STATE_DIR": str(state), "BACKFILL_CORES": "1", "BACKFILL_MEMORY": "1g"}
    return subprocess.Popen(
        [sys.executable, "-m", "backfill_spark", "-f", str(file)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, start_new_session=True,
    )  # fmt: skip


def _end(process):
    process.kill()
    process.wait()


def _until(holds):
    deadline_s = time.monotonic() + START_S
    while not holds():
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.2)
