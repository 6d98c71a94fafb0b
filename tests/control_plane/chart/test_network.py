"""Connections that the chart's network policies allow, computed by a model for the pods of an installation."""

import copy

import pytest
import yaml
from support.cluster import charts
from support.cluster.charts import RELEASE, SYSTEM, of_kind, only, rendered
from support.cluster.network import Place, host, place_of, takes
from support.operators.observations import spec

from backfill_api.names import ROLE_LABEL
from backfill_core.cluster_rules.limits import METADATA, Limits
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.config_map import config_map
from backfill_operator.manifests.driver_pod import driver_pod
from backfill_operator.manifests.names import (
    BLOCK_MANAGER_PORT,
    CONF_KEY,
    CONTROL_PORT,
    DRIVER_PORT,
    EXECUTOR_KEY,
    UI_PORT,
)
from backfill_operator.settings import OperatorSettings

SETTINGS = OperatorSettings()
LABEL = "spark.kubernetes.executor.label."
PORTS = {
    CONTROL_PORT, DRIVER_PORT, BLOCK_MANAGER_PORT, SETTINGS.health_port, SETTINGS.metrics_port, 1, 22, 80, 443, UI_PORT, 7077, 7080, 8444,
    65_535,
}  # fmt: skip
"""All ports of our pods, their adjacent ports, and some other ports."""

DISGUISE = {"app.kubernetes.io/name": "backfill-operator", "app.kubernetes.io/instance": RELEASE}
"""The operator's labels. A template may have them if the administrator has allowed their names."""


def launch(namespace, name, **fields):
    limits = Limits(metadata=(*METADATA, *DISGUISE))
    installation = Installation("backfill:1", limits=limits)
    return Launch(namespace, name, f"uid-of-{name}", 1, "Run", spec(**fields), installation)


def executor_of(launched):
    """Return the place of an executor as Spark creates it: from the template, with the labels of the driver's properties."""
    data = config_map(launched)["data"]
    template = yaml.safe_load(data[EXECUTOR_KEY])
    lines = [line.partition("=") for line in data[CONF_KEY].splitlines() if line.startswith(LABEL)]
    template["metadata"]["labels"] |= {name.removeprefix(LABEL): value for name, _, value in lines}
    return place_of(template, launched.namespace)


def pods(made):
    """Return the pods of an installation with two tenants, and other pods, by name."""
    disguised = {"driver": {"template": {"metadata": {"labels": DISGUISE}}}}
    orders, other = launch("shop", "orders"), launch("shop", "other", **disguised)
    stock = launch("stock", "orders")
    [trial] = of_kind(charts.trial(), "Pod")

    def anybody(namespace, **labels):
        return Place(namespace, labels, {"kubernetes.io/metadata.name": namespace})

    return {
        "operator": place_of(only(made, "Deployment")["spec"]["template"], SYSTEM),
        "driver": place_of(driver_pod(orders), "shop"),
        "executor": executor_of(orders),
        "driver of another": place_of(driver_pod(other), "shop"),
        "executor of another": executor_of(other),
        "driver of another tenant": place_of(driver_pod(stock), "stock"),
        "executor of another tenant": executor_of(stock),
        "trial": place_of(trial, SYSTEM),
        "beside the operator": anybody(SYSTEM, app="web"),
        "of the tenant": anybody("shop", app="web"),
        "of the tenant, disguised": anybody("shop", **DISGUISE),
        "of another tenant, disguised": anybody("stock", **{ROLE_LABEL: "executor"}),
        "prometheus": anybody("monitoring", app="prometheus"),
    }


def calls(made):
    """Return the allowed connections as (caller, called) with the ports, for the operator and one tenant's driver and executor."""
    there, policies = pods(made), of_kind(made, "NetworkPolicy")
    allowed_ports = {
        (caller, called): {port for port in PORTS if takes(policies, there[caller], there[called], port)}
        for called in ("operator", "driver", "executor")
        for caller in there
        if caller != called
    }
    return {pair: ports for pair, ports in allowed_ports.items() if ports}


SPARK = {DRIVER_PORT, BLOCK_MANAGER_PORT}
WANTED = {
    ("operator", "driver"): {CONTROL_PORT},
    ("executor", "driver"): SPARK,
    ("executor of another", "driver"): SPARK,
    ("driver", "executor"): {BLOCK_MANAGER_PORT},
    ("driver of another", "executor"): {BLOCK_MANAGER_PORT},
    ("executor of another", "executor"): {BLOCK_MANAGER_PORT},
}
"""All allowed connections. Spark's secret, and not the network, separates pods of one tenant."""


class TestWhoMayCallWhom:
    def test_policies_allow_only_the_connections_of_a_job(self):
        """8443 from the operator, 7078 and 7079 from executors, 7079 between executors. A kubelet's probes come from the node."""
        assert calls(rendered()) == WANTED

    def test_cluster_wide_installation_has_the_same_policies(self):
        """For each tenant that it names."""
        assert calls(rendered(watch={"namespaces": ["shop", "stock"], "clusterWide": True})) == WANTED

    def test_metrics_from_adds_one_peer(self):
        """It also reaches the port of commands, which requires a token."""
        peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
        made = rendered(networkPolicy={"metricsFrom": [peer]})

        more = {("prometheus", "operator"): {SETTINGS.metrics_port}, ("prometheus", "driver"): {CONTROL_PORT}}
        assert calls(made) == WANTED | more

    def test_spark_ui_from_adds_a_peer_of_the_ui_only(self):
        """The UI has no login, so no other pod of a tenant reaches it, nor does the peer reach commands."""
        peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
        made = rendered(networkPolicy={"sparkUiFrom": [peer]})

        assert calls(made) == WANTED | {("prometheus", "driver"): {UI_PORT}}

    def test_operator_metrics_from_adds_a_peer_of_the_operator_only(self):
        """A scraper of the metrics of all jobs needs no driver."""
        peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
        made = rendered(networkPolicy={"operatorMetricsFrom": [peer]})

        assert calls(made) == WANTED | {("prometheus", "operator"): {SETTINGS.metrics_port}}

    def test_every_pod_connects_without_policies(self):
        """The model also returns yes."""
        made = rendered(networkPolicy={"enabled": False})

        assert len(calls(made)) == 3 * (len(pods(made)) - 1)
        assert {frozenset(ports) for ports in calls(made).values()} == {frozenset(PORTS)}

    @pytest.mark.parametrize(("old", "new"), [
        ("backfill.dev/role: driver", "backfill.dev/rule: driver"), ("backfill.dev/role: executor", "backfill.dev/role: driver"),
        ("port: 8443", "port: 8444"), ("port: 7078", "port: 7080"), ("port: 7079", "port: 7077"), ("protocol: TCP", "protocol: UDP"),
        (f"metadata.name: {SYSTEM}", "metadata.name: shop"), ("app.kubernetes.io/name: backfill-operator", "app: web"),
        ("- executor", "- guest"), ("policyTypes:", "policyTypes: [Ingress]\n  ingress: [{}]\n  unused:"),
    ])  # fmt: skip
    def test_model_detects_each_changed_word(self, old, new):
        """The changed word is a label, a port or a peer."""
        made = copy.deepcopy(rendered())
        policies = of_kind(made, "NetworkPolicy")
        text = yaml.safe_dump_all(policies)
        assert old in text
        changed = [document for document in yaml.safe_load_all(text.replace(old, new)) if document]

        assert calls([manifest for manifest in made if manifest not in policies] + changed) != WANTED


DNS = {("UDP", 53), ("TCP", 53), ("UDP", 5353), ("TCP", 5353)}
API_SERVER = {("TCP", 443), ("TCP", 6443)}
STORE = {"to": [{"ipBlock": {"cidr": "203.0.113.0/24"}}], "ports": [{"protocol": "TCP", "port": 443}]}
OUTSIDE = {
    "DNS": Place("kube-system", {"k8s-app": "kube-dns"}, {"kubernetes.io/metadata.name": "kube-system"}),
    "DNS of the node": host("169.254.20.10"),
    "API server": host("10.0.0.1"),
    "API server by IPv6": host("fd00::1"),
    "store": host("203.0.113.7"),
    "internet": host("198.51.100.1"),
    "metadata of the cloud": host("169.254.169.254"),
    "pod of the tenant": Place("shop", {"app": "web"}, {"kubernetes.io/metadata.name": "shop"}),
}
"""Possible targets of a driver or an executor, except each other."""


def ways_out(made):
    """Return the allowed targets of one tenant's job: (caller, called) with the ports and protocols."""
    there, policies = pods(made), of_kind(made, "NetworkPolicy")
    doors = [
        (protocol, port) for protocol in ("TCP", "UDP") for port in sorted(PORTS | {53, 80, 5353, 6443, 9000, 9092})
    ]
    allowed_ports = {
        (caller, called): {door for door in doors if takes(policies, there[caller], place, door[1], door[0])}
        for caller in ("driver", "executor")
        for called, place in OUTSIDE.items()
    }
    return {pair: ports for pair, ports in allowed_ports.items() if ports}


NAMES = {(caller, called): DNS for caller in ("driver", "executor") for called in OUTSIDE if called.startswith("DNS")}
NEEDED = NAMES | {
    ("driver", "API server"): API_SERVER,
    ("driver", "API server by IPv6"): API_SERVER,
    ("driver", "pod of the tenant"): DNS,
    ("executor", "pod of the tenant"): DNS,
}


class TestWhereAJobMayGo:
    """SQL, a source's log and variables contain addresses. A policy applies even to addresses that the operator's lists miss."""

    def test_job_reaches_only_dns_and_the_api_server_by_default(self):
        """No server of the spec's choice gets the pod's token, and no pod reads the metadata of its cloud (fault S9)."""
        assert ways_out(rendered()) == NEEDED

    def test_job_reaches_the_stores_that_the_administrator_names(self):
        """Executors reach them too, because they read and write files."""
        made = rendered(networkPolicy={"egress": {"to": [STORE]}})

        store = {(caller, "store"): {("TCP", 443)} for caller in ("driver", "executor")}
        assert ways_out(made) == NEEDED | store

    def test_egress_can_be_limited_to_single_addresses(self):
        """One address of the API server, and one DNS service."""
        dns = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
        rule = {"to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}], "ports": [{"protocol": "TCP", "port": 6443}]}
        made = rendered(networkPolicy={"egress": {"dns": [dns], "apiServer": [rule]}})

        assert ways_out(made) == {
            ("driver", "DNS"): DNS, ("executor", "DNS"): DNS, ("driver", "API server"): {("TCP", 6443)},
        }  # fmt: skip

    @pytest.mark.parametrize(
        "given",
        [{"enabled": False}, {"egress": {"enabled": False}}, {"egress": None}],
        ids=["none", "no egress", "values of a release before"],
    )
    def test_job_reaches_every_address_without_the_limit(self, given):
        """Helm may reuse the values of a release that had no limit."""
        assert len(ways_out(rendered(networkPolicy=given))) == 2 * len(OUTSIDE)

    def test_empty_rule_that_allows_everything_is_refused(self):
        """`to: [{}]` would open all connections that the other rules close."""
        assert "networkPolicy" in charts.refusal(networkPolicy={"egress": {"to": [{}]}})
