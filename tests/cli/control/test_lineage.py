"""Events of OpenLineage reach a real server in their order; no server can fail or delay a job."""

from __future__ import annotations

import logging
import socket
import threading
import time

import pytest
from support.lineage_catalog import catalog

from backfill_api.load import load_backfill
from backfill_api.status.progress import Progress
from backfill_core.protocol.clock import Now
from backfill_spark.control import lineage
from backfill_spark.control.lineage import LineageReport
from backfill_spark.settings import LineageSettings, lineage_settings

ORDERS = load_backfill({
    "apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": "orders"},
    "spec": {
        "source": {"type": "Delta", "delta": {"path": "s3a://lake/orders", "key": ["id"]}},
        "target": {"type": "Delta", "delta": {"path": "s3a://lake/copy"}},
    },
})  # fmt: skip


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server on a busy machine answer in time."""
    monkeypatch.setattr(lineage, "SEND_S", 60.0)
    monkeypatch.setattr(lineage, "CLOSE_S", 60.0)


def run(settings: LineageSettings | None, outcome: str = "Complete", reports: int = 3) -> float:
    """Report a run with some progress; return its seconds."""
    moment = iter(range(10_000))
    began_s = time.monotonic()
    report = LineageReport(settings, ORDERS, lambda: Now(float(next(moment)), 1_800_000_000_000))
    seen = report.observing(lambda _: None)
    for _ in range(reports):
        seen(Progress())
    report.end(outcome, "Boom", "no luck")
    return time.monotonic() - began_s


class TestAServer:
    @pytest.mark.parametrize(("outcome", "last"), [("Complete", "COMPLETE"), ("Stopped", "ABORT"), ("Failed", "FAIL")])
    def test_server_gets_the_events_of_a_run_in_their_order(self, outcome: str, last: str) -> None:
        """They share one run, and have the path and the key of OpenLineage's clients."""
        with catalog() as server:
            run(LineageSettings(url=f"{server.url}/root/", namespace="shop", api_key="secret"), outcome)

        assert [seen["eventType"] for seen in server.events] == ["START", "RUNNING", last]
        assert len({seen["run"]["runId"] for seen in server.events}) == 1
        assert {seen["job"]["namespace"] for seen in server.events} == {"shop"}
        assert server.events[0]["inputs"] == [{"namespace": "s3://lake", "name": "orders"}]
        assert server.events[-1]["run"]["facets"].keys() == ({"errorMessage"} if outcome == "Failed" else set())
        assert (set(server.paths), set(server.keys)) == ({"/root/api/v1/lineage"}, {"Bearer secret"})

    def test_run_without_a_url_starts_no_thread(self) -> None:
        """It is the default."""
        before = set(threading.enumerate())

        run(None)

        # A thread of an earlier test may end meanwhile.
        assert set(threading.enumerate()) <= before


class TestAServerThatFails:
    def test_silent_server_delays_the_end_by_a_bounded_time(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The job reports its progress meanwhile, and a warning names the variable."""
        monkeypatch.setattr(lineage, "CLOSE_S", 0.3)
        with catalog() as server, caplog.at_level(logging.WARNING):
            server.held.clear()
            spent_s = run(LineageSettings(url=server.url), reports=5000)

        assert spent_s < 30
        assert [record.getMessage() for record in caplog.records] == [
            "an event for OPENLINEAGE_URL was dropped, and the job continues: 8 events wait"
        ]

    def test_server_that_is_away_is_warned_of_once(self, caplog: pytest.LogCaptureFixture) -> None:
        """Each event would repeat it."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{taken.getsockname()[1]}"
            with caplog.at_level(logging.WARNING):
                run(LineageSettings(url=url))

        (record,) = caplog.records
        assert "does not answer: ConnectionRefusedError" in record.getMessage()

    def test_answer_of_an_error_is_warned_of(self, caplog: pytest.LogCaptureFixture) -> None:
        """A wrong key is not silent."""
        with catalog() as server, caplog.at_level(logging.WARNING):
            server.status = 401
            run(LineageSettings(url=server.url))

        assert "answers 401" in caplog.records[0].getMessage()


class TestTheSettings:
    def test_variables_of_openlineage_are_read(self) -> None:
        """They are those of its own clients."""
        given = {"OPENLINEAGE_URL": "http://marquez:5000", "OPENLINEAGE_NAMESPACE": "shop", "OPENLINEAGE_API_KEY": "k"}

        settings = lineage_settings(given)

        assert settings == LineageSettings(url="http://marquez:5000", namespace="shop", api_key="k")
        assert "'k'" not in repr(settings)

    @pytest.mark.parametrize(
        "given",
        [{}, {"OPENLINEAGE_URL": ""}, {"OPENLINEAGE_URL": "http://a", "OPENLINEAGE_DISABLED": "TRUE"},
         {"OPENLINEAGE_URL": "marquez"}, {"OPENLINEAGE_URL": "http://user:word@marquez"}],
        ids=["none", "empty", "disabled", "no address", "password"],
    )  # fmt: skip
    def test_no_events_are_sent_without_a_valid_url(self, given: dict[str, str]) -> None:
        """A wrong address fails no job."""
        assert lineage_settings(given) is None
