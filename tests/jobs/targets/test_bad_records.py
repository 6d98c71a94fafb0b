"""Records that no parser can read: the job ends and names one, or each goes once into a separate table.

The source is that of `tests/support/plugin_counter`; every seventh record of a partition is no number. The first process is killed
between the commit of the target and that of the bad records, and the second continues.
"""

import json
import signal

import pytest
from conftest import JARS
from support.drivers.counter_place import Place
from support.tables.oracle import columns_of

pytestmark = pytest.mark.rest
"""All cases check one run of several processes; of a topic, `make test` kills a driver that keeps bad records (tests/kills)."""

ROWS = 20
BAD = {(partition, offset) for partition in "01" for offset in range(ROWS) if offset % 7 == 3}
GOOD = {(partition, offset) for partition in "01" for offset in range(ROWS)} - BAD

THE_REST = """
import json, shutil, sys
from pathlib import Path
import yaml
from backfill import Backfill, BackfillError, Settings
from support.drivers.shared_java import own_session

folder, spark = Path(sys.argv[1]), own_session()
document = yaml.safe_load((folder / "job.yaml").read_text())

def outcome(on_bad_record):
    document["spec"]["source"]["counter"]["onBadRecord"] = on_bad_record
    (folder / "job.yaml").write_text(yaml.safe_dump(document))
    job = Backfill.load(str(folder / "job.yaml"), settings=Settings(state_dir=folder / "state", cores=2))
    try:
        done = job.start(spark).wait(200)
    except BackfillError as error:
        return {"reason": error.reason, "message": error.message, "hint": error.hint}
    return {"state": done.state, "message": done.message, "receipt": done.receipt.model_dump(mode="json", by_alias=True)}

outcomes = [outcome("Fail"), outcome("Quarantine")]
shutil.copytree(folder / "bad", folder / "bad_again")
document["spec"]["source"]["counter"]["quarantinePath"] = str(folder / "bad_again")
document["spec"]["target"]["delta"]["path"] = str(folder / "target_again")
print(json.dumps([*outcomes, outcome("Quarantine")]))
"""


def place(folder):
    target = {"path": str(folder / "target"), "writeMode": "Append"}
    counter = {"partitions": 2, "path": str(folder / "counter")}
    bad = {"onBadRecord": "Quarantine", "quarantinePath": str(folder / "bad")}
    made = Place(
        folder, jars=JARS, target={"type": "Delta", "delta": target}, source={"type": "Counter", "counter": counter | bad},
        transform={"select": ["`partition`", "offset", "cast(cast(value AS string) AS bigint) AS number"]}, throttle={},
    )  # fmt: skip
    (folder / "counter").write_text(json.dumps({"0": ROWS, "1": ROWS}))
    return made


def places(folder):
    """Return partition and offset of the rows of a table, as another engine reads them."""
    return columns_of(str(folder), "partition", "offset")


def states(folder):
    """Return the quarantine state of each state of the target that has one."""
    log = sorted((folder / "target" / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for path in log for line in path.read_text().splitlines()]
    states = [json.loads(action["domainMetadata"]["configuration"]) for action in actions if "domainMetadata" in action]
    return [state["quarantine"] for state in states if "quarantine" in state]


@pytest.fixture(scope="module")
def results(spark, tmp_path_factory):
    """Results of each process: the folder, the state after the kill, and both outcomes.

    At the end the job runs again on a new target, with a copy of its table of bad records.
    """
    made = place(tmp_path_factory.mktemp("bad"))
    killed = made.killed(spark, "before_quarantine:1")
    assert killed.returncode == -signal.SIGKILL, killed.stdout[-2000:] + killed.stderr[-3000:]
    between = states(made.folder)[-1], places(made.folder / "bad")
    done = made.script(spark, THE_REST)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    failed, ended, again = json.loads(done.stdout.splitlines()[-1])
    assert (again["state"], again["message"]) == ("Complete", "")
    return made.folder, between, failed, ended


class TestBadRecordsAreKept:
    """`onBadRecord: Quarantine`: no record is lost, none is doubled, and the target has only rows."""

    def test_a_crash_leaves_bad_records_announced(self, results):
        """The commit of the target decides."""
        _, (state, rows), _, _ = results

        assert rows == []
        assert state["rows"] == state["announced"]["rows"] > 0

    def test_each_record_is_in_one_table_once(self, results):
        """This holds after a kill between the two commits, and after an attempt that failed."""
        folder, _, _, ended = results

        assert (ended["state"], ended["message"]) == ("Complete", "")
        assert sorted(places(folder / "target")) == sorted(GOOD)
        assert sorted(places(folder / "bad")) == sorted(BAD)
        assert states(folder)[-1]["rows"] == len(BAD)

    def test_a_job_that_begins_again_on_a_new_target_keeps_its_bad_records_too(self, results):
        """The table has transactions and files of the earlier attempts, which must neither count as these records nor be replaced."""
        folder, _, _, _ = results

        assert sorted(places(folder / "bad_again")) == sorted([*BAD, *BAD])
        assert sorted(places(folder / "target_again")) == sorted(GOOD)

    def test_a_bad_record_has_its_bytes_and_the_reason(self, results):
        """A user can correct the producer and send the records again."""
        folder, _, _, _ = results

        rows = columns_of(str(folder / "bad"), "partition", "offset", "value", "_reason")
        assert ("0", 3, b"no 3", "spec.transform.select[2]: cast cannot read the payload.") in rows

    def test_the_receipt_is_about_rows(self, results):
        """It does not expect records that no parser can read."""
        receipt = results[3]["receipt"]

        assert (receipt["mismatches"], receipt["complete"], receipt["rows"]) == ([], True, len(GOOD))

    def test_the_receipt_describes_each_partition(self, results):
        """Both sides are read again: the first and the last offset, the bad records, and the rows that the target lacks."""
        first, second = results[3]["receipt"]["partitions"]

        assert (first["partition"], second["partition"]) == ("0", "1")
        assert (first["start"], first["stop"], first["records"], first["gaps"]) == (0, ROWS, ROWS, 0)
        assert (first["first"], first["last"], first["badRecords"]) == (0, ROWS - 1, len(BAD) // 2)
        assert (first["rows"], first["targetRows"], first["missing"]) == (len(GOOD) // 2, len(GOOD) // 2, 0)


class TestABadRecordEndsTheJob:
    """`onBadRecord: Fail`, the default: a user decides."""

    def test_a_bad_record_is_named_with_its_offset_and_the_reason(self, results):
        """Committed rows stay, and the next attempt may keep bad records."""
        _, _, failed, _ = results

        assert failed["reason"] == "BadRecord"
        assert "the record at offset " in failed["message"]
        assert " of partition " in failed["message"]
        assert "spec.transform.select[2]: cast cannot read the payload." in failed["message"]
        assert "onBadRecord: Quarantine" in failed["hint"]
