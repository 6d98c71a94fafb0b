"""The chart's network policies name existing pods and ports."""

from support.cluster.charts import RELEASE, SYSTEM, of_kind, only, rendered

from backfill_api.names import ROLE_LABEL
from backfill_operator.manifests import names
from backfill_operator.settings import OperatorSettings

SETTINGS = OperatorSettings()


class TestNetworkPolicies:
    """Selectors use labels of the pods (tests/control_plane/manifests/test_manifests.py), and rules use ports on which they listen."""

    def policies(self, **values):
        return {
            manifest["metadata"]["name"]: manifest["spec"]
            for manifest in of_kind(rendered(("shop",), **values), "NetworkPolicy")
        }

    def test_only_the_operator_commands_a_driver(self):
        """The driver's port answers clients without a token with an error, and uses a thread for each."""
        spec = self.policies()[f"{RELEASE}-drivers"]
        labels = only(rendered(), "Deployment")["spec"]["template"]["metadata"]["labels"]
        control, spark = spec["ingress"]
        [peer] = control["from"]

        assert spec["podSelector"]["matchLabels"] == {ROLE_LABEL: "driver"}
        assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": SYSTEM}
        assert peer["podSelector"]["matchLabels"].items() <= labels.items()
        assert [port["port"] for port in control["ports"]] == [names.CONTROL_PORT]
        assert spark["from"] == [{"podSelector": {"matchLabels": {ROLE_LABEL: "executor"}}}]
        assert [port["port"] for port in spark["ports"]] == [names.DRIVER_PORT, names.BLOCK_MANAGER_PORT]

    def test_executors_connect_to_their_own_driver(self):
        """They exchange blocks of rows."""
        spec = self.policies()[f"{RELEASE}-executors"]
        [rule] = spec["ingress"]

        assert spec["podSelector"]["matchLabels"] == {ROLE_LABEL: "executor"}
        assert [port["port"] for port in rule["ports"]] == [names.BLOCK_MANAGER_PORT]
        [who] = rule["from"][0]["podSelector"]["matchExpressions"]
        assert (who["key"], who["operator"], who["values"]) == (ROLE_LABEL, "In", ["driver", "executor"])

    def test_only_named_clients_read_metrics(self):
        """Metrics name Backfills of every tenant."""
        assert "ingress" not in self.policies()[RELEASE]
        prometheus = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
        policies = self.policies(networkPolicy={"metricsFrom": [prometheus]})

        assert policies[RELEASE]["ingress"] == [
            {"from": [prometheus], "ports": [{"protocol": "TCP", "port": SETTINGS.metrics_port}]}
        ]
        assert prometheus in policies[f"{RELEASE}-drivers"]["ingress"][0]["from"]
        assert self.policies(networkPolicy={"enabled": False}) == {}
