"""Copied files between buckets whose failing rows are hidden: readers see exactly the rows that pass, after a kill too.

delta-rs reads the tables.
"""

from collections import Counter

import pytest
from support.stores.minio import credentials, for_spark
from support.stores.objects import objects_at, unfinished_uploads
from support.tables.jobs import write_yaml
from support.tables.logs import commit_of, commits_of

from backfill_spark.jvm.object_store.s3_requests import S3Copies, S3Folder

pytestmark = pytest.mark.usefixtures("environment")

WHERE = "kind <> 3"
SPEC = {
    "strategy": {"type": "Replica"}, "source": {"key": []}, "target": {"filteredRows": "Hidden"}, "transform": {"where": WHERE}, "verify": "Final",
}  # fmt: skip


def passing(rows):
    """Return the rows for which the filter is true."""
    return Counter({row: count for row, count in rows.items() if row[1] != 3})


class TestHiddenRows:
    """The store holds whole files, and readers of the table never see a row that fails."""

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
