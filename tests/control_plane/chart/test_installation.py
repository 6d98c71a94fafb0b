"""An installation survives the loss of a node, gives users rights, and refuses bad values with a message."""

import os
import re

import pytest
import yaml
from support.cluster import charts
from support.cluster.charts import RELEASE, SYSTEM, of_kind, only, rendered

from backfill_api.names import GROUP, PLURAL
from backfill_operator.settings import OperatorSettings

PICTURES = charts.ROOT / "tests" / "control_plane" / "chart" / "pictures"
DIGEST = "sha256:" + "a1" * 32
VALUE_SETS = {
    "namespaces": {},
    "cluster": {"watch": {"namespaces": [], "clusterWide": True}},
    "small": {
        "watch": {"namespaces": ["shop"]}, "operator": {"replicas": 1}, "rbac": {"aggregate": False},
        "admissionPolicy": {"enabled": False}, "networkPolicy": {"enabled": False},
    },
    "hardened": {
        "watch": {"namespaces": ["shop"]},
        "images": {"operator": f"registry.example/operator@{DIGEST}", "spark": f"registry.example/spark:4.2@{DIGEST}",
                   "pullSecrets": ["registry"]},
        "operator": {"priorityClassName": "system-cluster-critical", "settings": {"encryptSpark": True},
                     "tolerations": [{"key": "control", "operator": "Exists"}]},
        "limits": {"maxDrivers": 20, "maxDriversPerNamespace": 5, "allowedPriorityClasses": ["batch-*"]},
        "tenant": {"createNamespaces": True, "quota": {"enabled": True, "hard": {"pods": 40}}},
        "networkPolicy": {
            "metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
            "egress": {
                "to": [{"to": [{"ipBlock": {"cidr": "10.20.0.0/16"}}], "ports": [{"protocol": "TCP", "port": 9000}]}],
                "apiServer": [{"to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}], "ports": [{"protocol": "TCP", "port": 443}]}],
            },
        },
    },
}  # fmt: skip
"""The main value sets, by name."""


class TestAPicture:
    @pytest.mark.parametrize("name", VALUE_SETS)
    def test_rendered_value_set_equals_its_picture(self, name):
        """A change of the chart is reviewed in the pictures: `BACKFILL_DRAW=1` writes them again.

        The CRD is not included: it is generated, and another test compares it with the chart's copy.
        """
        objects = [
            manifest for manifest in rendered(**VALUE_SETS[name]) if manifest["kind"] != "CustomResourceDefinition"
        ]
        drawn = yaml.dump_all(
            sorted(objects, key=lambda manifest: (manifest["kind"], *map(str, charts.place(manifest)))),
            width=120,
            Dumper=yaml.CSafeDumper,
        )

        picture = PICTURES / f"{name}.yaml"
        if os.environ.get("BACKFILL_DRAW"):
            picture.write_text(drawn)
        assert drawn == picture.read_text()


class TestTheNotes:
    @pytest.mark.parametrize("name", VALUE_SETS)
    def test_notes_of_a_value_set_equal_their_picture(self, name, tmp_path):
        """The notes after an installation are also reviewed: `BACKFILL_DRAW=1` writes them again."""
        drawn = charts.notes(tmp_path, **VALUE_SETS[name]) + "\n"

        picture = PICTURES / f"notes-{name}.txt"
        if os.environ.get("BACKFILL_DRAW"):
            picture.write_text(drawn)
        assert drawn == picture.read_text()

    def test_notes_do_not_suggest_a_label_that_the_chart_has_set(self, tmp_path):
        """A user who set it again would stop reading the notes."""
        made = {"createNamespaces": True}

        assert "kubectl label" not in charts.notes(tmp_path, tenant=made)
        assert "kubectl label" in charts.notes(tmp_path, tenant={**made, "podSecurity": "baseline"})

    def test_notes_list_reachable_peers_until_stores_are_named(self, tmp_path):
        """The only symptom of a job with a blocked store is a time-out."""
        closed = "add their object stores and brokers to networkPolicy.egress.to"

        assert closed in charts.notes(tmp_path)
        assert closed not in charts.notes(tmp_path, networkPolicy={"egress": {"to": [{"to": []}]}})
        assert closed not in charts.notes(tmp_path, networkPolicy={"egress": {"enabled": False}})


class TestTheOperatorSurvives:
    def test_operator_survives_the_loss_of_a_node(self):
        """Two replicas are spread over nodes, a drain evicts one at a time, and one Lease determines the leader."""
        made = rendered()
        spec = only(made, "Deployment")["spec"]
        [spread] = spec["template"]["spec"]["topologySpreadConstraints"]
        budget = only(made, "PodDisruptionBudget")["spec"]

        assert spec["replicas"] == 2
        assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
        assert spread["labelSelector"] == budget["selector"] == spec["selector"]
        assert budget["maxUnavailable"] == 1

    def test_single_replica_does_not_block_the_drain_of_its_node(self):
        """A budget for one pod would block every drain."""
        made = rendered(operator={"replicas": 1})

        assert only(made, "Deployment")["spec"]["replicas"] == 1
        assert of_kind(made, "PodDisruptionBudget") == []

    def test_operator_can_have_a_priority_class(self):
        """A full node evicts pods by priority."""
        given = rendered(operator={"priorityClassName": "system-cluster-critical"})

        assert only(given, "Deployment")["spec"]["template"]["spec"]["priorityClassName"] == "system-cluster-critical"
        assert "priorityClassName" not in only(rendered(), "Deployment")["spec"]["template"]["spec"]


class TestUsers:
    def test_users_access_backfills_with_the_roles_of_kubernetes(self):
        """View reads and edit writes; Kubernetes adds view to edit and edit to admin. Only the operator writes the status."""
        made = {
            label.rsplit("/", 1)[1].removeprefix("aggregate-to-"): manifest["rules"]
            for manifest in of_kind(rendered(), "ClusterRole")
            for label in manifest["metadata"]["labels"]
            if "/aggregate-to-" in label
        }
        verbs = {role: {verb for rule in rules for verb in rule["verbs"]} for role, rules in made.items()}

        assert verbs == {
            "view": {"get", "list", "watch"},
            "edit": {"create", "update", "patch", "delete", "deletecollection"},
        }
        assert {(*rule["apiGroups"], *rule["resources"]) for rules in made.values() for rule in rules} == {
            (GROUP, PLURAL)
        }
        assert of_kind(rendered(), "ClusterRoleBinding") == []

    def test_user_roles_can_be_disabled(self):
        """Some clusters grant every right by hand."""
        assert of_kind(rendered(rbac={"aggregate": False}), "ClusterRole") == []

    def test_user_roles_of_two_installations_have_different_names(self):
        """A cluster role belongs to one release."""
        names = {manifest["metadata"]["name"] for manifest in of_kind(rendered(), "ClusterRole")}
        others = {manifest["metadata"]["name"] for manifest in of_kind(rendered(system="other"), "ClusterRole")}

        assert names.isdisjoint(others)
        assert all(name.startswith(f"{RELEASE}-{SYSTEM}-") for name in names)


WRONG = {
    "a number in words": ({"operator": {"replicas": "two"}}, "/operator/replicas"),
    "no replica": ({"operator": {"replicas": 0}}, "/operator/replicas"),
    "a name for a list": ({"watch": {"namespaces": "shop"}}, "/watch/namespaces"),
    "a namespace that cannot be": ({"watch": {"namespaces": ["Shop_1"]}}, "/watch/namespaces/0"),
    "a namespace twice": ({"watch": {"namespaces": ["shop", "shop"]}}, "/watch/namespaces"),
    "half a digest": ({"images": {"operator": "operator@sha256:abc"}}, "/images/operator"),
    "an image with a space": ({"images": {"spark": "spark image"}}, "/images/spark"),
    "a limit below zero": ({"limits": {"maxDrivers": -1}}, "/limits/maxDrivers"),
    "a pattern with two stars": ({"limits": {"allowedImages": ["a*b*"]}}, "/limits/allowedImages/0"),
    "yes for true": ({"crd": {"keep": "yes"}}, "/crd/keep"),
    "no list": ({"operator": {"tolerations": {"operator": "Exists"}}}, "/operator/tolerations"),
    "an unknown standard": ({"tenant": {"podSecurity": "strict"}}, "/tenant/podSecurity"),
    "an unknown setting": ({"operator": {"settings": {"poolSeconds": 2}}}, "poolSeconds"),
    "an unknown topic": ({"operators": {}}, "operators"),
    "a field of a pod that cannot be allowed": (
        {"limits": {"allowedPodFields": ["hostNetwork"]}},
        "/limits/allowedPodFields/0",
    ),
    "folders of nodes as a type": ({"limits": {"allowedVolumes": ["hostPath"]}}, "/limits/allowedVolumes/0"),
    "a lease that is too short": ({"operator": {"settings": {"leaseSeconds": 8}}}, "operator/settings/leaseSeconds"),
    "a leader that asks too rarely": (
        {"operator": {"settings": {"leaseRetrySeconds": 10}}},
        "operator/settings/leaseRenewDeadlineSeconds",
    ),
    "lists that come too early": (
        {"operator": {"settings": {"relistMaxSeconds": 30}}},
        "operator/settings/relistMaxSeconds",
    ),
    "a time of no length": ({"operator": {"settings": {"pollSeconds": 0}}}, "/operator/settings/pollSeconds"),
}


class TestBadValues:
    @pytest.mark.parametrize(("given", "named"), WRONG.values(), ids=WRONG.keys())
    def test_bad_values_are_refused_with_their_path(self, given, named):
        """The refusal comes before the installation, and helm's own message follows."""
        message = charts.refusal(**{"watch": {"namespaces": ["shop"]}} | given)

        assert re.search(rf"{re.escape(named)}\b", message.replace(".", "/")), message

    def test_bad_times_are_compared_with_the_defaults_of_the_operator(self):
        """Helm refuses times with which the operator would not start, even if a value only has its default."""
        text = (charts.CHART / "templates" / "_helpers.tpl").read_text()
        defaults = {
            re.sub("([A-Z])", r"_\1", name).lower(): float(seconds)
            for name, seconds in re.findall(r'"(\w+Seconds)" (\d+)', text)
        }

        assert defaults.keys() == {
            "lease_seconds", "lease_renew_deadline_seconds", "lease_retry_seconds", "relist_min_seconds", "relist_max_seconds",
        }  # fmt: skip
        assert defaults == {name: getattr(OperatorSettings(), name) for name in defaults}
