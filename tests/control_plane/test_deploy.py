"""The manifests that people apply: they fit each other, the operator's defaults, and what drivers do."""

import pytest
import yaml
from support.house import ROOT

from backfill_operator.settings import PREFIX, OperatorSettings

FOLDER = ROOT / "operator" / "deploy"
SETTINGS = OperatorSettings()


def documents(*files):
    """Return what stands in files, by kind."""
    found = {}
    for file in files:
        for one in yaml.safe_load_all(file.read_text()):
            found.setdefault(one["kind"], []).append(one)
    return found


OPERATOR = documents(FOLDER / "operator.yaml", ROOT / "operator" / "rbac.yaml")
SPARK = documents(FOLDER / "spark-account.yaml")
DEPLOYMENT = OPERATOR["Deployment"][0]
POD = DEPLOYMENT["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]
BINDINGS = [
    one for there in (OPERATOR, SPARK) for kind in ("ClusterRoleBinding", "RoleBinding") for one in there.get(kind, ())
]


def place(one):
    return one["metadata"].get("namespace"), one["metadata"]["name"]


class TestBindings:
    @pytest.mark.parametrize("binding", BINDINGS, ids=lambda one: one["metadata"]["name"])
    def test_name_a_role_and_an_account_that_are_there(self, binding):
        """A binding to nothing is accepted by every server, and allows nothing."""
        there = SPARK if binding in SPARK.get("RoleBinding", ()) else OPERATOR
        role = binding["roleRef"]
        namespace = binding["metadata"].get("namespace") if role["kind"] == "Role" else None
        accounts = {place(one) for one in there["ServiceAccount"]}

        assert (namespace, role["name"]) in {place(one) for one in there[role["kind"]]}
        assert role["apiGroup"] == "rbac.authorization.k8s.io"
        assert {(one.get("namespace"), one["name"]) for one in binding["subjects"]} <= accounts

    def test_give_the_operator_all_its_roles(self):
        """operator/rbac.yaml is what is compared with its calls: a role that is not bound is no help."""
        bound = {one["roleRef"]["name"] for one in BINDINGS if one not in SPARK["RoleBinding"]}
        assert bound == {one["metadata"]["name"] for kind in ("ClusterRole", "Role") for one in OPERATOR[kind]}

    def test_are_for_the_account_that_pods_have(self):
        """The operator's own, and the default of its drivers."""
        assert POD["serviceAccountName"] == OPERATOR["ServiceAccount"][0]["metadata"]["name"]
        assert SPARK["ServiceAccount"][0]["metadata"]["name"] == SETTINGS.service_account


class TestTheOperatorsPod:
    def test_stands_where_its_lease_is(self):
        """The role over leases is of one namespace."""
        namespaces = {
            place(one)[0] for kind in ("Deployment", "ServiceAccount", "Role", "RoleBinding") for one in OPERATOR[kind]
        }

        assert namespaces == {SETTINGS.lease_namespace} == {one["metadata"]["name"] for one in OPERATOR["Namespace"]}

    def test_has_the_ports_that_it_listens_on(self):
        """Probes go by name, and a name that leads nowhere restarts it for ever."""
        ports = {one["name"]: one["containerPort"] for one in CONTAINER["ports"]}

        assert ports == {"health": SETTINGS.health_port, "metrics": SETTINGS.metrics_port}
        for probe in ("livenessProbe", "readinessProbe"):
            assert CONTAINER[probe]["httpGet"]["port"] == "health"
        assert CONTAINER["livenessProbe"]["httpGet"]["path"] == "/livez"
        assert CONTAINER["readinessProbe"]["httpGet"]["path"] == "/readyz"

    def test_is_given_settings_that_there_are(self):
        """An unknown one ends the process at its start."""
        given = {one["name"]: one.get("value", "x") for one in CONTAINER["env"]}

        assert OperatorSettings.from_environ(given)
        assert all(name.startswith(PREFIX) for name in given)

    def test_is_selected_by_its_labels_and_no_root(self):
        """The namespace enforces the restricted profile."""
        labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"].items()

        assert DEPLOYMENT["spec"]["selector"]["matchLabels"].items() <= labels
        assert OPERATOR["Namespace"][0]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
        assert POD["securityContext"]["runAsNonRoot"] is True
        assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert CONTAINER["securityContext"]["allowPrivilegeEscalation"] is False
        assert CONTAINER["securityContext"]["capabilities"] == {"drop": ["ALL"]}


class TestTheDriversAccount:
    RULES = SPARK["Role"][0]["rules"]
    ALLOWED = {
        (group, resource, verb)
        for rule in RULES
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

    @pytest.mark.parametrize("resource", ["pods", "services", "configmaps", "persistentvolumeclaims"])
    def test_may_do_what_spark_does(self, resource):
        """It makes executors' pods and, where the conf asks for it, their claims; at its end it deletes all by label."""
        needed = {"create", "get", "list", "watch", "delete", "deletecollection"}
        assert {("", resource, verb) for verb in needed} <= self.ALLOWED

    def test_may_do_no_more(self):
        """No Secret: the credentials of others; no wildcard; no Backfill: a driver does not steer itself."""
        assert {resource for _, resource, _ in self.ALLOWED} == {
            "pods",
            "services",
            "configmaps",
            "persistentvolumeclaims",
        }
        assert {group for group, _, _ in self.ALLOWED} == {""}
        assert not [one for one in self.ALLOWED if "*" in one]
        assert SPARK.keys() == {"ServiceAccount", "Role", "RoleBinding"}
