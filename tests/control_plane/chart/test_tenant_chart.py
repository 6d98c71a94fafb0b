"""Namespaces by label: the chart of a tenant, and the operator's chart with `watch.namespaceSelector`."""

from copy import deepcopy

import pytest
import yaml
from support.cluster import charts
from support.cluster.charts import CHART, RELEASE, RULES, SYSTEM, TENANT_CHART, of_kind, only, place, rendered, run
from support.cluster.looked_up import looked_up

from backfill_operator.settings import OperatorSettings

SELECTOR = {
    "matchLabels": {"backfill.dev/served": "yes"},
    "matchExpressions": [
        {"key": "stage", "operator": "In", "values": ["dev", "prod"]},
        {"key": "legacy", "operator": "DoesNotExist"},
    ],
}
BY_LABEL = {"watch": {"namespaces": [], "namespaceSelector": SELECTOR}}
MATCHING = {"backfill.dev/served": "yes", "stage": "dev"}
SHARED = {
    "commonLabels": {"team": "data"},
    "images": {"pullSecrets": ["pull"]},
    "tenant": {
        "serviceAccount": "filler", "serviceAccountAnnotations": {"a/b": "c"}, "persistentVolumeClaims": True,
        "quota": {"enabled": True, "hard": {"pods": 9}},
    },
    "networkPolicy": {"metricsFrom": [{"podSelector": {}}]},
    "queues": {"enabled": True},
}  # fmt: skip
"""Values that both charts have."""


def tenant(*options, namespace="shop", **values):
    """Render the tenant's chart; return helm's result."""
    return run("template", "tenant", TENANT_CHART, "--namespace", namespace, *options, *charts.as_flags(values))


def namespace(name, **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def bindings(system, *tenants, release=RELEASE):
    """Return the bindings of another installation's operator in these namespaces."""
    made = deepcopy(of_kind(rendered(tenants, system=system), "RoleBinding"))
    for manifest in made:
        manifest["metadata"]["labels"]["app.kubernetes.io/instance"] = release
    return made


def of_server(folder, *arguments, objects):
    """Render with lookups in a cluster with these objects; return helm's message, empty if it installs."""
    with looked_up(folder, namespace("kube-system"), *objects) as (kubeconfig, _):
        done = run("template", *arguments, "--dry-run=server", "--kubeconfig", kubeconfig)
    return done.stderr if done.returncode else ""


def sorted_by_place(objects):
    return sorted(objects, key=lambda manifest: (manifest["kind"], *map(str, place(manifest))))


class TestATenant:
    @pytest.mark.parametrize("values", [{}, SHARED], ids=["defaults", "all values"])
    def test_tenants_objects_equal_those_of_the_operators_chart(self, values):
        """A namespace can move from `watch.namespaces` to the label without a change."""
        done = tenant(**values)
        assert done.returncode == 0, done.stderr
        made = [document for document in yaml.load_all(done.stdout, yaml.CSafeLoader) if document]

        expected = [manifest for manifest in rendered(("shop",), **values) if place(manifest)[0] == "shop"]
        assert sorted_by_place(made) == sorted_by_place(expected)
        assert len(made) >= 7

    def test_charts_have_one_version(self):
        """They are released together."""
        ours, operators = (yaml.safe_load((chart / "Chart.yaml").read_text()) for chart in (TENANT_CHART, CHART))
        assert {name: ours[name] for name in ("version", "appVersion", "kubeVersion")} == {
            name: operators[name] for name in ("version", "appVersion", "kubeVersion")
        }

    def test_shared_values_have_one_default(self):
        """`helm get values` of the operator's release fits the tenant's chart."""
        ours, operators = (yaml.safe_load((chart / "values.yaml").read_text()) for chart in (TENANT_CHART, CHART))
        for topic in ("tenant", "networkPolicy", "images", "commonLabels", "queues"):
            part = ours[topic]
            assert part == {name: operators[topic][name] for name in part}

    def test_wrong_values_are_refused_with_their_paths(self):
        """An unknown value too."""
        message = tenant(tenant={"serviceAccount": 1}, operator={"relese": "a"}, networkPolicy={"enabled": "no"}).stderr
        assert [
            path for path in ("/tenant/serviceAccount", "relese", "/networkPolicy/enabled") if path not in message
        ] == []

    def test_own_namespace_of_the_operator_is_refused(self):
        """Its users could act as the operator."""
        assert "the operator's own" in tenant(namespace=SYSTEM).stderr

    def test_namespace_of_another_installation_is_refused_by_both_names(self, tmp_path):
        """Both operators would launch its drivers."""
        other = bindings("other-system", "shop", release="theirs")
        said = of_server(tmp_path, "tenant", TENANT_CHART, "--namespace", "shop", objects=(namespace("shop"), *other))

        assert "watched by release theirs of namespace other-system" in said
        assert f"release {RELEASE} of namespace {SYSTEM} cannot watch it" in said
        assert (
            of_server(
                tmp_path,
                "tenant",
                TENANT_CHART,
                "--namespace",
                "shop",
                objects=(namespace("shop"), *bindings(SYSTEM, "shop")),
            )
            == ""
        )


class TestAnOperatorThatSelects:
    def test_operator_gets_the_selector_and_reads_only_namespaces_of_the_cluster(self):
        """Its rights inside a namespace are those of the tenant's Role."""
        made = rendered(**BY_LABEL)
        [container] = only(made, "Deployment")["spec"]["template"]["spec"]["containers"]
        environ = {
            variable["name"]: variable.get("value", "x") for variable in container["env"] if variable.get("value")
        }
        settings = OperatorSettings.from_environ(environ)
        [role] = of_kind(charts.of_the_operator(made), "ClusterRole")
        [binding] = of_kind(charts.of_the_operator(made), "ClusterRoleBinding")

        assert settings.namespace_selector == "backfill.dev/served=yes,stage in (dev,prod),!legacy"
        assert settings.namespaces == ()
        assert role["rules"] == RULES["namespace"]
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        assert {place(manifest)[0] for manifest in of_kind(made, "Role", "RoleBinding")} == {SYSTEM}

    def test_api_server_checks_limits_in_selected_and_in_named_namespaces(self):
        """Each has a binding of the same policy."""
        watch = {"namespaces": ["shop"], "namespaceSelector": SELECTOR}
        named, selected = (
            manifest["spec"] for manifest in of_kind(rendered(watch=watch), "ValidatingAdmissionPolicyBinding")
        )

        assert named["matchResources"]["namespaceSelector"]["matchExpressions"][0]["values"] == ["shop"]
        assert selected["matchResources"]["namespaceSelector"] == SELECTOR
        assert named["policyName"] == selected["policyName"]
        [alone] = of_kind(rendered(**BY_LABEL), "ValidatingAdmissionPolicyBinding")
        assert alone["spec"] == selected

    def test_selector_and_cluster_wide_exclude_each_other(self):
        """The selector would have no effect."""
        assert "set only one of them" in charts.refusal(watch={"clusterWide": True, "namespaceSelector": SELECTOR})

    @pytest.mark.parametrize(
        "wrong",
        [
            {"matchLabels": {"a": True}},
            {"matchLabel": {"a": "b"}},
            {"matchExpressions": [{"key": "a", "operator": "Is"}]},
        ],
        ids=str,
    )
    def test_wrong_selector_is_refused_with_its_path(self, wrong):
        """A misspelt field would select every namespace."""
        assert "/watch/namespaceSelector" in charts.refusal(watch={"namespaceSelector": wrong})

    def selected(self, folder, *objects):
        arguments = (RELEASE, CHART, "--namespace", SYSTEM, *charts.as_flags(BY_LABEL))
        return of_server(folder, *arguments, objects=objects)

    def test_selector_that_matches_the_own_namespace_is_refused(self, tmp_path):
        """The operator does not serve it either, if it gets the label later."""
        assert "matches backfill-system, the operator's own namespace" in self.selected(
            tmp_path, namespace(SYSTEM, **MATCHING)
        )
        assert self.selected(tmp_path, namespace(SYSTEM, **MATCHING, legacy="1")) == ""

    def test_selected_namespace_of_another_installation_is_refused_by_both_names(self, tmp_path):
        """A namespace without the label does not matter."""
        other = bindings("other-system", "shop", release="theirs")
        said = self.selected(tmp_path, namespace("shop", **MATCHING), *other)

        assert f"release {RELEASE} of namespace {SYSTEM} matches shop" in said
        assert "watched by release theirs of namespace other-system" in said
        assert self.selected(tmp_path, namespace("shop", **MATCHING | {"stage": "test"}), *other) == ""

    def test_two_installations_may_select_different_namespaces(self, tmp_path):
        """The right to list namespaces is not the right to watch all of them."""
        other = [
            manifest
            for manifest in rendered(system="other-system", **BY_LABEL)
            if manifest["kind"] in ("ClusterRoleBinding", "RoleBinding")
        ]
        assert len(other) == 2
        assert self.selected(tmp_path, namespace("shop", **MATCHING), *other) == ""
