"""Encrypted Parquet files of a source: the job names them, with readable and with encrypted footers."""

import json
from pathlib import Path

import pytest
from support.tables.foreign_files import write_encrypted
from support.tables.jobs import job
from support.tables.oracle import rows_in

from backfill_core.errors import UnsupportedSourceFeatureError
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.plan import plan_job
from backfill_spark.settings import DriverSettings

ROWS = 50


@pytest.fixture(params=[False, True], ids=["encrypted footer", "plain footer"])
def source(request, spark, tmp_path):
    """A table with a plain file and an encrypted one."""
    folder = tmp_path / "s"
    spark.range(5).selectExpr("CAST(id AS INT) AS id").coalesce(1).write.format("delta").option(
        "delta.enableDeletionVectors", "true"
    ).save(str(folder))
    file = folder / "part-secret.parquet"
    write_encrypted(spark, str(file), ROWS, plain_footer=request.param)
    add = {
        "path": file.name, "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 1, "dataChange": True,
        "stats": json.dumps({"numRecords": ROWS, "nullCount": {"id": 0}}),
    }  # fmt: skip
    Path(folder, "_delta_log", f"{1:020d}.json").write_text(
        json.dumps({"commitInfo": {"operation": "WRITE", "timestamp": 1}}) + "\n" + json.dumps({"add": add}) + "\n"
    )
    return folder


def plain_file(source):
    """Return the path of the file that is not encrypted, as the log has it."""
    lines = Path(source, "_delta_log", f"{0:020d}.json").read_text().splitlines()
    return next(json.loads(line)["add"]["path"] for line in lines if "add" in json.loads(line))


MODES = {
    "Replica": {"strategy": {"type": "Replica"}},
    "as it is": {},
    "projected": {"transform": {"select": ["id AS number"]}},
    "computed": {"transform": {"select": ["id", "id + 1 AS more"]}},
    "filtered": {"transform": {"where": "id % 2 = 0"}},
}


class TestWithoutTheKey:
    """No row of an encrypted file can be read.

    A copy of its bytes would be a table that readers do not know to be encrypted.
    """

    @pytest.mark.parametrize("mode", MODES)
    def test_a_job_ends_at_once_and_names_the_file(self, spark, source, tmp_path, mode):
        """This holds for copied bytes and for decoded rows. Another attempt would not help."""
        spec = {"source": {"key": []}, "target": {} if mode == "Replica" else {"writeMode": "Append"}} | MODES[mode]
        outcome = run_driver(
            job(str(source), str(tmp_path / "t"), **spec),
            settings=DriverSettings(cores=2, state_dir=tmp_path / "state"), spark=spark,
        )  # fmt: skip

        assert outcome.reason == "UnsupportedSourceFeature", outcome
        assert "is encrypted, and Spark has no key for it" in outcome.message
        assert "part-secret.parquet" in outcome.message
        assert "not encrypted" in outcome.error.hint
        assert not any(b"PARE" in file.read_bytes()[-4:] for file in (tmp_path / "t").rglob("*.parquet"))

    def test_a_plan_names_the_encrypted_file(self, spark, source, tmp_path):
        """All files are encrypted here, because a plan opens only few of them. Nothing is written."""
        with Path(source, "_delta_log", f"{1:020d}.json").open("a") as log:
            log.write(json.dumps({"remove": {"path": plain_file(source), "dataChange": True}}) + "\n")
        backfill = job(str(source), str(tmp_path / "t"), source={"key": []}, target={"writeMode": "Append"})

        with pytest.raises(UnsupportedSourceFeatureError, match=r"part-secret\.parquet"):
            plan_job(backfill, settings=DriverSettings(cores=2, state_dir=tmp_path / "state"), spark=spark)
        assert not (tmp_path / "t").exists()

    @pytest.mark.parametrize("where", [None, "id % 2 = 0"])
    def test_a_replica_that_ships_the_file_names_it(self, spark, source, tmp_path, where):
        """The file came after the copied version. The target keeps that version."""
        backfill = job(
            str(source), str(tmp_path / "t"), source={"key": [], "version": 0}, strategy={"type": "Replica"},
            transform={"where": where} if where else {},
        )  # fmt: skip
        outcome = run_driver(backfill, settings=DriverSettings(cores=2, state_dir=tmp_path / "state"), spark=spark)

        assert outcome.reason == "UnsupportedSourceFeature", outcome
        assert "part-secret.parquet" in outcome.message
        assert rows_in(str(tmp_path / "t")) == (3 if where else 5)
