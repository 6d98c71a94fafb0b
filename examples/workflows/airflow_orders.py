"""A DAG of Airflow 3 that copies a table on Kubernetes. Tasks behind it start when all rows are copied.

Put this file and backfill_job.py into the folder of DAGs, and install apache-airflow-providers-cncf-kubernetes. The connection
`kubernetes_default` may create, get and patch Backfills in the namespace.
"""

from datetime import UTC, datetime, timedelta

from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.sdk import dag, task
from backfill_job import apply, is_complete

ORDERS = {
    "apiVersion": "backfill.dev/v1alpha1",
    "kind": "Backfill",
    "metadata": {"name": "orders", "namespace": "shop"},
    "spec": {
        "source": {"type": "Delta", "delta": {"path": "s3a://lake/orders", "key": ["order_id"]}},
        "target": {"type": "Delta", "delta": {"path": "s3a://lake/orders_copy"}},
    },
}


@dag(schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False, tags=["backfill"])
def backfill_orders() -> None:
    """Apply the Backfill and wait for `Complete`. A failed or stalled job fails its task with the reason."""

    @task(retries=3, retry_delay=timedelta(seconds=30))
    def apply_orders() -> str:
        return apply(KubernetesHook().api_client, ORDERS)

    @task.sensor(poke_interval=30, timeout=4 * 3600, mode="reschedule")
    def orders_are_complete(name: str) -> bool:
        return is_complete(KubernetesHook().get_custom_object("backfill.dev", "v1alpha1", "backfills", name, "shop"))

    @task
    def read_orders() -> None:
        """Read the copy: it has all rows."""

    orders_are_complete(apply_orders()) >> read_orders()


backfill_orders()
