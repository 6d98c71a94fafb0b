"""Releases: one of this checkout from a registry, and an upgrade from an older one while a job runs.

    BACKFILL_TEST_CLUSTER=…/cluster make e2e-release
    BACKFILL_E2E_FROM=COMMIT BACKFILL_TEST_CLUSTER=…/cluster make e2e-release ARGS='-k older'

The node that pulls chart and images by digest is a separate one, because it must trust the registry's certificate. The kit makes it;
other clusters cannot run this. Without the variable, the older release is the last one before issue 38; its images take minutes.
"""

import contextlib
import os
import shutil
import time

import pytest
import yaml
from support.cluster import harness
from support.cluster.certificates import certificate
from support.node.real_job import LAKE, SLOW, Job, document, empty_lake
from support.node.real_node import IMAGES, Node
from support.node.writer import make_orders
from support.registry.older import IMAGES as OLD_IMAGES
from support.registry.older import older_chart
from support.registry.release import build_release, publish
from support.registry.server import running_registry
from support.repository import ROOT
from support.stores.minio import NoStoreError

ADDRESS, PORT, TEAM = "10.254.79.1", 5000, "team"
OF_ITS_OWN = {"CLUSTER": "release", "CLUSTER_NET": "79", "HOST_IP": ADDRESS}
"""Variables that make the kit create another cluster; this machine has the address there."""

ROWS = 20_000
TRIED = 10
"""Rows of the table that `helm test` fills."""

FROM = os.environ.get("BACKFILL_E2E_FROM", "66a32cbf8b46e8d2209c0d18164c9c0a128ede15")
UPGRADED_ROWS, LIMIT, NEW_LIMIT = 160_000, 2000, 1000
"""Rows, and rows a second: more than a minute of reading, in which the release is upgraded."""

pytestmark = pytest.mark.release


@pytest.fixture(scope="module")
def released(tmp_path_factory, figures):
    """A release in a registry, and a node with its chart installed from there."""
    if harness.provider(os.environ, nodes=True) != "BACKFILL_TEST_CLUSTER" or os.geteuid() != 0:
        pytest.fail("a node that trusts a new registry needs BACKFILL_TEST_CLUSTER and root", pytrace=False)
    tree, folder = ROOT / "build" / "release-tree", tmp_path_factory.mktemp("registry")
    for kept in (tree, harness.kit_home() / "clusters" / OF_ITS_OWN["CLUSTER"]):  # the kit keeps the images of a node
        shutil.rmtree(kept, ignore_errors=True)
    shutil.rmtree(LAKE, ignore_errors=True)
    LAKE.mkdir()
    trusted, key = certificate(folder, "registry", ADDRESS)
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in {**OF_ITS_OWN, "SSL_CERT_FILE": str(trusted)}.items():
            patch.setenv(name, value)
        try:
            began = time.monotonic()
            release = build_release(tree, f"{ADDRESS}:{PORT}/{TEAM}")
            figures["release built s"] = round(time.monotonic() - began, 1)
            cluster = stack.enter_context(harness.borrowed_cluster(os.environ, nodes=True, mounted=LAKE))
            registry = stack.enter_context(running_registry(folder, f"{ADDRESS}:{PORT}", trusted, key))
        except (harness.NoClusterError, harness.CommandFailedError, NoStoreError) as none:
            pytest.fail(f"no release in a registry: {none}", pytrace=False)
        node = Node(cluster, LAKE, publish(release, registry, TEAM), limits={"allowedHostPaths": [str(LAKE)]})
        stack.callback(node.remove)
        node.prepare()
        began = time.monotonic()
        node.install()
        figures["helm install from the registry -> operator ready s"] = round(time.monotonic() - began, 1)
        yield release, registry, node
    shutil.rmtree(tree, ignore_errors=True)


def test_a_node_without_this_checkout_runs_a_job_of_a_release(released):
    """Install, `helm test` and a job: each pod runs the image whose digest is in the release's provenance."""
    release, registry, node = released
    operators = node.operators()
    assert operators
    for pod in operators:
        assert runs(pod) == release.images["operator"]

    lake = empty_lake()
    assert node.try_out().splitlines()[-1] == f"passed: {TRIED} rows, equal on both sides"

    make_orders(lake / "orders", ROWS)
    job = Job(node, document("released")).apply()
    driver = node.until("a driver pod that runs", lambda: running(job.driver()), 180)
    assert runs(driver) == release.images["spark"]
    job.until_complete(attempts=1, failures=0)
    job.equals_the_source()
    job.delete()

    for name, image in release.images.items():
        assert image.partition("@")[2] in registry.fetched(f"{TEAM}/backfill-{name}"), "the node fetched the manifest"
    assert node.new_warnings() == []


def running(pod):
    """Return the pod if its container runs, else `None`."""
    return pod if pod and pod["status"].get("phase") == "Running" else None


def runs(pod):
    """Return the image of the pod's container, with the digest that the node fetched."""
    [container] = pod["status"]["containerStatuses"]
    return container["imageID"]


@pytest.fixture
def older(node):
    """The older release, installed with its own CRD; the next scenario finds the release of this checkout again."""
    loaded = bool(os.environ.get("BACKFILL_E2E_IMAGES_LOADED"))
    try:
        chart = older_chart(FROM, ROOT / "build" / "older-tree", os.environ, built=loaded)
        for image in OLD_IMAGES.values() if not loaded else ():
            node.cluster.load(image)
    except harness.CommandFailedError as none:
        pytest.fail(f"no release of {FROM}: {none}", pytrace=False)
    node.install_other(chart, images=OLD_IMAGES)
    yield node
    node.tidy(120 * SLOW)


def fields(crd):
    """Return the names of the fields of spec and status, by the schema of a CRD."""
    [version] = crd["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    return {name: set(properties[name]["properties"]) for name in ("spec", "status")}


def images(pods):
    """Return the images of pods with one container."""
    return {container["image"] for pod in pods for container in pod["spec"]["containers"]}


def test_a_running_job_survives_an_upgrade_from_an_older_release(older, writer, apply, figures):
    """The same driver continues and obeys the new operator. The next attempt has the new image, and continues from the last commit."""
    writer(UPGRADED_ROWS)
    job = apply(document("kept", throttle={"rowsPerSecond": LIMIT}))
    job.until_rows()
    job.until_phase("Running")
    driver, installed = job.driver(), fields(older.crd())
    assert images([driver, *older.operators()]) == set(OLD_IMAGES.values())

    older.upgrade(images=IMAGES)

    made = fields(yaml.safe_load((ROOT / "crds" / "backfills.yaml").read_text()))
    assert fields(older.crd()) == made != installed
    older.until("only new operators", lambda: images(older.operators()) == {IMAGES["operator"]}, 60 * SLOW)
    job.until_rows(above=job.rows())
    job.commanded("limit", throttle={"rowsPerSecond": NEW_LIMIT})
    assert job.driver()["metadata"]["uid"] == driver["metadata"]["uid"]
    assert (job.status()["phase"], job.status()["attempts"]) == ("Running", 1)
    assert "Retrying" not in job.history()

    took = job.outlives(job.kill_pod)
    figures["driver of an older release killed -> rows of the next attempt s"] = took
    assert images([job.driver()]) == {IMAGES["spark"]}
    job.commanded("unlimited", throttle={"rowsPerSecond": None})
    status = job.until_complete(attempts=2, failures=0)
    assert [attempt["reason"] for attempt in status["history"]] == ["Infrastructure", "Complete"]
    assert job.passed("Launching", "Running", "Retrying", "Launching", "Running", "Succeeded")
    job.equals_the_source()
    job.delete()
