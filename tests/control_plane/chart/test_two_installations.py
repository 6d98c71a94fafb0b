"""Two installations in one cluster have separate names and namespaces, or the second one is refused."""

from copy import deepcopy

import pytest
from support.cluster import charts
from support.cluster.charts import RELEASE, SYSTEM, of_kind, place, rendered
from support.cluster.looked_up import looked_up

OF_THE_CLUSTER = (
    "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
)  # fmt: skip
WIDE = {"watch": {"namespaces": [], "clusterWide": True}}


def namespace(name):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


HERE = [namespace(name) for name in ("kube-system", "shop", "stock", SYSTEM, "other")]


def installation(system, *tenants, wide=False):
    """Return the objects of an installation in a cluster."""
    values = {"watch": {"namespaces": list(tenants), "clusterWide": wide}}
    return deepcopy(of_kind(rendered(system=system, **values), "RoleBinding", "ClusterRoleBinding", "Deployment"))


@pytest.fixture
def said(tmp_path):
    """Install into a cluster with these objects; return helm's message against it, or `None`."""

    def install(*objects, forbidden=(), system=SYSTEM, **values):
        with looked_up(tmp_path, *HERE, *objects, forbidden=forbidden) as (kubeconfig, lookups):
            flags = charts.as_flags({"watch": {"namespaces": ["shop"]}} | values)
            arguments = ("template", RELEASE, charts.CHART, "--namespace", system, "--dry-run=server", "--kubeconfig")
            done = charts.run(*arguments, kubeconfig, *flags)
        assert "Deployment" in lookups, "helm looked up nothing"
        return done.stderr if done.returncode else None

    return install


class TestNames:
    @pytest.mark.parametrize("values", [{}, WIDE], ids=["namespaces", "cluster"])
    def test_cluster_names_of_two_installations_differ(self, values):
        """The same release in another namespace is another installation; `--take-ownership` would adopt objects with its names."""
        ours, others = (of_kind(rendered(system=system, **values), *OF_THE_CLUSTER) for system in (SYSTEM, "other"))

        assert {(manifest["kind"], *place(manifest)) for manifest in ours}.isdisjoint(
            (manifest["kind"], *place(manifest)) for manifest in others
        )
        assert len(ours) >= 4


class TestASecondInstallation:
    @pytest.mark.parametrize("release", [RELEASE, "another"])
    def test_second_installation_of_a_watched_namespace_is_refused(self, said, release):
        """Both operators would launch its drivers, and the second one would own the tenant's account."""
        first = installation("other", "shop", "stock")
        for manifest in first:
            manifest["metadata"]["labels"]["app.kubernetes.io/instance"] = release

        assert f"shop is watched by release {release} of namespace other" in said(*first)
        assert said(*first, watch={"namespaces": ["empty"]}, tenant={"createNamespaces": True}) is None

    def test_second_installation_is_refused_after_a_cluster_wide_one(self, said):
        """That one watches every namespace, including future ones."""
        first = installation("other", wide=True)

        assert f"release {RELEASE} of namespace other watches every namespace" in said(*first)
        assert f"release {RELEASE} of namespace other watches every namespace" in said(*first, **WIDE)

    def test_cluster_wide_installation_is_refused_after_any_other(self, said):
        """This is independent of the namespaces that the other one watches."""
        refused = said(*installation("other", "stock"), **WIDE)
        assert f"stock is watched by release {RELEASE} of namespace other" in refused

    @pytest.mark.parametrize("wide", [False, True], ids=["namespaces", "cluster"])
    def test_upgrade_is_not_a_second_installation(self, said, wide):
        """An upgrade finds its own objects, including those with the names of an older version, and may watch another namespace."""
        first = installation(SYSTEM, "shop", wide=wide)
        for manifest in of_kind(first, "ClusterRoleBinding"):
            manifest["metadata"]["name"] = RELEASE

        assert said(*first, watch={"namespaces": ["shop", "stock"], "clusterWide": wide}) is None

    def test_foreign_bindings_do_not_count_as_an_installation(self, said):
        """A binding without the chart's labels does not belong to an operator."""
        first = installation("other", "shop")
        for manifest in first:
            manifest["metadata"]["labels"] = None

        assert said(*first) is None

    def test_check_can_be_disabled_for_a_restricted_installer(self, said):
        """An installer of namespaces may not read the cluster; without the value, helm names the forbidden resource."""
        kinds = ("Namespace", "ClusterRoleBinding")

        assert "forbidden" in said(forbidden=kinds)
        assert said(forbidden=kinds, watch={"namespaces": ["shop"], "checkNamespaces": False}) is None


class TestTheKind:
    """An upgrade with `crd.install: false` can roll back only the operator (docs/versions.md)."""

    def crd(self, release, *, keep):
        """Return the CRD in the cluster."""
        [crd] = of_kind(rendered(crd={"keep": keep}), "CustomResourceDefinition")
        crd = deepcopy(crd)
        owner = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": SYSTEM}
        crd["metadata"]["annotations"] = crd["metadata"].get("annotations", {}) | owner
        return crd

    def test_crd_is_not_deleted_with_every_backfill(self, said):
        """helm deletes objects that leave a release, unless they are kept."""
        refused = said(self.crd(RELEASE, keep=False), crd={"install": False, "keep": True})
        assert "would delete the kind Backfill, and every Backfill with it" in refused

    @pytest.mark.parametrize(("release", "keep"), [(RELEASE, True), ("another", False)])
    def test_crd_may_leave_a_release_that_keeps_it_or_never_had_it(self, said, release, keep):
        """The CRD stays unchanged."""
        assert said(self.crd(release, keep=keep), crd={"install": False}) is None
