"""SIGKILL around any write: the next operator finds the result, and does the rest.

A kill comes before a write (the request is lost) or after it (its answer is lost), chosen by a printed seed. Four of five
operators are processes that get a real SIGKILL; the fifth is a thread whose loop stops permanently, so that its errors
are visible. `make crash-operator KILLS=500` runs longer; BACKFILL_SEED repeats a printed seed.
"""

import os
import random

import pytest
from support.cluster.fake_api import Fault
from support.operators.process import OperatorProcess
from support.operators.rig import Rig

KILLS = int(os.environ.get("BACKFILL_OPERATOR_KILLS", "20"))
THREAD_KILLS = KILLS // 5
PROCESS_KILLS = KILLS - THREAD_KILLS
NAMES = [f"job-{number}" for number in range(4)]
LAUNCHED = {"backoffLimit": 1000, "retainDriver": "Never"}


def chance_of_the_day():
    """Return the seeded random generator of a run; the seed is printed."""
    seed = int(os.environ.get("BACKFILL_SEED", "0")) or random.SystemRandom().randrange(1 << 30)
    print(f"BACKFILL_SEED={seed}")
    return random.Random(seed)


def arm(rig, chance):
    """Make the operator die around one of its next writes."""
    what = chance.choice(["lose the request", "lose the answer"])
    rig.api.faults.append(Fault(what, writes=True, dry_run=None, after=chance.randrange(8), action=rig.kill))


def happen(rig, chance, names):
    """Cause an event of a Backfill that makes its operator write."""
    name = chance.choice(names)
    running = [key for key in rig.kubelet.running if key[1].startswith(name)]
    if rig.get(name) is None:
        rig.create(name, **LAUNCHED)
        return
    match chance.randrange(7):
        case 0 | 1 if running:
            rig.kubelet.kill(running[0])
        case 2 if running:
            rig.kubelet.vanish(running[0])
        case 3:
            rig.edit(name, suspend=chance.random() < 0.5)
        case 4:
            rig.edit(name, desiredState=chance.choice(["Running", "Paused"]))
        case 5:
            rig.edit(name, throttle={"rowsPerSecond": chance.choice([None, 100])})
        case _:
            rig.delete(name)


async def killed_often(rig, chance, kills):
    """Kill operators until the given number is dead, while events happen."""
    for name in NAMES:
        rig.create(name, **LAUNCHED)
    killed = 0
    while killed < kills:
        happen(rig, chance, NAMES)
        arm(rig, chance)
        with_luck = rig.running
        try:
            await rig.until(lambda running=with_luck: not running.alive, within_s=1.0)
        except AssertionError:
            # No write is left; the next event causes some.
            rig.api.faults.clear()
            assert with_luck.error is None
            continue
        killed += 1
        rig.start()
    rig.api.faults.clear()


async def held_to_the_promise(rig):
    """Check the guarantees after the faults: one driver for each job, a true status, and no object without an attempt."""
    for name in NAMES:
        if rig.get(name) is not None and "deletionTimestamp" in rig.get(name)["metadata"]:
            await rig.until(lambda name=name: rig.get(name) is None)
        if rig.get(name) is None:
            rig.create(name, **LAUNCHED)
        rig.edit(name, suspend=False, desiredState="Running", throttle={"rowsPerSecond": None})
    # A driver may have died just before; until an operator sees it, the status of its job is old.
    await rig.until(lambda: settled(rig), what=lambda: f"{rig.leaks()} of {rig.objects()}")

    assert rig.oracle.most == 1


def settled(rig):
    """Return whether each job runs with a configuration, a secret, a service and a pod, and no other object exists."""
    running = all(rig.holds("Running", name) for name in NAMES) and set(rig.pods().values()) == {"Running"}
    return running and len(rig.objects()) == 4 * len(NAMES) and rig.leaks() == []


class TestKilledAtAnyMoment:
    @pytest.mark.timeout(600 + 5 * THREAD_KILLS)
    async def test_killed_operators_leave_one_driver_and_no_orphans(self):
        """Random writes are interrupted while drivers fail, specs change and objects are created and deleted."""
        chance = chance_of_the_day()
        async with Rig() as rig:
            await killed_often(rig, chance, THREAD_KILLS)
            await held_to_the_promise(rig)

    @pytest.mark.timeout(600 + 10 * PROCESS_KILLS)
    async def test_killed_processes_leave_one_driver_and_no_orphans(self, tmp_path):
        """A kill leaves no time to stop a loop, flush a socket or release a lock."""
        chance = chance_of_the_day()
        async with Rig(start=False) as rig:
            kubeconfig = rig.api.kubeconfig(tmp_path)
            rig.made = lambda settings: OperatorProcess(kubeconfig, settings, tmp_path / "operator.log")
            rig.start()
            await killed_often(rig, chance, PROCESS_KILLS)
            await held_to_the_promise(rig)
