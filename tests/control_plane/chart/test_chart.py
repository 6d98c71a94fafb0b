"""The installed objects of the chart fit each other, the operator's settings and the pods that it creates."""

import json
import re
import shlex
import tomllib

import pytest
import yaml
from support.cluster import charts
from support.cluster.charts import CHART, RELEASE, SYSTEM, TENANTS, of_kind, only, place, rendered, run
from support.operators import limit_rows
from support.operators.rig import SPEC
from support.repository import ROOT

from backfill_api.load import load_backfill
from backfill_api.names import API_VERSION, GROUP, KIND, PLURAL
from backfill_core.cluster_rules.finding import ManifestRefusedError
from backfill_core.cluster_rules.pod_rules import POD_FIELDS
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.driver_pod import driver_pod, executor_template
from backfill_operator.settings import PREFIX, OperatorSettings

SETTINGS = OperatorSettings()
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
OF_KUBERNETES = {"global", "operator.nodeSelector", "tenant.quota.hard"}
"""Values that go to the API server unchanged, with names of the user's choice."""

BY_THE_CHART = {
    "namespaces", "leader_election", "lease_name", "lease_namespace", "identity", "default_image", "service_account",
    "health_port", "metrics_port", "bind", "pod_user", "labels", "driver_template", "executor_template",
    "namespace_selector",
}  # fmt: skip
"""Settings that the chart sets from other values, or that its own objects rely on."""


def pod(made):
    return only(made, "Deployment")["spec"]["template"]["spec"]


def environment(made):
    """Return the operator's variables."""
    return {
        variable["name"]: variable.get("value", "x" if "valueFrom" in variable else "")
        for variable in pod(made)["containers"][0]["env"]
    }


def objects_of(schema, path=""):
    """Yield the path and the schema of every mapping of a schema."""
    schema = SCHEMA["definitions"][schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else schema
    if schema.get("type") == "object":
        yield path, schema
        for name, value in schema.get("properties", {}).items():
            yield from objects_of(value, f"{path}.{name}".lstrip("."))


def snake(name):
    return re.sub("[A-Z]", lambda match: "_" + match.group().lower(), name)


def camel(name):
    return re.sub("_([a-z])", lambda match: match.group(1).upper(), name)


class TestTheChart:
    def test_chart_has_the_version_of_the_package(self):
        """Image and chart of one version belong together."""
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
        assert chart["version"] == chart["appVersion"] == version

    @pytest.mark.parametrize("settings", [(), ("watch.namespaces={shop}",), ("watch.clusterWide=true",)], ids=str)
    def test_chart_passes_lint(self, settings):
        """`helm lint` finds no problem."""
        done = run("lint", "--strict", CHART, *(part for word in settings for part in ("--set", word)))
        assert done.returncode == 0, done.stdout

    def test_chart_requires_the_watched_namespaces(self):
        """An operator that watches no namespace seems to work; most users do not want one that watches all."""
        assert "watch.namespaces is empty" in charts.refusal()

    def test_chart_refuses_drivers_in_the_operators_namespace(self):
        """A user who may create pods in the operator's namespace can act as the operator."""
        assert "the operator's own" in charts.refusal(watch={"namespaces": ["shop", SYSTEM]})

    def test_chart_can_be_packed(self, tmp_path):
        """The package includes the files folder, which contains the rules of roles and the CRD."""
        assert run("package", CHART, "-d", tmp_path).returncode == 0
        [packed] = tmp_path.glob("*.tgz")
        done = run(
            "template", RELEASE, packed, "--namespace", SYSTEM, "--skip-tests", "--set", "watch.namespaces={shop,stock}"
        )
        assert [document for document in yaml.load_all(done.stdout, yaml.CSafeLoader) if document] == rendered()


class TestValues:
    def test_values_are_all_in_the_schema_with_defaults_that_it_accepts(self):
        """Users read values.yaml as the list of values."""
        missing = []
        for path, schema in objects_of(SCHEMA):
            there = VALUES
            for part in filter(None, path.split(".")):
                there = there.get(part, {})
            if path not in OF_KUBERNETES | {"operator.settings"} and "properties" in schema:
                missing += [(path, name) for name in {*schema["properties"]} ^ {*there} if name != "global"]
        assert missing == []

    def test_values_are_closed_at_every_level(self):
        """A misspelt value fails the installation instead of being ignored."""
        for path, schema in objects_of(SCHEMA):
            description = schema.get("description", "")
            assert (
                schema.get("additionalProperties") is False or path in OF_KUBERNETES or "Kubernetes API" in description
            ), path
        for typo in (
            {"wach": {}},
            {"watch": {"namespaces": ["shop"], "clusterwide": True}},
            {"tenant": {"quota": {"hrd": {}}}},
        ):
            assert re.search("wach|clusterwide|hrd", charts.refusal(**({"watch": {"namespaces": ["shop"]}} | typo)))

    def test_values_include_every_setting_of_the_operator_once_with_its_bounds(self):
        """A setting that the chart does not support cannot be set on a cluster."""
        groups = {"operator.settings": "", "limits": ""}
        given = {}
        for path, schema in objects_of(SCHEMA):
            if path in groups:
                given |= {snake(name): definition for name, definition in schema["properties"].items()}

        defined = OperatorSettings.model_json_schema()["properties"]
        assert given.keys() == defined.keys() - BY_THE_CHART
        for name, definition in given.items():
            definition = (
                SCHEMA["definitions"][definition["$ref"].rsplit("/", 1)[-1]] if "$ref" in definition else definition
            )
            assert definition == {
                word: defined[name][word] for word in defined[name] if word not in ("default", "title", "description")
            }

    def test_values_reach_the_operator_unchanged(self):
        """Helm parses every number as a float."""
        settings = {"pageSize": 5000, "queriesPerSecond": 0.5, "pollSeconds": 3, "logLevel": "DEBUG"}
        made = rendered(operator={"settings": settings})
        read = OperatorSettings.from_environ(environment(made))

        assert {name: getattr(read, snake(name)) for name in settings} == settings
        assert read.namespaces == TENANTS


class TestPodUser:
    def test_every_pod_has_the_user(self):
        """Pods of the operator, of the trial, and drivers through a setting of the operator."""
        made = [only(rendered(podUser=1000), "Deployment"), *charts.of_kind(charts.trial(podUser=1000), "Pod")]

        for pod in (made[0]["spec"]["template"], made[1]):
            context = pod["spec"]["securityContext"]
            assert (context["runAsUser"], context["runAsGroup"], context["runAsNonRoot"]) == (1000, 1000, True)
        assert OperatorSettings.from_environ(environment(rendered(podUser=1000))).pod_user == "1000"

    def test_user_can_be_left_to_the_cluster(self):
        """OpenShift gives each namespace a range of users, and refuses a pod with another user (fault C2)."""
        made = [only(rendered(podUser=None), "Deployment"), *charts.of_kind(charts.trial(podUser=None), "Pod")]

        for pod in (made[0]["spec"]["template"], made[1]):
            assert pod["spec"]["securityContext"] == {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            }
        assert OperatorSettings.from_environ(environment(rendered(podUser=None))).pod_user == "none"


class TestLimits:
    def test_limits_equal_the_defaults_of_the_operator(self):
        """The chart allows no more than the operator does by default."""
        plain = OperatorSettings.from_environ(environment(rendered()))

        assert VALUES["limits"].keys() <= {*map(camel, OperatorSettings.model_fields)}
        for name in VALUES["limits"]:
            assert getattr(plain, snake(name)) == getattr(SETTINGS, snake(name)), name

    def test_limits_are_documented(self):
        """A page explains each limit."""
        page = (ROOT / "docs" / "kubernetes.md").read_text()
        assert [name for name in VALUES["limits"] if f"`{name}`" not in page] == []

    def test_empty_limits_are_not_replaced_by_a_default(self):
        """An empty list is an explicit choice."""
        made = rendered(
            limits={"allowedVolumes": [], "allowedEnv": [], "allowedImages": ["one", "two/*"], "allowSidecars": True}
        )
        read = OperatorSettings.from_environ(environment(made))

        assert (read.allowed_volumes, read.allowed_env, read.allowed_images) == ((), (), ("one", "two/*"))
        assert read.allow_sidecars is True

    def test_api_server_checks_limits_in_watched_namespaces(self):
        """Two installations of a cluster do not check each other's namespaces; a cluster-wide installation checks all."""
        [binding, _] = [manifest["spec"] for manifest in of_kind(rendered(), "ValidatingAdmissionPolicyBinding")]
        [where] = binding["matchResources"]["namespaceSelector"]["matchExpressions"]
        assert (where["key"], where["operator"], where["values"]) == (
            "kubernetes.io/metadata.name",
            "In",
            list(TENANTS),
        )
        assert binding["validationActions"] == ["Deny"]
        assert binding["policyName"] == of_kind(rendered(), "ValidatingAdmissionPolicy")[0]["metadata"]["name"]

        wide = rendered(watch={"namespaces": [], "clusterWide": True})
        assert "matchResources" not in only(wide, "ValidatingAdmissionPolicyBinding")["spec"]
        without = rendered(admissionPolicy={"enabled": False})
        assert of_kind(without, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding") == []

    def test_api_server_warns_in_unwatched_namespaces(self):
        """A Backfill there has no status, no event and no driver (fault K11). It is accepted, because another installation may watch it."""
        [_, binding] = [manifest["spec"] for manifest in of_kind(rendered(), "ValidatingAdmissionPolicyBinding")]
        [_, policy] = of_kind(rendered(), "ValidatingAdmissionPolicy")
        [where] = binding["matchResources"]["namespaceSelector"]["matchExpressions"]

        assert (where["operator"], where["values"]) == ("NotIn", list(TENANTS))
        assert binding["validationActions"] == ["Warn"]
        assert binding["policyName"] == policy["metadata"]["name"]
        assert policy["spec"]["failurePolicy"] == "Ignore"
        for quiet in ({"warnUnwatched": False}, {"enabled": False}):
            made = of_kind(rendered(admissionPolicy=quiet), "ValidatingAdmissionPolicyBinding")
            assert not any(manifest["spec"]["validationActions"] == ["Warn"] for manifest in made)


class TestTheTable:
    """A real API server also gets the rows of this table (test_chart_real.py), and both must agree."""

    LIMITS = OperatorSettings(**{snake(name): tuple(value) for name, value in limit_rows.LIMITS.items()}).limits

    def launch(self, given):
        installation = Installation(VALUES["images"]["spark"], VALUES["tenant"]["serviceAccount"], limits=self.LIMITS)
        made = load_backfill(
            {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "one"}, "spec": SPEC | given}
        )
        return Launch("shop", "one", "uid", 1, "Run", made.spec, installation)

    def built(self, given):
        launched = self.launch(given)
        return driver_pod(launched), executor_template(launched)

    @pytest.mark.parametrize("given", limit_rows.ACCEPTED.values(), ids=limit_rows.ACCEPTED.keys())
    def test_operator_accepts_the_accepted_rows(self, given):
        """The operator launches every spec that the API server accepts."""
        assert self.built(given)

    @pytest.mark.parametrize(("given", "limit"), limit_rows.REFUSED.values(), ids=limit_rows.REFUSED.keys())
    def test_operator_refuses_the_refused_rows(self, given, limit):
        """Without the policy, the operator allows no more."""
        with pytest.raises(ManifestRefusedError) as refused:
            self.built(given)
        variable = PREFIX + snake(limit).upper()
        assert variable in refused.value.hint or limit == "allowedPodFields"

    def test_policy_has_the_pod_fields_that_the_operator_always_allows(self):
        """The policy has a copy of the list, because CEL cannot read Python."""
        assert {*yaml.safe_load((CHART / "files" / "pod-fields.yaml").read_text())} == POD_FIELDS


class TestTheCrd:
    def test_crd_equals_the_generated_one_and_is_kept(self):
        """Deleting it would delete all Backfills."""
        made = only(rendered(), "CustomResourceDefinition")
        generated = yaml.load((ROOT / "crds" / "backfills.yaml").read_text(), yaml.CSafeLoader)

        assert made["spec"] == generated["spec"]
        assert made["metadata"]["name"] == generated["metadata"]["name"] == f"{PLURAL}.{GROUP}"
        assert made["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"

    def test_crd_can_be_installed_separately_or_deleted_with_the_release(self):
        """For a second operator of a cluster, for a GitOps tool, and for test clusters."""
        assert of_kind(rendered(crd={"install": False}), "CustomResourceDefinition") == []
        [crd] = of_kind(rendered(crd={"keep": False}), "CustomResourceDefinition")
        assert "helm.sh/resource-policy" not in crd["metadata"].get("annotations", {})


class TestBindings:
    @pytest.mark.parametrize("wide", [False, True], ids=["namespaces", "cluster"])
    def test_bindings_name_existing_roles_and_accounts(self, wide):
        """Every server accepts a binding to a missing role, and it allows nothing."""
        made = charts.of_the_operator(rendered(watch={"namespaces": list(TENANTS), "clusterWide": wide}))
        roles = {(manifest["kind"], *place(manifest)) for manifest in of_kind(made, "Role", "ClusterRole")}
        accounts = {place(manifest) for manifest in of_kind(made, "ServiceAccount")}
        bindings = of_kind(made, "RoleBinding", "ClusterRoleBinding")

        bound = set()
        for manifest in bindings:
            role = manifest["roleRef"]
            bound.add((role["kind"], place(manifest)[0] if role["kind"] == "Role" else None, role["name"]))
            assert {(who["namespace"], who["name"]) for who in manifest["subjects"]} <= accounts
        assert bound == roles

    def test_bindings_are_for_the_accounts_of_pods(self):
        """The operator's own account, and the default account of its drivers."""
        made = rendered(tenant={"serviceAccount": "filler"})
        operators, drivers = (SYSTEM, pod(made)["serviceAccountName"]), environment(made)[f"{PREFIX}SERVICE_ACCOUNT"]

        subjects = {
            place(manifest): [(who["namespace"], who["name"]) for who in manifest["subjects"]]
            for manifest in of_kind(made, "RoleBinding")
        }
        assert subjects == {
            (SYSTEM, f"{RELEASE}-lease"): [operators],
            (SYSTEM, f"{RELEASE}-trial"): [operators],
            **{(namespace, RELEASE): [operators] for namespace in TENANTS},
            **{(namespace, "filler"): [(namespace, drivers)] for namespace in TENANTS},
        }


class TestTheOperatorsPod:
    def test_pod_runs_where_its_lease_is_and_has_only_known_settings(self):
        """The role for leases is limited to one namespace; an unknown setting ends the process at its start."""
        made = rendered()
        given = OperatorSettings.from_environ(environment(made))

        assert given.lease_namespace == SYSTEM == place(only(made, "Deployment"))[0]
        assert (given.lease_name, given.service_account) == (RELEASE, SETTINGS.service_account)
        assert given.default_image == VALUES["images"]["spark"]
        everywhere = rendered(watch={"namespaces": [], "clusterWide": True})
        assert OperatorSettings.from_environ(environment(everywhere)).namespaces == ()

    def test_pod_declares_the_ports_that_it_listens_on(self):
        """Probes refer to ports by name, and a wrong name would restart the pod for ever."""
        container = pod(rendered())["containers"][0]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}

        assert ports == {"health": SETTINGS.health_port, "metrics": SETTINGS.metrics_port}
        probes = {name: container[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")}
        assert probes == {
            "livenessProbe": {"path": "/livez", "port": "health"}, "readinessProbe": {"path": "/readyz", "port": "health"},
        }  # fmt: skip

    def test_pod_is_selected_by_its_labels_and_meets_the_restricted_standard(self):
        """Its namespace may enforce the standard. The pod has no variables that Kubernetes creates for Services."""
        made = rendered()
        deployment, spec = only(made, "Deployment"), pod(made)
        labels, expected = (
            deployment["spec"]["template"]["metadata"]["labels"],
            deployment["spec"]["selector"]["matchLabels"],
        )

        assert expected.items() <= labels.items()
        assert (spec["securityContext"]["runAsNonRoot"], spec["enableServiceLinks"]) == (True, False)
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        security = spec["containers"][0]["securityContext"]
        assert (security["allowPrivilegeEscalation"], security["readOnlyRootFilesystem"]) == (False, True)
        assert security["capabilities"] == {"drop": ["ALL"]}


class TestTheTenantsPart:
    def test_every_watched_namespace_has_the_tenant_objects(self):
        """Account, role and network policies."""
        kinds = {
            namespace: sorted(manifest["kind"] for manifest in rendered() if place(manifest)[0] == namespace)
            for namespace in TENANTS
        }
        whole = ["NetworkPolicy"] * 2 + ["Role"] * 2 + ["RoleBinding"] * 2 + ["ServiceAccount"]
        assert kinds == dict.fromkeys(TENANTS, whole)

    def test_cluster_wide_installation_creates_tenant_objects_only_in_named_namespaces(self):
        """The chart cannot list all namespaces; a documented command adds one more."""
        kinds = ("NetworkPolicy", "ServiceAccount", "Role", "RoleBinding")
        wide = of_kind(rendered(("shop",), watch={"namespaces": ["shop"], "clusterWide": True}), *kinds)
        page = (ROOT / "docs" / "kubernetes.md").read_text()
        [command] = re.findall(r"^helm (template .*) \| kubectl apply -f -$", page, re.MULTILINE)

        done = run(*shlex.split(command.replace("charts/backfill-operator", str(CHART))))

        parts = {
            name: sorted(manifest["kind"] for manifest in wide if place(manifest)[0] == name)
            for name in ("shop", "stock")
        }
        assert parts == {"shop": ["NetworkPolicy"] * 2 + ["Role", "RoleBinding", "ServiceAccount"], "stock": []}
        made = [document for document in yaml.load_all(done.stdout, yaml.CSafeLoader) if document]
        assert sorted(manifest["kind"] for manifest in made) == parts["shop"]
        assert {place(manifest)[0] for manifest in made} == {"stock"}

    def test_quota_limits_the_number_of_backfills_if_it_is_enabled(self):
        """The operator keeps each Backfill in memory. Kubernetes refuses objects that it does not count yet, so the quota is off by default."""
        assert of_kind(rendered(), "ResourceQuota") == []
        made = of_kind(rendered(tenant={"quota": {"enabled": True, "hard": {"pods": 20}}}), "ResourceQuota")
        assert [manifest["spec"]["hard"] for manifest in made] == [
            {f"count/{PLURAL}.{GROUP}": "100", "pods": "20"}
        ] * len(TENANTS)

    def test_namespaces_are_created_only_on_request_restricted_and_kept(self):
        """Most namespaces exist already; deleting one deletes all its Backfills."""
        assert of_kind(rendered(), "Namespace") == []
        made = of_kind(rendered(tenant={"createNamespaces": True}), "Namespace")
        assert [place(manifest)[1] for manifest in made] == list(TENANTS)
        for manifest in made:
            assert manifest["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
            assert manifest["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
