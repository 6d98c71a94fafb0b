"""The probes: liveness and readiness differ, because a standby is ready, and an unresponsive process is not alive."""

import asyncio
import contextlib
import errno
import gzip
import socket
import threading
from dataclasses import dataclass

import aiohttp
import pytest
from prometheus_client.core import GaugeMetricFamily
from support.cluster.fake_api import FakeApi
from support.operators.rig import API_VERSION, KIND, NAMESPACE, SPEC, Rig

from backfill_operator.health import LAG_MAX_S, METRICS_EVERY_S, RELISTS_MISSED_MAX, WATCHES_MISSED_MAX, Health
from backfill_operator.informer.cache import Cache
from backfill_operator.informer.relist import Relist
from backfill_operator.kube.election import Election
from backfill_operator.kube.resources import BACKFILLS, PODS
from backfill_operator.kube.server_clock import wall_ms
from backfill_operator.metrics import Metrics
from backfill_operator.settings import OperatorSettings


@dataclass
class Probed:
    """The state that the probes read, with a clock that the test sets."""

    api: FakeApi
    metrics: Metrics
    settings: OperatorSettings
    now: float = 0.0
    relist: Relist | None = None
    election: Election | None = None
    health: Health | None = None


@contextlib.asynccontextmanager
async def parts(*, election=False, **settings):
    """Yield the parts behind the probes, on a fake API server and with a clock that the test sets."""
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
    """Cause an event that a watch should deliver."""
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": f"job-{number}"}, "spec": SPEC}
    api.store.create("backfills", NAMESPACE, body)


class TestAlive:
    async def test_process_is_alive_from_the_start(self):
        """A slow first list is no reason for a restart."""
        async with parts() as made:
            made.now = 1e6
            assert made.health.unwell() == ""

    async def test_process_with_a_late_loop_is_not_alive(self):
        """It renews leases too late."""
        async with parts() as made:
            made.health.lag_s = LAG_MAX_S + 1
            assert "late" in made.health.unwell()

    async def test_process_without_recent_lists_is_not_alive(self):
        """One list may fail, but not three."""
        async with parts() as made:
            await made.relist.once()
            made.now = RELISTS_MISSED_MAX * made.settings.relist_max_seconds
            assert made.health.unwell() == ""
            made.now += 1
            assert "nothing was listed" in made.health.unwell()

    async def test_process_with_silent_watches_is_not_alive(self):
        """A single missed change is a race. Repeated ones mean a dead watch, and all changes take minutes."""
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

    async def test_process_is_alive_in_a_quiet_cluster(self):
        """A quiet cluster has quiet watches."""
        async with parts() as made:
            appear(made.api, 0)
            for _ in range(3 * WATCHES_MISSED_MAX):
                await made.relist.once()
            assert made.health.unwell() == ""

    async def test_operator_with_silent_watches_is_not_alive(self):
        """This test uses the whole operator: kopf's watches deliver events, and their failure is detected."""
        async with Rig(watch_silence_seconds=60) as rig:
            rig.create("heard", suspend=True)
            await rig.until_holds("Suspended", "heard")
            rig.api.silent = True
            # kopf may still be at its first list, which counts as a watch event.
            for number in range(WATCHES_MISSED_MAX + 3):
                rig.create(f"unheard-{number}", suspend=True)
                await rig.until_holds("Suspended", f"unheard-{number}")
            await rig.until(lambda: "had not shown" in rig.operator.health.unwell())
            rig.api.silent = False
            rig.create("heard-again", suspend=True)
            await rig.until(lambda: rig.operator.health.unwell() == "")


class TestReady:
    async def test_process_is_ready_after_the_first_complete_list(self):
        """Before that, it does not have all of its pods in the cache."""
        async with parts() as made:
            assert "listed" in made.health.unready()
            await made.relist.once()
            assert made.health.unready() == ""

    async def test_process_is_ready_when_the_leader_is_known(self):
        """A standby is as ready as the leader."""
        async with parts(election=True) as made:
            await made.relist.once()
            assert "the leader is not known" in made.health.unready()
            made.election.leader = "another"
            assert made.health.unready() == ""


class TestMetrics:
    async def test_metrics_are_rendered_in_a_thread_and_once_a_second(self):
        """Any client may request them at any rate, while the event loop controls drivers."""
        threads = []

        class Collects:
            def collect(self):
                threads.append(threading.get_ident())
                return []

        async with parts() as made:
            made.metrics.registry.register(Collects())
            threads.clear()
            began = asyncio.get_running_loop().time()
            answers = await asyncio.gather(*(made.health.exposition() for _ in range(20)))
            seconds = asyncio.get_running_loop().time() - began

        assert 1 <= len(threads) <= 1 + seconds / METRICS_EVERY_S
        assert threading.get_ident() not in threads
        assert len(set(answers)) <= len(threads)

    @pytest.mark.parametrize(("accepted", "packed"), [
        ("gzip", True), ("deflate, gzip;q=0.5", True), ("*", True), ("", False), ("identity", False), ("gzip;q=0", False),
        ("gzip; q=0.0, *", False), ("br", False),
    ])  # fmt: skip
    async def test_metrics_are_compressed_for_clients_that_accept_it(self, accepted, packed):
        """The text is the same."""
        async with parts(health_port=0, metrics_port=0, bind="127.0.0.1") as made, made.health.served() as (_, port):
            made.metrics.registry.register(Large())
            headers = {"Accept-Encoding": accepted}
            async with (
                aiohttp.ClientSession(auto_decompress=False) as http,
                http.get(f"http://127.0.0.1:{port}/metrics", headers=headers) as answer,
            ):
                body = await answer.read()

        assert answer.headers.get("Content-Encoding") == ("gzip" if packed else None)
        text = (gzip.decompress(body) if packed else body).decode()
        assert text.count("\nlarge{") == Large.SERIES
        assert text.endswith("\n")


class Large:
    """Metrics whose text has several parts."""

    SERIES = 20_000

    def collect(self):
        """Yield one family."""
        family = GaugeMetricFamily("large", "Many series.", labels=["number"])
        for number in range(self.SERIES):
            family.add_metric([str(number)], number)
        yield family


def answers(host, port):
    """Return whether a server listens at the address."""
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.fixture
def free_port():
    """Return a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class TestWhereItListens:
    """A kubelet and a metrics collector connect to the pod's address, in the cluster's IP family."""

    @pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
    @pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
    async def test_operator_listens_at_every_address_of_both_families(self, host):
        """An IPv6 cluster has no other addresses, and `kubectl port-forward` connects to the loopback address."""
        async with parts(health_port=0, metrics_port=0) as made, made.health.served() as ports:
            assert [answers(host, port) for port in ports] == [True, True]

    @pytest.mark.parametrize("how", ["the kernel has none", "it is switched off"])
    async def test_operator_listens_on_ipv4_without_ipv6(self, how, monkeypatch):
        """A container may have IPv6 disabled."""
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
    async def test_operator_listens_at_one_address_on_request(self, host):
        """The address may have either family."""
        if host == "::1" and not socket.has_dualstack_ipv6():
            pytest.skip("this machine has no IPv6")
        other = {"127.0.0.1": "::1", "::1": "127.0.0.1"}[host]
        answered = []
        for _ in range(3):  # another process may have one of these ports on the other address
            async with parts(health_port=0, metrics_port=0, bind=host) as made, made.health.served() as ports:
                assert [answers(host, port) for port in ports] == [True, True]
                answered.append(any(answers(other, port) for port in ports))
        assert not all(answered)

    async def test_port_in_use_ends_the_process(self, free_port):
        """The kubelet could not reach a port of only the other family."""
        with socket.create_server(("0.0.0.0", free_port)):
            async with parts(health_port=free_port, metrics_port=0) as made:
                with pytest.raises(OSError, match="in use"):
                    async with made.health.served():
                        pass
