"""Helm and the chart on a real API server: install, refuse, upgrade, uninstall. Skipped without a server or helm."""

import contextlib
import re
import secrets
import shutil
from copy import copy

import pytest
import yaml
from kubernetes import client, config
from support.cluster import charts
from support.cluster import harness as cluster_harness
from support.operators.rig import SPEC

from backfill_operator.kube.resources import BACKFILLS

CRD = f"{BACKFILLS.plural}.{BACKFILLS.group}"


class Releases:
    """Helm releases in the namespaces of one test."""

    def __init__(self, cluster, system, tenant):
        self.kubeconfig, self.system, self.tenant = cluster.kubeconfig, system, tenant

    def helm(self, *arguments):
        """Run helm; return the result."""
        return charts.run(*arguments, "--kubeconfig", self.kubeconfig, "--namespace", self.system)

    def install(self, name, *arguments, chart=charts.CHART, **values):
        """Install or upgrade a release; existing objects without a release are adopted."""
        given = {"watch": {"namespaces": [self.tenant]}} | values
        return self.helm("upgrade", "--install", "--take-ownership", name, chart, *charts.as_flags(given), *arguments)


@pytest.fixture
def releases(real_cluster):
    """Yield helm, namespaces for the operator and a tenant, and an API client."""
    system = f"s-{secrets.token_hex(4)}"
    with (
        cluster_harness.prepared(real_cluster) as tenant,
        config.new_client_from_config(str(real_cluster.kubeconfig)) as api,
    ):
        client.CoreV1Api(api).create_namespace({"metadata": {"name": system}})
        made = Releases(real_cluster, system, tenant)
        yield made, api
        for line in made.helm("list", "--short").stdout.split():
            made.helm("uninstall", line)
        with contextlib.suppress(client.ApiException):
            client.CoreV1Api(api).delete_namespace(system)


@pytest.fixture
def older(tmp_path):
    """Return an older version of the chart, whose CRD has another description."""
    folder = tmp_path / "chart"
    shutil.copytree(charts.CHART, folder)
    crd = folder / "files" / "backfills.yaml"
    crd.write_text(
        re.sub(
            r"description: Everything[^\n]*|description: [A-Z][^\n]*",
            "description: Older words.",
            crd.read_text(),
            count=1,
        )
    )
    assert "Older words." in crd.read_text()
    return folder


def messages_of_crd(api):
    """Return the description in the CRD on the server."""
    return yaml.safe_dump(client.ApiextensionsV1Api(api).read_custom_resource_definition(CRD).to_dict())


class TestARelease:
    def test_upgrade_replaces_the_crd_and_uninstall_keeps_it_with_all_backfills(self, releases, older):
        """Helm never upgrades CRDs in its own folder for CRDs."""
        made, api = releases
        name = f"r-{secrets.token_hex(3)}"
        first = made.install(name, chart=older)
        assert first.returncode == 0, first.stderr
        assert "Older words." in messages_of_crd(api)

        second = made.install(name)
        assert second.returncode == 0, second.stderr
        assert "Older words." not in messages_of_crd(api)

        custom, where = (
            client.CustomObjectsApi(api),
            (BACKFILLS.group, BACKFILLS.version, made.tenant, BACKFILLS.plural),
        )
        body = {"apiVersion": BACKFILLS.api_version, "kind": "Backfill", "metadata": {"name": "stays"}, "spec": SPEC}
        custom.create_namespaced_custom_object(*where, body)
        gone = made.helm("uninstall", name)
        assert gone.returncode == 0, gone.stderr
        assert custom.get_namespaced_custom_object(*where, "stays")["spec"]
        assert client.RbacAuthorizationV1Api(api).list_namespaced_role(made.tenant).items == []

    def test_rollback_keeps_the_newer_crd(self, releases, older):
        """The server drops fields of the spec under an older CRD, and the older operator would run the other fields."""
        made, api = releases
        name = f"r-{secrets.token_hex(3)}"
        assert made.install(name).returncode == 0

        back = made.install(name, chart=older, crd={"install": False})
        assert back.returncode == 0, back.stderr
        assert "Older words." not in messages_of_crd(api)
        again = made.install(name)
        assert again.returncode == 0, again.stderr

    def test_release_is_refused_in_a_namespace_that_another_one_watches(self, releases):
        """Two operators of one namespace would launch two drivers; `--take-ownership` would give the second one its account."""
        made, _ = releases
        name, other = f"r-{secrets.token_hex(3)}", f"s-{secrets.token_hex(4)}"
        assert made.install(name).returncode == 0

        second = copy(made)
        second.system = other
        refused = second.install(name, "--create-namespace", crd={"install": False})
        assert refused.returncode != 0
        assert f"{made.tenant} is watched by release {name} of namespace {made.system}" in refused.stderr

    def test_tenant_of_another_release_is_refused_by_both_names(self, releases):
        """Its own operator's release may have the namespace, but not that of another one."""
        made, api = releases
        first = f"r-{secrets.token_hex(3)}"
        assert made.install(first).returncode == 0
        core = client.CoreV1Api(api)
        core.patch_namespace(made.tenant, {"metadata": {"labels": {"served": made.tenant}}})
        operator = {"release": "second", "namespace": "second-system"}

        refused = charts.run(
            "install",
            "tenant",
            charts.TENANT_CHART,
            "--kubeconfig",
            made.kubeconfig,
            "--namespace",
            made.tenant,
            *charts.as_flags({"operator": operator}),
        )
        assert refused.returncode != 0
        assert f"watched by release {first} of namespace {made.system}" in refused.stderr
        assert "release second of namespace second-system cannot watch it" in refused.stderr

        watch = {"namespaces": [], "namespaceSelector": {"matchLabels": {"served": made.tenant}}}
        arguments = ("--kubeconfig", made.kubeconfig, "--namespace", "default", "--dry-run=server")
        both = charts.run(
            "install", "second", charts.CHART, *arguments, *charts.as_flags({"watch": watch, "crd": {"install": False}})
        )
        assert both.returncode != 0
        assert f"release second of namespace default matches {made.tenant}" in both.stderr
        assert f"watched by release {first} of namespace {made.system}" in both.stderr

    def test_release_is_refused_with_a_value_if_another_one_owns_the_crd(self, releases):
        """helm's own error names annotations of the CRD, and no value (fault K15)."""
        made, api = releases
        name, other = f"r-{secrets.token_hex(3)}", f"s-{secrets.token_hex(4)}"
        assert made.install(name).returncode == 0

        second = copy(made)
        second.system, second.tenant = other, f"t-{secrets.token_hex(4)}"
        client.CoreV1Api(api).create_namespace({"metadata": {"name": second.tenant}})
        refused = second.install(name, "--create-namespace")
        client.CoreV1Api(api).delete_namespace(second.tenant)

        assert refused.returncode != 0
        assert (
            f"the kind Backfill belongs to release {name} of namespace {made.system}: set crd.install=false"
            in refused.stderr
        )

    def test_release_is_refused_in_the_namespace_of_another_one(self, releases):
        """The Lease and labels of two operators in one namespace would conflict."""
        made, _ = releases
        name = f"r-{secrets.token_hex(3)}"
        assert made.install(name).returncode == 0

        refused = made.install(f"{name}-too", crd={"install": False})
        assert refused.returncode != 0
        assert f"release {name} is in namespace {made.system} already" in refused.stderr
        assert made.install(name).returncode == 0, "its own upgrade is refused"

    def test_release_is_refused_if_a_watched_namespace_is_missing(self, releases):
        """The check runs before the first object is created, because half an installation is hard to understand."""
        made, api = releases
        name, missing = f"r-{secrets.token_hex(3)}", f"t-{secrets.token_hex(4)}"
        watch = {"namespaces": [made.tenant, missing]}

        refused = made.install(name, watch=watch)
        assert refused.returncode != 0
        assert f"watch.namespaces contains {missing}, which does not exist" in refused.stderr
        assert client.AppsV1Api(api).list_namespaced_deployment(made.system).items == []

        created = made.install(name, watch=watch, tenant={"createNamespaces": True})
        assert created.returncode == 0, created.stderr
        assert (
            client.CoreV1Api(api).read_namespace(missing).metadata.labels["pod-security.kubernetes.io/enforce"]
            == "restricted"
        )
