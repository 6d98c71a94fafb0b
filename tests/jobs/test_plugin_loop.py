"""A strategy, a source and a sink of another distribution run in the real loop, through the same API as a user's document.

`tests/support/plugin_counter` has them: offsets are read, not versions, and the target is a list in a file. A process discovers
its plug-ins once, so each job here has a separate process; the first is killed in its middle.
"""

import json
import shutil
import signal

import pytest
from conftest import JARS
from support.drivers.counter_place import DISTRIBUTION, Place

THE_REST = """
import json, sys, threading
from pathlib import Path
from backfill import Backfill, Settings
from support.drivers.shared_java import own_session

folder, spark = Path(sys.argv[1]), own_session()
job = Backfill.load(str(folder / "job.yaml"), settings=Settings(state_dir=folder / "state", cores=2))
seen, changed = [], threading.Condition()

def see(progress):
    with changed:
        seen.append(progress)
        changed.notify_all()

def rows():
    return [tuple(row) for commit in json.loads((folder / "list").read_text())["commits"] for row in commit]

def grown(**highs):
    (folder / "counter.new").write_text(json.dumps(highs))
    (folder / "counter.new").rename(folder / "counter")

before = rows()
plan = job.plan(spark)
stopped = job.status(spark)
run = job.start(spark, on_progress=see)
run.until_reachable()
job.pause(scope="All")
with changed:
    assert changed.wait_for(lambda: seen and seen[-1].paused and seen[-1].quiet, 100)
job.verify()  # first commits the rows that were read when the pause came
paused = rows()
grown(**{"0": 25, "1": 18, "2": 5})
receipt = job.verify()
in_pause = rows()
job.throttle(None)
job.resume()
outcome = run.wait(200)
ended = [job.status(spark).state, job.status(spark).consumed_position]
at_end = rows()
released = job.release(spark)
print(json.dumps({
    "before": before, "paused": paused, "in pause": in_pause, "rows": at_end,
    "plan": plan.model_dump(mode="json", by_alias=True), "stopped": [stopped.state, stopped.consumed_version, stopped.rows_done],
    "state": outcome.state, "message": outcome.message,
    "early receipt": receipt.model_dump(mode="json", by_alias=True),
    "receipt": outcome.receipt.model_dump(mode="json", by_alias=True),
    "progress": seen[-1].model_dump(mode="json", by_alias=True),
    "lag": max((progress.lag_records or 0) for progress in seen),
    "status": ended, "released": [list(released.features), job.status(spark).state, rows() == at_end],
}))
"""


@pytest.fixture(scope="module")
def report(spark, tmp_path_factory):
    """The report of the second process, after the first was killed right after a commit."""
    place = Place(tmp_path_factory.mktemp("counter"), jars=JARS)
    killed = place.killed(spark, "after_seal_commit:3")
    assert killed.returncode == -signal.SIGKILL, killed.stdout[-2000:] + killed.stderr[-3000:]
    done = place.script(spark, THE_REST)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def numbers(**highs):
    """Return the rows that a list must contain."""
    return sorted([name, number] for name, high in highs.items() for number in range(high))


@pytest.mark.always
class TestAJobOfPlugins:
    """The loop, the executor and the API import none of them."""

    def test_a_killed_job_of_plugins_resumes(self, report):
        """The list has each number once: those that were committed before the kill, and all later ones."""
        assert 0 < len(report["before"]) < 20
        assert report["rows"][: len(report["before"])] == report["before"]
        assert sorted(report["rows"]) == numbers(**{"0": 25, "1": 18, "2": 5})
        assert (report["state"], report["message"]) == ("Complete", "")

    def test_a_job_of_plugins_is_quiet_in_a_pause(self, report):
        """Its source grows meanwhile, also by a partition. A receipt is still taken, of the committed part."""
        assert report["in pause"] == report["paused"]
        assert len(report["paused"]) < 20
        early = report["early receipt"]
        assert (early["mismatches"], early["complete"], early["rows"]) == ([], False, len(report["paused"]))

    def test_a_receipt_has_the_position_of_its_source(self, report):
        """It has offsets and no version."""
        receipt = report["receipt"]

        assert (receipt["mismatches"], receipt["complete"], receipt["rows"]) == ([], True, 48)
        assert receipt["sourceVersion"] is None
        assert receipt["sourcePosition"] == "offsets 0:25 1:18 2:5"

    def test_the_position_of_its_source_is_shown(self, report):
        """Progress, status and plan show it."""
        progress = report["progress"]

        assert (progress["consumedVersion"], progress["headVersion"], progress["lagVersions"]) == (None, None, 0)
        assert progress["consumedPosition"] == progress["headPosition"] == "offsets 0:25 1:18 2:5"
        assert progress["lagRecords"] == 0 < report["lag"]
        assert report["status"] == ["Finished", "offsets 0:25 1:18 2:5"]
        assert report["stopped"] == ["Stopped", None, len(report["before"])]
        plan = report["plan"]
        assert (plan["rows"], plan["version"], plan["changeFeed"], plan["resumesAttempt"]) == (20, None, None, 1)

    def test_a_job_of_plugins_is_released(self, report):
        """A list has no features that only a job needed; its rows stay."""
        assert report["released"] == [[], "NotStarted", True]


@pytest.mark.spark
class TestWithoutTheSeam:
    """The discovery of plug-ins makes such a job run."""

    def test_a_strategy_without_code_for_its_work_is_refused_by_name(self, tmp_path):
        """Its decisions are found, but not the code that runs them."""
        half = tmp_path / "half"
        shutil.copytree(DISTRIBUTION, half, ignore=shutil.ignore_patterns("__pycache__"))
        points = half / "backfill_counter-0.1.dist-info" / "entry_points.txt"
        points.write_text(points.read_text().partition("[backfill.work]")[0])

        refused = Place(tmp_path, half, jars=JARS).command()

        assert refused.returncode == 20, refused.stderr[-3000:]
        assert "no installed runner handles work of the kind ReadOffsets" in refused.stdout + refused.stderr
