"""Tables by name on a real Hive metastore: one metastore for all tests, and a session on it instead of the suite's."""

import itertools

import pytest
from support.metastore.server import running_metastore
from support.metastore.sessions import session_on

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def metastore(tmp_path_factory):
    """One metastore for all tests; each test makes its own database."""
    with running_metastore(tmp_path_factory.mktemp("metastore")) as running:
        yield running


@pytest.fixture(scope="module")
def spark(spark, metastore):
    """A session on the metastore, in the Java process of the suite."""
    with session_on(spark, metastore.conf()) as session:
        yield session


@pytest.fixture
def database(spark):
    """A database of the test's own."""
    name = f"shop{next(_NUMBERS)}"
    spark.sql(f"CREATE DATABASE {name}")
    yield name
    spark.sql(f"DROP DATABASE {name} CASCADE")
