"""The roles allow exactly the calls of the operator: every call is recorded and compared."""

from support.cluster import charts
from support.cluster.charts import RULES, allowed
from support.cluster.fake_api import Fault
from support.kueue.fake_kueue import FakeKueue
from support.kueue.queues import Queues
from support.operators.rig import NAMESPACE, Rig

from backfill_operator.kube.resources import Resource

OPERATOR = (RULES["operator"], RULES["lease"])
NO_CALL = {("backfill.dev", "backfills/finalizers", "update")}
"""A rule for clusters that check owner references; the operator makes no such call."""


async def everything(rig):
    """Make the operator execute all its functions."""
    rig.store.create("configmaps", rig.namespace, {"metadata": {"name": "taken-1-driver"}, "data": {}})
    rig.create("taken")
    quicker = Fault("action", verb="patch", plural="backfills", action=lambda _: rig.annotate("short", edited="yes"))
    rig.api.faults.append(quicker)
    rig.create("short", ttlSecondsAfterFinished=1, retainDriver="Never")
    await rig.until_holds("Running", "short")
    rig.kubelet.finish(rig.driver("short"))
    await rig.until(lambda: rig.get("short") is None)
    rig.create("long")
    await rig.until_holds("Running", "long")
    rig.kubelet.vanish(rig.driver("long"))
    await rig.until(lambda: rig.attempt("long") == 2 and rig.holds("Running", "long"))
    await rig.until(lambda: rig.progress("long"))
    rig.delete("long")
    await rig.until(lambda: rig.get("long") is None)
    await rig.until(lambda: rig.condition("Stalled", "taken"))


ELECTION = {
    "leader_election": True, "lease_seconds": 15.0, "lease_renew_deadline_seconds": 10.0, "lease_retry_seconds": 0.1,
}  # fmt: skip


class TestTheRules:
    async def test_rules_equal_the_recorded_calls(self):
        """A missing verb causes an error in production, and an additional one helps a thief."""
        async with Rig(namespaces=(NAMESPACE,), **ELECTION) as rig:
            await everything(rig)
            seen = {(call.group, call.resource, call.verb) for call in rig.calls}
            # kopf has a separate client: the server's list contains its requests, including those that no server knows.
            watched = {
                (
                    request.group,
                    request.plural + (f"/{request.subresource}" if request.subresource else ""),
                    request.verb,
                )
                for request in rig.api.requests
            }
            everywhere = {request.verb for request in rig.api.requests if request.namespace is None}

        assert seen | watched == set().union(*map(allowed, OPERATOR)) - NO_CALL
        assert everywhere == set(), "a Role per namespace allows nothing that is asked of all namespaces"

    async def test_selector_adds_only_the_list_and_the_watch_of_namespaces(self):
        """They are the only calls that are asked of all namespaces."""
        async with Rig(namespace_selector="served", **ELECTION) as rig:
            rig.store.create("namespaces", "", {"metadata": {"name": NAMESPACE, "labels": {"served": ""}}})
            await everything(rig)
            seen = {
                (request.group, request.plural, request.verb) for request in rig.api.requests if not request.namespace
            }

        assert seen == allowed(RULES["namespace"])

    async def test_queues_add_only_workloads_and_flavors(self):
        """An operator whose jobs have no queue makes none of these calls."""
        async with Rig(namespaces=(NAMESPACE,)) as rig:
            FakeKueue(rig.store)
            queues = Queues(rig)
            queues.all(cpu="8")
            for name in ("first", "short"):
                rig.create(name, queue="team", executor={"instances": 0})
                await rig.until_holds("Running", name)
            rig.kubelet.finish(rig.driver("first"))
            await rig.until(lambda: queues.is_true("Finished", "first"))
            rig.edit("short", suspend=True)
            await rig.until(lambda: queues.workload("short") is None)
            seen = {
                (
                    request.group,
                    request.plural + (f"/{request.subresource}" if request.subresource else ""),
                    request.verb,
                )
                for request in rig.api.requests
                if request.group == "kueue.x-k8s.io"
            }

        assert seen == allowed(RULES["queue"]) | allowed(RULES["flavor"])

    async def test_unknown_calls_are_recorded(self):
        """The list also contains calls that the fake does not support. Otherwise the comparison would miss them."""
        unknown = Resource("nowhere.dev", "v1", "things", "Thing")
        async with Rig(start=False) as rig, rig.api.cluster(rig.settings) as cluster:
            assert await cluster.get(unknown, NAMESPACE, "one") is None

            assert [(request.group, request.plural, request.verb) for request in rig.api.requests] == [
                ("nowhere.dev", "things", "get")
            ]

    def test_rules_have_no_wildcard(self):
        """This applies to the operator's own resources too."""
        assert not [rule for rules in RULES.values() for rule in allowed(rules) if "*" in "".join(rule)]

    def test_rules_do_not_list_or_watch_secrets(self):
        """An account that may list Secrets has all of them."""
        assert {verb for _, resource, verb in allowed(RULES["operator"]) if resource == "secrets"} == {
            "create",
            "delete",
            "get",
        }
        assert {whose for whose, rules in RULES.items() for rule in allowed(rules) if rule[1] == "secrets"} == {
            "operator"
        }

    def test_rules_of_a_driver_cover_only_pods(self):
        """A thief of a driver's token can create pods in its namespace, but no Service, ConfigMap or claim."""
        assert {(group, resource) for group, resource, _ in allowed(RULES["driver"])} == {("", "pods")}
        assert {(group, resource) for group, resource, _ in allowed(RULES["claim"])} == {("", "persistentvolumeclaims")}


class TestTheRoles:
    def test_roles_cover_only_watched_namespaces(self):
        """No right covers kube-system, or a namespace that was not named."""
        made = charts.rendered()

        assert charts.of_kind(charts.of_the_operator(made), "ClusterRole", "ClusterRoleBinding") == []
        roles = {charts.place(manifest): manifest["rules"] for manifest in charts.of_kind(made, "Role")}
        assert {place: rules for place, rules in roles.items() if place[1] == charts.RELEASE} == {
            (namespace, charts.RELEASE): RULES["operator"] for namespace in charts.TENANTS
        }
        assert roles[charts.SYSTEM, f"{charts.RELEASE}-lease"] == RULES["lease"]
        assert {place[0] for place in roles} == {charts.SYSTEM, *charts.TENANTS}

    def test_rights_for_queues_are_optional(self):
        """In namespaces for Workloads, and in the cluster only for flavors by their names."""
        made = charts.rendered(queues={"enabled": True})

        roles = {charts.place(manifest): manifest["rules"] for manifest in charts.of_kind(made, "Role")}
        assert all(
            roles[namespace, charts.RELEASE] == RULES["operator"] + RULES["queue"] for namespace in charts.TENANTS
        )
        role, binding = (charts.only(charts.of_the_operator(made), f"ClusterRole{kind}") for kind in ("", "Binding"))
        assert role["rules"] == RULES["flavor"]
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        wide = charts.of_the_operator(
            charts.rendered(watch={"namespaces": [], "clusterWide": True}, queues={"enabled": True})
        )
        assert RULES["operator"] + RULES["queue"] in [role["rules"] for role in charts.of_kind(wide, "ClusterRole")]

    def test_cluster_role_is_optional(self):
        """It has the same rules, and requires an explicit value."""
        made = charts.rendered(watch={"namespaces": ["shop"], "clusterWide": True})

        role, binding = (charts.only(charts.of_the_operator(made), f"ClusterRole{kind}") for kind in ("", "Binding"))
        assert role["rules"] == RULES["operator"]
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        assert (("shop", charts.RELEASE)) not in {charts.place(manifest) for manifest in charts.of_kind(made, "Role")}
        assert "secrets" in {resource for _, resource, _ in allowed(role["rules"])}

    def test_roles_of_drivers_include_claims_only_on_request(self):
        """Executors seldom have claims; an unused right only helps a thief."""
        for requested in (False, True):
            made = charts.rendered(tenant={"persistentVolumeClaims": requested})
            rules = [
                manifest["rules"]
                for manifest in charts.of_kind(made, "Role")
                if manifest["metadata"]["name"] == "backfill-spark"
            ]
            assert rules == [RULES["driver"] + (RULES["claim"] if requested else [])] * len(charts.TENANTS)
