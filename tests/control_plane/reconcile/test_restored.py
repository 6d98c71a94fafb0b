"""After a restore from a backup, all objects have new UIDs and no owner references; the Backfill is restored last."""

import pytest
from support.operators.rig import NAMESPACE, Rig

from backfill_api.names import BACKFILL_LABEL, UID_LABEL

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
