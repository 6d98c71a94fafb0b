"""Foreground deletion of a Backfill on a real API server: the garbage collector deletes what it owns first, its finalizer goes last."""

import pytest
from support.cluster.remote_store import FOREGROUND, OWNED

from backfill_api.names import DRAIN_FINALIZER
from backfill_api.status.ending import Ending
from backfill_api.status.procedure import ProcedureEnd


async def running(rig, **spec):
    """Create a Backfill, and wait until its driver works."""
    rig.create(**spec)
    await rig.until_holds("Running")


def delete(rig):
    """Delete the Backfill as `kubectl delete --cascade=foreground` does."""
    rig.store.delete("backfills", rig.namespace, "orders", propagation="Foreground")


def owners(rig, attempt):
    """Return the owners of each object of an attempt, by its kind."""
    _, driver = rig.driver(attempt=attempt)
    return {
        plural: object_["metadata"].get("ownerReferences", [])
        for plural in OWNED for (_, name), object_ in rig.store.objects[plural].items() if name.startswith(driver)
    }  # fmt: skip


def end(rig, attempt, end):
    """End the last driver as a real one does."""
    ending = Ending(outcome="Complete", message="done.", procedure=ProcedureEnd(kind="Close", end=end))
    rig.kubelet.finish(rig.driver(attempt=attempt), exit_code=0, ending=ending)


async def until_nothing_is_left(rig):
    """Wait until the Backfill and all objects of its attempts are gone."""
    await rig.until(lambda: rig.get() is None)
    await rig.until(lambda: not any(rig.store.objects[plural] for plural in ("pods", "configmaps", "secrets")))


class TestAForegroundDeletion:
    """The collector deletes each object that names the Backfill as its owner, also one that is made during the deletion."""

    @pytest.mark.parametrize("ended", [False, True], ids=["a job that runs", "a job that has ended"])
    async def test_is_closed_by_a_driver_without_an_owner(self, real, ended):
        """The collector would end any other one; a killed operator makes no second one, and nothing of it is left."""
        async with real() as rig:
            await running(rig, deletionPolicy="Release")
            if ended:
                rig.kubelet.finish(rig.driver(), exit_code=0)
                await rig.until_phase("Succeeded")
            delete(rig)
            await rig.until(lambda: rig.attempt() == 2 and rig.driver(attempt=2) in rig.kubelet.running)
            made = owners(rig, 2)
            assert ("pods" in made, list(filter(None, made.values()))) == (True, [])
            await rig.until(lambda: owners(rig, 1) == {})
            assert DRAIN_FINALIZER in rig.get()["metadata"]["finalizers"]
            # An operator that dies takes the events with it that it has not written yet.
            await rig.until(lambda: "Closing" in rig.events())
            rig.restart()
            assert list(rig.kubelet.running) == [rig.driver(attempt=2)]
            end(rig, 2, "Released")

            await until_nothing_is_left(rig)
            await rig.until(lambda: {"Closing", "Closed"} <= set(rig.events()))

    async def test_without_anything_to_close_waits_for_the_barrier_of_its_driver_only(self, real):
        """The finalizer of the operator leaves after the driver's end, and the collector's own one after the objects."""
        async with real() as rig:
            await running(rig, deletionPolicy="Retain")
            delete(rig)
            assert {DRAIN_FINALIZER, FOREGROUND} == set(
                rig.store.get("backfills", rig.namespace, "orders")["metadata"]["finalizers"]
            )

            await until_nothing_is_left(rig)
            assert "Closing" not in rig.events()
