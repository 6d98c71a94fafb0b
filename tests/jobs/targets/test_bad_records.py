"""Records that no parser takes: the job ends and names one, or they go into a table of their own, each once.

The source is that of `tests/support/plugin_counter`; every seventh record of a partition is no number. The first process is killed
between the commit of the target and that of the bad records, the second goes on.
"""

import json
import signal

import pytest
from conftest import JARS
from support.drivers.counter_place import Place
from support.tables.oracle import columns_of

ROWS = 20
BAD = {(partition, offset) for partition in "01" for offset in range(ROWS) if offset % 7 == 3}
GOOD = {(partition, offset) for partition in "01" for offset in range(ROWS)} - BAD

THE_REST = """
import json, sys
from pathlib import Path
import yaml
from backfill import Backfill, BackfillError, Settings
from backfill_spark.jvm.session import open_session

folder, jars = Path(sys.argv[1]), Path(sys.argv[2])
conf = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
spark = open_session(app_name="bad records", cores=2, memory="1g", jars_dir=jars if jars.is_dir() else None, conf=conf)
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

print(json.dumps([outcome("Fail"), outcome("Quarantine")]))
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
    """Return what the newest state of the target says of bad records, and its transaction in the table of them."""
    log = sorted((folder / "target" / "_delta_log").glob("*.json"))
    said = [json.loads(line) for path in log for line in path.read_text().splitlines()]
    found = [json.loads(one["domainMetadata"]["configuration"]) for one in said if "domainMetadata" in one]
    return [one["quarantine"] for one in found if "quarantine" in one]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What each process left, and said."""
    made = place(tmp_path_factory.mktemp("bad"))
    killed = made.command(BACKFILL_CRASH_AT="before_quarantine:1", BACKFILL_STATE_DIR=str(made.folder / "state"))
    assert killed.returncode == -signal.SIGKILL, killed.stdout[-2000:] + killed.stderr[-3000:]
    between = states(made.folder)[-1], places(made.folder / "bad")
    done = made.process("-c", THE_REST, str(made.folder), str(JARS))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    failed, ended = json.loads(done.stdout.splitlines()[-1])
    return made.folder, between, failed, ended


class TestBadRecordsAreKept:
    """`onBadRecord: Quarantine`: no record is lost, none is doubled, and the target has only rows."""

    def test_a_crash_leaves_them_announced(self, said):
        """The commit of the target is the truth."""
        _, (state, rows), _, _ = said

        assert rows == []
        assert state["rows"] == state["announced"]["rows"] > 0

    def test_each_record_is_in_one_table_once(self, said):
        """After a kill between the two commits, and an attempt that failed."""
        folder, _, _, ended = said

        assert (ended["state"], ended["message"]) == ("Complete", "")
        assert sorted(places(folder / "target")) == sorted(GOOD)
        assert sorted(places(folder / "bad")) == sorted(BAD)
        assert states(folder)[-1]["rows"] == len(BAD)

    def test_with_its_bytes_and_the_reason(self, said):
        """The producer can be mended, and send them again."""
        folder, _, _, _ = said

        rows = columns_of(str(folder / "bad"), "partition", "offset", "value", "_reason")
        assert ("0", 3, b"no 3", "spec.transform.select[2]: cast cannot read the payload.") in rows

    def test_the_receipt_is_about_rows(self, said):
        """It does not miss what no parser takes."""
        receipt = said[3]["receipt"]

        assert (receipt["mismatches"], receipt["complete"], receipt["rows"]) == ([], True, len(GOOD))

    def test_the_receipt_tells_of_each_partition(self, said):
        """Both sides are read anew: the first and the last offset, what is bad, and what the target lacks."""
        first, second = said[3]["receipt"]["partitions"]

        assert (first["partition"], second["partition"]) == ("0", "1")
        assert (first["start"], first["stop"], first["records"], first["gaps"]) == (0, ROWS, ROWS, 0)
        assert (first["first"], first["last"], first["badRecords"]) == (0, ROWS - 1, len(BAD) // 2)
        assert (first["rows"], first["targetRows"], first["missing"]) == (len(GOOD) // 2, len(GOOD) // 2, 0)


class TestABadRecordEndsTheJob:
    """`onBadRecord: Fail`, the default: a user decides."""

    def test_by_its_place_and_the_reason(self, said):
        """What is committed stays, and the next attempt may keep bad records."""
        _, _, failed, _ = said

        assert failed["reason"] == "BadRecord"
        assert "the record at offset " in failed["message"]
        assert " of partition " in failed["message"]
        assert "spec.transform.select[2]: cast cannot read the payload." in failed["message"]
        assert "onBadRecord: Quarantine" in failed["hint"]
