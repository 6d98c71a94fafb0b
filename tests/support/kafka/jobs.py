"""Jobs of a topic in this process, and the open clients of Kafka in it."""

from backfill_api.load import load_backfill
from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.gateway import java
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings


def job_of(spark, address, folder):
    """Return a function that runs a job of a topic into the table `t` of a folder: to its end, or to the first commit with history.

    `stops`: only to that commit; `seen` is called with each progress; `kafka` and `delta` are further fields of source and
    target; `mode` is that of the driver.
    """

    def go(topic, *, stops=False, seen=None, limit=None, stop=None, kafka=None, delta=None, mode="run", **spec):
        stop = stop or StopSignal()

        def look(progress):
            if stops and progress.rows_done:
                stop.ask(force=False)
            if seen is not None:
                seen(progress)

        backfill = load_backfill(
            {
                "apiVersion": "backfill.dev/v1alpha1",
                "kind": "Backfill",
                "metadata": {"name": "job"},
                "spec": {
                    "source": {
                        "type": "Kafka",
                        "kafka": {"bootstrapServers": address, "topic": topic, **(kafka or {})},
                    },
                    "target": {"type": "Delta", "delta": {"path": str(folder / "t"), **(delta or {})}},
                    "strategy": {"type": "SourceSplits"},
                    "barrier": {"intervalMs": 200},
                    "throttle": {"rowsPerSecond": limit} if limit else {},
                    **spec,
                },
            }
        )
        settings = DriverSettings(cores=2, state_dir=folder / "state", mode=mode)
        return run_driver(backfill, settings=settings, spark=spark, observe=look, stop=stop)

    return go


def admins(spark):
    """Return the threads of Kafka's administrators in the JVM, by number; each open `OffsetsClient` has one."""
    threads = java(spark).java.lang.Thread.getAllStackTraces().keySet().toArray()
    return {thread.getId(): thread for thread in threads if thread.getName().startswith("kafka-admin-client-thread")}


def lives_on(thread):
    """Return whether a thread of a closed client is still alive after ten seconds."""
    thread.join(10_000)
    return thread.isAlive()
