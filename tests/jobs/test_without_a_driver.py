"""The real command line on a target without a driver, or with one that just ended: status, verify, and receipts by rows."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.drivers.fake_driver import ScriptedJob
from support.endings import assert_ending
from support.tables import other_engine
from support.tables.jobs import job, make_orders, write_yaml

from backfill_core.protocol.commands import VerifyNow
from backfill_spark.control.local_registry import LocalRegistry, running
from backfill_spark.driver import attempt as driver
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

ROWS = 5_000
REPLICA = {"source": {"key": []}, "strategy": {"type": "Replica"}}
INTERPRETED = ("--conf", "spark.sql.codegen.wholeStage=false", "--conf", "spark.sql.codegen.factoryMode=NO_CODEGEN")
"""A receipt of a few rows spends most of its time on compilation.

Without this setting it takes 20 seconds of a core, and minutes next to other work.
"""


EACH = """
import json, sys
from backfill_cli.__main__ import cli
for arguments in json.loads(sys.argv[1]):
    try:
        cli(arguments, prog_name="backfill")
    except SystemExit as end:
        print(f"--- {end.code or 0}", flush=True)
"""


class Place:
    """One source, one target, one file; commands run in a separate process, as users run them."""

    def __init__(self, spark, folder, **spec):
        self.spark, self.folder = spark, folder
        self.source, self.target, self.state = f"{folder}/source", f"{folder}/target", folder / "state"
        self.file = write_yaml(folder / "job.yaml", self.source, self.target, **spec)
        make_orders(spark, self.source, ROWS, files=2)

    def backfill(self, *commands):
        """Run commands in one process, whose Java starts once; return code and output of each, and all errors."""
        each = [[*command, "-f", str(self.file)] for command in commands]
        environ = {"BACKFILL_STATE_DIR": str(self.state), "BACKFILL_CORES": "1", "BACKFILL_MEMORY": "1g"}
        done = subprocess.run(
            [sys.executable, "-c", EACH, json.dumps(each)],
            env={**os.environ, **environ}, capture_output=True, text=True, check=False, timeout=280, cwd=self.folder,
        )  # fmt: skip
        parts = re.split(r"^--- (\d+)\n", done.stdout, flags=re.MULTILINE)
        assert len(parts) == 2 * len(commands) + 1, done.stderr
        return [(int(parts[at + 1]), parts[at]) for at in range(0, len(parts) - 1, 2)], done.stderr

    def run(self, stop=None, **settings):
        """Run the job in this process, on the session of the tests."""
        given = DriverSettings(state_dir=self.state, **settings)
        return driver.run_driver(job(self.source, self.target), settings=given, spark=self.spark, stop=stop)

    @contextmanager
    def ended(self):
        """Publish a driver that does not answer any more, because it has just ended."""
        with LocalRegistry(self.state, "default/job") as registry:
            scripted = ScriptedJob()
            registry.publish(url=scripted.server.url, token=scripted.token, attempt=1)
            scripted.server.close()
            yield


@pytest.fixture(scope="module")
def place(spark, tmp_path_factory):
    return Place(spark, tmp_path_factory.mktemp("offline"))


@pytest.fixture(scope="module")
def filled(place):
    """The same after one complete run."""
    assert place.run().outcome == "Complete"
    return place


@pytest.fixture(scope="module")
def answered(filled):
    """Answers to `status` and `verify` after a row of the target was lost."""
    filled.spark.sql(f"DELETE FROM delta.`{filled.target}` WHERE id = 7")
    with filled.ended():
        return filled.backfill(("status", "-o", "json"), ("verify", "--explain", "-o", "json", *INTERPRETED))


class TestASignal:
    """A signal may come at any time of a process's life."""

    def test_a_signal_before_the_attempt_is_not_lost(self, spark, tmp_path):
        """Spark takes seconds to start, and a user may press Ctrl-C or delete the pod then. Nothing is written."""
        place = Place(spark, tmp_path)
        stop = StopSignal()
        stop.ask(force=False)
        first = place.run(stop)
        made = Path(place.target).exists()
        second = place.run()

        assert (first.outcome, first.exit_code, first.progress, made) == ("Stopped", 10, None, False)
        assert (second.outcome, second.progress.attempt) == ("Complete", 1)

    def test_a_signal_stops_a_running_attempt(self, spark, tmp_path):
        """It takes no revision, because revisions belong to commands."""
        place, seen, stop = Place(spark, tmp_path), threading.Event(), StopSignal()

        def observe(progress):
            if progress.table_version is not None and not seen.is_set():
                seen.set()
                stop.ask(force=True)

        spec = job(place.source, place.target, after="Follow")
        settings = DriverSettings(state_dir=place.state)
        outcome = driver.run_driver(spec, settings=settings, observe=observe, spark=spark, stop=stop)

        assert (outcome.outcome, outcome.progress.revision) == ("Stopped", 0)
        assert outcome.progress.last_commit_time is not None


class TestAStart:
    """Other processes see a job from its first second, not from its first commit (fault U13)."""

    def test_each_step_of_a_start_is_seen(self, spark, tmp_path):
        """A user who requests the status or sends a command meanwhile gets the step, and not that no driver runs."""
        place, seen = Place(spark, tmp_path), []

        def starting(step):
            seen.append((step, [(address.step, address.starting) for address in running(place.state)]))

        spec, settings = job(place.source, place.target), DriverSettings(state_dir=place.state)
        outcome = driver.run_driver(spec, settings=settings, starting=starting, spark=spark)

        assert (outcome.outcome, seen[0][0], len(seen) > 2) == ("Complete", "starting Spark", True)
        assert all(addresses == [(step, True)] for step, addresses in seen)
        assert running(place.state) == []


class TestADriverThatIsJustEnding:
    """Its address is still published without an answer, so the tables are read."""

    def test_status_is_that_of_the_target(self, answered):
        """`connection refused` is no answer to a request for the target's status."""
        code, text = answered[0][0]
        status = json.loads(text)

        assert (code, status["state"], status["rowsDone"], status["attempt"]) == (0, "Finished", ROWS, 1)
        assert (status["finished"], status["percent"], status["rowsTotal"]) == (True, 100, ROWS)
        assert status["lastCommitTime"] > "2024"

    def test_verify_ends_with_the_result_of_the_receipt(self, filled, answered):
        """The exit code is that of the difference. A message names the ended driver, too.

        Spark leaves no folder behind.
        """
        (_, (code, text)), errors = answered
        receipt = json.loads(text)

        assert (code, len(receipt["mismatches"])) == (48, 1), errors
        assert receipt["verifiedAt"] > "2024"
        assert "only in the source: {'id': 7" in errors
        assert "the tables are compared without it" in errors
        assert "WARN" not in errors
        assert not (filled.folder / "spark-warehouse").exists()


class TestASourceThatHasChangedSince:
    """An ended job copies nothing more: each command that reports `equal` also names the newest version (fault U1)."""

    def test_a_newer_source_is_named_by_run_status_and_verify(self, spark, tmp_path):
        """Exit code 0 describes the version at the job's end; `verify --head` has a separate exit code."""
        place = Place(spark, tmp_path)
        first = place.run()
        other_engine.insert(place.source, "SELECT * REPLACE (id + 100000 AS id) FROM now WHERE id < 3")
        commands = ("run", "-o", "json"), ("status", "-o", "json"), ("verify", "--head", "-o", "json"), ("verify",)
        answers, errors = place.backfill(*((*command, *INTERPRETED) for command in commands))
        (run, status, head, verify) = answers
        heads = [json.loads(text.splitlines()[-1])["sourceHead"] for _, text in (run, head)]
        heads.append(json.loads(status[1])["sourceHead"])

        assert (first.source_head.version, first.source_head.behind) == (0, 0)
        assert [code for code, _ in answers] == [0, 0, 57, 0], errors
        assert_ending(SimpleNamespace(stderr=errors, exit_code=head[0]), "SourceAhead")
        assert [
            (head_of_source["version"], head_of_source["position"], head_of_source["behind"])
            for head_of_source in heads
        ] == [(1, "version 1", 1)] * 3
        assert "equal at source version 0" in verify[1]
        assert "the source is at version 1 now (1 version" in verify[1]

    def test_a_missing_source_is_not_named(self, spark, tmp_path):
        """The target is complete without it."""
        place = Place(spark, tmp_path)
        place.run()
        shutil.rmtree(place.source)

        again = place.run()

        assert (again.reason, again.source_head) == ("AlreadyComplete", None)


class TestAReceiptByRows:
    """Copied files are proven by their bytes, unless a user requests rows: in the spec, or for one receipt."""

    def test_receipts_by_rows_of_a_job_and_of_a_command_are_equal(self, spark, tmp_path):
        """The command takes the second receipt itself while a driver runs, because the driver compares by bytes as its spec defines."""
        place = Place(spark, tmp_path, verify="FinalByRows", **REPLICA)
        ((code, lines),), errors = place.backfill(("run", "-o", "json", *INTERPRETED))
        write_yaml(place.file, place.source, place.target, verify="Final", **REPLICA)
        with LocalRegistry(place.state, "default/job") as registry, ScriptedJob() as driver:
            registry.publish(url=driver.server.url, token=driver.token, attempt=1)
            commands = ("verify", "--rows", "-o", "json", *INTERPRETED), ("verify", "-o", "json")
            ((_, by_rows), (_, scripted)), _ = place.backfill(*commands)
        receipts = [json.loads(lines.splitlines()[-1])["receipt"], json.loads(by_rows), json.loads(scripted)]

        assert code == 0, errors
        assert [(receipt["rows"], receipt["filesByBytes"], receipt["rowsByRows"]) for receipt in receipts[:2]] == [
            (ROWS, 0, None)
        ] * 2
        assert (receipts[2]["rows"], [request.command for request in driver.seen]) == (4000, [VerifyNow()])
