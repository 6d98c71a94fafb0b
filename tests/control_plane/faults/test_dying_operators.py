"""Operators that are killed before and after each of their writes: the next one finds the result, and does the rest."""

import pytest
from support.cluster.fake_api import Fault
from support.operators.rig import Rig

TRUE_WITHIN_S = 10.0


async def up(rig, **spec):
    """Start a driver, and wait until it reports."""
    rig.create(**spec)
    await rig.until_holds("Running")
    await rig.until(rig.progress)


def strike(rig, when, write):
    """Kill the operator before or after one of its next writes; if it makes fewer writes, it lives, which is also valid."""
    what = "lose the request" if when == "before" else "lose the answer"
    rig.api.faults.append(Fault(what, writes=True, dry_run=None, after=write, action=rig.kill))


class TestDyingOperators:
    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize("write", range(10))
    async def test_operator_killed_around_each_write_of_a_launch(self, when, write):
        """Existing results are found, and missing ones are created."""
        async with Rig() as rig:
            what = "lose the request" if when == "before" else "lose the answer"
            rig.api.faults.append(Fault(what, writes=True, dry_run=None, after=write, action=rig.kill))
            rig.create()
            # The last writes of these calls come only at the end of the launch, which has fewer than ten of them.
            await rig.until(lambda: not rig.running.alive or rig.holds("Running"))
            rig.restart()
            await rig.until_holds("Running", within_s=TRUE_WITHIN_S)

            assert rig.has_one_driver()
            assert rig.attempt() == 1

    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize("write", range(8))
    async def test_operator_killed_around_each_write_of_an_end(self, when, write):
        """The end is recorded once, and the objects of the attempt are deleted."""
        async with Rig() as rig:
            rig.create(retainDriver="Never")
            await rig.until_holds("Running")
            await rig.until(rig.progress)
            what = "lose the request" if when == "before" else "lose the answer"
            rig.api.faults.append(Fault(what, writes=True, dry_run=None, after=write, action=rig.kill))
            rig.kubelet.finish(rig.driver())
            await rig.until(lambda: not rig.running.alive or rig.objects() == [])
            rig.restart()
            await rig.until_phase("Succeeded", within_s=TRUE_WITHIN_S)
            await rig.until(lambda: rig.objects() == [])

            assert len(rig.status()["history"]) == 1

    @pytest.mark.parametrize("write", range(6))
    async def test_operator_killed_around_each_write_of_a_retry(self, write):
        """A failed attempt is counted once, and has one successor."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            await rig.until(rig.progress)
            rig.api.faults.append(Fault("lose the answer", writes=True, dry_run=None, after=write, action=rig.kill))
            rig.kubelet.kill(rig.driver())
            await rig.until(lambda: not rig.running.alive or (rig.attempt() == 2 and rig.holds("Running")))
            rig.restart()
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"), TRUE_WITHIN_S)

            assert rig.status()["failures"] == 1

    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize("write", range(5))
    async def test_operator_killed_around_each_write_of_a_command(self, when, write):
        """A requested pause takes effect, and the driver applies it once."""
        async with Rig() as rig:
            await up(rig)
            strike(rig, when, write)
            rig.edit(desiredState="Paused")
            await rig.until(lambda: not rig.running.alive or rig.holds("Paused"))
            assert write or not rig.running.alive
            rig.restart()
            await rig.until_holds("Paused", within_s=TRUE_WITHIN_S)

            assert rig.has_one_driver()
            assert [event.revision for event in rig.double().seen] == [1]

    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize("write", range(8))
    async def test_operator_killed_around_each_write_of_a_suspension(self, when, write):
        """The pods are released, no failure is counted, and the next attempt is the second."""
        async with Rig() as rig:
            await up(rig, retainDriver="Never")
            strike(rig, when, write)
            rig.edit(suspend=True)
            await rig.until(lambda: not rig.running.alive or (rig.holds("Suspended") and rig.objects() == []))
            assert write or not rig.running.alive
            rig.restart()
            await rig.until_holds("Suspended", within_s=TRUE_WITHIN_S)
            await rig.until(lambda: rig.objects() == [], TRUE_WITHIN_S)
            rig.edit(suspend=False)
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"), TRUE_WITHIN_S)

            assert rig.status()["failures"] == 0
            assert rig.has_one_driver(attempt=2)

    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize("write", range(6))
    async def test_operator_killed_around_each_write_of_a_deletion(self, when, write):
        """The driver is stopped at a barrier before its Backfill is deleted, and no object stays."""
        async with Rig() as rig:
            await up(rig)
            double = rig.double()
            strike(rig, when, write)
            rig.delete()
            await rig.until(lambda: not rig.running.alive or rig.get() is None)
            assert write or not rig.running.alive
            rig.restart()
            await rig.until(lambda: rig.get() is None and rig.objects() == [], TRUE_WITHIN_S)

            assert double.stopped.is_set()

    async def test_operator_that_dies_during_a_drain_has_a_successor(self):
        """The Stop is recorded, and the finalizer waits for the next operator."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            await rig.until(rig.progress)
            rig.double().silent = True
            rig.delete()
            await rig.until(lambda: rig.phase() == "Terminating")
            rig.double().silent = False
            rig.restart()
            await rig.until(lambda: rig.get() is None and rig.objects() == [], TRUE_WITHIN_S)
