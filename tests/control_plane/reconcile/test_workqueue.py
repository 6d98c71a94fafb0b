"""The work queue: order, delays, and no key on two workers at once. Time is virtual."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operators.virtual_time import run_virtually

from backfill_operator.kube.rate import RequestBucket, jittered, wait
from backfill_operator.reconcile.workqueue import (
    BACKOFF_FIRST_S,
    BACKOFF_MAX_S,
    RETRY_MAX_S,
    STALE_MAX,
    RetryLaterError,
    WorkQueue,
)


class Bench:
    """A queue, with the record of its workers' calls."""

    def __init__(self, work, *, workers=1):
        self.taken, self.waits, self.errors = [], [], []
        self.queue = WorkQueue(
            chance=lambda: 0.5,
            on_waited=self.waits.append,
            on_failed=lambda key, error: self.errors.append((key, str(error))),
        )
        self.work, self.workers = work, workers

    async def __aenter__(self):
        self.task = asyncio.create_task(self.queue.run(self._work, self.workers))
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def _work(self, key):
        self.taken.append((asyncio.get_running_loop().time(), key))
        return await self.work(key)

    def keys(self):
        return [key for _, key in self.taken]

    def times(self):
        return [round(at, 3) for at, _ in self.taken]


def played(script, work, **options):
    """Run a script against a queue; return the bench at the end."""

    async def play():
        async with Bench(work, **options) as bench:
            await script(bench)
        return bench

    return run_virtually(play())


async def at_once(_key):
    """Return at once, without a next time."""


async def for_a_second(_key):
    """Work for a second, without a next time."""
    await wait(1)


class TestAKeyIsTakenOnce:
    def test_many_adds_cause_one_reconcile(self):
        """A burst of events is one change."""

        async def script(bench):
            for _ in range(100):
                bench.queue.add("a")
            bench.queue.add("b")
            await wait(1)

        assert played(script, at_once).keys() == ["a", "b"]

    def test_add_during_a_reconcile_causes_one_more(self):
        """The observed state may be older than the event."""

        async def script(bench):
            bench.queue.add("a")
            await wait(0.5)
            for _ in range(3):
                bench.queue.add("a")
            await wait(5)

        assert played(script, for_a_second).times() == [0, 1]

    def test_key_is_never_on_two_workers_at_once(self):
        """Otherwise two decisions for one object could each create a driver."""
        busy, most = set(), []

        async def work(key):
            assert key not in busy
            busy.add(key)
            most.append(len(busy))
            await wait(random.random())
            busy.remove(key)

        async def script(bench):
            chance = random.Random(7)
            for _ in range(500):
                bench.queue.add(chance.choice("abcdef"))
                await wait(chance.random() / 10)
            await wait(10)

        bench = played(script, work, workers=4)

        assert bench.errors == []
        assert max(most) == 4

    def test_oldest_key_comes_first(self):
        """No key starves."""

        async def script(bench):
            for key in "cab":
                bench.queue.add(key)
            await wait(10)

        bench = played(script, for_a_second)

        assert bench.keys() == ["c", "a", "b"]
        assert bench.waits == [0, 1, 2]


class TestAFailureWaitsAlone:
    def test_delays_double_up_to_a_limit(self):
        """Requests to a failing API server must become less frequent."""

        async def work(_key):
            raise RuntimeError("no")

        async def script(bench):
            bench.queue.add("a")
            await wait(3 * BACKOFF_MAX_S)

        bench = played(script, work)
        gaps = [later - earlier for earlier, later in zip(bench.times(), bench.times()[1:], strict=False)]

        assert gaps[:4] == [BACKOFF_FIRST_S * 2**n for n in range(4)]
        assert max(gaps) == BACKOFF_MAX_S
        assert bench.errors[0] == ("a", "no")

    def test_delay_after_an_outage_is_short(self):
        """After an outage of an hour, the Backfills must not wait for several minutes."""

        async def work(_key):
            raise RetryLaterError("503")

        async def script(bench):
            bench.queue.add("a")
            await wait(10 * RETRY_MAX_S)

        bench = played(script, work)
        gaps = [later - earlier for earlier, later in zip(bench.times(), bench.times()[1:], strict=False)]

        assert max(gaps) == RETRY_MAX_S

    def test_success_resets_the_failures(self):
        """The next failure counts as the first one."""
        outcomes = iter([RuntimeError(), RuntimeError(), None, RuntimeError(), None])

        async def work(_key):
            outcome = next(outcomes)
            if outcome:
                raise outcome

        async def script(bench):
            bench.queue.add("a")
            await wait(10)
            bench.queue.add("a")
            await wait(10)

        assert played(script, work).times() == [0, 0.25, 0.75, 10, 10.25]

    def test_failing_key_does_not_delay_others(self):
        """One broken Backfill of ten thousand affects only itself."""

        async def work(key):
            if key == "broken":
                raise RuntimeError

        async def script(bench):
            bench.queue.add("broken")
            await wait(100)
            bench.queue.add("sound")
            await wait(0.01)
            assert bench.keys()[-1] == "sound"

        played(script, work)

    def test_retry_after_of_the_server_is_respected(self):
        """No worker waits for it."""

        async def work(_key):
            raise RetryLaterError("429", after_s=30)

        async def script(bench):
            bench.queue.add("a")
            await wait(31)

        assert played(script, work).times() == [0, 30]

    def test_event_during_a_failing_reconcile_does_not_skip_the_delay(self):
        """A failing write causes an event, so the two would repeat each other without a delay."""

        async def work(key):
            bench_of[0].queue.add(key)
            raise RuntimeError

        bench_of = []

        async def script(bench):
            bench_of.append(bench)
            bench.queue.add("a")
            await wait(1)

        assert played(script, work).times() == [0, 0.25, 0.75]


class TestDelays:
    def test_reconcile_chooses_its_next_time(self):
        """A backoff or a deadline has no event."""

        async def work(_key):
            return 10.0

        async def script(bench):
            bench.queue.add("a")
            await wait(25)

        assert played(script, work).times() == [0, 10, 20]

    def test_earlier_of_two_delays_applies(self):
        """A later request never postpones an earlier one."""

        async def script(bench):
            bench.queue.add_after("a", 5)
            bench.queue.add_after("a", 50)
            bench.queue.add_after("a", 2)
            await wait(100)

        assert played(script, at_once).times() == [2]

    def test_event_ends_a_delay(self):
        """A change is handled at once, not at its deadline."""

        async def script(bench):
            bench.queue.add_after("a", 50)
            await wait(1)
            bench.queue.add("a")
            await wait(100)

        assert played(script, at_once).times() == [1]

    def test_busy_key_leaves_no_heap_entries(self):
        """Each reconcile sets a delay and each event ends it: after a day there were a million entries, an hour ahead each."""

        async def work(_key):
            return 3600.0

        async def script(bench):
            for _ in range(1000):
                bench.queue.add("a")
                await wait(1)
                assert bench.queue.delayed == 1
                assert bench.queue.remembered <= 2 + STALE_MAX
            await wait(3600)

        bench = played(script, work)

        assert len(bench.keys()) == 1001


class TestPacing:
    @given(
        rate=st.floats(0.5, 500), burst=st.integers(1, 100), gaps=st.lists(st.floats(0, 2), min_size=1, max_size=200)
    )
    def test_no_window_has_more_than_rate_and_burst(self, rate, burst, gaps):
        """This guarantee of a token bucket applies to every window."""
        bucket, now, granted = RequestBucket(rate, burst), 0.0, []
        for gap in gaps:
            now += gap
            granted.append(now + bucket.delay(now))
        for first, start in enumerate(granted):
            for last in range(first, len(granted)):
                assert last - first + 1 <= burst + rate * (granted[last] - start) + 1.001

    def test_waiting_callers_are_served_in_order(self):
        """No caller waits for ever."""

        async def play():
            bucket, order = RequestBucket(10, 1), []

            async def one(number):
                await bucket.take()
                order.append((number, round(asyncio.get_running_loop().time(), 3)))

            await asyncio.gather(*map(one, range(4)))
            return order

        assert run_virtually(play()) == [(0, 0), (1, 0.1), (2, 0.2), (3, 0.3)]

    def test_missing_token_is_not_owed(self):
        """Progress that may not be written now is skipped, not queued."""
        bucket = RequestBucket(10, 2)

        assert [bucket.try_take(0) for _ in range(4)] == [True, True, False, False]
        assert bucket.try_take(0.1) is True

    @pytest.mark.parametrize(("chance", "seconds"), [(0.0, 7.5), (0.5, 10.0), (1.0, 12.5)])
    def test_jitter_stays_within_its_spread(self, chance, seconds):
        """The spread is up to a quarter in both directions."""
        assert jittered(10, chance=lambda: chance) == seconds
