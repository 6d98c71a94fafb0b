"""A strategy, a source and a sink of another distribution run through the real loop, by the same door as a user's document.

`tests/support/plugin_counter` has them: offsets are read, not versions; the target is a list in a file. A process discovers its
plug-ins once, so each job here is in a process of its own; the first is killed in its middle.
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
from backfill_spark.jvm.session import open_session

folder, jars = Path(sys.argv[1]), Path(sys.argv[2])
conf = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
spark = open_session(app_name="plugin", cores=2, memory="1g", jars_dir=jars if jars.is_dir() else None, conf=conf)
job = Backfill.load(str(folder / "job.yaml"), settings=Settings(state_dir=folder / "state", cores=2))
seen, told = [], threading.Condition()

def see(progress):
    with told:
        seen.append(progress)
        told.notify_all()

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
with told:
    assert told.wait_for(lambda: seen and seen[-1].paused and seen[-1].quiet, 100)
job.verify()  # what was being read when the pause came is committed before
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
    "lag": max((one.lag_records or 0) for one in seen),
    "status": ended, "released": [list(released.features), job.status(spark).state, rows() == at_end],
}))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What the second process says, after the first was killed right after a commit."""
    place = Place(tmp_path_factory.mktemp("counter"), jars=JARS)
    killed = place.command(BACKFILL_CRASH_AT="after_seal_commit:3", BACKFILL_STATE_DIR=str(place.folder / "state"))
    assert killed.returncode == -signal.SIGKILL, killed.stdout[-2000:] + killed.stderr[-3000:]
    done = place.process("-c", THE_REST, str(place.folder), str(JARS))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def numbers(**highs):
    """Return the rows that a list must hold."""
    return sorted([name, number] for name, high in highs.items() for number in range(high))


class TestAJobOfPlugins:
    """The loop, the executor and the door know none of them."""

    def test_goes_on_where_it_was_killed(self, said):
        """The list has each number once: what was committed before the kill, and all that came later."""
        assert 0 < len(said["before"]) < 20
        assert said["rows"][: len(said["before"])] == said["before"]
        assert sorted(said["rows"]) == numbers(**{"0": 25, "1": 18, "2": 5})
        assert (said["state"], said["message"]) == ("Complete", "")

    def test_keeps_quiet_in_a_pause(self, said):
        """While its source grows, by a partition too; a receipt is taken all the same, and is about the part that is there."""
        assert said["in pause"] == said["paused"]
        assert len(said["paused"]) < 20
        early = said["early receipt"]
        assert (early["mismatches"], early["complete"], early["rows"]) == ([], False, len(said["paused"]))

    def test_has_a_receipt_in_the_words_of_its_source(self, said):
        """Offsets, not a version that it has not."""
        receipt = said["receipt"]

        assert (receipt["mismatches"], receipt["complete"], receipt["rows"]) == ([], True, 48)
        assert receipt["sourceVersion"] is None
        assert receipt["sourcePosition"] == "offsets 0:25 1:18 2:5"

    def test_is_shown_in_the_words_of_its_source(self, said):
        """By the progress, the status and the plan."""
        progress = said["progress"]

        assert (progress["consumedVersion"], progress["headVersion"], progress["lagVersions"]) == (None, None, 0)
        assert progress["consumedPosition"] == progress["headPosition"] == "offsets 0:25 1:18 2:5"
        assert progress["lagRecords"] == 0 < said["lag"]
        assert said["status"] == ["Finished", "offsets 0:25 1:18 2:5"]
        assert said["stopped"] == ["Stopped", None, len(said["before"])]
        plan = said["plan"]
        assert (plan["rows"], plan["version"], plan["changeFeed"], plan["resumesAttempt"]) == (20, None, None, 1)

    def test_is_released(self, said):
        """A list has no features that only a job needed; its rows stay."""
        assert said["released"] == [[], "NotStarted", True]


class TestWithoutTheSeam:
    """What shows that it is the discovery that makes it run."""

    def test_a_strategy_whose_work_nothing_does_is_refused_by_name(self, tmp_path):
        """Its decisions are found, the code that carries them out is not."""
        half = tmp_path / "half"
        shutil.copytree(DISTRIBUTION, half, ignore=shutil.ignore_patterns("__pycache__"))
        points = half / "backfill_counter-0.1.dist-info" / "entry_points.txt"
        points.write_text(points.read_text().partition("[backfill.work]")[0])

        refused = Place(tmp_path, half, jars=JARS).command()

        assert refused.returncode == 20, refused.stderr[-3000:]
        assert "no installed runner handles work of the kind ReadOffsets" in refused.stdout + refused.stderr
