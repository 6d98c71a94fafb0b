"""After a restore from a backup, all objects have new UIDs and no owner references; the Backfill is restored last."""

import pytest
from support.operators.rig import NAMESPACE, Rig

from backfill_api.names import BACKFILL_LABEL, UID_LABEL
from backfill_api.status.ending import Ending

KEPT = ("name", "labels", "annotations")
"""Metadata fields that Velero restores; it also omits the status."""


async def backed_up():
    """Return the backup of a running Backfill: each object with its resource, in the order of a restore."""
    async with Rig() as rig:
        rig.create()
        await rig.until_holds("Running")
        objects = {
            plural: rig.store.get(plural, *rig.driver()) for plural in ("secrets", "configmaps", "pods", "services")
        }
    for plural, kept in objects.items():
        metadata = {name: kept["metadata"][name] for name in KEPT if name in kept["metadata"]}
        body = {name: part for name, part in kept.items() if name in ("data", "spec", "immutable", "type")}
        if plural == "pods":
            body["spec"] = {name: part for name, part in body["spec"].items() if name != "nodeName"}
        yield plural, body | {"metadata": metadata}


class TestARestore:
    """The operator cleans up without a user (fault C5)."""

    async def test_restore_of_a_running_job_ends_the_old_driver_and_starts_another(self):
        """The pod is ended first, because it reads its Secret and answers under its Service."""
        async with Rig(start=False) as rig:
            restored = {plural: rig.store.create(plural, NAMESPACE, body) async for plural, body in backed_up()}
            await rig.until(lambda: rig.pods() == {"orders-1-driver": "Running"})
            rig.create()
            rig.start()
            await rig.until_holds("Running")

            assert rig.has_one_driver()
            for plural, earlier in restored.items():
                current = rig.store.get(plural, *rig.driver())["metadata"]
                assert current["uid"] != earlier["metadata"]["uid"], plural
                assert current["labels"][UID_LABEL] == rig.uid(), plural

    @pytest.mark.parametrize("plural", ["configmaps", "secrets", "services"])
    async def test_restore_of_a_single_object_is_not_a_collision(self, plural):
        """A backup may omit pods and any other objects."""
        async with Rig(start=False) as rig:
            [body] = [body async for kind, body in backed_up() if kind == plural]
            restored = rig.store.create(plural, NAMESPACE, body)
            rig.create()
            rig.start()
            await rig.until_holds("Running")

            assert rig.store.get(plural, *rig.driver())["metadata"]["uid"] != restored["metadata"]["uid"]
            assert rig.has_one_driver()

    @pytest.mark.parametrize(
        "labels",
        [{}, {BACKFILL_LABEL: "orders"}, {UID_LABEL: "of-before"}, {BACKFILL_LABEL: "bills", UID_LABEL: "of-before"}],
    )
    async def test_restore_keeps_objects_without_our_labels(self, labels):
        """They belong to another owner, who chose the same name."""
        async with Rig() as rig:
            foreign = rig.store.create("secrets", NAMESPACE, {"metadata": {"name": rig.driver()[1], "labels": labels}})
            rig.create()
            await rig.until(lambda: rig.condition("Stalled") == ("True", "NameCollision"))

            assert rig.store.get("secrets", *rig.driver()) == foreign

    async def test_deleted_backfill_deletes_its_restored_driver(self):
        """The driver stayed, and continued to write."""
        async with Rig(start=False) as rig:
            async for plural, body in backed_up():
                rig.store.create(plural, NAMESPACE, body)
            await rig.until(lambda: rig.pods() == {"orders-1-driver": "Running"})
            rig.create(suspend=True, finalizers=["backfill.dev/drain"])
            rig.delete()
            rig.start()
            await rig.until(lambda: rig.get() is None)

            assert rig.objects() == []


def exported(rig, *, with_status):
    """Return every Backfill as `kubectl get -o yaml` and Velero export it, in the order of names."""
    for _, name in sorted(rig.store.objects["backfills"]):
        body = rig.get(name)
        kept = (*KEPT, "finalizers") if with_status else KEPT
        metadata = {field: body["metadata"][field] for field in kept if field in body["metadata"]}
        status = {"status": body["status"]} if with_status else {}
        yield {part: body[part] for part in ("apiVersion", "kind", "spec")} | {"metadata": metadata} | status


async def with_four_jobs(rig):
    """Let one job run, one pause, one rest suspended, and one be complete."""
    for name in ("complete", "paused", "running", "suspended"):
        rig.create(name, target={"type": "Delta", "delta": {"path": f"/data/{name}"}})
        await rig.until_holds("Running", name)
    rig.kubelet.finish(rig.driver("complete"))
    rig.edit("paused", desiredState="Paused")
    rig.edit("suspended", suspend=True)
    await rig.until_phase("Succeeded", "complete")
    await rig.until_holds("Paused", "paused")
    await rig.until_holds("Suspended", "suspended")


async def lost(rig):
    """Delete all Backfills, and with them everything that the operator created."""
    for _, name in list(rig.store.objects["backfills"]):
        rig.delete(name)
    await rig.until(lambda: not rig.store.objects["backfills"] and rig.objects() == [])


class TestARestoreOfAllBackfills:
    """The target has the progress of each job, so the Backfills alone are a whole backup."""

    async def test_each_job_returns_to_its_requested_state_without_its_status(self, rigs):
        """UIDs are new, and there is no record of an attempt: a complete job asks its target once, and ends."""
        async with rigs() as rig:
            await with_four_jobs(rig)
            backup, before = [*exported(rig, with_status=False)], rig.uid("running")
            await lost(rig)
            for body in backup:
                rig.store.create("backfills", rig.namespace, body)
            await rig.until_holds("Running", "running")
            await rig.until_holds("Paused", "paused")
            await rig.until_holds("Suspended", "suspended")
            await rig.until(lambda: rig.driver("complete") in rig.kubelet.running)
            rig.kubelet.finish(rig.driver("complete"), ending=Ending(outcome="Complete", reason="UpToDate"))
            await rig.until_phase("Succeeded", "complete")

            assert rig.uid("running") != before
            assert [rig.attempt(name) for name in ("complete", "paused", "running", "suspended")] == [1, 1, 1, None]
            assert [object_ for object_ in rig.objects() if object_[1].startswith("suspended")] == []

    async def test_old_status_starts_no_complete_job_and_counts_no_failure(self):
        """It names a driver pod of the lost cluster, and the UID of a Backfill that no longer exists."""
        async with Rig() as old:
            await with_four_jobs(old)
            backup = [*exported(old, with_status=True)]
        async with Rig(start=False) as rig:
            for body in backup:
                rig.store.create("backfills", NAMESPACE, body)
                name, status = body["metadata"]["name"], body["status"]
                rig.store.patch("backfills", NAMESPACE, name, {"status": status}, subresource="status")
            rig.start()
            # The old status of a running job holds before the operator has read it.
            await rig.until(lambda: rig.attempt("running") == 2 and rig.holds("Running", "running"))
            await rig.until(lambda: rig.attempt("paused") == 2 and rig.holds("Paused", "paused"))
            await rig.until_holds("Suspended", "suspended")

            assert {name for name, phase in rig.pods().items() if phase == "Running"} == {
                "paused-2-driver",
                "running-2-driver",
            }
            assert [rig.status(name)["failures"] for name in ("paused", "running")] == [0, 0]
            assert (rig.phase("complete"), rig.attempt("complete")) == ("Succeeded", 1)
