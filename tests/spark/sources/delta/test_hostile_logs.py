"""Logs of hostile writers: an invalid commit is damage of the source, and no schema makes a job load code."""

import json
import sys
from pathlib import Path

import pytest
from support.tables.jobs import make_orders
from support.tables.logs import forget_sums

from backfill_core.errors import SourceDamagedError, UnsupportedSourceFeatureError
from backfill_spark.delta.schemas import UserDefinedTypeError, schema_of
from backfill_spark.sources.delta.source import DeltaTableSource

MODULE = "named_by_a_log"
DEEP = "[" * 100_000 + "]" * 100_000


def typed(kind):
    """Return a schema with a column of this type."""
    return json.dumps({"type": "struct", "fields": [{"name": "id", "type": kind, "nullable": True, "metadata": {}}]})


UDT = {"type": "udt", "class": "java.lang.Object", "pyClass": f"{MODULE}.Kind", "sqlType": "long"}
NESTED = {
    "alone": UDT,
    "in an array": {"type": "array", "elementType": UDT, "containsNull": True},
    "in a map": {"type": "map", "keyType": "string", "valueType": UDT, "valueContainsNull": True},
    "in a struct": json.loads(typed(UDT)),
    "in itself": {**UDT, "pyClass": None, "sqlType": UDT},
}


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module that can be imported."""
    (tmp_path / f"{MODULE}.py").write_text("class Kind: ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield MODULE
    sys.modules.pop(MODULE, None)


@pytest.fixture
def path(spark, tmp_path):
    """A table of one version."""
    at = str(tmp_path / "s")
    make_orders(spark, at, 4, files=1)
    return at


def commit(path, *lines):
    """Write the next commit by hand."""
    log = Path(path, "_delta_log")
    version = len(list(log.glob("*.json")))
    (log / f"{version:020d}.json").write_text("".join(f"{line}\n" for line in lines))


def retyped(path, kind):
    """Let the newest commit with metadata describe a column by this type."""
    first = Path(path, "_delta_log", f"{0:020d}.json")
    (metadata,) = (action for action in map(json.loads, first.read_text().splitlines()) if "metaData" in action)
    metadata["metaData"]["schemaString"] = typed(kind)
    return json.dumps(metadata)


class TestASchemaThatNamesAClass:
    """pyspark imports the module of a user-defined type, so the writers of a log chose code that a driver runs."""

    @pytest.mark.parametrize("where", NESTED)
    @pytest.mark.parametrize(
        "spelled", [lambda text: text, lambda text: text.replace("udt", "\\u0075dt")], ids=["plain", "escaped"]
    )
    def test_such_a_schema_is_refused_before_the_import(self, module, where, spelled):
        """This holds at any depth and for any JSON escape."""
        with pytest.raises(UserDefinedTypeError):
            schema_of(spelled(typed(NESTED[where])))

        assert module not in sys.modules

    def test_a_column_with_the_name_of_such_a_type_is_accepted(self):
        """A column, or a value in its metadata, may have that name."""
        schema = json.loads(typed("long"))
        schema["fields"][0] |= {"name": "udt", "metadata": {"type": "udt"}}

        assert schema_of(json.dumps(schema)).names == ["udt"]

    def test_such_a_schema_is_refused_at_the_pin_and_by_each_poll(self, spark, path, module):
        """The poll for the newest version comes before Spark reads the log."""
        source = DeltaTableSource(spark, path, key=("id",))
        source.pin(None)
        commit(path, '{"commitInfo": {"timestamp": 1, "operation": "x"}}', retyped(path, UDT))

        with pytest.raises(UnsupportedSourceFeatureError, match="user-defined type"):
            source.head()
        with pytest.raises(UnsupportedSourceFeatureError, match="user-defined type"):
            source.check_versions(0, 1)
        with pytest.raises(UnsupportedSourceFeatureError, match="user-defined type"):
            DeltaTableSource(spark, path, key=("id",)).pin(None)
        assert module not in sys.modules


PLACES = {
    "coordinator": {
        "delta.coordinatedCommits.commitCoordinator-preview": "dynamodb",
        "delta.coordinatedCommits.commitCoordinatorConf-preview": '{"dynamoDBEndpoint": "http://127.0.0.1:9"}',
    },
    "redirect": {
        "delta.redirectReaderWriter-preview": '{"type": "PathBasedRedirect", "spec": {"tablePath": "/payroll"}}'
    },
    "redirect of writers": {"Delta.RedirectWriterOnly-preview": "{}"},
}
"""Properties with which Delta requests commits from a server, or reads another table."""


def configured(path, properties):
    """Let the newest commit with metadata have these properties, as a line of a commit."""
    first = Path(path, "_delta_log", f"{0:020d}.json")
    (metadata,) = (action for action in map(json.loads, first.read_text().splitlines()) if "metaData" in action)
    metadata["metaData"]["configuration"] = {"of.users": "a, b"} | properties
    return json.dumps(metadata)


class TestAPropertyThatNamesAnotherPlace:
    """The writers of a log could make its readers query a server, or read a table that these writers may not read."""

    @pytest.mark.parametrize("kind", PLACES)
    def test_such_a_property_is_refused_at_the_pin_and_by_each_poll(self, spark, path, kind):
        """The check comes before Spark opens the log. Delta's own refusal of a coordinator counted as an outage."""
        source = DeltaTableSource(spark, path, key=("id",))
        source.pin(None)
        commit(path, '{"commitInfo": {"timestamp": 1, "operation": "x"}}', configured(path, PLACES[kind]))

        refusal = "(?i)property delta.(coordinatedCommits|redirect).* names a server or another table"
        with pytest.raises(UnsupportedSourceFeatureError, match=refusal):
            source.head()
        with pytest.raises(UnsupportedSourceFeatureError, match=refusal):
            DeltaTableSource(spark, path, key=("id",)).pin(None)


class TestAFormat:
    def test_a_format_of_another_data_source_is_ignored(self, spark, path):
        """The log has a field for a data source, with options such as a path."""
        metadata = json.loads(configured(path, {}))
        metadata["metaData"]["format"] = {"provider": "text", "options": {"path": "/etc/hostname"}}
        commit(path, '{"commitInfo": {"timestamp": 1, "operation": "x"}}', json.dumps(metadata))

        source = DeltaTableSource(spark, path, key=("id",))
        source.pin(None)

        assert source.rows_at(1) == 4


class TestACommitOfAHostileWriter:
    @pytest.mark.parametrize(
        "line",
        [DEEP, f'{{"add": {DEEP}}}', f'{{"commitInfo": {DEEP}}}', "[1]", "7", '{"add": 1}'],
        ids=lambda line: line[:20],
    )
    def test_an_invalid_line_is_damage_of_the_source(self, spark, path, line):
        """A line with 100,000 brackets ended the driver with a RecursionError, "a bug" (fault S10)."""
        source = DeltaTableSource(spark, path, key=("id",))
        source.pin(None)
        commit(path, line)
        forget_sums(path)

        with pytest.raises(SourceDamagedError, match=r"version 1 of .* is not a valid commit"):
            source.check_versions(0, 1)


class TestNumbersOfAHostileWriter:
    """A plan and the progress contain counts.

    Without a check, each ended in an error of pydantic, "a bug" (fault S10).
    """

    @pytest.mark.parametrize(
        ("numbers", "message"),
        [({"size": -1}, "size"), ({"size": 2**62}, "size"), ({"deletionVector": -5}, "count of deleted rows")],
        ids=["a size below zero", "a size that no disk has", "a vector with fewer rows than none"],
    )
    def test_invalid_numbers_are_damage_of_the_source(self, spark, path, numbers, message):
        """They are read before the files."""
        add = {"path": "a.parquet", "size": 7, "partitionValues": {}, "modificationTime": 1, "dataChange": True}
        if "deletionVector" in numbers:
            vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}
            numbers = {"deletionVector": {**vector, "cardinality": numbers["deletionVector"]}}
        commit(path, json.dumps({"add": add | numbers | {"stats": '{"numRecords":3}'}}))
        forget_sums(path)

        with pytest.raises(SourceDamagedError, match=f"version 1 of .* {message}"):
            DeltaTableSource(spark, path, key=("id",)).pin(None)
