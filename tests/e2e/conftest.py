"""One node, one pair of images and one installation for all scenarios; each test has an empty lake and no Backfill of another one."""

import contextlib
import json
import os
import shutil
import time

import pytest
from support.cluster import harness
from support.node.real_job import LAKE, SLOW, Job
from support.node.real_node import IMAGES, Node, Writer, build_images
from support.node.small_disk import small_disk
from support.repository import ROOT

REPORT = ROOT / "build" / "e2e"
LIMITS = {
    "allowedHostPaths": [str(LAKE)],
    # They are not there: what becomes of a Backfill that names one?
    "allowedServiceAccounts": ["late"],
    "allowedImages": ["localhost/missing:1"],
}


def pytest_collection_modifyitems(items):
    """Give each scenario the time that a busy node may need."""
    for item in items:
        item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="session")
def figures():
    """What was measured, by its name; written as build/e2e/figures.json after each scenario."""
    return {}


def _node(stack):
    """Return a node with the images of this checkout, or None, and why there is none."""
    try:
        if folder := os.environ.get("BACKFILL_E2E_DISK"):
            stack.enter_context(small_disk(folder))
        cluster = stack.enter_context(harness.borrowed_cluster(os.environ, nodes=True, mounted=LAKE))
        made = Node(cluster, LAKE, limits=LIMITS)
        if not os.environ.get("BACKFILL_E2E_IMAGES_LOADED"):
            build_images(os.environ)
            for image in IMAGES.values():
                cluster.load(image)
    except (harness.NoClusterError, harness.CommandFailedError, OSError) as none:
        return None, str(none)
    return made, ""


@pytest.fixture(scope="session")
def real_node(figures):
    """A real node with the images of this checkout and the chart installed; the run fails where there is none."""
    REPORT.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(LAKE, ignore_errors=True)
    LAKE.mkdir()
    with contextlib.ExitStack() as stack:
        made, why = _node(stack)
        if made is None:
            pytest.fail(f"no node for this run: {why}", pytrace=False)
        stack.callback(made.remove)
        made.prepare()
        began = time.monotonic()
        made.install()
        figures["helm install -> operator ready s"] = round(time.monotonic() - began, 1)
        yield made


@pytest.fixture
def node(real_node, request, figures):
    """The node as the first test finds it; what the cluster says at the end of the test is in build/e2e."""
    real_node.install()
    yield real_node
    told = [real_node.story(namespace) for namespace in (real_node.namespace, real_node.restricted)]
    (REPORT / f"{request.node.name}.txt").write_text("\n".join([*told, real_node.operator_log()[-60_000:]]))
    (REPORT / "figures.json").write_text(json.dumps(figures, indent=2) + "\n")
    real_node.tidy(120 * SLOW)


@pytest.fixture
def lake(node):
    """The lake, empty: root writes the sources, and user 185 the targets."""
    for one in LAKE.iterdir():
        shutil.rmtree(one)
    LAKE.chmod(0o777)
    return LAKE


@pytest.fixture
def writer(lake, request):
    """Return what makes a table of orders and changes it until the test is over: by default /lake/orders."""

    def start(rows, name="orders", **more):
        made = Writer(lake / name, rows, **more)
        request.addfinalizer(made.end)
        return made

    return start


@pytest.fixture
def apply(node):
    """Return what applies a document and gives its job."""
    return lambda backfill, **more: Job(node, backfill, **more).apply()
