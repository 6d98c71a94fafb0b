"""The order of launches on a cluster: `spec.priority` under the limit of drivers, and `spec.dependsOn`."""

from support.operators.rig import Rig

FAR = {"relist_min_seconds": 600, "relist_max_seconds": 600}
"""Full lists must not repair a wake-up that is missing."""

WOKEN_S = 30.0
"""Seconds within which a wake-up takes effect; without one, a waiting Backfill looks again after a minute."""


def create(rig, name, **fields):
    """Create a Backfill with a separate target."""
    rig.create(name, target={"type": "Delta", "delta": {"path": f"/data/{name}"}}, **fields)


def waits(rig, name, reason, type_="Reconciling"):
    return rig.condition(type_, name) == ("True", reason)


def message(rig, name):
    return next(condition["message"] for condition in rig.status(name)["conditions"] if condition["type"] == "Ready")


async def finish(rig, name):
    rig.kubelet.finish(rig.driver(name, rig.attempt(name)))
    await rig.until_phase("Succeeded", name)


def needs(*names, **fields):
    return {"dependsOn": [{"name": name, **fields} for name in names]}


class TestPriorities:
    async def test_higher_priority_starts_first(self):
        """A later Backfill overtakes those that wait, and an edit moves one that waits; no driver is ended for it."""
        async with Rig(max_drivers=1, **FAR) as rig:
            create(rig, "first")
            await rig.until_holds("Running", "first")
            for name, priority in (("low", -1), ("middle", 0), ("high", 7), ("edited", 0)):
                create(rig, name, priority=priority)
                await rig.until(lambda name=name: waits(rig, name, "DriversLimited"))
            rig.edit("edited", priority=9)
            await rig.until(lambda: rig.status("edited")["observedGeneration"] == 2)
            started = []
            for _ in range(4):
                await finish(rig, "first" if not started else started[-1])
                names = ("edited", "high", "middle", "low")
                await rig.until(
                    lambda: any(rig.holds("Running", name) for name in names if name not in started), WOKEN_S
                )
                started += [name for name in names if name not in started and rig.holds("Running", name)]

            assert started == ["edited", "high", "middle", "low"]


class TestDependencies:
    async def test_chain_starts_one_after_the_other(self):
        """In any order of creation. A dependency that does not exist yet is named, and its arrival wakes the waiting one."""
        async with Rig(**FAR) as rig:
            create(rig, "last", **needs("middle"))
            await rig.until(lambda: waits(rig, "last", "DependencyMissing"))
            assert "Backfill middle does not exist" in message(rig, "last")
            create(rig, "middle", **needs("first"))
            create(rig, "first")
            await rig.until_holds("Running", "first")
            await rig.until(lambda: waits(rig, "last", "WaitingForDependency"))
            assert rig.pods().keys() == {rig.driver("first")[1]}
            await finish(rig, "first")
            await rig.until_holds("Running", "middle", WOKEN_S)
            assert waits(rig, "last", "WaitingForDependency")
            await finish(rig, "middle")
            await rig.until_holds("Running", "last", WOKEN_S)

    async def test_failed_dependency_is_named_until_it_is_run_again(self):
        """The waiting Backfill uses no attempt."""
        async with Rig(**FAR) as rig:
            create(rig, "first", backoffLimit=0)
            create(rig, "last", **needs("first"))
            await rig.until_holds("Running", "first")
            rig.kubelet.finish(rig.driver("first"), exit_code=20)
            await rig.until(lambda: waits(rig, "last", "DependencyFailed", "Stalled"), WOKEN_S)
            assert "Backfill first failed with" in message(rig, "last")
            assert rig.status("last").get("attempts", 0) == 0
            rig.edit("first", backoffLimit=1)
            await rig.until(lambda: rig.attempt("first") == 2 and rig.holds("Running", "first"), WOKEN_S)
            await finish(rig, "first")
            await rig.until_holds("Running", "last", WOKEN_S)

    async def test_cycle_is_named_and_ends_with_an_edit(self):
        """Each Backfill of the cycle names all of them; the edit of one wakes the others."""
        async with Rig(**FAR) as rig:
            for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
                create(rig, name, **needs(other))
            for name in ("a", "b", "c"):
                await rig.until(lambda name=name: waits(rig, name, "DependencyCycle", "Stalled"))
            assert "a waits for b waits for c waits for a" in message(rig, "a")
            rig.edit("c", dependsOn=None)
            await rig.until_holds("Running", "c", WOKEN_S)
            await rig.until(
                lambda: waits(rig, "a", "WaitingForDependency") and waits(rig, "b", "WaitingForDependency"), WOKEN_S
            )

    async def test_deleted_dependency_is_missing(self):
        """A restarted operator knows the same: nothing is only in memory."""
        async with Rig(**FAR) as rig:
            create(rig, "first", suspend=True)
            create(rig, "last", **needs("first"))
            await rig.until(lambda: waits(rig, "last", "WaitingForDependency"))
            rig.delete("first")
            await rig.until(lambda: waits(rig, "last", "DependencyMissing"), WOKEN_S)
            create(rig, "first")
            await rig.until_holds("Running", "first", WOKEN_S)
            await finish(rig, "first")
            await rig.until_holds("Running", "last", WOKEN_S)
