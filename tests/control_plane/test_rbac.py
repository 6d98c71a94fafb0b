"""The roles allow what the operator does, and nothing else: every call is recorded and compared."""

import yaml
from support.fake_api import Fault
from support.house import ROOT
from support.operator_rig import NAMESPACE, Rig

from backfill_operator.resources import Resource

ROLES = list(yaml.safe_load_all((ROOT / "operator" / "rbac.yaml").read_text()))
NO_CALL = {("backfill.dev", "backfills/finalizers", "update")}
"""Needed where owner references are checked; never called."""


def allowed(role):
    """Return (group, resource, verb) of every rule."""
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


async def everything(rig):
    """Have the operator do all that it can do."""
    rig.store.create("configmaps", NAMESPACE, {"metadata": {"name": "taken-1-driver"}, "data": {}})
    rig.create("taken")
    quicker = Fault("deed", verb="patch", plural="backfills", deed=lambda _: rig.annotate("short", edited="yes"))
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


class TestTheRoles:
    async def test_are_what_is_done(self):
        """A verb too few is an error at night; a verb too many is a gift to a thief."""
        async with Rig(
            leader_election=True, lease_seconds=1.0, lease_renew_deadline_seconds=0.7, lease_retry_seconds=0.1
        ) as rig:
            await everything(rig)
            seen = {(one.group, one.resource, one.verb) for one in rig.calls}
            # kopf has a client of its own: what it asks for is in the server's list, also what no server knows.
            heard = {
                (one.group, one.plural + (f"/{one.subresource}" if one.subresource else ""), one.verb)
                for one in rig.api.requests
            }

        assert seen | heard == set().union(*map(allowed, ROLES)) - NO_CALL

    async def test_cannot_be_left_unseen(self):
        """A call to what the fake does not know is on its list as well: else the comparison would miss it."""
        unknown = Resource("nowhere.dev", "v1", "things", "Thing")
        async with Rig(start=False) as rig, rig.api.cluster(rig.settings) as cluster:
            assert await cluster.get(unknown, NAMESPACE, "one") is None

            assert [(one.group, one.plural, one.verb) for one in rig.api.requests] == [("nowhere.dev", "things", "get")]

    def test_have_no_wildcard(self):
        """Not even for ourselves."""
        assert not [one for role in ROLES for one in allowed(role) if "*" in one]

    def test_list_and_watch_no_secret(self):
        """Who can list them has all of them."""
        secrets = {verb for role in ROLES for _, resource, verb in allowed(role) if resource == "secrets"}
        assert secrets == {"create", "delete", "get"}
