"""Network policies of the chart: each names pods and ports that there are."""

from support.cluster.charts import RELEASE, SYSTEM, of_kind, only, rendered

from backfill_api.names import ROLE_LABEL
from backfill_operator.manifests import names
from backfill_operator.settings import OperatorSettings

SETTINGS = OperatorSettings()


class TestNetworkPolicies:
    """Selectors are of labels that the pods have (tests/control_plane/manifests/test_manifests.py), ports of what they listen on."""

    def policies(self, **values):
        return {one["metadata"]["name"]: one["spec"] for one in of_kind(rendered(("shop",), **values), "NetworkPolicy")}

    def test_let_the_operator_alone_command_a_driver(self):
        """Its port answers strangers with an error, and takes a thread for each."""
        spec = self.policies()[f"{RELEASE}-drivers"]
        labels = only(rendered(), "Deployment")["spec"]["template"]["metadata"]["labels"]
        control, spark = spec["ingress"]
        [peer] = control["from"]

        assert spec["podSelector"]["matchLabels"] == {ROLE_LABEL: "driver"}
        assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": SYSTEM}
        assert peer["podSelector"]["matchLabels"].items() <= labels.items()
        assert [one["port"] for one in control["ports"]] == [names.CONTROL_PORT]
        assert spark["from"] == [{"podSelector": {"matchLabels": {ROLE_LABEL: "executor"}}}]
        assert [one["port"] for one in spark["ports"]] == [names.DRIVER_PORT, names.BLOCK_MANAGER_PORT]

    def test_let_executors_talk_to_their_own(self):
        """Blocks of rows go between them."""
        spec = self.policies()[f"{RELEASE}-executors"]
        [rule] = spec["ingress"]

        assert spec["podSelector"]["matchLabels"] == {ROLE_LABEL: "executor"}
        assert [one["port"] for one in rule["ports"]] == [names.BLOCK_MANAGER_PORT]
        [who] = rule["from"][0]["podSelector"]["matchExpressions"]
        assert (who["key"], who["operator"], who["values"]) == (ROLE_LABEL, "In", ["driver", "executor"])

    def test_let_only_named_clients_read_metrics(self):
        """Metrics name Backfills of every tenant."""
        assert "ingress" not in self.policies()[RELEASE]
        prometheus = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
        policies = self.policies(networkPolicy={"metricsFrom": [prometheus]})

        assert policies[RELEASE]["ingress"] == [
            {"from": [prometheus], "ports": [{"protocol": "TCP", "port": SETTINGS.metrics_port}]}
        ]
        assert prometheus in policies[f"{RELEASE}-drivers"]["ingress"][0]["from"]
        assert self.policies(networkPolicy={"enabled": False}) == {}
