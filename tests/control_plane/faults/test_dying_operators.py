"""Operators that are killed before and after each of their writes: the next one finds what was done, and does the rest."""

import pytest
from support.cluster.fake_api import Fault
from support.operators.rig import Rig

TRUE_WITHIN_S = 10.0


async def up(rig, **spec):
    """Have a driver that runs and was heard of."""
    rig.create(**spec)
    await rig.until_holds("Running")
    await rig.until(rig.progress)


def strike(rig, when, write):
    """Have the operator die before or after one of its next writes; where there are fewer, it lives, and that is fine too."""
    what = "lose the request" if when == "before" else "lose the answer"
    rig.api.faults.append(Fault(what, writes=True, dry_run=None, after=write, action=rig.kill))


class TestDyingOperators:
    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize("write", range(10))
    async def test_killed_around_each_write_of_a_launch(self, when, write):
        """Whatever was done is found; whatever was not is done."""
        async with Rig() as rig:
            what = "lose the request" if when == "before" else "lose the answer"
            rig.api.faults.append(Fault(what, writes=True, dry_run=None, after=write, action=rig.kill))
            rig.create()
            # The last writes of these come only with the launch's end; a launch has fewer than ten of them.
            await rig.until(lambda: not rig.running.alive or rig.holds("Running"))
            rig.restart()
            await rig.until_holds("Running", within_s=TRUE_WITHIN_S)

            assert rig.has_one_driver()
            assert rig.attempt() == 1

    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize("write", range(8))
    async def test_killed_around_each_write_of_an_end(self, when, write):
        """The end is on record once, and what the attempt was made of is gone."""
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
    async def test_killed_around_each_write_of_a_retry(self, write):
        """An attempt that failed is counted once, and has one successor."""
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
    async def test_killed_around_each_write_of_a_command(self, when, write):
        """A pause that was asked for is in force in the end, and the driver took it once."""
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
    async def test_killed_around_each_write_of_a_suspension(self, when, write):
        """The pods are released, nothing is counted as a failure, and the next attempt is the second."""
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
    async def test_killed_around_each_write_of_a_deletion(self, when, write):
        """The driver is stopped at a barrier before its Backfill goes, and nothing stays."""
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

    async def test_a_death_during_a_drain(self):
        """The Stop is on record; the finalizer waits for the next operator."""
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
