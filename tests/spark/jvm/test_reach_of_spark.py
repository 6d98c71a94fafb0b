"""The register of `docs/reach.md` contains everything that Spark, Delta, Kafka and Hadoop can name; a new name needs a decision.

These tests use the classes without a session. After an upgrade: decide, then correct `build-tools/reach/`.
"""

import json
import os
import re
import zipfile
from pathlib import Path

import py4j.java_gateway
import pytest
from py4j.protocol import get_return_value
from support.repository import ROOT

from backfill_core.cluster_rules.conf_rules import harmless
from backfill_spark.jvm.class_archive import SPARK_JARS
from backfill_spark.rows.sql.reach import EXTERNAL, OPTIONS

JARS = Path(os.environ.get("BACKFILL_JARS_DIR", ROOT / ".cache" / "jars"))
REACH = ROOT / "build-tools" / "reach"
SETTINGS = (
    "internal.config.package", "internal.config.Kryo", "internal.config.Network", "internal.config.UI", "sql.internal.SQLConf",
    "sql.internal.StaticSQLConf", "sql.delta.sources.DeltaSQLConf", "deploy.k8s.Config",
)  # fmt: skip
"""Objects with the settings of Spark and Delta; a setting is registered when its object is loaded."""


def listed(name):
    return set((REACH / f"{name}.txt").read_text().split())


def texts(kind, path=""):
    """Yield the path of each string field of a schema; a map counts as one."""
    if kind == "string" or (isinstance(kind, dict) and kind["type"] == "map"):
        yield path
    elif isinstance(kind, dict) and kind["type"] == "array":
        yield from texts(kind["elementType"], path)
    elif isinstance(kind, dict):
        for field in kind["fields"]:
            yield from texts(field["type"], f"{path}.{field['name']}".lstrip("."))


@pytest.fixture(autouse=True)
def errors_as_they_are(monkeypatch):
    """Without this, pyspark would treat each error of Java as one of the suite's session."""
    monkeypatch.setattr(py4j.java_gateway, "get_return_value", get_return_value)


def known_settings(java_alone):
    """Return the names of all settings that Spark and Delta register."""
    load = java_alone.java.lang.Class.forName
    for name in SETTINGS:
        load(f"org.apache.spark.{name}$").getField("MODULE$").get(None)
    registry = load("org.apache.spark.internal.config.ConfigEntry$")
    field = registry.getDeclaredField("knownConfigs")
    field.setAccessible(True)
    return {
        str(name) for name in java_alone.java.util.ArrayList(field.get(registry.getField("MODULE$").get(None)).keySet())
    }


def hadoop_settings():
    """Return the names of Hadoop's settings in Spark's spelling, including settings without a default."""
    with zipfile.ZipFile(next(SPARK_JARS.glob("hadoop-client-api-*.jar"))) as jar:
        text = jar.read("core-default.xml").decode()
    return {f"spark.hadoop.{name}" for name in re.findall(r"<name>\s*([^<\s]+)\s*</name>", text)}


class TestASetting:
    def test_each_setting_that_a_spec_may_have_has_a_decision(self, java_alone):
        """On a cluster, prefixes allow settings, so a new setting of Spark is allowed at once."""
        allowed = {name for name in known_settings(java_alone) | hadoop_settings() if harmless(name)}

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
    def test_settings_that_send_a_token_or_read_another_table_are_not_for_a_spec(self, name):
        """Each was found when the list was made: a prefix allowed it."""
        assert not harmless(name)


class TestAnOption:
    def test_each_option_of_avro_has_a_decision(self, java_alone):
        """`rows/test_reach.py` checks the options of the other formats."""
        names = java_alone.org.apache.spark.sql.avro.AvroOptions.getAllOptions().mkString("\n").lower().split("\n")

        assert sorted(set(names) - OPTIONS["avro"] - EXTERNAL["avro"]) == []

    def test_each_option_of_a_kafka_client_has_a_decision(self, java_alone):
        """An option is refused until a list has it. The page must name it, too."""
        names = {str(name) for name in java_alone.org.apache.kafka.clients.consumer.ConsumerConfig.configNames()}

        assert sorted(names ^ listed("kafka")) == []


class TestALog:
    def test_each_field_of_a_log_has_a_decision(self, java_alone):
        """The actions of Spark and of Kernel are searched for string fields."""
        actions = java_alone.org.apache.spark.sql.delta.actions.SingleAction.encoder().schema().json()
        of_kernel = java_alone.io.delta.kernel.internal.actions.SingleAction.FULL_SCHEMA.toJson()
        paths = {path for schema in (actions, of_kernel) for path in texts(json.loads(str(schema)))}

        assert sorted(paths ^ listed("log")) == []

    def test_kernel_reads_no_manifest_of_a_log(self, java_alone):
        """Kernel lists the files of a version; only Spark supports manifests."""
        schema = str(java_alone.io.delta.kernel.internal.actions.SingleAction.FULL_SCHEMA.toJson())

        assert "add" in schema
        assert "manifest" not in schema.lower()

    def test_each_property_of_delta_has_a_decision(self, java_alone):
        """Delta ignores a property that it does not define."""
        names = str(java_alone.org.apache.spark.sql.delta.DeltaConfigs.getAllConfigs().keySet().mkString("\n")).split(
            "\n"
        )

        assert sorted({f"delta.{name}" for name in names} ^ listed("properties")) == []
