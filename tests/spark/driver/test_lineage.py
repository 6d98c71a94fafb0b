"""A job reports its runs to the server in OPENLINEAGE_URL."""

from support.lineage_catalog import catalog
from support.tables.jobs import job, make_orders

from backfill_spark.driver.attempt import run_driver
from backfill_spark.settings import DriverSettings


class TestLineage:
    def test_runs_of_a_job_report_their_start_their_work_and_their_end(self, spark, tmp_path, monkeypatch):
        """A failed run names the reason. A job without a server sends nothing."""
        source, target = str(tmp_path / "source"), str(tmp_path / "target")
        make_orders(spark, source, 400, files=2)
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)
        with catalog() as server:
            run_driver(job(source, target), settings=settings, spark=spark)
            assert server.events == []
            monkeypatch.setenv("OPENLINEAGE_URL", server.url)
            done = run_driver(job(source, str(tmp_path / "second")), settings=settings, spark=spark)
            failed = run_driver(job(str(tmp_path / "gone"), str(tmp_path / "third")), settings=settings, spark=spark)

        assert (done.outcome, failed.outcome) == ("Complete", "Failed")
        assert [event["eventType"] for event in server.events] == ["START", "RUNNING", "COMPLETE", "START", "FAIL"]
        assert server.events[0]["inputs"] == [{"namespace": "file", "name": source}]
        assert server.events[2]["outputs"] == [{"namespace": "file", "name": str(tmp_path / "second")}]
        assert failed.reason in server.events[-1]["run"]["facets"]["errorMessage"]["message"]
