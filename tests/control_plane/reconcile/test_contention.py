"""Two operators at once, and thousands of Backfills at once: each has one driver, and a correct status is not written again."""

import copy
import os
from collections import Counter

import pytest
from support.cluster.fake_api import Fault
from support.operators.rig import NAMESPACE, Rig

from backfill_api.names import BACKFILL_LABEL, LAUNCHED_FIELDS_ANNOTATION, LAUNCHED_LABEL
from backfill_api.spec.spec import BackfillSpec
from backfill_core.lifecycle.inputs.launched_of import launched_fields, launched_of
from backfill_core.lifecycle.naming import driver_name
from backfill_operator.kube.election import LeadershipLostError

ELECTED = {
    "leader_election": True,
    "lease_seconds": 30.0,
    "lease_renew_deadline_seconds": 20.0,
    "lease_retry_seconds": 0.1,
}
"""Lease times with which a lease changes its holder only on request of a test, and never because the machine is busy."""

LEASE = ("leases", "backfill-system", "backfill-operator")
MANY = int(os.environ.get("BACKFILL_MANY", "2000"))
"""`BACKFILL_MANY=10000` takes a minute."""

NEW = 100


class TestALeaseThatIsLost:
    @pytest.mark.parametrize("write", ["configmaps", "secrets", "services", "pods"])
    async def test_lease_lost_in_the_middle_of_a_launch_leaves_one_driver(self, write):
        """The old leader's request is in flight while the new leader launches: the first one creates the driver."""

        def steal(_request):
            spec = rig.store.get(*LEASE)["spec"] | {"holderIdentity": "b"}
            rig.store.patch(*LEASE, {"spec": spec})

        async with Rig(start=False, request_timeout_seconds=10.0, **ELECTED) as rig:
            # It is longer than a launch of the new leader.
            late = Fault("slow", verb="create", plural=write, seconds=3, action=steal)
            rig.api.faults.append(late)
            old = rig.start(identity="a")
            await rig.until(lambda: old.operator.election.leading.is_set())
            rig.start(identity="b")
            rig.create()
            await rig.until(lambda: not old.alive)
            await rig.until_holds("Running")
            await rig.until(
                lambda: (
                    next(
                        request
                        for request in rig.api.requests
                        if request.verb == "create" and request.plural == write and not request.dry_run
                    ).status
                )
            )

            assert late.times == 0
            assert old.error.subgroup(LeadershipLostError)
            assert rig.has_one_driver()
            assert rig.attempt() == 1
            rig.operators.remove(old)

    async def test_lease_lost_by_a_slow_leader_ends_it(self):
        """Its late write conflicts with a newer version, and it ends; the writes of the new leader stay."""
        async with Rig(start=False, request_timeout_seconds=10.0, **ELECTED) as rig:

            def steal(_request):
                rig.store.patch(*LEASE, {"spec": rig.store.get(*LEASE)["spec"] | {"holderIdentity": "b"}})

            rig.api.faults.append(
                Fault("slow", verb="patch", plural="backfills", subresource="status", seconds=3, action=steal)
            )
            old = rig.start(identity="a")
            await rig.until(lambda: old.operator.election.leading.is_set())
            rig.start(identity="b")
            rig.create()
            await rig.until(lambda: not old.alive)
            await rig.until_holds("Running")
            await rig.still(lambda: rig.attempt() == 1 and rig.has_one_driver(), for_s=3)

            rig.operators.remove(old)


CHILDREN = ("configmaps", "secrets", "services")


def another(manifest, name, owner):
    """Return an object of an attempt for another Backfill."""
    made = copy.deepcopy(manifest)
    metadata = made["metadata"]
    metadata["name"] = driver_name(name, 1)
    metadata["ownerReferences"][0] |= {"name": name, "uid": owner["metadata"]["uid"]}
    if BACKFILL_LABEL in metadata.get("labels", {}):
        metadata["labels"][BACKFILL_LABEL] = name
    return made


def multiply(rig, number):
    """Create Backfills that seem to have been launched like the first one; return their names."""
    first = rig.get("first")
    pod = rig.store.get("pods", *rig.driver("first"))
    children = [(plural, manifest) for plural in CHILDREN for manifest in rig.store.objects[plural].values()]
    names = [f"job-{index}" for index in range(number)]
    for name in names:
        metadata = {"name": name, "finalizers": first["metadata"].get("finalizers", [])}
        spec = copy.deepcopy(first["spec"])
        spec["target"]["delta"]["path"] += f"-{name}"  # two Backfills with one target would get a warning
        made = rig.store.create("backfills", NAMESPACE, {"metadata": metadata, "spec": spec})
        waiting = another(pod, name, made)
        launched = BackfillSpec.model_validate(spec)
        waiting["metadata"]["labels"][LAUNCHED_LABEL] = launched_of(launched)
        waiting["metadata"]["annotations"][LAUNCHED_FIELDS_ANNOTATION] = launched_fields(launched)
        driver = rig.store.create("pods", NAMESPACE, waiting)
        for plural, child in children:
            rig.store.create(plural, NAMESPACE, another(child, name, made))
        status = copy.deepcopy(first["status"])
        status["attempt"] |= {"podName": driver["metadata"]["name"]}
        if "podUid" in status["attempt"]:
            status["attempt"]["podUid"] = driver["metadata"]["uid"]
        rig.store.patch("backfills", NAMESPACE, name, {"status": status}, subresource="status")
    return names


class TestThousandsAtOnce:
    @pytest.mark.timeout(900)
    async def test_thousands_are_reconciled_once_at_the_start(self):
        """There is one reconcile for each, and no write for those with a correct status; new ones get their driver."""
        async with Rig(
            relist_min_seconds=600, relist_max_seconds=600, request_timeout_seconds=30, watch_silence_seconds=60
        ) as rig:
            rig.kubelet.held = True
            rig.create("first")
            await rig.until(lambda: (rig.status("first").get("attempt") or {}).get("podUid"))
            settled = rig.get("first")
            await rig.still(lambda: rig.get("first") == settled, for_s=1)
            rig.kill()
            running = ["first", *multiply(rig, MANY - NEW - 1)]
            new = [f"new-{number}" for number in range(NEW)]
            for name in new:
                rig.create(name, target={"type": "Delta", "delta": {"path": f"/data/{name}"}})
            rig.api.requests.clear()
            rig.start(queries_per_second=10_000, query_burst=10_000)
            await rig.until(
                lambda: len(rig.store.objects["pods"]) >= MANY and rig.operator.relist.synced and not len(rig.operator.queue),
                within_s=200,
            )  # fmt: skip
            await rig.until(lambda: all((rig.status(name).get("attempt") or {}).get("podUid") for name in new), 30)

            drivers = Counter(
                manifest["metadata"]["ownerReferences"][0]["name"] for manifest in rig.store.objects["pods"].values()
            )
            assert drivers == dict.fromkeys([*running, *new], 1)
            writes = {
                (request.verb, request.plural, request.name)
                for request in rig.api.requests
                if request.verb in ("patch", "update", "delete")
            }
            assert {name for _, _, name in writes} <= set(new)
            created = Counter(
                request.plural for request in rig.api.requests if request.verb == "create" and not request.dry_run
            )
            assert {
                plural: created[plural] for plural in ("configmaps", "secrets", "services", "pods")
            } == dict.fromkeys(("configmaps", "secrets", "services", "pods"), NEW)
