"""A restore from a backup: all objects come back with new UIDs and without owner references, the Backfill last."""

import pytest
from support.operators.rig import NAMESPACE, Rig

from backfill_api.names import BACKFILL_LABEL, UID_LABEL

KEPT = ("name", "labels", "annotations")
"""What Velero restores of an object's metadata; it leaves the status out too."""


async def backed_up():
    """Return what a backup holds of a Backfill that runs, each object with its resource, in the order of a restore."""
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
    """The operator tidies up itself (fault C5)."""

    async def test_of_a_running_job_ends_the_restored_driver_and_starts_another(self):
        """The pod first: it reads its Secret and answers under its Service."""
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
    async def test_of_one_object_alone_is_no_collision(self, plural):
        """A backup may leave out pods and whatever else it likes."""
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
    async def test_leaves_alone_what_has_not_our_labels(self, labels):
        """It is another owner's, who chose our name."""
        async with Rig() as rig:
            foreign = rig.store.create("secrets", NAMESPACE, {"metadata": {"name": rig.driver()[1], "labels": labels}})
            rig.create()
            await rig.until(lambda: rig.condition("Stalled") == ("True", "NameCollision"))

            assert rig.store.get("secrets", *rig.driver()) == foreign

    async def test_that_is_deleted_takes_the_restored_driver_along(self):
        """It stayed, and wrote on."""
        async with Rig(start=False) as rig:
            async for plural, body in backed_up():
                rig.store.create(plural, NAMESPACE, body)
            await rig.until(lambda: rig.pods() == {"orders-1-driver": "Running"})
            rig.create(suspend=True, finalizers=["backfill.dev/drain"])
            rig.delete()
            rig.start()
            await rig.until(lambda: rig.get() is None)

            assert rig.objects() == []
