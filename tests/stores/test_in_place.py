"""Columns of a live table in a bucket are filled: each row gets its value once, whatever other writers, the store's answers and kills do.

delta-rs writes the table with conditional PUTs, and reads it back.
"""

from collections import Counter

import pytest
from deltalake import QueryBuilder, write_deltalake
from support.stores.fault_proxy import Fault
from support.stores.minio import credentials, for_spark
from support.tables.jobs import job, write_yaml
from support.tables.oracle import columns_of
from support.tables.other_engine import delete, insert

from backfill_core.in_place import rounds
from backfill_spark.driver.attempt import run_driver
from backfill_spark.settings import DriverSettings

pytestmark = pytest.mark.usefixtures("environment")

ROWS, FILES = 400, 4
ORDERS = "SELECT value AS id, concat('n', value % 50) AS name FROM generate_series({first}, {last})"
SPEC = {
    "source": {"key": []}, "strategy": {"type": "InPlace"}, "transform": {"set": {"norm": "upper(name)"}}, "verify": "Final",
}  # fmt: skip
FIRST_NEW = 10_000
TRIES, COMMITS, LOST = 8, 24, 2
"""More tries than the retries of an attempt."""

LOG = "/_delta_log/"


@pytest.fixture
def table(place):
    """Files of several versions, without a change feed."""
    at = place("here")
    for first in range(0, ROWS, ROWS // FILES):
        made = QueryBuilder().execute(ORDERS.format(first=first, last=first + ROWS // FILES - 1)).read_all()
        write_deltalake(at, made, mode="append")
    return at


class Writer:
    """Commits just before entries of the job reach the store: of `TRIES` tries only the last is in time, until `COMMITS` are made.

    It loses the answers of entries that are in time, except for the first one, which Spark writes: it adds the column.
    """

    def __init__(self, proxy, table):
        self._proxy, self._table, self._calls = proxy, table, 0
        self.ids, self.deleted, self.lost = [], set(), []

    def __call__(self):
        self._calls += 1
        if self._calls % TRIES == 0:
            if self._calls > TRIES and len(self.lost) < LOST:
                self.lost.append(Fault("lost answer", "PUT", f"{self._table.removeprefix('s3a:/')}{LOG}", 1))
                self._proxy.faults.append(self.lost[-1])
        elif len(self.ids) < COMMITS:
            number = FIRST_NEW + len(self.ids)
            insert(self._table, f"SELECT * REPLACE (CAST({number} AS BIGINT) AS id) FROM now LIMIT 1")
            self.ids.append(number)
            if len(self.ids) % 4 == 1:
                gone = 61 * len(self.deleted)
                delete(self._table, f"id = {gone}")
                self.deleted.add(gone)


class TestALiveTableInABucket:
    """The store decides which of two writers made a version; the job's commit goes directly after a version that it checked."""

    def test_is_filled_beside_a_writer_that_comes_first_although_answers_are_lost(
        self, spark, table, proxy, tmp_path, monkeypatch
    ):
        """A commit whose answer is lost is found by its transaction; no row of the writer is lost or doubled."""
        monkeypatch.setattr(rounds, "DISTANCE_MAX_MS", 0)
        settings = DriverSettings(cores=2, state_dir=tmp_path / "state")
        proxy.plain_puts.clear()
        writer = Writer(proxy, table)
        monkeypatch.setattr(proxy, "before_entry", writer)

        outcome = run_driver(job(table, table, **SPEC), settings=settings, spark=spark)

        assert (outcome.outcome, outcome.receipt.equal) == ("Complete", True), outcome.message
        assert [lost.met for lost in writer.lost] == [1] * LOST
        assert [path for path in proxy.plain_puts if path.endswith(".json")] == []
        assert len(writer.ids) == COMMITS
        rows = columns_of(table, "id", "name", "norm")
        assert Counter(number for number, _, _ in rows) == Counter({*range(ROWS)} - writer.deleted | {*writer.ids})
        assert all(norm == name.upper() for _, name, norm in rows)

    def test_is_filled_once_by_killed_drivers(self, table, process, store, tmp_path):
        """Before and after its commit; rows that other writers add meanwhile are filled too."""
        file = write_yaml(tmp_path / "job.yaml", table, table, spark={"conf": for_spark(store.endpoint)}, **SPEC)
        for number, point in enumerate(("before_fill", "after_fill")):
            assert process(file, **credentials(), BACKFILL_CRASH_AT=point).returncode == -9
            insert(table, f"SELECT * REPLACE (CAST({FIRST_NEW + number} AS BIGINT) AS id) FROM now LIMIT 1")

        done = process(file, **credentials())

        assert done.returncode == 0, done.stdout + done.stderr
        rows = columns_of(table, "id", "name", "norm")
        assert sorted(row[0] for row in rows) == [*range(ROWS), FIRST_NEW, FIRST_NEW + 1]
        assert all(norm == name.upper() for _, name, norm in rows)
