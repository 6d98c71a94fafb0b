"""The objects and the result of `helm test`: one tiny Backfill whose rows are compared."""

import base64
import json

import pytest
from deltalake import DeltaTable
from support.cluster import charts
from support.cluster.charts import RELEASE, SYSTEM, TENANTS, of_kind, only, place, rendered, trial
from support.cluster.fake_api import Fault
from support.operators.rig import Rig

from backfill_api.load import load_backfill
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.driver_pod import driver_pod
from backfill_operator.trial import follow, own, verdict

ROWS = 10


def mounted(config_map, volume, folder):
    """Write a ConfigMap to a folder with links into a folder of this version, as a kubelet does."""
    version = folder / "..version"
    for item in volume["configMap"]["items"]:
        file = version / item["path"]
        file.parent.mkdir(parents=True, exist_ok=True)
        text, binary = config_map["data"].get(item["key"]), config_map["binaryData"].get(item["key"])
        file.write_bytes(text.encode() if text else base64.b64decode(binary))
    for path in version.iterdir():
        (folder / path.name).symlink_to(path.relative_to(folder))


class TestWhatHelmMakes:
    def test_trial_is_a_backfill_that_the_operator_accepts_by_default(self):
        """A trial that the installation's own limits refuse would prove nothing."""
        backfill = load_backfill(only(trial(), "Backfill"))
        installation = Installation("localhost/backfill-spark:dev", "backfill-spark")
        pod = driver_pod(Launch(TENANTS[0], backfill.metadata.name, "uid", 1, "Run", backfill.spec, installation))

        assert pod["spec"]["automountServiceAccountToken"] is False
        assert backfill.spec.verify == "Final"

    def test_trial_source_has_the_compared_number_of_rows(self, tmp_path):
        """Another engine reads it, from the folder that a pod sees."""
        made = trial()
        [source, _] = only(made, "Backfill")["spec"]["driver"]["template"]["spec"]["volumes"]
        mounted(only(made, "ConfigMap"), source, tmp_path)

        assert DeltaTable(str(tmp_path)).count() == ROWS
        assert only(made, "Pod")["spec"]["containers"][0]["args"][-2] == str(ROWS)

    def test_trial_objects_can_replace_those_of_an_earlier_trial(self):
        """helm deletes each object before it creates it again, and a driver that still has the claim would block it (fault K5)."""
        assert [manifest["kind"] for manifest in trial()] == ["Backfill", "PersistentVolumeClaim", "ConfigMap", "Pod"]
        assert {place(manifest) for manifest in trial()[:-1]} == {
            (TENANTS[0], only(trial(), "Backfill")["metadata"]["name"])
        }

    def test_trial_stays_until_the_next_one(self):
        """helm deletes `hook-succeeded` hooks if a later hook fails: the Backfill with its conditions was deleted (fault K5)."""
        policies = {
            manifest["kind"]: manifest["metadata"]["annotations"]["helm.sh/hook-delete-policy"] for manifest in trial()
        }

        assert {*policies.values()} == {"before-hook-creation"}
        assert len(policies) == 4

    def test_trial_objects_have_one_label(self):
        """helm's uninstall keeps hooks; the page documents how to delete them."""
        assert {manifest["metadata"]["labels"]["app.kubernetes.io/component"] for manifest in trial()} == {"trial"}

    @pytest.mark.parametrize(("given", "seconds"), [({}, 240), ({"timeoutSeconds": 900}, 900)])
    def test_trial_gives_up_before_helm_does(self, given, seconds):
        """helm waits five minutes by default, and then reports no cause."""
        assert only(trial(trial=given), "Pod")["spec"]["containers"][0]["args"][-1] == str(seconds)

    @pytest.mark.parametrize("seconds", [0, 9, 86401, "4m"])
    def test_trial_refuses_an_invalid_time(self, seconds):
        """The time is in seconds, as all times of the chart."""
        assert "timeoutSeconds" in charts.refusal(
            watch={"namespaces": list(TENANTS)}, trial={"timeoutSeconds": seconds}
        )

    def test_trial_can_use_an_existing_claim(self):
        """A cluster may have no default storage class."""
        made = trial(trial={"claim": "lake", "namespace": TENANTS[1]})
        volumes = only(made, "Backfill")["spec"]["driver"]["template"]["spec"]["volumes"]

        assert charts.of_kind(made, "PersistentVolumeClaim") == []
        assert volumes[1]["persistentVolumeClaim"] == {"claimName": "lake"}
        assert only(made, "Backfill")["metadata"]["namespace"] == TENANTS[1]

    def test_trial_pod_has_the_operators_account_but_not_its_labels(self):
        """A test needs no additional rights, and a disruption budget must not count its pod."""
        made = trial()
        pod, operator = only(made, "Pod"), only(charts.rendered(), "Deployment")
        selector = operator["spec"]["selector"]["matchLabels"]

        assert pod["metadata"]["namespace"] == SYSTEM
        assert pod["spec"]["serviceAccountName"] == operator["spec"]["template"]["spec"]["serviceAccountName"]
        assert selector.items().isdisjoint(pod["metadata"]["labels"].items())

    def test_trial_does_not_exist_without_a_namespace(self):
        """A cluster-wide installation may name no namespace."""
        assert trial(watch={"namespaces": [], "clusterWide": True}) == []


def backfill(receipt=None, **conditions):
    """Return a Backfill with these conditions."""
    made = [
        {"type": condition, "status": status, "reason": "Some", "message": "words"}
        for condition, status in conditions.items()
    ]
    return {"status": {"conditions": made, "receipt": receipt}}


EQUAL = {"rows": ROWS, "mismatches": 0}
SAYINGS = {
    "not seen": ({}, False, ""),
    "running": (backfill(Ready="True"), False, ""),
    "a condition that is false": (backfill(Stalled="False", Complete="False"), False, ""),
    "stalled": (backfill(Stalled="True"), True, "Some: words"),
    "gone": (None, True, "gone"),
    "complete": (backfill(EQUAL, Complete="True"), True, ""),
    "unequal": (backfill(EQUAL | {"mismatches": 1}, Complete="True"), True, "should have 10 rows"),
    "a damaged file": (backfill(EQUAL | {"fileMismatches": 1}, Complete="True"), True, "should have 10 rows"),
    "too few": (backfill(EQUAL | {"rows": 9}, Complete="True"), True, "should have 10 rows"),
    "not compared": (backfill(Complete="True"), True, "should have 10 rows"),
}


POD = "backfill-operator-trial"


def token(namespace, name=POD):
    """Return a token in the form of Kubernetes; the signature belongs to the API server."""
    claims = {
        "kubernetes.io": {
            "namespace": namespace, "pod": {"name": name, "uid": "b"}, "serviceaccount": {"name": RELEASE, "uid": "a"},
        }
    }  # fmt: skip
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.sig"


TRIAL = {"metadata": {"name": POD}, "spec": {"containers": [{"name": "trial", "image": "a"}]}}


class TestAnUninstallation:
    async def test_account_that_helm_deletes_owns_the_pod(self):
        """The pod once stayed after `helm uninstall`, because helm keeps the hooks of a test (fault K15)."""
        async with Rig(start=False) as rig, rig.api.cluster(rig.settings) as cluster:
            rig.store.create("pods", rig.namespace, TRIAL)
            why = await own(cluster, token(rig.namespace))
            [owner] = rig.store.get("pods", rig.namespace, POD)["metadata"]["ownerReferences"]

        assert why == ""
        assert owner == {"apiVersion": "v1", "kind": "ServiceAccount", "name": RELEASE, "uid": "a"}

    @pytest.mark.parametrize(("writes", "owned"), [(1, True), (2, False)])
    async def test_pod_that_a_kubelet_changes_is_read_again_once(self, writes, owned):
        """A kubelet writes the pod's state while the pod starts. A second failure is shown, and fails no test."""

        def write(_request):
            number = rig.store.get("pods", rig.namespace, POD)["metadata"]["resourceVersion"]
            rig.store.patch("pods", rig.namespace, POD, {"metadata": {"labels": {"written": f"after-{number}"}}})

        async with Rig(start=False) as rig, rig.api.cluster(rig.settings) as cluster:
            rig.store.create("pods", rig.namespace, TRIAL)
            rig.api.faults.append(Fault("action", verb="patch", plural="pods", action=write, times=writes))
            why = await own(cluster, token(rig.namespace))
            owners = rig.store.get("pods", rig.namespace, POD)["metadata"].get("ownerReferences", [])

        assert (why == "", len(owners)) == (owned, int(owned))

    @pytest.mark.parametrize(
        "text", ["", "a", "a.b.c", "a.e30.c", "a.W10.c", "a.eyJrdWJlcm5ldGVzLmlvIjoxfQ.c", "a.\u00e9.c"]
    )
    async def test_token_of_another_form_fails_no_test(self, text):
        """The rows are compared all the same, and the reason is shown."""
        async with Rig(start=False) as rig, rig.api.cluster(rig.settings) as cluster:
            assert await own(cluster, text) == "the token does not name the pod and its account"
            assert "is gone" in await own(cluster, token(rig.namespace, "another"))

    def test_right_is_for_this_pod_only(self):
        """Nothing else in the operator's namespace may be changed by it. OpenShift lets only users with `delete` set owners
        (OwnerReferencesPermissionEnforcement)."""
        role = next(role for role in of_kind(rendered(), "Role") if role["metadata"]["name"] == f"{RELEASE}-trial")
        pod = only(trial(), "Pod")["metadata"]

        assert place(role)[0] == pod["namespace"]
        assert role["rules"] == [
            {
                "apiGroups": [""],
                "resources": ["pods"],
                "resourceNames": [pod["name"]],
                "verbs": ["delete", "get", "patch"],
            }
        ]

    def test_right_does_not_exist_without_a_trial(self):
        """A cluster-wide installation may name no namespace."""
        made = rendered(watch={"namespaces": [], "clusterWide": True})

        assert f"{RELEASE}-trial" not in {role["metadata"]["name"] for role in of_kind(made, "Role")}


class TestWhatIsSaid:
    @pytest.mark.parametrize(("given", "over", "message"), SAYINGS.values(), ids=SAYINGS.keys())
    def test_verdict_matches_each_end(self, given, over, message):
        """Completion is not sufficient: the rows must match."""
        result = verdict(given, ROWS)

        assert result[0] is over
        assert (message in result[1]) if message else result[1] == ""

    async def test_state_of_a_running_trial_is_its_phase(self, capsys):
        """Helm shows the log of the pod to a waiting user."""
        async with Rig() as rig, rig.api.cluster(rig.settings) as cluster:
            rig.create()
            await rig.until_holds("Running")
            rig.kubelet.finish(rig.driver())
            why = await follow(cluster, rig.namespace, "orders", ROWS, limit_s=60)

        assert capsys.readouterr().out.splitlines()[-1] == "Succeeded"
        assert "should have 10 rows" in why

    async def test_state_of_an_unschedulable_pod_is_the_schedulers_message(self, capsys):
        """On a cluster without a default storage class, helm waited for ever, and only the Backfill contained the cause (fault K5)."""
        message = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims"
        unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        async with Rig() as rig, rig.api.cluster(rig.settings) as cluster:
            rig.kubelet.held = True
            rig.create()
            await rig.until(lambda: rig.pods())
            rig.kubelet.status(rig.driver(), {"phase": "Pending", "conditions": [unscheduled]})
            await rig.until(lambda: message in str(rig.status().get("conditions")))
            why = await follow(cluster, rig.namespace, "orders", ROWS, limit_s=0.1)

        assert f"Launching: {message}" in capsys.readouterr().out.splitlines()
        assert why.startswith(f"not complete after 0.1 s: Launching: {message}")
        assert "trial.claim" in why

    async def test_state_reports_a_backfill_without_an_operator(self):
        """The operator is down, or watches other namespaces."""
        async with Rig(start=False) as rig, rig.api.cluster(rig.settings) as cluster:
            rig.create()
            why = await follow(cluster, rig.namespace, "orders", ROWS, limit_s=0.1)

        assert "not seen by the operator" in why
        assert "watch.namespaces" in why
