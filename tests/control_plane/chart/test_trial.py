"""What `helm test` makes, and what it says: one tiny Backfill whose rows are compared."""

import base64

import pytest
from deltalake import DeltaTable
from support.cluster import charts
from support.cluster.charts import SYSTEM, TENANTS, only, place, trial
from support.operators.rig import Rig

from backfill_api.load import load_backfill
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.driver_pod import driver_pod
from backfill_operator.trial import follow, verdict

ROWS = 10


def mounted(config_map, volume, folder):
    """Lay a ConfigMap out as a kubelet does: a folder with links into a folder of this version."""
    version = folder / "..version"
    for item in volume["configMap"]["items"]:
        file = version / item["path"]
        file.parent.mkdir(parents=True, exist_ok=True)
        text, binary = config_map["data"].get(item["key"]), config_map["binaryData"].get(item["key"])
        file.write_bytes(text.encode() if text else base64.b64decode(binary))
    for one in version.iterdir():
        (folder / one.name).symlink_to(one.relative_to(folder))


class TestWhatHelmMakes:
    def test_is_a_backfill_that_the_operator_accepts_by_its_defaults(self):
        """A test that the installation's own limits refuse would say nothing."""
        backfill = load_backfill(only(trial(), "Backfill"))
        installation = Installation("localhost/backfill-spark:dev", "backfill-spark")
        pod = driver_pod(Launch(TENANTS[0], backfill.metadata.name, "uid", 1, "Run", backfill.spec, installation))

        assert pod["spec"]["automountServiceAccountToken"] is False
        assert backfill.spec.verify == "Final"

    def test_has_a_source_of_so_many_rows_as_are_compared(self, tmp_path):
        """Read by another engine, from the folder that a pod sees."""
        made = trial()
        [source, _] = only(made, "Backfill")["spec"]["driver"]["template"]["spec"]["volumes"]
        mounted(only(made, "ConfigMap"), source, tmp_path)

        assert DeltaTable(str(tmp_path)).count() == ROWS
        assert only(made, "Pod")["spec"]["containers"][0]["args"][-2] == str(ROWS)

    def test_is_made_in_an_order_in_which_an_earlier_one_can_go(self):
        """helm deletes each object before it makes it again: a driver that still has the claim would hold it up (fault K5)."""
        assert [one["kind"] for one in trial()] == ["Backfill", "PersistentVolumeClaim", "ConfigMap", "Pod"]
        assert {place(one) for one in trial()[:-1]} == {(TENANTS[0], only(trial(), "Backfill")["metadata"]["name"])}

    def test_stays_until_the_next_one(self):
        """helm takes `hook-succeeded` hooks away when a later one fails: the Backfill with its conditions was gone (fault K5)."""
        policies = {one["kind"]: one["metadata"]["annotations"]["helm.sh/hook-delete-policy"] for one in trial()}

        assert {*policies.values()} == {"before-hook-creation"}
        assert len(policies) == 4

    def test_is_found_by_one_label(self):
        """helm's uninstall leaves hooks behind; the page says how to delete them."""
        assert {one["metadata"]["labels"]["app.kubernetes.io/component"] for one in trial()} == {"trial"}

    @pytest.mark.parametrize(("given", "seconds"), [({}, 240), ({"timeoutSeconds": 900}, 900)])
    def test_gives_up_before_helm_does(self, given, seconds):
        """helm waits five minutes unless it is told otherwise, and then shows no cause."""
        assert only(trial(trial=given), "Pod")["spec"]["containers"][0]["args"][-1] == str(seconds)

    @pytest.mark.parametrize("seconds", [0, 9, 86401, "4m"])
    def test_refuses_a_time_that_is_none(self, seconds):
        """In seconds, as all times of the chart."""
        assert "timeoutSeconds" in charts.refusal(
            watch={"namespaces": list(TENANTS)}, trial={"timeoutSeconds": seconds}
        )

    def test_uses_a_claim_that_is_there(self):
        """A cluster without a default storage class."""
        made = trial(trial={"claim": "lake", "namespace": TENANTS[1]})
        volumes = only(made, "Backfill")["spec"]["driver"]["template"]["spec"]["volumes"]

        assert charts.of_kind(made, "PersistentVolumeClaim") == []
        assert volumes[1]["persistentVolumeClaim"] == {"claimName": "lake"}
        assert only(made, "Backfill")["metadata"]["namespace"] == TENANTS[1]

    def test_looks_with_the_operators_account_and_not_its_labels(self):
        """No right is given for a test; and a disruption budget must not count its pod."""
        made = trial()
        pod, operator = only(made, "Pod"), only(charts.rendered(), "Deployment")
        selector = operator["spec"]["selector"]["matchLabels"]

        assert pod["metadata"]["namespace"] == SYSTEM
        assert pod["spec"]["serviceAccountName"] == operator["spec"]["template"]["spec"]["serviceAccountName"]
        assert selector.items().isdisjoint(pod["metadata"]["labels"].items())

    def test_is_nothing_where_no_namespace_is_named(self):
        """An installation of the whole cluster may watch none by name."""
        assert trial(watch={"namespaces": [], "clusterWide": True}) == []


def backfill(receipt=None, **conditions):
    """Return a Backfill with these conditions."""
    made = [{"type": one, "status": status, "reason": "Some", "message": "words"} for one, status in conditions.items()]
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


class TestWhatIsSaid:
    @pytest.mark.parametrize(("given", "over", "words"), SAYINGS.values(), ids=SAYINGS.keys())
    def test_of_each_end(self, given, over, words):
        """Complete is not enough: rows are what an installation is for."""
        said = verdict(given, ROWS)

        assert said[0] is over
        assert (words in said[1]) if words else said[1] == ""

    async def test_while_it_runs_is_its_phase(self, capsys):
        """Helm shows the log of the pod to who waits."""
        async with Rig() as rig, rig.api.cluster(rig.settings) as cluster:
            rig.create()
            await rig.until_holds("Running")
            rig.kubelet.finish(rig.driver())
            why = await follow(cluster, rig.namespace, "orders", ROWS, limit_s=60)

        assert capsys.readouterr().out.splitlines()[-1] == "Succeeded"
        assert "should have 10 rows" in why

    async def test_of_a_pod_that_no_node_takes_is_what_the_scheduler_says(self, capsys):
        """A cluster without a default storage class: helm waited for ever, and the cause stood in the Backfill alone (fault K5)."""
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

    async def test_of_a_backfill_that_no_operator_sees(self):
        """The operator is down, or watches other namespaces."""
        async with Rig(start=False) as rig, rig.api.cluster(rig.settings) as cluster:
            rig.create()
            why = await follow(cluster, rig.namespace, "orders", ROWS, limit_s=0.1)

        assert "not seen by the operator" in why
        assert "watch.namespaces" in why
