"""Writers of Spark that are under way during a switch-over lose nothing: each row is once in the table that the name points to."""

import os
import threading

import pytest
from pyspark.errors import StreamingQueryException
from support.drivers.background import Running
from support.source_fence.writers import by_spark
from support.switch_over.names import ids_in, make_name
from support.tables.jobs import document, make_orders

from backfill import Backfill, Settings
from backfill_api.load import load_backfill
from backfill_core.source_fence.table_protocol import FENCED

WAIT_S = 60
MERGE = (
    "MERGE INTO {t} AS t USING (SELECT hold_switch(id) AS id FROM range(1)) AS s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET note = 'y'"
)


class HeldMerge:
    """A MERGE of one row that has read the table, and commits once it may."""

    def __init__(self, spark, folder, table):
        self._begun, self._go, released = folder / "begun", folder / "go", folder / "released"
        begun, go = str(self._begun), str(self._go)
        os.mkfifo(begun)
        os.mkfifo(go)

        def hold(number):
            if not os.path.exists(str(released)):
                open(begun, "w").close()
                open(go).close()
            return number

        self._released, self.messages = released, []
        spark.udf.register("hold_switch", hold, "long")
        self._thread = threading.Thread(
            target=lambda: self.messages.extend(message for _, message in by_spark(spark, table, (MERGE,)))
        )

    def begin(self):
        self._thread.start()
        open(self._begun).close()

    def commit(self):
        """Let it commit; return the message of its refusal."""
        self._released.touch()
        open(self._go, "w").close()
        self._thread.join(WAIT_S)
        [message] = self.messages
        return message


@pytest.mark.rest
class TestWritersOfSpark:
    def test_a_merge_and_a_stream_are_refused_by_the_source_and_continue_at_the_target(self, spark, tmp_path):
        """The MERGE has read the source before the fence; the stream keeps its checkpoint."""
        source, target, feeder = (str(tmp_path / name) for name in ("orders", "orders_v2", "feeder"))
        make_orders(spark, source, 100, files=2)
        make_orders(spark, feeder, 20, files=1)
        name, flip = make_name(tmp_path, source)
        written = document(source, target, after="Follow", switch={"flip": flip}, barrier={"intervalMs": 200})
        job = Backfill.of(written, settings=Settings(state_dir=tmp_path / "state", cores=2))
        merge, refusals = HeldMerge(spark, tmp_path, source), []

        def stream(table, **trigger):
            rows = spark.readStream.format("delta").load(feeder).selectExpr("id + 1000 AS id", "* EXCEPT (id)")
            started = rows.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
            return (started.trigger(**trigger) if trigger else started).start(table)

        def during(step):
            if step == "Fencing":
                merge.begin()
            if step == "Draining":
                refusals.append(merge.commit())
                spark.sql(
                    f"INSERT INTO delta.`{feeder}` SELECT id + 100, customer, amount, note, status FROM delta.`{feeder}`"
                )
                with pytest.raises(StreamingQueryException, match=FENCED):
                    running.processAllAvailable()

        with Running(spark, load_backfill(written), tmp_path / "state") as driver:
            driver.until(lambda progress: progress.caught_up)
            running = stream(source)
            running.processAllAvailable()
            done = job.switch(spark, on_step=during)

        assert (done.end, name.read_text()) == ("Switched", target)
        assert FENCED in refusals[0]
        assert ids_in(target) == ids_in(source) == [*range(100), *range(1000, 1020)]
        assert by_spark_messages(spark, target) == [None]
        stream(target, availableNow=True).awaitTermination()
        assert ids_in(target) == [*range(100), *range(1000, 1020), *range(1100, 1120)]


def by_spark_messages(spark, table):
    """Run the MERGE again; return the message of its refusal."""
    return [message for _, message in by_spark(spark, table, (MERGE,))]
