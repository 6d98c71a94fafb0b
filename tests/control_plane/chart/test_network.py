"""Who may call whom once the chart's network policies are enforced: asked of a model, for the pods that there really are."""

import copy

import pytest
import yaml
from support.cluster import charts
from support.cluster.charts import RELEASE, SYSTEM, of_kind, only, rendered
from support.cluster.network import Place, host, place_of, takes
from support.operators.observations import spec

from backfill_api.names import ROLE_LABEL
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.config_map import config_map
from backfill_operator.manifests.driver_pod import driver_pod
from backfill_operator.manifests.names import (
    BLOCK_MANAGER_PORT,
    CONF_KEY,
    CONTROL_PORT,
    DRIVER_PORT,
    EXECUTOR_KEY,
)
from backfill_operator.manifests.rules.limits import METADATA, Limits
from backfill_operator.settings import OperatorSettings

SETTINGS = OperatorSettings()
LABEL = "spark.kubernetes.executor.label."
PORTS = {
    CONTROL_PORT, DRIVER_PORT, BLOCK_MANAGER_PORT, SETTINGS.health_port, SETTINGS.metrics_port, 1, 22, 80, 443, 4040, 7077, 7080, 8444,
    65_535,
}  # fmt: skip
"""All that our pods listen on, their neighbours, and some of others."""

DISGUISE = {"app.kubernetes.io/name": "backfill-operator", "app.kubernetes.io/instance": RELEASE}
"""The operator's labels. A template may ask for them where the administrator has allowed their names."""


def launch(namespace, name, **fields):
    limits = Limits(metadata=(*METADATA, *DISGUISE))
    installation = Installation("backfill:1", limits=limits)
    return Launch(namespace, name, f"uid-of-{name}", 1, "Run", spec(**fields), installation)


def executor_of(one):
    """Return the place of an executor as Spark makes it: of the template, with the labels of the driver's properties."""
    data = config_map(one)["data"]
    template = yaml.safe_load(data[EXECUTOR_KEY])
    lines = [line.partition("=") for line in data[CONF_KEY].splitlines() if line.startswith(LABEL)]
    template["metadata"]["labels"] |= {name.removeprefix(LABEL): value for name, _, value in lines}
    return place_of(template, one.namespace)


def pods(made):
    """Return the pods of an installation that has two tenants, and others around them, by name."""
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
    """Return who reaches what: (caller, called) and the ports, of the operator and of one tenant's driver and executor."""
    there, policies = pods(made), of_kind(made, "NetworkPolicy")
    found = {
        (caller, called): {port for port in PORTS if takes(policies, there[caller], there[called], port)}
        for called in ("operator", "driver", "executor")
        for caller in there
        if caller != called
    }
    return {pair: ports for pair, ports in found.items() if ports}


SPARK = {DRIVER_PORT, BLOCK_MANAGER_PORT}
WANTED = {
    ("operator", "driver"): {CONTROL_PORT},
    ("executor", "driver"): SPARK,
    ("executor of another", "driver"): SPARK,
    ("driver", "executor"): {BLOCK_MANAGER_PORT},
    ("driver of another", "executor"): {BLOCK_MANAGER_PORT},
    ("executor of another", "executor"): {BLOCK_MANAGER_PORT},
}
"""All that may be called at all. Pods of one tenant are told apart by Spark's secret, and not by the network."""


class TestWhoMayCallWhom:
    def test_is_what_a_job_needs_and_nothing_else(self):
        """8443 from the operator, 7078 and 7079 from executors, 7079 among them; a kubelet's probes come from the node."""
        assert calls(rendered()) == WANTED

    def test_is_the_same_in_an_installation_of_the_whole_cluster(self):
        """For each tenant that it names."""
        assert calls(rendered(watch={"namespaces": ["shop", "stock"], "clusterWide": True})) == WANTED

    def test_is_one_peer_more_for_metrics(self):
        """On the port of commands, too, which have a token."""
        peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
        made = rendered(networkPolicy={"metricsFrom": [peer]})

        more = {("prometheus", "operator"): {SETTINGS.metrics_port}, ("prometheus", "driver"): {CONTROL_PORT}}
        assert calls(made) == WANTED | more

    def test_is_anybody_without_policies(self):
        """The model says yes as well."""
        made = rendered(networkPolicy={"enabled": False})

        assert len(calls(made)) == 3 * (len(pods(made)) - 1)
        assert {frozenset(ports) for ports in calls(made).values()} == {frozenset(PORTS)}

    @pytest.mark.parametrize(("old", "new"), [
        ("backfill.dev/role: driver", "backfill.dev/rule: driver"), ("backfill.dev/role: executor", "backfill.dev/role: driver"),
        ("port: 8443", "port: 8444"), ("port: 7078", "port: 7080"), ("port: 7079", "port: 7077"), ("protocol: TCP", "protocol: UDP"),
        (f"metadata.name: {SYSTEM}", "metadata.name: shop"), ("app.kubernetes.io/name: backfill-operator", "app: web"),
        ("- executor", "- guest"), ("policyTypes:", "policyTypes: [Ingress]\n  ingress: [{}]\n  unused:"),
    ])  # fmt: skip
    def test_is_seen_to_change_with_every_word(self, old, new):
        """A label, a port or a peer that is another one."""
        made = copy.deepcopy(rendered())
        policies = of_kind(made, "NetworkPolicy")
        text = yaml.safe_dump_all(policies)
        assert old in text
        changed = [one for one in yaml.safe_load_all(text.replace(old, new)) if one]

        assert calls([one for one in made if one not in policies] + changed) != WANTED


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
"""Who a driver or an executor may want to call, besides each other."""


def ways_out(made):
    """Return where the pods of one tenant's job may go: (caller, called) and the ports, with their protocols."""
    there, policies = pods(made), of_kind(made, "NetworkPolicy")
    doors = [
        (protocol, port) for protocol in ("TCP", "UDP") for port in sorted(PORTS | {53, 80, 5353, 6443, 9000, 9092})
    ]
    found = {
        (caller, called): {door for door in doors if takes(policies, there[caller], place, door[1], door[0])}
        for caller in ("driver", "executor")
        for called, place in OUTSIDE.items()
    }
    return {pair: ports for pair, ports in found.items() if ports}


NAMES = {(caller, called): DNS for caller in ("driver", "executor") for called in OUTSIDE if called.startswith("DNS")}
NEEDED = NAMES | {
    ("driver", "API server"): API_SERVER,
    ("driver", "API server by IPv6"): API_SERVER,
    ("driver", "pod of the tenant"): DNS,
    ("executor", "pod of the tenant"): DNS,
}


class TestWhereAJobMayGo:
    """SQL, a source's log and variables name addresses; a policy holds whatever the lists of the operator overlook."""

    def test_is_dns_and_the_api_server_unless_more_is_named(self):
        """No server of the spec's choice gets the pod's token, and no pod reads the metadata of its cloud (fault S9)."""
        assert ways_out(rendered()) == NEEDED

    def test_is_the_stores_that_the_administrator_names(self):
        """For executors too: they read and write files."""
        made = rendered(networkPolicy={"egress": {"to": [STORE]}})

        store = {(caller, "store"): {("TCP", 443)} for caller in ("driver", "executor")}
        assert ways_out(made) == NEEDED | store

    def test_is_as_narrow_as_the_administrator_wants(self):
        """One address of the API server, and one service of DNS."""
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
    def test_is_anywhere_without_the_limit(self, given):
        """Helm may be told to use the values of a release that had none."""
        assert len(ways_out(rendered(networkPolicy=given))) == 2 * len(OUTSIDE)

    def test_takes_no_rule_that_allows_everything_by_being_empty(self):
        """`to: [{}]` would open all that the rest closes."""
        assert "networkPolicy" in charts.refusal(networkPolicy={"egress": {"to": [{}]}})
