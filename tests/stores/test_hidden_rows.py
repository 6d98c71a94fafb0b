"""Copied files between buckets whose failing rows are hidden: readers see exactly the rows that pass, after a kill and a repair.

delta-rs reads the tables.
"""

from collections import Counter

import pytest
from support.stores.minio import ACCESS_KEY, SECRET_KEY, credentials, for_spark
from support.stores.objects import Keys, Request, ask, objects_at, unfinished_uploads
from support.tables.jobs import job, write_yaml
from support.tables.logs import actions_in, commit_of, commits_of

from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.object_store.s3_requests import S3Copies, S3Folder
from backfill_spark.repair.repair import repair_target
from backfill_spark.settings import DriverSettings

pytestmark = pytest.mark.usefixtures("environment")

WHERE = "kind <> 3"
KEYS = Keys(ACCESS_KEY, SECRET_KEY)
SPEC = {
    "strategy": {"type": "Replica"}, "source": {"key": []}, "target": {"filteredRows": "Hidden"}, "transform": {"where": WHERE}, "verify": "Final",
}  # fmt: skip


@pytest.fixture
def settings(tmp_path):
    return DriverSettings(cores=2, state_dir=tmp_path / "state")


def passing(rows):
    """Return the rows for which the filter is true."""
    return Counter({row: count for row, count in rows.items() if row[1] != 3})


def copies(table):
    """Return the live files of a table that are copies with hidden rows, by path."""
    live = {}
    for version in commits_of(table):
        for action in actions_in(commit_of(table, version)):
            live.pop((action.get("remove") or {}).get("path"), None)
            live |= {add["path"]: add for add in [action.get("add")] if add}
    return {path: add for path, add in live.items() if "/w-" in path and add.get("deletionVector")}


class TestHiddenRows:
    """The store holds whole files, and readers of the table never see a row that fails."""

    def test_of_a_damaged_vector_are_found_and_repaired(self, spark, place, rows, store, settings, tmp_path):
        """From a disk to a bucket: one vector of the file is damaged, which makes its copy unreadable; the repair keeps the others."""
        source, at = str(tmp_path / "orders"), place("there")
        made = spark.range(0, 400, 1, 4).selectExpr("id", "id % 7 AS kind", "cast(id AS string) AS note")
        made.write.format("delta").option("delta.enableDeletionVectors", "true").save(source)
        spark.sql(f"DELETE FROM delta.`{source}` WHERE id % 10 = 4")
        spec = job(source, at, **SPEC)
        outcome = run_driver(spec, settings=settings, spark=spark)
        expected = passing(Counter((number, number % 7, str(number)) for number in range(400) if number % 10 != 4))
        assert (outcome.message, outcome.receipt.files_by_bytes, rows(at)) == ("", 4, expected)
        (vectors,) = (key for key in objects_at(at) if key.endswith(".bin"))
        path, before = f"{at.removeprefix('s3a:/')}/{vectors}", copies(at)
        content = bytearray(ask(store.endpoint, Request("GET", path), KEYS).body)
        content[len(content) // 2] ^= 1
        assert ask(store.endpoint, Request("PUT", path, body=bytes(content)), KEYS).status == 200

        repaired = repair_target(spec, settings=settings, spark=spark)

        assert repaired.receipt.equal
        assert rows(at) == expected
        vectors_now = [add["deletionVector"] for add in copies(at).values()]
        assert [add["deletionVector"] in vectors_now for add in before.values()].count(True) == 3

    def test_of_a_killed_driver_become_visible_once(self, spark, orders, place, rows, process, proxy, tmp_path):
        """All rows are visible in one commit, after a receipt; the uploads that a dead driver left unfinished are aborted."""
        at, folders = place("there"), [S3Folder(spark, place(bucket)) for bucket in ("here", "there")]
        spec = {**SPEC, "target": {"filteredRows": "Hidden", "publish": "WhenVerified"}}
        file = write_yaml(tmp_path / "job.yaml", orders, at, spark={"conf": for_spark(proxy.endpoint)}, **spec)
        killed = process(file, **credentials(), BACKFILL_CRASH_AT="before_publish")
        assert (killed.returncode, rows(at)) == (-9, Counter())
        begun = f"{staging(at)}/a1/s1/begun.parquet"
        upload = S3Copies(spark, *folders).upload(begun)
        upload.__enter__()  # the driver died in this block
        assert len(unfinished_uploads(f"{at}/{begun}")) == 1

        done = process(file, **credentials())

        assert done.returncode == 0, done.stdout + done.stderr
        assert rows(at) == passing(rows(orders))
        shown = [version for version in commits_of(at) if '"add":{' in commit_of(at, version)]
        assert len(shown) == 1
        assert unfinished_uploads(f"{at}/{begun}") == []
        assert [key for key in objects_at(at) if "manifest" in key] == []


def staging(table):
    """Return the name of the folder for the files of the only job of a table."""
    (name,) = {key.partition("/")[0] for key in objects_at(table) if key.startswith("backfill-")}
    return name
