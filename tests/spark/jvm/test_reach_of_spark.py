"""What Spark, Delta, Kafka and Hadoop can name is in the register of `docs/reach.md`; a new one has to be looked at.

These tests have the classes and no session. After an upgrade: decide, then correct `build-tools/reach/`.
"""

import json
import os
import re
import zipfile
from pathlib import Path

import py4j.java_gateway
import pytest
from py4j.protocol import get_return_value
from support.java.alone import java
from support.repository import ROOT

from backfill_operator.manifests.rules.conf_rules import harmless
from backfill_spark.jvm.class_archive import SPARK_JARS
from backfill_spark.rows.sql.reach import EXTERNAL, OPTIONS

JARS = Path(os.environ.get("BACKFILL_JARS_DIR", ROOT / ".cache" / "jars"))
REACH = ROOT / "build-tools" / "reach"
SETTINGS = (
    "internal.config.package", "internal.config.Kryo", "internal.config.Network", "internal.config.UI", "sql.internal.SQLConf",
    "sql.internal.StaticSQLConf", "sql.delta.sources.DeltaSQLConf", "deploy.k8s.Config",
)  # fmt: skip
"""Objects that hold Spark's and Delta's settings; a setting is known once its object is loaded."""


def listed(name):
    return set((REACH / f"{name}.txt").read_text().split())


def texts(kind, path=""):
    """Yield the path of each field of a schema that holds text; a map counts as one."""
    if kind == "string" or (isinstance(kind, dict) and kind["type"] == "map"):
        yield path
    elif isinstance(kind, dict) and kind["type"] == "array":
        yield from texts(kind["elementType"], path)
    elif isinstance(kind, dict):
        for field in kind["fields"]:
            yield from texts(field["type"], f"{path}.{field['name']}".lstrip("."))


@pytest.fixture(autouse=True)
def errors_as_they_are(monkeypatch):
    """pyspark takes each error of Java for one of the suite's session."""
    monkeypatch.setattr(py4j.java_gateway, "get_return_value", get_return_value)


@pytest.fixture(scope="module")
def jvm():
    gateway = java(jars=JARS)
    yield gateway.jvm
    gateway.shutdown()


def known_settings(jvm):
    """Return the names of all settings that Spark and Delta register."""
    load = jvm.java.lang.Class.forName
    for name in SETTINGS:
        load(f"org.apache.spark.{name}$").getField("MODULE$").get(None)
    registry = load("org.apache.spark.internal.config.ConfigEntry$")
    field = registry.getDeclaredField("knownConfigs")
    field.setAccessible(True)
    return {str(name) for name in jvm.java.util.ArrayList(field.get(registry.getField("MODULE$").get(None)).keySet())}


def hadoop_settings():
    """Return the names of Hadoop's settings, as Spark spells them; also of those without a default."""
    with zipfile.ZipFile(next(SPARK_JARS.glob("hadoop-client-api-*.jar"))) as jar:
        text = jar.read("core-default.xml").decode()
    return {f"spark.hadoop.{name}" for name in re.findall(r"<name>\s*([^<\s]+)\s*</name>", text)}


class TestASetting:
    def test_that_a_spec_may_have_was_looked_at(self, jvm):
        """Prefixes allow it on a cluster, so a new one of Spark is allowed the day it comes."""
        allowed = {name for name in known_settings(jvm) | hadoop_settings() if harmless(name)}

        assert len(allowed) > 900
        assert sorted(allowed ^ listed("settings")) == []

    @pytest.mark.parametrize(
        "name",
        [
            "spark.databricks.delta.enableTableRedirectFeature",
            "spark.databricks.delta.properties.defaults.coordinatedCommits.commitCoordinatorConf-preview",
            "spark.databricks.delta.testOnly.dataFileNamePrefix", "spark.hadoop.fs.adl.oauth2.refresh.url",
            "spark.hadoop.fs.gs.storage.root.url",
        ],
    )  # fmt: skip
    def test_that_sends_a_token_or_reads_another_table_is_not_for_a_spec(self, name):
        """Found when the list was made: a prefix allowed each."""
        assert not harmless(name)


class TestAnOption:
    def test_of_avro_was_looked_at(self, jvm):
        """Like those of the other formats (`rows/test_reach.py`)."""
        known = jvm.org.apache.spark.sql.avro.AvroOptions.getAllOptions().mkString("\n").lower().split("\n")

        assert sorted(set(known) - OPTIONS["avro"] - EXTERNAL["avro"]) == []

    def test_of_a_kafka_client_was_looked_at(self, jvm):
        """Refused until a list has it, and still unknown to the page."""
        known = {str(name) for name in jvm.org.apache.kafka.clients.consumer.ConsumerConfig.configNames()}

        assert sorted(known ^ listed("kafka")) == []


class TestALog:
    def test_has_no_field_that_was_not_looked_at(self, jvm):
        """Each that holds text, in the actions of Spark and of Kernel."""
        actions = jvm.org.apache.spark.sql.delta.actions.SingleAction.encoder().schema().json()
        of_kernel = jvm.io.delta.kernel.internal.actions.SingleAction.FULL_SCHEMA.toJson()
        found = {path for schema in (actions, of_kernel) for path in texts(json.loads(str(schema)))}

        assert sorted(found ^ listed("log")) == []

    def test_names_no_manifest_to_kernel(self, jvm):
        """Kernel lists the files of a version; Spark alone knows manifests."""
        schema = str(jvm.io.delta.kernel.internal.actions.SingleAction.FULL_SCHEMA.toJson())

        assert "add" in schema
        assert "manifest" not in schema.lower()

    def test_has_no_property_that_was_not_looked_at(self, jvm):
        """Those that Delta knows; it ignores any other one."""
        known = str(jvm.org.apache.spark.sql.delta.DeltaConfigs.getAllConfigs().keySet().mkString("\n")).split("\n")

        assert sorted({f"delta.{name}" for name in known} ^ listed("properties")) == []
