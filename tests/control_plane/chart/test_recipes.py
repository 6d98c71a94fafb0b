"""Recipes of the pages about OpenShift and service meshes: their values, rendered, in the pods of operator and jobs."""

import re

import pytest
import yaml
from support.cluster import charts
from support.cluster.charts import of_kind, only, rendered
from support.cluster.network import host, place_of, takes
from support.cluster.openshift import FIRST_USER, admitted
from support.operators.observations import spec
from support.repository import ROOT

from backfill_core.cluster_rules.finding import ManifestRefusedError
from backfill_operator.app import _installation
from backfill_operator.manifests.attempt import Launch
from backfill_operator.manifests.config_map import config_map
from backfill_operator.manifests.driver_pod import driver_pod
from backfill_operator.manifests.names import BLOCK_MANAGER_PORT, CONTROL_PORT, DRIVER_PORT, EXECUTOR_KEY, UI_PORT
from backfill_operator.settings import OperatorSettings

OURS = {DRIVER_PORT, BLOCK_MANAGER_PORT, CONTROL_PORT, UI_PORT}
BLOCK = re.compile(r"^```yaml\n(\w+:.*?)^```", re.DOTALL | re.MULTILINE)

SPECS = {
    "plain": {},
    "Spark's pages": {"spark": {"ui": True, "logLevel": "INFO"}},
    "a disk of the node": {"scratch": {"size": "20Gi"}},
    "new claims": {"scratch": {"size": "20Gi", "storageClassName": "fast"}},
    "a claim": {"scratch": {"claimName": "scratch"}},
    "no executors": {"executor": {"instances": 0}},
    "a container of its own": {"driver": {"template": {"spec": {"initContainers": [{"name": "fetch", "image": "backfill:1"}]}}}},
}  # fmt: skip


def values_of(page, number=0):
    """Return the values in a YAML block of a page."""
    return yaml.safe_load(BLOCK.findall((ROOT / "docs" / page).read_text())[number])


def pods(fields=None, **values):
    """Return the driver's pod and its executors' as an operator with these values creates them."""
    [container] = only(rendered(**values), "Deployment")["spec"]["template"]["spec"]["containers"]
    environ = {
        variable["name"]: variable.get("value", "x" if "valueFrom" in variable else "").replace("$$(", "$(")
        for variable in container["env"]
    }
    installation = _installation(OperatorSettings.from_environ(environ))
    launch = Launch("shop", "orders", "uid", 1, "Run", spec(**(fields or {})), installation)
    template = config_map(launch)["data"].get(EXECUTOR_KEY)
    return [driver_pod(launch), *([yaml.safe_load(template)] if template else [])]


def of_the_installation(**values):
    """Return the pods of the operator and of `helm test`."""
    return [
        only(rendered(**values), "Deployment")["spec"]["template"],
        *of_kind(charts.trial(**values), "Pod"),
    ]


class TestOpenShift:
    """With the values of the page, restricted-v2 admits every pod, as a user of the namespace's range and group 0."""

    @pytest.mark.parametrize("fields", SPECS.values(), ids=SPECS)
    def test_policy_admits_the_pods_of_a_job(self, fields):
        """An executor is a pod of the driver's account, so the same policy applies to it."""
        values = values_of("openshift.md") | {"limits": {"allowSidecars": True, "allowedImages": ["backfill:1"]}}
        for pod in pods(fields, **values):
            made, reasons = admitted(pod)

            assert reasons == []
            assert made["spec"]["securityContext"]["runAsUser"] == FIRST_USER
            assert "runAsGroup" not in str(made["spec"])

    def test_policy_admits_operator_test_and_history_server(self):
        """The example of a history server names no user, because its image has one."""
        history = yaml.safe_load_all((ROOT / "examples" / "history-server" / "history-server.yaml").read_text())
        examples = [only(list(history), "Deployment")["spec"]["template"]]
        for pod in (*of_the_installation(**values_of("openshift.md")), *examples):
            made, reasons = admitted(pod)

            assert reasons == []
            assert made["spec"]["securityContext"]["runAsUser"] == FIRST_USER

    def test_policy_rejects_the_default_user(self):
        """So the value is needed."""
        for pod in (*pods(), *of_the_installation()):
            assert [reason for reason in admitted(pod)[1] if "runAsUser: 185" in reason]

    def test_no_pod_writes_outside_of_its_volumes(self):
        """A user of the range owns nothing in an image: folders with group 0 are not needed."""
        for pod in (*pods(**values_of("openshift.md")), *of_the_installation(**values_of("openshift.md"))):
            for container in pod["spec"]["containers"]:
                assert container["securityContext"]["readOnlyRootFilesystem"] is True
        [driver, executor] = pods(**values_of("openshift.md"))
        for pod in (driver, executor):
            written = {mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
            assert {"/tmp", "/var/lib/backfill"} <= written

    def test_operator_may_set_finalizers_of_the_owner(self):
        """OpenShift checks this right when a pod blocks the deletion of its Backfill (OwnerReferencesPermissionEnforcement)."""
        [owner] = pods()[0]["metadata"]["ownerReferences"]
        [rule] = [rule for rule in charts.RULES["operator"] if "backfills/finalizers" in rule["resources"]]

        assert owner["blockOwnerDeletion"] is True
        assert "update" in rule["verbs"]


class TestAMesh:
    """With the values of the page, a proxy is a native sidecar of a job's pods, and leaves Spark's and the operator's ports alone."""

    @pytest.mark.parametrize(
        ("number", "inbound", "outbound", "namespace", "ports"),
        [
            (0, "traffic.sidecar.istio.io/excludeInboundPorts", "traffic.sidecar.istio.io/excludeOutboundPorts", "istio-system", (15012,)),
            (1, "config.linkerd.io/skip-inbound-ports", "config.linkerd.io/skip-outbound-ports", "linkerd", (8080, 8086, 8090)),
        ],
        ids=["istio", "linkerd"],
    )  # fmt: skip
    def test_each_pod_excludes_all_our_ports_and_reaches_the_mesh(self, number, inbound, outbound, namespace, ports):
        """A proxy would end the TLS of the operator, and Spark's connections have no names."""
        values = values_of("meshes.md", number)
        policies = of_kind(rendered(**values), "NetworkPolicy")
        control = place_of({"metadata": {"labels": {}}, "spec": {"containers": []}}, namespace)
        for pod in pods({"spark": {"ui": True}}, **values):
            annotations = pod["metadata"]["annotations"]

            assert {int(port) for port in annotations[inbound].split(",")} == OURS
            assert {int(port) for port in annotations[outbound].split(",")} == {DRIVER_PORT, BLOCK_MANAGER_PORT}
            assert any("ative" in name and value == "true" for name, value in annotations.items())
            at = place_of(pod, "shop")
            assert [takes(policies, at, control, port) for port in ports] == [True] * len(ports)
            assert not takes(policies, at, host("203.0.113.9"), ports[0])

    def test_a_job_cannot_change_the_ports_of_its_proxy(self):
        """Otherwise a tenant could send its traffic around the mesh."""
        name = "traffic.sidecar.istio.io/excludeOutboundPorts"
        with pytest.raises(ManifestRefusedError, match="allowedMetadata"):
            pods({"driver": {"template": {"metadata": {"annotations": {name: "443"}}}}}, **values_of("meshes.md"))

    def test_operator_stays_outside_of_the_mesh(self):
        """It talks to the API server and to excluded ports only."""
        metadata = [
            only(rendered(**values_of("meshes.md", number)), "Deployment")["spec"]["template"]["metadata"]
            for number in (0, 1)
        ]

        assert metadata[0]["labels"]["sidecar.istio.io/inject"] == "false"
        assert metadata[1]["annotations"]["linkerd.io/inject"] == "disabled"

    def test_jobs_can_stay_outside_too(self):
        """Both labels of Istio, for its sidecars and for its ambient mode."""
        for pod in pods(**values_of("meshes.md", 2)):
            assert pod["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"
            assert pod["metadata"]["labels"]["istio.io/dataplane-mode"] == "none"
