"""What an installation is besides its objects' fit: it survives a node, users have rights, and bad values are refused in words."""

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
"""The main ways to install it, by name."""


class TestAPicture:
    @pytest.mark.parametrize("name", VALUE_SETS)
    def test_of_each_main_value_set_is_as_it_was(self, name):
        """A change of the chart is looked at, not asserted: `BACKFILL_DRAW=1` writes the pictures anew.

        The CRD is left out: it is generated, and the chart's copy is compared with it elsewhere.
        """
        objects = [one for one in rendered(**VALUE_SETS[name]) if one["kind"] != "CustomResourceDefinition"]
        drawn = yaml.safe_dump_all(
            sorted(objects, key=lambda one: (one["kind"], *map(str, charts.place(one)))), width=120
        )

        picture = PICTURES / f"{name}.yaml"
        if os.environ.get("BACKFILL_DRAW"):
            picture.write_text(drawn)
        assert drawn == picture.read_text()


class TestTheNotes:
    @pytest.mark.parametrize("name", VALUE_SETS)
    def test_of_each_main_value_set_are_as_they_were(self, name, tmp_path):
        """What helm prints after an installation is looked at, too: `BACKFILL_DRAW=1`."""
        drawn = charts.notes(tmp_path, **VALUE_SETS[name]) + "\n"

        picture = PICTURES / f"notes-{name}.txt"
        if os.environ.get("BACKFILL_DRAW"):
            picture.write_text(drawn)
        assert drawn == picture.read_text()

    def test_name_no_label_that_the_chart_has_set(self, tmp_path):
        """A user who sets it again learns that the notes are about someone else."""
        made = {"createNamespaces": True}

        assert "kubectl label" not in charts.notes(tmp_path, tenant=made)
        assert "kubectl label" in charts.notes(tmp_path, tenant={**made, "podSecurity": "baseline"})

    def test_say_what_jobs_reach_until_stores_are_named(self, tmp_path):
        """A job whose store is closed only times out."""
        closed = "name their object stores and brokers in networkPolicy.egress.to"

        assert closed in charts.notes(tmp_path)
        assert closed not in charts.notes(tmp_path, networkPolicy={"egress": {"to": [{"to": []}]}})
        assert closed not in charts.notes(tmp_path, networkPolicy={"egress": {"enabled": False}})


class TestTheOperatorSurvives:
    def test_the_loss_of_a_node(self):
        """Two replicas, spread over nodes, of which a drain takes one at a time; one Lease says who works."""
        made = rendered()
        spec = only(made, "Deployment")["spec"]
        [spread] = spec["template"]["spec"]["topologySpreadConstraints"]
        budget = only(made, "PodDisruptionBudget")["spec"]

        assert spec["replicas"] == 2
        assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
        assert spread["labelSelector"] == budget["selector"] == spec["selector"]
        assert budget["maxUnavailable"] == 1

    def test_with_one_replica_as_well_and_lets_its_node_be_drained(self):
        """A budget for one pod would block every drain."""
        made = rendered(operator={"replicas": 1})

        assert only(made, "Deployment")["spec"]["replicas"] == 1
        assert of_kind(made, "PodDisruptionBudget") == []

    def test_pods_of_less_weight_where_that_is_wanted(self):
        """A full node evicts by priority."""
        given = rendered(operator={"priorityClassName": "system-cluster-critical"})

        assert only(given, "Deployment")["spec"]["template"]["spec"]["priorityClassName"] == "system-cluster-critical"
        assert "priorityClassName" not in only(rendered(), "Deployment")["spec"]["template"]["spec"]


class TestUsers:
    def test_have_backfills_with_the_roles_of_kubernetes(self):
        """View reads, edit writes; Kubernetes adds view to edit and edit to admin. The status is the operator's alone."""
        made = {
            label.rsplit("/", 1)[1].removeprefix("aggregate-to-"): one["rules"]
            for one in of_kind(rendered(), "ClusterRole")
            for label in one["metadata"]["labels"]
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

    def test_have_no_role_where_that_is_not_wanted(self):
        """Some clusters give every right by hand."""
        assert of_kind(rendered(rbac={"aggregate": False}), "ClusterRole") == []

    def test_have_roles_whose_names_two_installations_do_not_share(self):
        """A role of the cluster belongs to one release."""
        names = {one["metadata"]["name"] for one in of_kind(rendered(), "ClusterRole")}
        others = {one["metadata"]["name"] for one in of_kind(rendered(system="other"), "ClusterRole")}

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
    def test_are_refused_with_the_place(self, given, named):
        """Before anything is installed; helm's own words for what was wanted follow."""
        said = charts.refusal(**{"watch": {"namespaces": ["shop"]}} | given)

        assert re.search(rf"{re.escape(named)}\b", said.replace(".", "/")), said

    def test_of_times_are_told_by_the_defaults_of_the_operator(self):
        """Helm refuses what would end the operator at its start; it knows a setting only when it was given."""
        text = (charts.CHART / "templates" / "_helpers.tpl").read_text()
        known = {
            re.sub("([A-Z])", r"_\1", name).lower(): float(one)
            for name, one in re.findall(r'"(\w+Seconds)" (\d+)', text)
        }

        assert known.keys() == {
            "lease_seconds", "lease_renew_deadline_seconds", "lease_retry_seconds", "relist_min_seconds", "relist_max_seconds",
        }  # fmt: skip
        assert known == {name: getattr(OperatorSettings(), name) for name in known}
