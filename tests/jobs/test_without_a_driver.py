"""What the target itself knows, on the real command line: status and verify when no driver runs, or one just ended; receipts by rows."""

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
from backfill_spark.settings import DriverSettings
from backfill_spark.stop_signal import StopSignal

ROWS = 5_000
REPLICA = {"source": {"key": []}, "strategy": {"type": "Replica"}}
INTERPRETED = ("--conf", "spark.sql.codegen.wholeStage=false", "--conf", "spark.sql.codegen.factoryMode=NO_CODEGEN")
"""Most of a receipt of so few rows is compiling for them: 20 seconds of a core, and minutes beside other work."""


EACH = """
import json, sys
from backfill_cli.__main__ import cli
for words in json.loads(sys.argv[1]):
    try:
        cli(words, prog_name="backfill")
    except SystemExit as end:
        print(f"--- {end.code or 0}", flush=True)
"""


class Place:
    """One source, one target, one file; commands run in a process of their own, as people run them."""

    def __init__(self, spark, folder, **spec):
        self.spark, self.folder = spark, folder
        self.source, self.target, self.state = f"{folder}/source", f"{folder}/target", folder / "state"
        self.file = write_yaml(folder / "job.yaml", self.source, self.target, **spec)
        make_orders(spark, self.source, ROWS, files=2)

    def backfill(self, *commands):
        """Carry out commands in one process, whose Java starts once; return code and output of each, and all errors."""
        each = [[*words, "-f", str(self.file)] for words in commands]
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
        """A driver that was found, and does not answer any more: it has just ended."""
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
def asked(filled):
    """A row is lost; then the target is asked for its status, and for a receipt."""
    filled.spark.sql(f"DELETE FROM delta.`{filled.target}` WHERE id = 7")
    with filled.ended():
        return filled.backfill(("status", "-o", "json"), ("verify", "--explain", "-o", "json", *INTERPRETED))


class TestASignal:
    """It may come at any moment of a process's life."""

    def test_before_the_attempt_has_begun_is_not_lost(self, spark, tmp_path):
        """Spark takes seconds to start, and impatient people press then; a pod may be deleted then. Nothing is written."""
        place = Place(spark, tmp_path)
        stop = StopSignal()
        stop.ask(force=False)
        first = place.run(stop)
        made = Path(place.target).exists()
        second = place.run()

        assert (first.outcome, first.exit_code, first.progress, made) == ("Stopped", 10, None, False)
        assert (second.outcome, second.progress.attempt) == ("Complete", 1)

    def test_while_it_runs(self, spark, tmp_path):
        """It takes no revision: revisions belong to commands."""
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
    """Other processes see a job from its first second on, not from its first commit (fault U13)."""

    def test_is_seen_at_each_step(self, spark, tmp_path):
        """Who looks or commands meanwhile is told the step, and not that no driver runs."""
        place, seen = Place(spark, tmp_path), []

        def starting(step):
            seen.append((step, [(address.step, address.starting) for address in running(place.state)]))

        spec, settings = job(place.source, place.target), DriverSettings(state_dir=place.state)
        outcome = driver.run_driver(spec, settings=settings, starting=starting, spark=spark)

        assert (outcome.outcome, seen[0][0], len(seen) > 2) == ("Complete", "starting Spark", True)
        assert all(found == [(step, True)] for step, found in seen)
        assert running(place.state) == []


class TestADriverThatIsJustEnding:
    """Its address is still there without an answer, so the tables are read."""

    def test_status_is_that_of_the_target(self, asked):
        """`connection refused` is no answer to a look at the target."""
        code, text = asked[0][0]
        words = json.loads(text)

        assert (code, words["state"], words["rowsDone"], words["attempt"]) == (0, "Finished", ROWS, 1)
        assert (words["finished"], words["percent"], words["rowsTotal"]) == (True, 100, ROWS)
        assert words["lastCommitTime"] > "2024"

    def test_verify_ends_with_what_the_receipt_says(self, filled, asked):
        """The exit code is that of the difference; that the driver ended is said beside it. Spark leaves no folder behind."""
        (_, (code, text)), errors = asked
        receipt = json.loads(text)

        assert (code, len(receipt["mismatches"])) == (48, 1), errors
        assert receipt["verifiedAt"] > "2024"
        assert "only in the source: {'id': 7" in errors
        assert "the tables are compared without it" in errors
        assert "WARN" not in errors
        assert not (filled.folder / "spark-warehouse").exists()


class TestASourceThatHasChangedSince:
    """A job that has ended copies nothing more: each command that says `equal` names the newest version too (fault U1)."""

    def test_is_named_by_run_status_and_verify(self, spark, tmp_path):
        """Exit code 0 is about the version of the job's end; `verify --head` has a code of its own."""
        place = Place(spark, tmp_path)
        first = place.run()
        other_engine.insert(place.source, "SELECT * REPLACE (id + 100000 AS id) FROM now WHERE id < 3")
        commands = ("run", "-o", "json"), ("status", "-o", "json"), ("verify", "--head", "-o", "json"), ("verify",)
        found, errors = place.backfill(*((*words, *INTERPRETED) for words in commands))
        (run, status, head, verify) = found
        heads = [json.loads(text.splitlines()[-1])["sourceHead"] for _, text in (run, head)]
        heads.append(json.loads(status[1])["sourceHead"])

        assert (first.source_head.version, first.source_head.behind) == (0, 0)
        assert [code for code, _ in found] == [0, 0, 57, 0], errors
        assert_ending(SimpleNamespace(stderr=errors, exit_code=head[0]), "SourceAhead")
        assert [(one["version"], one["position"], one["behind"]) for one in heads] == [(1, "version 1", 1)] * 3
        assert "equal at source version 0" in verify[1]
        assert "the source is at version 1 now (1 version" in verify[1]

    def test_that_is_gone_is_not_named(self, spark, tmp_path):
        """The target is complete without it."""
        place = Place(spark, tmp_path)
        place.run()
        shutil.rmtree(place.source)

        again = place.run()

        assert (again.reason, again.source_head) == ("AlreadyComplete", None)


class TestAReceiptByRows:
    """Files that were copied are proven by their bytes, unless a user asks for rows: in the spec, or for one receipt."""

    def test_of_a_job_and_of_a_command(self, spark, tmp_path):
        """The second is taken here, beside a driver: that one would compare by bytes, as its spec says."""
        place = Place(spark, tmp_path, verify="FinalByRows", **REPLICA)
        ((code, lines),), errors = place.backfill(("run", "-o", "json", *INTERPRETED))
        write_yaml(place.file, place.source, place.target, verify="Final", **REPLICA)
        with LocalRegistry(place.state, "default/job") as registry, ScriptedJob() as driver:
            registry.publish(url=driver.server.url, token=driver.token, attempt=1)
            commands = ("verify", "--rows", "-o", "json", *INTERPRETED), ("verify", "-o", "json")
            ((_, asked), (_, scripted)), _ = place.backfill(*commands)
        found = [json.loads(lines.splitlines()[-1])["receipt"], json.loads(asked), json.loads(scripted)]

        assert code == 0, errors
        assert [(one["rows"], one["filesByBytes"], one["rowsByRows"]) for one in found[:2]] == [(ROWS, 0, None)] * 2
        assert (found[2]["rows"], [one.command for one in driver.seen]) == (4000, [VerifyNow()])
