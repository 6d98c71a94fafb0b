"""What the probes answer. Alive and ready are two questions: a standby is ready, an unresponsive process is not alive."""

import asyncio
import contextlib
import errno
import socket
import threading
from dataclasses import dataclass

import pytest
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
async def parts(*, election=False, **settings):
    """Give the parts that are asked, on a fake API server and a clock that is set by hand."""
    async with FakeApi() as api:
        settings = OperatorSettings(identity="a", **settings)
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


def answers(host, port):
    """Is there a listener?"""
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.fixture
def free_port():
    """A port that is free."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


class TestWhereItListens:
    """A kubelet and a collector of metrics come to the pod's own address, of whatever family the cluster has."""

    @pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
    @pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
    async def test_is_every_address_of_both_families(self, host):
        """A cluster of IPv6 alone has no other one, and `kubectl port-forward` comes to that of the machine itself."""
        async with parts(health_port=0, metrics_port=0) as made, made.health.served() as ports:
            assert [answers(host, port) for port in ports] == [True, True]

    @pytest.mark.parametrize("how", ["the kernel has none", "it is switched off"])
    async def test_is_ipv4_where_there_is_no_other(self, how, monkeypatch):
        """As in a container whose IPv6 is switched off."""
        create = socket.create_server

        def without(address, *, family=socket.AF_INET, **options):
            if family == socket.AF_INET6:
                raise OSError(errno.EADDRNOTAVAIL, "no such address")
            return create(address, family=family, **options)

        monkeypatch.setattr(socket, "create_server", without)
        if how == "the kernel has none":
            monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
        async with parts(health_port=0, metrics_port=0) as made, made.health.served() as ports:
            assert [answers("127.0.0.1", port) for port in ports] == [True, True]

    @pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
    async def test_is_one_address_where_that_is_asked(self, host):
        """Of either family."""
        if host == "::1" and not socket.has_dualstack_ipv6():
            pytest.skip("this machine has no IPv6")
        other = {"127.0.0.1": "::1", "::1": "127.0.0.1"}[host]
        heard = []
        for _ in range(3):  # another process may have one of these ports on the other address
            async with parts(health_port=0, metrics_port=0, bind=host) as made, made.health.served() as ports:
                assert [answers(host, port) for port in ports] == [True, True]
                heard.append(any(answers(other, port) for port in ports))
        assert not all(heard)

    async def test_is_free_or_the_process_ends(self, free_port):
        """The other family alone would be a port that no kubelet asks."""
        with socket.create_server(("0.0.0.0", free_port)):
            async with parts(health_port=free_port, metrics_port=0) as made:
                with pytest.raises(OSError, match="in use"):
                    async with made.health.served():
                        pass
