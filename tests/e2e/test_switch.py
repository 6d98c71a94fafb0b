"""Names of a real Hive metastore are moved from a table to its copy and back by drivers in pods, under a writer on another machine."""

import itertools
import os
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from support.metastore.server import of_client, running_metastore
from support.metastore.sessions import session_on
from support.node.real_job import Job, named
from support.node.real_node import HIVE_IMAGE, IMAGES, build_own_image
from support.node.writer import make_orders
from support.switch_over.names import Writer
from support.tables import other_engine
from support.tables.oracle import columns_of

from backfill_core.source_fence.table_protocol import FENCED, SWITCH
from backfill_spark.jvm.class_archive import SPARK_JARS

ROWS = 20_000
FIRST = 1_000_000
"""Id of the writer's first order."""

CLIENT = "/opt/hive/lib"
DOCKERFILE = f"""
FROM {IMAGES["spark"]}
USER 0
COPY --chmod=644 spark/*.jar /opt/spark/jars/
COPY --chmod=644 client/*.jar {CLIENT}/
USER 185:185
"""
SHARED = Path("/mnt/backfill-lake")
"""The lake on this machine and in pods: a catalog has one location for all. Pods may mount nothing below /var."""

SHOP = SHARED / "shop"
"""Folder of the schema, and so of tables that are created by name."""

COPY = SHOP / "orders_v2"
OF_HIVE = ("spark-hive_2.13-*.jar", "libthrift-*.jar", "libfb303-*.jar", "hive-*.jar")
"""Jars of pyspark that the image lacks."""

REQUESTED = "backfill.dev/{}-requested"


class NamedJob(Job):
    """A job between two names."""

    def host(self, end):
        """Return the folder of the source or the target."""
        return SHARED / "orders" if end == "source" else COPY


class NameWriter(Writer):
    """Appends orders to the table to which a name of the metastore points."""

    def __init__(self, read_text):
        super().__init__(self, FIRST)
        self.read_text = read_text

    def insert(self, path, order):
        """Append an order, as an engine without a catalog does."""
        other_engine.insert(path, f"SELECT * REPLACE (CAST({order} AS BIGINT) AS order_id) FROM now LIMIT 1")


@pytest.fixture(scope="module")
def metastore(real_node, tmp_path_factory):
    """A metastore that pods reach, and the image with its client: ours has no classes of Hive."""
    made = tmp_path_factory.mktemp("image")
    with running_metastore(tmp_path_factory.mktemp("metastore"), real_node.address_of_this_machine()) as running:
        for folder, jars in (
            ("spark", [jar for name in OF_HIVE for jar in SPARK_JARS.glob(name)]),
            ("client", of_client()),
        ):
            (made / folder).mkdir()
            for jar in jars:
                shutil.copy(jar, made / folder)
        (made / "Dockerfile").write_text(DOCKERFILE)
        build_own_image(made, HIVE_IMAGE, os.environ)
        real_node.cluster.load(HIVE_IMAGE)
        yield running


@pytest.fixture
def catalog(spark, metastore, lake):
    """A session of this machine on the metastore, and a schema in the lake: pods see the same folders under the same names."""
    with session_on(spark, metastore.conf()) as session:
        SHARED.unlink(missing_ok=True)
        SHARED.symlink_to(lake)
        SHOP.mkdir()
        SHOP.chmod(0o777)
        session.sql(f"CREATE DATABASE shop LOCATION 'file:{SHOP}'")
        yield session
        session.sql("DROP DATABASE shop CASCADE")
        SHARED.unlink()


@pytest.fixture
def orders(catalog):
    """A table with a name; pods have another user, and may write it too."""
    folder = SHARED / "orders"
    make_orders(folder, ROWS)
    for path in (folder, folder / "_delta_log"):
        path.chmod(0o777)
    catalog.sql(f"CREATE TABLE shop.orders USING delta LOCATION 'file:{folder}'")
    for column in catalog.table("shop.orders").columns:  # a table with NOT NULL could not follow its copy later
        catalog.sql(f"ALTER TABLE shop.orders ALTER COLUMN {column} DROP NOT NULL")
    return folder


def by_name(metastore, **spec):
    """Return a Backfill between two names, whose pods mount the lake where this machine has it."""
    volume = {"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}}
    container = {"name": "driver", "volumeMounts": [{"name": "lake", "mountPath": str(SHARED)}]}
    return named("by-name", {
        "source": {"type": "Delta", "delta": {"table": "shop.orders", "key": ["order_id"]}},
        "target": {"type": "Delta", "delta": {"table": "shop.orders_v2"}},
        "strategy": {"type": "Replica"}, "after": "Follow", "verify": "None", "backoff": {"initialSeconds": 1, "maxSeconds": 5},
        "switch": {"keepSource": "Following", "flip": {"type": "HiveTable", "name": "shop.orders"}},
        "spark": {"image": HIVE_IMAGE, "conf": metastore.conf(f"{CLIENT}/*.jar")},
        "driver": {
            "resources": {"requests": {"cpu": "100m", "memory": "1792Mi"}},
            "template": {"spec": {"containers": [container], "volumes": [volume]}},
        },
        "executor": {"instances": 0},
    } | spec)  # fmt: skip


def ids_in(folder):
    """Return the sorted ids of a table, as another engine reads them."""
    return sorted(row[0] for row in columns_of(str(folder), "order_id"))


def properties(folder):
    """Return the properties of a table, as another engine reads them."""
    return set(DeltaTable(str(folder)).metadata().configuration)


def test_a_name_is_switched_over_and_back_under_a_writer(node, catalog, orders, metastore, figures):
    """The old table follows the new one, also after a kill; an undo and a deletion leave each order once, and both tables writable."""

    def points_to():
        return Path(catalog.newSession().sql("DESCRIBE DETAIL shop.orders").first()["location"].removeprefix("file:"))

    requests = itertools.count()

    def switched(command, state):
        """Request a command; wait for its end and return the status of the switch-over."""
        job.kubectl("annotate", "backfill", job.name, f"{REQUESTED.format(command)}={next(requests)}", "--overwrite")
        status = lambda: job.status().get("switch") or {}  # noqa: E731
        job.until(state, lambda: status().get("state") == state and not job.status()["control"].get("pending"))
        return status()

    job = NamedJob(node, by_name(metastore)).apply()
    with NameWriter(lambda: str(points_to())) as writer:
        job.until("caught up", lambda: job.condition("CaughtUp") == ("True", "CaughtUp"))

        done = switched("switch", "Switched")
        assert (done["place"], job.condition("Switched")[0], points_to()) == ("Target", "True", COPY)
        figures["switch-over on a node: neither side accepts writes s"] = done["unavailableMs"] / 1000
        writer.until(2)
        job.until("a copy back", lambda: job.status()["switch"].get("copyBack") == "Running" and job.driver())
        pod = job.driver()
        job.kill_pod(pod)
        accepted = FIRST + len(writer.accepted)
        writer.until(1)
        job.until("a source that follows after the kill", lambda: accepted in ids_in(orders))

        assert switched("switch-undo", "Undone")["place"] == "Source"
        assert points_to() == orders
        writer.until(2)
        accepted = FIRST + len(writer.accepted) - 1
        job.until("a target that follows again", lambda: accepted in ids_in(COPY))

        assert switched("switch", "Switched")["place"] == "Target"
        writer.until(2)
    job.patch(deletionPolicy="Release")
    job.delete()

    assert points_to() == COPY
    assert ids_in(COPY) == sorted([*range(ROWS), *writer.ids])
    assert not {FENCED, SWITCH} & (properties(orders) | properties(COPY))
    assert catalog.newSession().sql("SELECT count(*) FROM shop.orders").first()[0] == ROWS + len(writer.ids)


def test_the_target_of_a_deleted_job_is_dropped(node, catalog, orders, metastore):
    """No file of the target stays with `deletionPolicy: Drop`; a source by name does."""
    target = {"target": {"type": "Delta", "delta": {"path": str(COPY)}}}
    job = NamedJob(node, by_name(metastore, after="Exit", switch={}, deletionPolicy="Drop", **target)).apply()
    job.until("the end", lambda: job.condition("Finished")[0] == "True")
    assert job.status()["phase"] == "Succeeded"
    assert ids_in(COPY) == list(range(ROWS))

    job.delete()

    assert not COPY.exists()
    assert ids_in(orders) == list(range(ROWS))
    assert catalog.newSession().sql("SELECT count(*) FROM shop.orders").first()[0] == ROWS
