"""Fixtures of all suites: one embedded Spark per run, and a time limit for every test."""

import gc
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support import attack, flaky, parts

ROOT = Path(__file__).parent.parent
FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
"""A JVM that lives for minutes does not repay its second compilation: without it, suites on Spark take half the time. Without
that compiler, Java reserves 48 MB for compiled code. Spark fills it, and then two fifths of the time go to sweeping."""

os.environ.setdefault("JAVA_TOOL_OPTIONS", FIRST_COMPILER)

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Tables here have ten rows; Spark interprets a hundred rows in the time it takes to compile for one. Drivers in separate
processes (crash suite, command line, demo) run as users' drivers do."""

FEWER_STEPS = {
    # Plan small queries once, not again after each stage, and run one job instead of one per stage.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.ui.explainMode": "simple",
    # VACUUM lists in 10,000 tasks by default: half a minute without work.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""Fixed costs of a query on ten rows, switched off. Separate processes keep them."""

JARS = Path(os.environ.get("BACKFILL_JARS_DIR", ROOT / ".cache" / "jars"))
KILLS = int(os.environ.get("BACKFILL_KILLS", "60"))
LIMIT_S = {"core": 120, "simulation": 300, "cli": 300, "kubectl": 300, "console": 120, "page": 300}
LIMIT_S |= {"architecture": 300, "control_plane": 300}
# The first test on an S3 server compiles that server.
LIMIT_S |= {"e2e": 1800, "crash": 1800 + 60 * KILLS, "attack": 900 + 2 * attack.SECONDS, "stores": 1800}
"""Longest time of one test by suite, fixtures included. A test that hangs must end, and print where. On a busy machine each
test takes five times as long."""
LIMIT_WITH_SPARK_S = 900
JAVA_ENDS_S = 60
FLAKY = pytest.StashKey()


def pytest_addoption(parser):
    """Add `--part`."""
    parts.add_option(parser)


def pytest_configure(config):
    """Read the list of flaky tests once."""
    config.stash[FLAKY] = flaky.listed()


def pytest_unconfigure():
    """End the Java process of the suite and wait for it: only then is its CPU time part of the run's."""
    door = sys.modules.get("backfill_spark.jvm.gateway")
    process = None if door is None else getattr(door.python_gateway(), "proc", None)
    if process is not None and process.poll() is None:
        logging.disable()  # py4j reports each object that Python releases from here on
        process.stdin.close()
        process.wait(JAVA_ENDS_S)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Report the failure of a listed test as flaky."""
    outcome = yield
    flaky.report_as_flaky(outcome.get_result(), item.config.stash[FLAKY])


def needs_a_session(item):
    """Return whether a test needs the suite's session; tests of the Python package that need none run before it starts."""
    return item.path.parent.name != "python_api" or "spark" in item.fixturenames or "broker" in item.fixturenames


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Give each test the limit of its suite, unless it has its own; keep the tests of the chosen part."""
    parts.keep(config, items)
    items.sort(key=needs_a_session)
    for item in items:
        if item.get_closest_marker("timeout") is None:
            suite = item.path.relative_to(ROOT / "tests").parts[0]
            item.add_marker(pytest.mark.timeout(LIMIT_S.get(suite, LIMIT_WITH_SPARK_S)))


def pytest_collection_finish():
    """Exempt modules and collected cases from garbage collection: they live until the end, and each full collection visits
    them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """One session for all tests: starting one takes seconds."""
    from backfill_spark.jvm.session import open_session

    session = open_session(
        app_name="tests",
        cores=2,
        memory="2g",
        jars_dir=JARS if JARS.is_dir() else None,
        conf={
            "spark.databricks.delta.retentionDurationCheck.enabled": "false",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            **INTERPRETED,
            **FEWER_STEPS,
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel of this tree, built once a run."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def java_alone():
    """The classes of Spark, Delta and Kafka in one Java without a session, which has the product's options for XML."""
    from support.java.alone import java

    from backfill_spark.jvm.session import XML_ALONE

    gateway = java(*XML_ALONE.split(), jars=JARS)
    yield gateway.jvm
    gateway.shutdown()


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """One Kafka broker for all tests that need one; each test makes its topics."""
    from support.kafka.broker import running_broker

    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def topics(broker):
    """The topics of the broker."""
    from support.kafka.topics import Topics

    return Topics(broker.address)


# The duration of an example depends on the machine, so it has no deadline. Every machine judges a merge by the same examples.
# `--hypothesis-profile=search` searches for new ones.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", settings.get_profile("search"), derandomize=True)
settings.load_profile("steady")
