"""Deletion of a Backfill with a policy for its tables, with the fake API server and a real one."""

import math

from support.cluster.fake_api import Fault

from backfill_api.names import SKIP_CLOSING_ANNOTATION
from backfill_api.status.ending import Ending
from backfill_api.status.procedure import ProcedureEnd
from backfill_core.lifecycle.observation import NAMESPACE_TERMINATING

LEFT = "the job's state left the target"


def mode(rig, attempt):
    """Return the mode of an attempt's driver."""
    pod = rig.store.get("pods", *rig.driver(attempt=attempt))
    variables = pod["spec"]["containers"][0]["env"]
    return next((variable["value"] for variable in variables if variable["name"] == "BACKFILL_MODE"), "")


def end(rig, attempt, end, message=LEFT):
    """End the last driver as a real one does."""
    ending = Ending(outcome="Complete", message=message, procedure=ProcedureEnd(kind="Close", end=end))
    rig.kubelet.finish(rig.driver(attempt=attempt), exit_code=0, ending=ending)


async def running(rig, **spec):
    """Create a Backfill, and wait until its driver works."""
    rig.create(**spec)
    await rig.until_holds("Running")


async def closing(rig, attempt=2):
    """Wait until the last driver runs."""
    await rig.until(lambda: rig.attempt() == attempt and rig.driver(attempt=attempt) in rig.kubelet.running)


class TestADeletionWithAPolicy:
    """The driver of the job stops, a last one closes the job, and then the object is gone."""

    async def test_releases_the_job_by_a_last_driver_across_a_restart_of_the_operator(self, rigs):
        """A killed operator makes no second driver, and the event says what became of the tables."""
        async with rigs() as rig:
            await running(rig, deletionPolicy="Release", executor={"instances": 2})
            rig.delete()
            await closing(rig)
            assert (mode(rig, 2), rig.phase()) == ("close", "Terminating")
            assert rig.condition("Reconciling") == ("True", "Closing")
            # An operator that dies takes the events with it that it has not written yet.
            await rig.until(lambda: "Closing" in rig.events())
            rig.restart()
            end(rig, 2, "Released")
            await rig.until(lambda: rig.get() is None)

            await rig.until(lambda: {"Closing", "Closed"} <= set(rig.events()))

            assert rig.kubelet.running == {}
            notes = [event["note"] for event in rig.store.objects["events"].values() if event["reason"] == "Closed"]
            assert notes == [LEFT]

    async def test_closes_a_job_that_has_ended(self, rigs):
        """Its finalizer stays, although nothing has to be drained."""
        async with rigs() as rig:
            await running(rig, deletionPolicy="Drop")
            rig.kubelet.finish(rig.driver(), exit_code=0)
            await rig.until_phase("Succeeded")
            rig.delete()
            await closing(rig)
            end(rig, 2, "Refused", "the target stays: other writers wrote to it.")
            await rig.until(lambda: rig.get() is None)

            await rig.until(lambda: "DropRefused" in rig.events())

    async def test_starts_no_driver_if_nothing_is_to_give_back(self, rigs):
        """As before: the driver stops at a barrier, and the object is gone."""
        async with rigs() as rig:
            await running(rig, deletionPolicy="Retain")
            rig.delete()
            await rig.until(lambda: rig.get() is None)

            assert "Closing" not in rig.events()

    async def test_is_skipped_by_an_administrator(self, rigs):
        """Also while the last driver waits for its image."""
        async with rigs() as rig:
            await running(rig, deletionPolicy="Release")
            rig.kubelet.held = True
            rig.delete()
            await rig.until(lambda: rig.attempt() == 2)
            rig.annotate(**{SKIP_CLOSING_ANNOTATION: "true"})
            await rig.until(lambda: rig.get() is None)

            await rig.until(lambda: "ClosingSkipped" in rig.events())

    async def test_does_not_wait_in_a_namespace_that_is_deleted(self, rigs):
        """No pod can be created there."""
        async with rigs() as rig:
            await running(rig, deletionPolicy="Release")
            refused = {"status": 403, "reason": "Forbidden", "cause": NAMESPACE_TERMINATING}
            rig.api.faults.append(Fault("answer", verb="create", plural="configmaps", times=math.inf, **refused))
            rig.delete()
            await rig.until(lambda: rig.get() is None)

            await rig.until(lambda: "ClosingAbandoned" in rig.events())
