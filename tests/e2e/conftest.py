"""One node, one pair of images and one installation for all scenarios; each has an empty lake and no Backfill of another scenario."""

import contextlib
import os
import shutil
import time

import pytest
from support.cluster import harness
from support.node.figures import Figures
from support.node.real_job import LAKE, SLOW, Job, empty_lake
from support.node.real_node import HIVE_IMAGE, IMAGES, Node, build_images
from support.node.small_disk import cluster_on_a_small_disk, small_disk
from support.node.writer import Writer
from support.registry.on_node import PULLED
from support.repository import ROOT

REPORT = ROOT / "build" / "e2e"
LIMITS = {
    "allowedHostPaths": [str(LAKE)],
    # "late" and "missing" do not exist: scenarios test Backfills that name a missing account or image.
    "allowedServiceAccounts": ["late"],
    "allowedImages": ["localhost/missing:1", HIVE_IMAGE, PULLED],
    # Names of a Hive metastore.
    "allowedConf": [
        "spark.sql.catalogImplementation", "spark.hadoop.hive.metastore.uris", "spark.sql.hive.metastore.version",
        "spark.sql.hive.metastore.jars", "spark.sql.hive.metastore.jars.path", "spark.sql.warehouse.dir",
    ],
}  # fmt: skip
FIGURES = pytest.StashKey()


def pytest_collection_modifyitems(items):
    """Give each scenario the time that a busy node may need."""
    for item in items:
        item.add_marker(pytest.mark.timeout(1800))


def pytest_terminal_summary(terminalreporter, config):
    """Print the measured figures with their bars."""
    if FIGURES in config.stash:
        terminalreporter.section("figures of this run, and their bars")
        for line in config.stash[FIGURES].lines():
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def figures(request):
    """Measured values by name; written to build/e2e/figures.json after each scenario, and printed at the end."""
    return request.config.stash.setdefault(FIGURES, Figures(SLOW))


def _node(stack, *, fills_a_disk):
    """Return a node with the images of this checkout and an empty reason, or `None` and the reason.

    If only scenarios that fill the disk of a node were chosen, the kit makes a separate cluster for them.
    """
    try:
        loaded = os.environ.get("BACKFILL_E2E_IMAGES_LOADED")
        if folder := os.environ.get("BACKFILL_E2E_DISK"):
            stack.enter_context(small_disk(folder))
        elif fills_a_disk and harness.provider(os.environ, nodes=True) == "BACKFILL_TEST_CLUSTER" and os.geteuid() == 0:
            stack.enter_context(cluster_on_a_small_disk())
            loaded = None
        cluster = stack.enter_context(harness.borrowed_cluster(os.environ, nodes=True, mounted=LAKE))
        made = Node(cluster, LAKE, limits=LIMITS)
        if not loaded:
            build_images(os.environ)
            for image in IMAGES.values():
                cluster.load(image)
    except (harness.NoClusterError, harness.CommandFailedError, OSError) as none:
        return None, str(none)
    return made, ""


@pytest.fixture(scope="session")
def real_node(request, figures):
    """A real node with the images of this checkout and the chart installed; without a node the run fails."""
    REPORT.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(LAKE, ignore_errors=True)
    LAKE.mkdir()
    with contextlib.ExitStack() as stack:
        fills_a_disk = all(item.get_closest_marker("pressure") for item in request.session.items)
        made, why = _node(stack, fills_a_disk=fills_a_disk)
        if made is None:
            pytest.fail(f"no node for this run: {why}", pytrace=False)
        stack.callback(made.remove)
        made.prepare()
        began = time.monotonic()
        made.install()
        figures["helm install -> operator ready s"] = round(time.monotonic() - began, 1)
        yield made


@pytest.fixture(scope="session")
def scenario(real_node, figures):
    """Return a context manager that gives each scenario a fresh installation; at its end, build/e2e gets the cluster's objects and logs."""

    @contextlib.contextmanager
    def begin(name):
        real_node.install()
        yield real_node
        stories = [real_node.story(namespace) for namespace in (real_node.namespace, real_node.restricted)]
        (REPORT / f"{name}.txt").write_text("\n".join([*stories, real_node.operator_log()[-60_000:]]))
        figures.write(REPORT / "figures.json")
        real_node.tidy(120 * SLOW)
        assert [*real_node.new_warnings(), *figures.broken()] == []

    return begin


@pytest.fixture
def node(scenario, request):
    """The node for one test."""
    with scenario(request.node.name) as prepared:
        yield prepared


@pytest.fixture
def lake(node):
    """An empty lake: root writes the sources, and user 185 the targets."""
    return empty_lake()


@pytest.fixture
def writer(lake, request):
    """Return a function that makes a table of orders, by default /lake/orders, and changes it until the test is over."""

    def start(rows, name="orders", **more):
        made = Writer(lake / name, rows, **more)
        request.addfinalizer(made.end)
        return made

    return start


@pytest.fixture
def apply(node):
    """Return a function that applies a document and returns its job."""
    return lambda backfill, **more: Job(node, backfill, **more).apply()
