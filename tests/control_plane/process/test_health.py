"""What the probes answer. Alive and ready are two questions: a standby is ready, an unresponsive process is not alive."""

import asyncio
import contextlib
import threading
from dataclasses import dataclass

from support.cluster.fake_api import FakeApi
from support.operators.rig import API_VERSION, KIND, NAMESPACE, SPEC, Rig

from backfill_operator.health import LAG_MAX_S, RELISTS_MISSED_MAX, WATCHES_MISSED_MAX, Health
from backfill_operator.informer.cache import Cache
from backfill_operator.informer.relist import Relist
from backfill_operator.kube.election import Election
from backfill_operator.kube.resources import BACKFILLS, PODS
from backfill_operator.kube.server_clock import wall_ms
from backfill_operator.metrics import Metrics
from backfill_operator.settings import OperatorSettings


@dataclass
class Probed:
    """What the probes look at, with a clock that is set by hand."""

    api: FakeApi
    metrics: Metrics
    settings: OperatorSettings
    now: float = 0.0
    relist: Relist | None = None
    election: Election | None = None
    health: Health | None = None


@contextlib.asynccontextmanager
async def parts(*, election=False):
    """Give the parts that are asked, on a fake API server and a clock that is set by hand."""
    async with FakeApi() as api:
        settings = OperatorSettings(identity="a")
        async with api.cluster(settings) as cluster:
            made = Probed(api, Metrics(), settings)
            made.relist = Relist(
                cluster, Cache(), settings, made.metrics, enqueue=lambda _: None, monotonic=lambda: made.now
            )
            made.election = Election(cluster, settings, now_ms=wall_ms) if election else None
            made.health = Health(settings, made.relist, made.election, made.metrics)
            yield made


def appear(api, number):
    """Have something happen that a watch should tell."""
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": f"job-{number}"}, "spec": SPEC}
    api.store.create("backfills", NAMESPACE, body)


class TestAlive:
    async def test_from_the_start(self):
        """A slow first list is no reason to begin it anew."""
        async with parts() as made:
            made.now = 1e6
            assert made.health.unwell() == ""

    async def test_not_with_a_loop_that_is_late(self):
        """Leases are renewed too late then."""
        async with parts() as made:
            made.health.lag_s = LAG_MAX_S + 1
            assert "late" in made.health.unwell()

    async def test_not_when_nothing_was_listed_for_long(self):
        """One list may fail, three are a sign."""
        async with parts() as made:
            await made.relist.once()
            made.now = RELISTS_MISSED_MAX * made.settings.relist_max_seconds
            assert made.health.unwell() == ""
            made.now += 1
            assert "nothing was listed" in made.health.unwell()

    async def test_not_when_lists_find_what_a_silent_watch_should_have_shown(self):
        """Once is a race; always is a watch that died without a word, and everything takes minutes."""
        async with parts() as made:
            await made.relist.once()
            for number in range(WATCHES_MISSED_MAX):
                assert made.health.unwell() == ""
                appear(made.api, number)
                made.relist.on_watch_event(PODS.plural)
                await made.relist.once()
            assert "had not shown" in made.health.unwell()
            made.relist.on_watch_event(BACKFILLS.plural)
            await made.relist.once()
            assert made.health.unwell() == ""

    async def test_while_nothing_happens(self):
        """A quiet cluster has quiet watches."""
        async with parts() as made:
            appear(made.api, 0)
            for _ in range(3 * WATCHES_MISSED_MAX):
                await made.relist.once()
            assert made.health.unwell() == ""

    async def test_when_the_operator_s_watches_are_deaf(self):
        """The whole of it: kopf's watches tell, and when they do not, it is noticed."""
        async with Rig(watch_silence_seconds=60) as rig:
            rig.create("heard", suspend=True)
            await rig.until_holds("Suspended", "heard")
            rig.api.silent = True
            # kopf may be at its own first list yet, which counts as a watch that speaks.
            for number in range(WATCHES_MISSED_MAX + 3):
                rig.create(f"unheard-{number}", suspend=True)
                await rig.until_holds("Suspended", f"unheard-{number}")
            await rig.until(lambda: "had not shown" in rig.operator.health.unwell())
            rig.api.silent = False
            rig.create("heard-again", suspend=True)
            await rig.until(lambda: rig.operator.health.unwell() == "")


class TestReady:
    async def test_after_everything_was_listed(self):
        """Before that it would not know its own pods."""
        async with parts() as made:
            assert "listed" in made.health.unready()
            await made.relist.once()
            assert made.health.unready() == ""

    async def test_when_it_is_known_who_leads(self):
        """A standby is as ready as the leader."""
        async with parts(election=True) as made:
            await made.relist.once()
            assert "the leader is not known" in made.health.unready()
            made.election.leader = "another"
            assert made.health.unready() == ""


class TestMetrics:
    async def test_are_rendered_beside_the_loop_and_once_a_second(self):
        """Anybody may ask, as often as he likes; the loop steers drivers meanwhile."""
        threads = []

        class Collects:
            def collect(self):
                threads.append(threading.get_ident())
                return []

        async with parts() as made:
            made.metrics.registry.register(Collects())
            threads.clear()
            answers = await asyncio.gather(*(made.health.metrics_text(None) for _ in range(20)))

        assert len(threads) == 1
        assert threads != [threading.get_ident()]
        assert len({one.body for one in answers}) == 1
