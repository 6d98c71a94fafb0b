"""A real Prometheus scrapes a real operator process, and evaluates each query of the dashboards and the alerts."""

import asyncio
import contextlib
import os
import sys

import pytest
from support.monitoring.prometheus import Prometheus
from support.monitoring.queries import ALERTS, DASHBOARDS, FOLDER, fitted
from support.operators.rig import NAMESPACE, QUICK, Rig
from support.unused_ports import unused_ports

from backfill_operator.settings import PREFIX

DOUBLE = {"rows_per_barrier": 1, "barrier_s": 0.2}
QUIET = {
    "Wait for a driver", "Receipts that differ", "Warnings", "Failed attempts", "Lost drivers in an hour", "Lost executors in an hour", "Paused",
}  # fmt: skip
"""Panels that may be empty, or 0, as long as nothing is wrong."""


@contextlib.asynccontextmanager
async def operator(rig, folder):
    """Yield the metrics port of an operator process."""
    (port,) = unused_ports("127.0.0.1", 1)
    settings = QUICK | {"metrics_port": port, "leader_election": True, "lease_retry_seconds": 0.2}
    given = {f"{PREFIX}{name.upper()}": str(value) for name, value in settings.items()}
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME") if name in os.environ}
    environ = kept | given | {"KUBECONFIG": str(rig.api.kubeconfig(folder))}
    with (folder / "operator.log").open("wb") as log:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "backfill_operator", env=environ, stdout=log, stderr=log
        )
        try:
            yield port
        finally:
            child.terminate()
            await child.wait()


def targets(name):
    """Return (panel, expression) of a dashboard."""
    return [(panel["title"], target["expr"]) for panel in DASHBOARDS[name]["panels"] for target in panel["targets"]]


@pytest.fixture
def place(tmp_path):
    """A folder for Prometheus."""
    folder = tmp_path / "prometheus"
    folder.mkdir()
    return folder


async def evaluated(tmp_path, place):
    """Run an operator with two jobs, let Prometheus scrape it, and evaluate every expression."""
    async with Rig(start=False, double=DOUBLE) as rig, operator(rig, tmp_path) as port:
        rig.create("orders")
        rig.create("items")
        await rig.until_holds("Running", "orders")
        rig.edit("items", desiredState="Paused")
        await rig.until_holds("Paused", "items")
        await rig.until(lambda: rig.progress("orders").get("rowsDone"))
        async with Prometheus(place, f"127.0.0.1:{port}", FOLDER / "alerts.yaml") as prometheus:
            jobs = await prometheus.until('backfill_job_rows_done{name="orders"} > 0')
            assert {label: jobs[0][0][label] for label in ("namespace", "name", "strategy")} == {
                "namespace": NAMESPACE, "name": "orders", "strategy": "Snapshot",
            }  # fmt: skip
            await prometheus.until("rate(backfill_operator_reconcile_seconds_count[5m])")
            empty = set()
            for panel, expression in targets("fleet"):
                text = fitted(expression)
                if panel not in QUIET and not await prometheus.query(text):
                    empty.add((panel, text))
            # The double reports no time of its end, and no driver has waited for a command.
            assert {panel for panel, _ in empty} <= {"Jobs", "Acknowledgement, p99"}, empty
            assert [value for _, value in await prometheus.query(fitted(targets("fleet")[0][1]))] == [1]
            for _, expression in targets("job"):
                await prometheus.query(fitted(expression, namespace=NAMESPACE))
            rules = await prometheus.rules()
            assert {rule["name"]: rule["health"] for rule in rules} == {rule["alert"]: "ok" for rule in ALERTS}
            assert await prometheus.query('ALERTS{alertstate="firing"}') == []


class TestARealScrape:
    def test_dashboards_and_alerts_read_a_running_operator(self, tmp_path, place):
        """Every expression is accepted, and those of the fleet have samples. No alert fires."""
        asyncio.run(evaluated(tmp_path, place))
