"""The examples for Airflow and Argo Workflows wait for `Complete`, and fail for a job that needs a person."""

import asyncio

import pytest
import yaml
from kubernetes import config
from support.repository import ROOT

from backfill_api.load import load_backfill
from backfill_api.names import API_VERSION, KIND
from backfill_api.status.conditions import Phase
from workflows.backfill_job import BackfillFailedError, apply, is_complete

FOLDER = ROOT / "examples" / "workflows"
TABLE = yaml.safe_load((ROOT / "docs" / "statuses.yaml").read_text())
ROWS = pytest.mark.parametrize("row", TABLE, ids=[f"{number}-{row['phase']}" for number, row in enumerate(TABLE)])
ORDERS = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    "metadata": {"name": "orders"},
    "spec": {
        "source": {"type": "Delta", "delta": {"path": "/data/a", "key": ["id"]}},
        "target": {"type": "Delta", "delta": {"path": "/data/b"}},
    },
}


@pytest.fixture(scope="module")
def template():
    """Return the WorkflowTemplate."""
    return next(yaml.safe_load_all((FOLDER / "argo-orders.yaml").read_text()))


def copy_step(template):
    return next(step["resource"] for step in template["spec"]["templates"] if "resource" in step)


class TestAirflow:
    @ROWS
    def test_task_ends_as_the_table_of_statuses_says(self, row):
        """It waits for all rows of a job that exits. A job that follows has no end."""
        backfill = row["backfill"]
        if row["copied"] == "Failed":
            with pytest.raises(BackfillFailedError, match=r"^\w+: "):
                is_complete(backfill)
        else:
            assert is_complete(backfill) == (row["phase"] == "Succeeded")

    async def test_tasks_apply_a_job_and_wait_for_its_end(self, real):
        """A repeated task changes nothing."""
        async with real() as rig:
            with config.new_client_from_config(str(rig.api.real_kubeconfig)) as client:
                orders = ORDERS | {"metadata": {"name": "orders", "namespace": rig.namespace}}
                assert await asyncio.to_thread(apply, client, orders) == "orders"
                await rig.until_holds("Running")
                assert not is_complete(rig.get())
                rig.kubelet.finish(rig.driver())
                await rig.until_phase("Succeeded")
                await asyncio.to_thread(apply, client, orders)

                assert is_complete(rig.store.get("backfills", rig.namespace, "orders"))

    def test_airflow_reads_the_dag(self, monkeypatch):
        """Airflow is not a dependency of the project."""
        pytest.importorskip("airflow.sdk", reason="pip install apache-airflow apache-airflow-providers-cncf-kubernetes")
        monkeypatch.syspath_prepend(FOLDER)
        from airflow_orders import backfill_orders

        assert [task.task_id for task in backfill_orders().topological_sort()] == [
            "apply_orders", "orders_are_complete", "read_orders",
        ]  # fmt: skip


class TestArgoWorkflows:
    def test_manifest_is_a_valid_job(self, template):
        """Argo applies any text, so an invalid one fails only on the cluster."""
        assert load_backfill(copy_step(template)["manifest"]).metadata.name == "orders"

    def test_step_ends_with_the_phases_of_the_operator(self, template):
        """Argo compares a field with a word; a word that no status has would wait for ever."""
        step = copy_step(template)
        ends = {name: step[name].split(" == ") for name in ("successCondition", "failureCondition")}

        assert ends == {
            "successCondition": ["status.phase", "Succeeded"], "failureCondition": ["status.phase", "Failed"],
        }  # fmt: skip
        assert {word for _, word in ends.values()} <= set(Phase.__args__)

    def test_account_may_apply_and_watch_jobs(self):
        """Argo creates, patches and watches the object."""
        role = next(
            document
            for document in yaml.safe_load_all((FOLDER / "argo-orders.yaml").read_text())
            if document["kind"] == "Role"
        )

        verbs = {group: rule["verbs"] for rule in role["rules"] for group in rule["apiGroups"]}
        assert set(verbs["backfill.dev"]) >= {"create", "get", "list", "patch", "watch"}
