"""Leader election: one process leads, a dead leader is replaced, a live one is not, and a process that loses the lease ends."""

import asyncio
import contextlib
import time

import pytest
from support.cluster.fake_api import FakeApi, Fault

from backfill_operator.kube.election import Election, LeadershipLostError
from backfill_operator.kube.server_clock import wall_ms
from backfill_operator.settings import OperatorSettings

QUICK = {"lease_seconds": 1.0, "lease_renew_deadline_seconds": 0.7, "lease_retry_seconds": 0.1}
STEADY = {"lease_seconds": 4.0, "lease_renew_deadline_seconds": 3.7, "lease_retry_seconds": 0.1}
LONG = QUICK | {"lease_seconds": 20.0}
"""A lease that outlasts the deadline of its renewal by many seconds, so that a busy machine is no failure."""

PATIENT = QUICK | {"lease_seconds": 60.0, "lease_renew_deadline_seconds": 50.0}
"""A leader with this pace keeps its lease although the machine is busy."""


@contextlib.asynccontextmanager
async def candidates(api, *names, now_ms=wall_ms, pace=QUICK):
    """Yield running elections; name -> (election, task)."""
    async with contextlib.AsyncExitStack() as stack:
        made = {}
        for name in names:
            settings = OperatorSettings(identity=name, request_timeout_seconds=5.0, **pace)
            cluster = await stack.enter_async_context(api.cluster(settings))
            election = Election(cluster, settings, now_ms=now_ms)
            made[name] = (election, asyncio.create_task(election.run()))
        try:
            yield made
        finally:
            for _, task in made.values():
                task.cancel()
            await asyncio.gather(*(task for _, task in made.values()), return_exceptions=True)


async def leads(election, within_s=30.0):
    async with asyncio.timeout(within_s):
        await election.leading.wait()


def leaders(made):
    return [name for name, (election, task) in made.items() if election.leading.is_set() and not task.done()]


class TestOneLeads:
    async def test_exactly_one_of_three_leads(self):
        """This is true from the start."""
        async with FakeApi() as api, candidates(api, "a", "b", "c", pace=PATIENT) as made:
            await asyncio.wait(
                [asyncio.create_task(election.leading.wait()) for election, _ in made.values()],
                return_when="FIRST_COMPLETED",
            )
            for _ in range(20):
                assert len(leaders(made)) == 1
                await asyncio.sleep(0.1)
            assert {election.leader for election, _ in made.values()} - {None} == set(leaders(made))

    async def test_dead_leader_is_replaced_after_its_lease(self):
        """Not earlier, because it may be alive and slow."""
        async with FakeApi() as api, candidates(api, "a") as first:
            await leads(first["a"][0])
            first["a"][1].cancel()
            died = time.monotonic()
            async with candidates(api, "b") as second:
                await leads(second["b"][0])
                assert time.monotonic() - died >= QUICK["lease_seconds"]
        lease = api.store.get("leases", "backfill-system", "backfill-operator")
        assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("b", 1)

    async def test_released_lease_is_taken_at_once(self):
        """A rollout must not cost fifteen seconds."""
        async with FakeApi() as api, candidates(api, "a", pace=PATIENT) as first:
            await leads(first["a"][0])
            first["a"][1].cancel()
            await first["a"][0].release()
            async with candidates(api, "b", pace=PATIENT) as second:
                await leads(second["b"][0], within_s=20)

    @pytest.mark.parametrize("skew_h", [-48, 48])
    async def test_holders_clock_does_not_matter(self, skew_h):
        """A record that changes is alive, with any time in it."""
        async with (
            FakeApi() as api,
            candidates(api, "a", now_ms=lambda: wall_ms() + skew_h * 3_600_000, pace=STEADY) as first,
        ):
            await leads(first["a"][0])
            async with candidates(api, "b", pace=STEADY) as second:
                await asyncio.sleep(1.5 * STEADY["lease_seconds"])
                assert leaders(first) == ["a"]
                assert leaders(second) == []


class TestWhoLosesMustEnd:
    async def test_leader_ends_if_the_server_does_not_answer(self):
        """It ends before another process may lead."""
        async with FakeApi() as api, candidates(api, "a", pace=LONG) as made:
            election, task = made["a"]
            await leads(election)
            api.faults.append(Fault("answer", plural="leases", status=500, times=999))
            began = time.monotonic()
            with pytest.raises(LeadershipLostError):
                await asyncio.wait_for(task, 30)
            assert time.monotonic() - began <= LONG["lease_seconds"]

    async def test_leader_ends_in_time_after_a_late_answer(self):
        """Other candidates measure from the write. Measured from its answer, two processes would have led for a while."""
        async with FakeApi() as api, candidates(api, "a", pace=LONG) as made:
            election, task = made["a"]
            await leads(election)
            written = []
            api.store.listeners.append(lambda plural, *_: plural == "leases" and written.append(time.monotonic()))
            api.faults.append(Fault("slow answer", verb="update", plural="leases", seconds=0.45))
            api.faults.append(Fault("answer", verb="update", plural="leases", status=500, after=1, times=999))
            with pytest.raises(LeadershipLostError):
                await asyncio.wait_for(task, 30)

            assert len(written) == 1
            assert time.monotonic() - written[-1] < LONG["lease_seconds"]

    async def test_leader_ends_if_another_process_holds_the_lease(self):
        """The cause does not matter."""
        async with FakeApi() as api, candidates(api, "a", pace=PATIENT) as made:
            election, task = made["a"]
            await leads(election)
            lease = api.store.get("leases", "backfill-system", "backfill-operator")
            usurped = {"spec": lease["spec"] | {"holderIdentity": "b"}}
            api.store.patch("leases", "backfill-system", "backfill-operator", usurped)
            with pytest.raises(LeadershipLostError, match="its holder is b"):
                await asyncio.wait_for(task, 30)

    async def test_leader_continues_after_one_lost_answer(self):
        """There is time for more than one try, and the next ones are written."""
        async with FakeApi() as api, candidates(api, "a", pace=PATIENT) as made:
            election, task = made["a"]
            await leads(election)
            lost = Fault("lose the answer", verb="update", plural="leases", times=2)
            api.faults.append(lost)
            renewed = asyncio.Event()
            api.store.listeners.append(lambda plural, *_: plural == "leases" and not lost.times and renewed.set())
            async with asyncio.timeout(30):
                await renewed.wait()
                renewed.clear()
                await renewed.wait()
            assert not task.done()

    async def test_leader_makes_a_deleted_lease_again(self):
        """It wrote to the lease that was gone until its deadline, and ended, although no other process led."""
        async with FakeApi() as api, candidates(api, "a", pace=PATIENT) as made:
            election, task = made["a"]
            await leads(election)
            made_again = asyncio.Event()
            api.store.listeners.append(
                lambda plural, kind, _: (plural, kind) == ("leases", "ADDED") and made_again.set()
            )
            api.store.delete("leases", "backfill-system", "backfill-operator")
            async with asyncio.timeout(30):
                await made_again.wait()
            assert not task.done()
