"""Values that charts of the trade have: where an administrator fits operator and jobs to a cluster. Two value sets, two renders."""

import json
import re

import pytest
import yaml
from support.cluster import charts
from support.cluster.charts import CHART, RELEASE, SYSTEM, TENANT_CHART, as_flags, of_kind, only, place, rendered, run
from support.operators.observations import spec

from backfill_core.cluster_rules.finding import ManifestRefusedError
from backfill_operator.app import _installation
from backfill_operator.manifests.attempt import Launch
from backfill_operator.manifests.config_map import config_map
from backfill_operator.manifests.driver_pod import driver_pod, executor_template
from backfill_operator.settings import OperatorSettings

AFFINITY = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
SPREAD = [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}]
TAINT, SPOT = {"key": "pool", "operator": "Exists"}, {"key": "spot", "operator": "Exists"}
PROXY = {"name": "HTTPS_PROXY", "value": "http://proxy:3128"}
NOTED = {"name": "GREETING", "value": "$(HOSTNAME) <&>"}
CA = {"name": "ca", "configMap": {"name": "ca"}}
CA_MOUNT = {"name": "ca", "mountPath": "/etc/ssl/company", "readOnly": True}
DNS = {"options": [{"name": "ndots", "value": "2"}]}
ROLE = "eks.amazonaws.com/role-arn"

POD = {
    "nodeSelector": {"pool": "batch"}, "tolerations": [TAINT], "affinity": AFFINITY, "topologySpreadConstraints": SPREAD,
    "priorityClassName": "low", "podLabels": {"cost": "shop"}, "podAnnotations": {"note": "a"}, "extraEnvFrom": [{"secretRef": {"name": "more"}}],
    "extraVolumes": [CA], "extraVolumeMounts": [CA_MOUNT], "dnsPolicy": "Default", "dnsConfig": DNS, "hostUsers": False,
}  # fmt: skip
"""Values that operator and jobs have."""

VALUES = {
    "commonLabels": {"team": "data"},
    "images": {"pullSecrets": ["pull"]},
    "operator": {
        **POD, "extraEnv": [PROXY], "deploymentStrategy": {"type": "Recreate"}, "revisionHistoryLimit": 0,
        "deploymentAnnotations": {"reloader": "on"}, "serviceAccountAnnotations": {ROLE: "arn:operator"},
    },
    "jobs": {
        **POD, "extraEnv": [PROXY, NOTED], "imagePullSecrets": ["pull"], "schedulerName": "yunikorn", "runtimeClassName": "gvisor",
        "executors": {"nodeSelector": {"life": "spot"}, "tolerations": [SPOT], "priorityClassName": "lowest"},
    },
    "tenant": {"serviceAccountAnnotations": {ROLE: "arn:jobs"}, "serviceAccountLabels": {"azure.workload.identity/use": "true"}},
}  # fmt: skip


def operator_pod():
    """Return the pod template of the operator's Deployment."""
    return only(rendered(**VALUES), "Deployment")["spec"]["template"]


def launch(**fields):
    """Return a launch by an operator with the variables of the rendered Deployment, as a kubelet sets them."""
    [container] = operator_pod()["spec"]["containers"]
    environ = {
        variable["name"]: variable.get("value", "x" if "valueFrom" in variable else "").replace("$$(", "$(")
        for variable in container["env"]
    }
    settings = OperatorSettings.from_environ(environ)
    return Launch("shop", "orders", "uid", 1, "Run", spec(**fields), _installation(settings))


def template(**pod_spec):
    """Return the driver section with a template."""
    return {"driver": {"template": {"spec": pod_spec}}}


def container_of(pod):
    """Return our container."""
    return pod["spec"]["containers"][0]


class TestTheOperator:
    def test_operators_pod_has_every_value(self):
        """Each value is at its place in the Deployment, and none replaces a required one."""
        pod = operator_pod()
        made, container = pod["spec"], container_of(pod)

        assert {name: made[name] for name in POD if not name.startswith(("pod", "extra"))} == {
            name: value for name, value in POD.items() if not name.startswith(("pod", "extra"))
        }
        assert (made["volumes"], container["volumeMounts"]) == ([CA], [CA_MOUNT])
        assert container["envFrom"] == POD["extraEnvFrom"]
        assert container["env"][-1] == PROXY
        assert {"cost": "shop", "team": "data", "app.kubernetes.io/name": RELEASE}.items() <= pod["metadata"][
            "labels"
        ].items()
        assert pod["metadata"]["annotations"] == {"note": "a"}
        assert container["securityContext"]["readOnlyRootFilesystem"] is True

    def test_deployment_has_its_values(self):
        """No old ReplicaSet is a value, and differs from no value."""
        deployment = only(rendered(**VALUES), "Deployment")

        assert deployment["spec"]["strategy"] == {"type": "Recreate"}
        assert deployment["spec"]["revisionHistoryLimit"] == 0
        assert deployment["metadata"]["annotations"] == {"reloader": "on"}
        assert "revisionHistoryLimit" not in only(rendered(), "Deployment")["spec"]

    def test_accounts_of_operator_and_tenants_have_their_annotations(self):
        """Clouds grant roles by an annotation of the account."""
        accounts = {place(account): account for account in of_kind(rendered(**VALUES), "ServiceAccount")}

        assert {at: account["metadata"]["annotations"][ROLE] for at, account in accounts.items()} == {
            (SYSTEM, RELEASE): "arn:operator", ("shop", "backfill-spark"): "arn:jobs", ("stock", "backfill-spark"): "arn:jobs",
        }  # fmt: skip
        assert accounts["shop", "backfill-spark"]["metadata"]["labels"]["azure.workload.identity/use"] == "true"
        assert all(account["imagePullSecrets"] == [{"name": "pull"}] for account in accounts.values())

    def test_every_object_has_the_common_labels(self):
        """Teams account for cost and select by them; no selector contains one, because a selector cannot change."""
        made = rendered(**VALUES)

        assert [place(manifest) for manifest in made if manifest["metadata"]["labels"].get("team") != "data"] == []
        assert "team" not in only(made, "Deployment")["spec"]["selector"]["matchLabels"]

    def test_replicas_spread_over_nodes_unless_a_list_replaces_this(self):
        """An empty list is a choice."""
        spread = rendered(operator={"topologySpreadConstraints": []})
        assert "topologySpreadConstraints" not in only(spread, "Deployment")["spec"]["template"]["spec"]


class TestJobs:
    def test_driver_has_every_default(self):
        """The operator reads the values from its variables, and they reach the pod unchanged."""
        pod = driver_pod(launch())
        made, container = pod["spec"], container_of(pod)

        plain = (
            "nodeSelector",
            "tolerations",
            "affinity",
            "topologySpreadConstraints",
            "priorityClassName",
            "dnsPolicy",
            "dnsConfig",
        )
        assert {name: made[name] for name in plain} == {name: POD[name] for name in plain}
        assert (made["hostUsers"], made["schedulerName"], made["runtimeClassName"]) == (False, "yunikorn", "gvisor")
        assert made["imagePullSecrets"] == [{"name": "pull"}]
        assert CA in made["volumes"]
        assert CA_MOUNT in container["volumeMounts"]
        assert container["envFrom"] == POD["extraEnvFrom"]
        assert [variable for variable in (PROXY, NOTED) if variable not in container["env"]] == []
        assert pod["metadata"]["labels"]["cost"] == "shop"
        assert pod["metadata"]["annotations"]["note"] == "a"

    def test_executors_have_the_defaults_and_their_own(self):
        """Executors may run on spot nodes, where drivers do not."""
        pod = executor_template(launch())
        made = pod["spec"]

        assert made["nodeSelector"] == {"pool": "batch", "life": "spot"}
        assert made["tolerations"] == [TAINT, SPOT]
        assert (made["priorityClassName"], made["affinity"]) == ("lowest", AFFINITY)
        assert CA in made["volumes"]
        assert pod["metadata"]["labels"].items() >= {"cost": "shop", "team": "data"}.items()
        assert SPOT not in driver_pod(launch())["spec"]["tolerations"]

    def test_every_object_of_an_attempt_has_the_common_labels(self):
        """So do the pods that Spark creates from the template."""
        assert config_map(launch())["metadata"]["labels"]["team"] == "data"

    def test_job_adds_to_the_defaults_and_replaces_allowed_ones(self):
        """A variable is replaced as a whole: one with a value and a reference is invalid."""
        region = {"name": "AWS_REGION", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}
        job = template(
            nodeSelector={"disk": "fast"},
            tolerations=[SPOT],
            containers=[{"name": "driver", "env": [region], "volumeMounts": [{"name": "lake", "mountPath": "/lake"}]}],
            volumes=[{"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}}],
        )
        made = driver_pod(launch(**job))["spec"]

        assert made["nodeSelector"] == {"pool": "batch", "disk": "fast"}
        assert made["tolerations"] == [TAINT, SPOT]
        assert region in made["containers"][0]["env"]
        assert {"ca", "lake"} <= {volume["name"] for volume in made["volumes"]}


class TestAJobThatReaches:
    """No job changes what the administrator set for security."""

    CASES = {
        "a proxy": ({"containers": [{"name": "driver", "env": [{"name": "HTTPS_PROXY", "value": "http://mine"}]}]}, "env[0].name"),
        "a volume": ({"volumes": [{"name": "ca", "configMap": {"name": "mine"}}]}, "volumes[0].name"),
        "a mount at the folder": (
            {"containers": [{"name": "driver", "volumeMounts": [{"name": "mine", "mountPath": "/etc/ssl/company"}]}]}, "volumeMounts[0].mountPath",
        ),
        "another mount of the volume": (
            {"containers": [{"name": "driver", "volumeMounts": [{"name": "ca", "mountPath": "/lake"}]}]}, "volumeMounts[0].name",
        ),
        "a priority": ({"priorityClassName": "high"}, "priorityClassName"),
        "a scheduler": ({"schedulerName": "mine"}, "schedulerName"),
        "a runtime": ({"runtimeClassName": "mine"}, "runtimeClassName"),
        "the users of the node": ({"hostUsers": True}, "hostUsers"),
    }  # fmt: skip

    @pytest.mark.parametrize("case", CASES)
    def test_job_is_refused_by_name(self, case):
        """The message has the path of the spec's field."""
        pod_spec, path = self.CASES[case]
        with pytest.raises(ManifestRefusedError) as refused:
            driver_pod(launch(**template(**pod_spec)))

        assert refused.value.path.endswith(path)


class TestAWrongValue:
    def test_wrong_types_are_refused_with_their_paths(self):
        """Helm names every one of them, before anything is installed."""
        wrong = {
            "commonLabels": {"app.kubernetes.io/name": "mine"},
            "operator": {
                "affinity": [], "topologySpreadConstraints": {}, "deploymentStrategy": "Recreate", "revisionHistoryLimit": "1",
                "podLabels": {"a": 1}, "extraEnv": [{"value": "a"}], "extraVolumes": [{"configMap": {}}], "hostUsers": "no", "dnsPolicy": "default",
            },
            "jobs": {
                "nodeSelector": {"a": True}, "tolerations": {}, "affinity": "a", "podLabels": {"backfill.dev/role": "driver"}, "podAnnotations": [],
                "extraEnv": [{"name": "HOME", "value": "/"}], "extraVolumes": [{"name": "backfill-spec"}],
                "extraVolumeMounts": [{"name": "a", "mountPath": "lake"}], "imagePullSecrets": [{"name": "a"}], "dnsConfig": [],
                "executors": {"priorityClassName": 1},
            },
            "tenant": {"serviceAccountAnnotations": {"a": 1}},
        }  # fmt: skip
        message = charts.refusal(watch={"namespaces": ["shop"]}, **wrong)

        named = set(re.findall(r"at '([^']+)'", message))
        expected = {f"/{topic}/{name}" for topic in ("operator", "jobs", "tenant") for name in wrong[topic]}
        assert [path for path in expected if not any(name.startswith(path) for name in named)] == []
        assert any(name.startswith("/commonLabels") for name in named)


NAMES = {"name", "namespace", "claimName", "policyName", "priorityClassName", "serviceAccountName"}
"""Fields of objects that contain a name of the user's choice."""


def not_text(value, path=""):
    """Yield the paths of names and labels that are no text."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from not_text(item, f"{path}.{number}")
    for name, item in value.items() if isinstance(value, dict) else ():
        text = (name in NAMES and ".openAPIV3Schema" not in path) or path.endswith(("abels", "nnotations"))
        if text and not isinstance(item, str):
            yield f"{path}.{name}={item!r}"
        yield from not_text(item, f"{path}.{name}")


class TestNamesThatYamlTakesForNumbers:
    """Kubernetes permits names such as `2024`, `1e3`, `007` and `true`; its API server rejects a name that is no text."""

    @pytest.mark.parametrize("system", ["4711", "1e3"])
    def test_every_name_and_label_is_text(self, system):
        """Namespaces are named after cost centres, years and pull requests."""
        values = {
            "watch": {"namespaces": ["2024", "true", "007"]},
            "images": {"pullSecrets": ["12", "null"]},
            "operator": {"priorityClassName": "42"},
            "jobs": {"priorityClassName": "43", "imagePullSecrets": ["13"]},
            "tenant": {"serviceAccount": "99", "createNamespaces": True, "quota": {"enabled": True}},
            "monitoring": {part: {"enabled": True} for part in ("serviceMonitor", "prometheusRule", "dashboard")},
            "queues": {"enabled": True},
            "trial": {"claim": "77"},
        }
        done = run("template", "123", CHART, "--namespace", system, *as_flags(values))
        assert done.returncode == 0, done.stderr
        operator = json.dumps({"release": "123", "namespace": system})
        tenant = run("template", "5", TENANT_CHART, "--namespace", "2025", "--set-json", f"operator={operator}")
        assert tenant.returncode == 0, tenant.stderr
        made = [each for text in (done.stdout, tenant.stdout) for each in yaml.load_all(text, yaml.CSafeLoader) if each]

        assert {each["kind"] for each in made} >= {"Deployment", "NetworkPolicy", "ServiceMonitor", "PrometheusRule"}
        assert [path for each in made for path in not_text(each, each["kind"])] == []
