"""A real API server accepts the chart's objects, and the Roles are sufficient for the operator. Skipped without a server."""

import contextlib
import json
import secrets
import subprocess
import time
from logging import WARNING

import pytest
import yaml
from kubernetes import client, config
from support.cluster import charts
from support.cluster import harness as cluster_harness
from support.cluster.charts import RELEASE
from support.cluster.client_diff import differences
from support.operators.limit_rows import ACCEPTED, LIMITS, REFUSED
from support.operators.rig import SPEC, RealApi, Rig

from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import RefusedError
from backfill_operator.kube.resources import BACKFILLS, PODS, SECRETS


@pytest.fixture
def system(real_cluster):
    """Create a namespace for the operator."""
    namespace = f"s-{secrets.token_hex(4)}"
    with config.new_client_from_config(str(real_cluster.kubeconfig)) as api:
        core = client.CoreV1Api(api)
        core.create_namespace({"metadata": {"name": namespace}})
        yield namespace
        core.delete_namespace(namespace)


def apply(cluster, objects, *arguments, whole=False):
    """Apply objects on the server, or only check them; return kubectl's output as lines or object by object."""
    kubectl = cluster_harness.tool("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl")
    command = [
        kubectl,
        f"--kubeconfig={cluster.kubeconfig}",
        "apply",
        "--server-side",
        "--force-conflicts",
        "-f",
        "-",
        *arguments,
    ]
    done = subprocess.run(
        command, input=yaml.dump_all(objects, Dumper=yaml.CSafeDumper), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    if whole:
        return [json.dumps(item) for item in json.loads(done.stdout)["items"]]
    return done.stdout.splitlines()


class TestEveryObject:
    @pytest.mark.parametrize("wide", [False, True], ids=["namespaces", "cluster"])
    def test_objects_are_accepted_by_the_server(self, real_cluster, system, wide):
        """Unknown fields, wrong types and rules that do not compile fail here, and not in a user's installation."""
        peer = {"podSelector": {"matchLabels": {"app": "prometheus"}}}
        everything = {
            "tenant": {"persistentVolumeClaims": True, "quota": {"enabled": True}}, "networkPolicy": {"metricsFrom": [peer]},
            "images": {"pullSecrets": ["registry"]},
            "operator": {"tolerations": [{"operator": "Exists"}], "priorityClassName": "system-cluster-critical"},
            "limits": LIMITS | {"allowSidecars": True},
        }  # fmt: skip
        with cluster_harness.prepared(real_cluster) as tenant:
            watch = {"namespaces": [tenant], "clusterWide": wide}
            values = everything | {"watch": watch}
            objects = charts.rendered(system=system, **values) + charts.trial(system=system, **values)
            # A server refuses a pod whose account does not exist.
            accounts = [manifest for manifest in objects if manifest["kind"] == "ServiceAccount"]
            apply(real_cluster, [account for account in accounts if account["metadata"]["namespace"] == system])
            taken = apply(real_cluster, objects, "--dry-run=server", "--validate=strict")

        assert len(taken) == len(objects) > 10

    def test_objects_are_returned_unchanged(self, real_cluster, system):
        """Argo CD compares on the client: a number beyond 2^53 and a default inside a list were never in sync (fault C6)."""
        with cluster_harness.prepared(real_cluster) as tenant:
            objects = charts.rendered((tenant,), system=system, tenant={"quota": {"enabled": True}})
            stored = [
                json.loads(text) for text in apply(real_cluster, objects, "--dry-run=server", "-o=json", whole=True)
            ]

        changed = [
            difference
            for written, there in zip(objects, stored, strict=True)
            for difference in differences(written, there)
        ]
        assert changed == []


def own_kubeconfig(cluster, system, folder):
    """Write a kubeconfig of the operator's own account, so that calls which its roles forbid fail as in a pod."""
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    with config.new_client_from_config(str(cluster.kubeconfig)) as api:
        token = client.CoreV1Api(api).create_namespaced_service_account_token(
            RELEASE, system, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        )
    chosen = next(context for context in document["contexts"] if context["name"] == document["current-context"])
    chosen["context"]["user"] = "operator"
    document |= {"users": [{"name": "operator", "user": {"token": token.status.token}}], "contexts": [chosen]}
    file = folder / "operator.kubeconfig"
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(document))
    return file


class Judge:
    """The API server, with requests for Backfills of one namespace."""

    def __init__(self, api, namespace):
        self._custom = client.CustomObjectsApi(api)
        self._where = (BACKFILLS.group, BACKFILLS.version, namespace, BACKFILLS.plural)

    def said(self, *, name="new", dry_run="All", **spec):
        """Return the server's message against a new Backfill; `None` if the server accepts it."""
        body = {
            "apiVersion": BACKFILLS.api_version,
            "kind": "Backfill",
            "metadata": {"name": name},
            "spec": SPEC | spec,
        }
        options = {"dry_run": dry_run} if dry_run else {}
        return self._words(self._custom.create_namespaced_custom_object, *self._where, body, **options)

    def said_of_change(self, **spec):
        """Return the server's message against a change of the existing Backfill."""
        return self._words(
            self._custom.patch_namespaced_custom_object, *self._where, "old", {"spec": spec}, dry_run="All"
        )

    @staticmethod
    def _words(ask, *arguments, **options):
        try:
            ask(*arguments, **options)
        except client.ApiException as refused:
            return refused.body
        return None


@contextlib.contextmanager
def policy(cluster, **limits):
    """Yield a judge of a namespace with the chart's policy, in which a Backfill is older than the policy."""
    with (
        cluster_harness.prepared(cluster) as tenant,
        config.new_client_from_config(str(cluster.kubeconfig)) as api,
    ):
        judge = Judge(api, tenant)
        assert judge.said(name="old", dry_run=None, spark={"image": "thief"}) is None
        kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
        values = {"limits": limits, "admissionPolicy": {"warnUnwatched": False}}
        objects = charts.of_kind(charts.rendered((tenant,), **values), *kinds)
        for manifest in objects:
            manifest["metadata"]["name"] = tenant
            manifest["spec"] |= {"policyName": tenant} if "policyName" in manifest["spec"] else {}
        apply(cluster, objects)
        admission = client.AdmissionregistrationV1Api(api)
        try:
            deadline = time.monotonic() + 30
            while "allowedImages" not in (judge.said(spark={"image": "thief"}) or ""):
                assert time.monotonic() < deadline, "the policy does not hold"
            yield judge
        finally:
            admission.delete_validating_admission_policy_binding(tenant)
            admission.delete_validating_admission_policy(tenant)


@pytest.fixture(scope="class")
def judge(real_cluster):
    """The policy of the table."""
    with policy(real_cluster, **LIMITS) as made:
        yield made


class TestTheAdmissionPolicy:
    @pytest.mark.parametrize("given", ACCEPTED.values(), ids=ACCEPTED.keys())
    def test_policy_accepts_specs_within_the_limits(self, judge, given):
        """A policy that is stricter than the operator would confuse users."""
        assert judge.said(**given) is None

    @pytest.mark.parametrize(("given", "limit"), REFUSED.values(), ids=REFUSED.keys())
    def test_policy_refuses_other_specs_and_names_the_limit(self, judge, given, limit):
        """The user who applies the spec sees the refusal at once."""
        assert f"limits.{limit}" in (judge.said(**given) or "")

    def test_policy_allows_stopping_an_older_backfill_but_not_widening_it(self, judge):
        """The Backfill existed before the limits, and an administrator who tightens them must be able to stop it."""
        assert judge.said_of_change(suspend=True, desiredState="Paused") is None
        assert "allowedImages" in judge.said_of_change(spark={"image": "another-thief"})

    @pytest.mark.parametrize("path", ["lake/orders", "./lake/orders", "~/orders", "../orders"])
    def test_refuses_a_path_that_depends_on_a_folder(self, judge, path):
        """The operator refuses it too, but `kubectl apply` had taken it (fault K15)."""
        for side in ("source", "target"):
            relative = SPEC[side] | {"delta": SPEC[side]["delta"] | {"path": path}}
            assert "a path is relative" in (judge.said(**{side: relative}) or "")

    def test_judges_images_of_further_containers_where_those_are_allowed(self, real_cluster):
        """They share the pod's volumes."""

        def beside(image):
            return {"driver": {"template": {"spec": {"containers": [{"name": "beside", "image": image}]}}}}

        with policy(real_cluster, allowSidecars=True, allowedImages=["registry.example/beside:1"]) as judge:
            assert judge.said(**beside("registry.example/beside:1")) is None
            assert "allowedImages" in judge.said(**beside("registry.example/beside:2"))
            first = {"driver": {"template": {"spec": {"initContainers": [{"name": "driver", "image": "thief"}]}}}}
            assert "allowedImages" in judge.said(**first)


class TestANamespaceThatIsNotWatched:
    def test_kubectl_apply_warns_about_an_unwatched_namespace(self, real_cluster, system):
        """Without the warning, nothing reports that no operator handles the Backfill (fault K11)."""
        kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
        with cluster_harness.prepared(real_cluster) as watched, cluster_harness.prepared(real_cluster) as other:
            objects = [
                manifest
                for manifest in charts.of_kind(charts.rendered((watched,), system=system), *kinds)
                if manifest["metadata"]["name"].endswith("-unwatched")
            ]
            apply(real_cluster, objects)
            try:
                until_warned(real_cluster, other, f"does not watch namespace {other};")
                assert warnings(real_cluster, watched) == ""
            finally:
                with config.new_client_from_config(str(real_cluster.kubeconfig)) as api:
                    admission = client.AdmissionregistrationV1Api(api)
                    admission.delete_validating_admission_policy_binding(objects[1]["metadata"]["name"])
                    admission.delete_validating_admission_policy(objects[0]["metadata"]["name"])


def warnings(cluster, namespace):
    """Return the warnings that kubectl prints for a Backfill that the server accepts."""
    body = {"apiVersion": BACKFILLS.api_version, "kind": "Backfill", "metadata": {"name": "new"}, "spec": SPEC}
    command = [cluster_harness.tool("kubectl"), f"--kubeconfig={cluster.kubeconfig}", "-n", namespace]
    arguments = ("apply", "--dry-run=server", "-f", "-")
    done = subprocess.run([*command, *arguments], input=json.dumps(body), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def until_warned(cluster, namespace, warning):
    """Wait until the server applies the policy, which takes a second or two."""
    deadline = time.monotonic() + 30
    while warning not in (shown := warnings(cluster, namespace)):
        assert time.monotonic() < deadline, shown


class OwnAccount(RealApi):
    """A real API server, with the operator's own account for the operator and an administrator for all other requests."""

    def __init__(self, kubeconfig, own, namespace):
        super().__init__(kubeconfig, namespace)
        self._kubeconfig = own


@contextlib.asynccontextmanager
async def removed(api, name):
    """Delete the ClusterRole of this name and its binding at the end."""
    try:
        yield
    finally:
        rights = client.RbacAuthorizationV1Api(api)
        rights.delete_cluster_role_binding(name)
        rights.delete_cluster_role(name)


@pytest.fixture
def installed(real_cluster, system, tmp_path):
    """Yield a factory of rigs whose operator has the chart's account and roles."""
    with cluster_harness.prepared(real_cluster) as tenant:
        objects = charts.rendered((tenant,), system=system)
        apply(real_cluster, charts.of_kind(objects, "Role", "RoleBinding", "ServiceAccount"))
        own = own_kubeconfig(real_cluster, system, tmp_path)

        def rig(**options):
            api = OwnAccount(real_cluster.kubeconfig, own, tenant)
            api.store.garbage_collector = not real_cluster.has_nodes
            given = {"namespaces": (tenant,), "lease_namespace": system, "leader_election": True}
            return Rig(api, patience=3.0, **given | options)

        yield rig, system


class TestTheOperatorsAccount:
    async def test_roles_are_sufficient_and_kopf_misses_no_event(self, installed, caplog):
        """The operator fills, retries, drains and elects with a Role in one namespace; no log line reports a missing right."""
        make, _ = installed
        async with make() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.kubelet.kill(rig.driver())
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))
            await rig.until(rig.events)
            rig.delete()
            await rig.until(lambda: rig.get() is None and rig.objects() == [])
            refused = [call for call in rig.calls if call.status in (401, 403)]

        assert refused == []
        messages = [
            record.getMessage()
            for record in caplog.records
            if record.name.startswith("kopf") and record.levelno >= WARNING
        ]
        assert [message for message in messages if "not in the main thread" not in message] == []

    async def test_tenant_by_label_has_all_rights_that_the_operator_needs(self, real_cluster, system, tmp_path):
        """The chart of the tenant, then the label: the first driver comes within 15 s, and no call is refused."""
        with (
            cluster_harness.prepared(real_cluster) as tenant,
            config.new_client_from_config(str(real_cluster.kubeconfig)) as api,
        ):
            label = {"matchLabels": {"backfill.dev/served": tenant}}
            watch = {"namespaces": [], "namespaceSelector": label}
            kinds = ("Role", "RoleBinding", "ServiceAccount", "ClusterRole", "ClusterRoleBinding")
            apply(
                real_cluster,
                charts.of_kind(charts.of_the_operator(charts.rendered(system=system, watch=watch)), *kinds),
            )
            apply(real_cluster, charts.of_kind(charts.tenant_objects(tenant, system), *kinds))
            account = OwnAccount(real_cluster.kubeconfig, own_kubeconfig(real_cluster, system, tmp_path), tenant)
            account.store.garbage_collector = not real_cluster.has_nodes
            selector = f"backfill.dev/served={tenant}"
            rig = Rig(
                account, patience=3.0, namespace_selector=selector, lease_namespace=system, leader_election=True,
                relist_min_seconds=60, relist_max_seconds=60,
            )  # fmt: skip
            async with rig, removed(api, f"{RELEASE}-{system}-namespaces"):
                rig.create()
                await rig.until(lambda: rig.operator.relist.synced)
                began = time.monotonic()
                client.CoreV1Api(api).patch_namespace(tenant, {"metadata": {"labels": label["matchLabels"]}})
                await rig.until(lambda: rig.pods())
                took_s = time.monotonic() - began
                await rig.until_holds("Running")
                refused = [call for call in rig.calls if call.status in (401, 403)]

        assert refused == []
        assert took_s < 15 * rig.patience

    async def test_account_cannot_read_other_namespaces(self, installed):
        """It cannot read a Secret of kube-system by name, a pod there, or any object in the operator's namespace except the lease."""
        make, system = installed
        pod = {"metadata": {"name": "thief"}, "spec": {"containers": [{"name": "thief", "image": "thief"}]}}
        async with make(start=False) as rig, Cluster(rig.api.configuration(), rig.settings) as cluster:
            for namespace in ("kube-system", "default", system):
                with pytest.raises(RefusedError, match="forbidden"):
                    await cluster.get(SECRETS, namespace, "some")
                with pytest.raises(RefusedError, match="forbidden"):
                    await cluster.create(PODS, namespace, pod)
            with pytest.raises(RefusedError, match="forbidden"):
                await anext(cluster.pages(SECRETS, rig.namespace))
