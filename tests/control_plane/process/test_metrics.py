"""Each metric is documented, and each one changes."""

import asyncio
import re
import socket
import urllib.request

import pytest
from support.cluster.fake_api import Fault
from support.operators.rig import NAMESPACE, Rig
from support.repository import ROOT

from backfill_operator.job_metrics import HEADS, LABELS
from backfill_operator.metrics import Metrics

PAGE = (ROOT / "docs" / "metrics.md").read_text()
DOCUMENTED = set(re.findall(r"^\| `(backfill_operator_\w+)` ", PAGE, flags=re.MULTILINE))
OF_JOBS = dict(re.findall(r"^\| `(backfill_job_\w+)` \|([^|]*)\|", PAGE, flags=re.MULTILINE))
QUICK_LEASE = {"lease_seconds": 30.0, "lease_renew_deadline_seconds": 20.0, "lease_retry_seconds": 0.1}


def names(metrics):
    """Return the exported names of metrics."""
    return {family.name + ("_total" if family.type == "counter" else "") for family in metrics.registry.collect()}


def moved(metrics):
    """Return the metrics that are not zero."""
    return {
        family.name + ("_total" if family.type == "counter" else "")
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.value > 0 and not sample.name.endswith(("_created", "_bucket"))
    }


class TestMetrics:
    def test_exactly_the_existing_metrics_are_documented(self):
        """A number without an explanation is useless."""
        assert names(Metrics(lambda: ["Running"])) == DOCUMENTED

    def test_exactly_the_existing_metrics_of_jobs_are_documented(self):
        """With the labels that each one has in addition to namespace, name and strategy."""
        labels = {
            name: [label for label in LABELS[name] if label not in ("namespace", "name", "strategy")] for name in HEADS
        }

        assert {name: re.findall(r"`(\w+)`", text) for name, text in OF_JOBS.items()} == labels

    async def test_each_metric_changes(self):
        """A metric that never changes would always look good."""
        async with Rig(leader_election=True, double={"rows_per_barrier": 1, "barrier_s": 0.005}, **QUICK_LEASE) as rig:
            pod = {"metadata": {"name": "taken-1-driver"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
            rig.store.create("pods", NAMESPACE, pod)
            rig.create("taken")
            rig.create("orders")
            await rig.until_holds("Running")
            rig.edit(desiredState="Paused")
            await rig.until_holds("Paused")
            rig.edit(desiredState="Running")
            rig.api.faults.append(
                Fault("answer", verb="patch", plural="backfills", status=422, reason="Invalid", times=2)
            )
            rig.annotate("orders", heard="once more")
            rig.api.forget()
            await rig.until(lambda: "backfill_operator_progress_writes_total" in moved(rig.operator.metrics))
            rig.api.silent = True
            rig.annotate("taken", heard="no")
            # No whole object of a real server is unreadable; test_hostile_objects covers this metric.
            unmoved = {"backfill_operator_queue_depth", "backfill_operator_unreadable_objects_total"}
            everything = names(rig.operator.metrics) - unmoved
            await rig.until(
                lambda: rig.edit("orders", ttlSecondsAfterFinished=5) and everything <= moved(rig.operator.metrics),
                what=lambda: everything - moved(rig.operator.metrics),
            )

    async def test_queue_depth_is_computed_at_each_scrape(self):
        """Its changes are too short to be seen by chance."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.kill()  # otherwise its queue changes between the two reads
            rig.operator.queue.add((NAMESPACE, "later"))
            metrics = rig.operator.metrics
            assert metrics.registry.get_sample_value("backfill_operator_queue_depth") == len(rig.operator.queue) > 0


class TestWhereTheyAre:
    @pytest.mark.parametrize("path", ["livez", "readyz", "metrics"])
    async def test_probes_and_metrics_answer_on_their_ports(self, path):
        """Both have separate ports."""
        ports = []
        for _ in range(2):
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", 0))
                ports.append(listener.getsockname()[1])
        async with Rig(health_port=ports[0], metrics_port=ports[1]) as rig:
            rig.create()
            await rig.until_holds("Running")
            port = ports[path == "metrics"]

            def ask():
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=60) as answer:
                    return answer.status, answer.read().decode()

            status, text = await asyncio.to_thread(ask)
            assert status == 200
            assert text == "ok\n" if path != "metrics" else "backfill_operator_backfills" in text
            assert path != "metrics" or f'backfill_job_info{{namespace="{NAMESPACE}"' in text
