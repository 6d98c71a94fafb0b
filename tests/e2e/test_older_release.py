"""An upgrade from an older release while a job runs: chart, CRD and both images change.

    BACKFILL_E2E_FROM=COMMIT BACKFILL_TEST_CLUSTER=…/cluster make e2e-release ARGS='-k older'

Two builds of both images take minutes. Without the variable, the older release is the last one before issue 38.
"""

import os

import pytest
import yaml
from support.cluster.harness import CommandFailedError
from support.node.real_job import SLOW, document
from support.node.real_node import IMAGES
from support.registry.older import IMAGES as OLD_IMAGES
from support.registry.older import older_chart
from support.repository import ROOT

FROM = os.environ.get("BACKFILL_E2E_FROM", "66a32cbf8b46e8d2209c0d18164c9c0a128ede15")
ROWS = 160_000
LIMIT = 2000
"""Rows a second: more than a minute of reading, in which the release is upgraded."""

NEW_LIMIT = 1000

pytestmark = pytest.mark.release


@pytest.fixture
def older(node):
    """The older release, installed with its own CRD; the next scenario finds the release of this checkout again."""
    loaded = bool(os.environ.get("BACKFILL_E2E_IMAGES_LOADED"))
    try:
        chart = older_chart(FROM, ROOT / "build" / "older-tree", os.environ, built=loaded)
        for image in OLD_IMAGES.values() if not loaded else ():
            node.cluster.load(image)
    except CommandFailedError as none:
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
    writer(ROWS)
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
