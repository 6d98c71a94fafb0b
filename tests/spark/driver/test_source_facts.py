"""Facts of real sources lead to a manifest that `backfill plan` accepts."""

import pytest
from support.kafka.topics import COMPACTED, producing
from support.tables.jobs import make_orders

from backfill.draft import Probe, Request, draft, place_of
from backfill_api.load import load_backfill
from backfill_spark.driver.plan import plan_job
from backfill_spark.settings import DriverSettings

ROWS = 3000


@pytest.fixture
def proposed(spark, tmp_path):
    """Return the facts of a source, and the proposed job."""

    def make(source):
        ends = (place_of(end, tmp_path) for end in (source, str(tmp_path / "copy")))
        request = Request("copy", *ends)
        seen = Probe.between(request, tmp_path).source_facts(spark)
        return seen, load_backfill(draft(request, seen, file="copy.yaml"))

    return make


class TestATable:
    """Its metadata and a sample decide."""

    def test_proposed_job_can_be_planned(self, spark, tmp_path, proposed):
        """Each row of the sample has a different `id`; `customer` repeats."""
        make_orders(spark, str(tmp_path / "orders"), ROWS, files=3)

        seen, job = proposed(str(tmp_path / "orders"))

        repeats = {column.name: column.repeats for column in seen.columns}
        assert (seen.rows, seen.files, seen.change_feed, seen.sampled_rows) == (ROWS, 3, True, ROWS)
        assert (repeats["id"], repeats["customer"], repeats["amount"]) == (False, True, None)
        assert (job.spec.key, job.spec.strategy.type) == (("id",), "Snapshot")
        planned = plan_job(job, settings=DriverSettings(cores=1), spark=spark)
        assert (planned.rows, planned.target_exists) == (ROWS, False)
        assert not (tmp_path / "copy").exists(), "a proposal wrote something"


class TestATopic:
    """Its records decide."""

    def test_proposed_job_of_a_compacted_topic_can_be_planned(self, spark, broker, topics, proposed):
        """The payloads are JSON, except for a deletion, which has none."""
        topic = topics.create(partitions=2, config=COMPACTED)
        with producing(broker.address) as send:
            for number in range(20):
                send(topic, b"%d" % number, b'{"name": "n", "amount": %d}' % number)
            send(topic, b"7", None)

        seen, job = proposed(f"kafka://{broker.address}/{topic}")

        assert (seen.partitions, seen.records, seen.compacts, seen.keyed) == (2, 21, True, True)
        assert (job.spec.write_mode, job.spec.key) == ("Upsert", ("record_key",))
        assert (
            job.spec.transform.select[-1] == "from_json(CAST(value AS STRING), 'name STRING, amount BIGINT') AS record"
        )
        assert plan_job(job, settings=DriverSettings(cores=1), spark=spark).rows == 21
