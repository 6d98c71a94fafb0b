"""Runs coroutine tests in separate event loops; provides fake and real API servers."""

import asyncio
import contextlib
import inspect
import os

import pytest
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import load_kube_config
from support.cluster import harness as cluster_harness
from support.cluster.fake_api import FakeApi
from support.operators.rig import RealApi, Rig

from backfill_operator.kube.client import Cluster
from backfill_operator.settings import OperatorSettings


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a coroutine to its end; everything that it started must have ended by then."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def real_cluster():
    """Return a real API server, or skip the test with a reason."""
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(cluster_harness.borrowed_cluster(os.environ))
        except cluster_harness.NoClusterError as none:
            pytest.skip(f"no API server for tests: {none}")
        yield cluster


@pytest.fixture
def real(real_cluster):
    """Yield a factory of rigs on a real API server, in the test's own namespace."""
    with cluster_harness.prepared(real_cluster) as namespace:

        def rig(**options):
            api = RealApi(real_cluster.kubeconfig, namespace)
            api.store.garbage_collector = not real_cluster.has_nodes
            return Rig(api, patience=3.0, namespaces=(namespace,), **options)

        yield rig


@pytest.fixture(params=["fake", "real"])
def rigs(request):
    """Yield a factory of rigs, on the fake API server and on a real one."""
    return Rig if request.param == "fake" else request.getfixturevalue("real")


@pytest.fixture(params=["fake", "real"])
def server(request):
    """Provide a client and a namespace of the fake or of a real server, as an async context manager."""
    if request.param == "real":
        cluster = request.getfixturevalue("real_cluster")
        with cluster_harness.prepared(cluster) as namespace:
            yield lambda **settings: real_server(cluster.kubeconfig, namespace, settings)
    else:
        yield fake_server


@contextlib.asynccontextmanager
async def fake_server(**settings):
    """Yield a client of a fake that lives as long as the block."""
    async with FakeApi() as api, api.cluster(OperatorSettings(**settings)) as cluster:
        yield cluster, "default"


@pytest.fixture
def real_client():
    """Return a factory of clients of the real server, for tests with an existing namespace."""
    return real_server


@contextlib.asynccontextmanager
async def real_server(kubeconfig, namespace, settings):
    """Yield a client of the real server."""
    configuration = Configuration()
    await load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    async with Cluster(configuration, OperatorSettings(**settings)) as cluster:
        yield cluster, namespace
