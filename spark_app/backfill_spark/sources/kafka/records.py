"""Frames of Kafka's records, column by column: the one place that knows the connector's internals, which are no stable API.

The connector converts the time of every record, also where no query reads it, and fails on a time that Spark cannot hold. So its
relation is asked for the records themselves (an RDD of `ConsumerRecord`), and each column is one call on a record. Spark makes
these calls for the columns that a query reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame

from backfill_spark.jvm.gateway import java, java_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLIENTS: Final = "org.apache.kafka"
RECORDS: Final = "KafkaSourceRDD"
TIME_MAX_MS: Final = (2**63 - 1) // 1000
"""Spark counts microseconds in 64 bits."""

COLUMNS: Final = (
    "topic",
    "`partition`",
    "`offset`",
    # Null: Spark has no such time; a record without a time has -1.
    f"CASE WHEN `timestamp` BETWEEN {-TIME_MAX_MS} AND {TIME_MAX_MS} THEN timestamp_millis(`timestamp`) END AS `timestamp`",
    # The place in Kafka's list of types, the first of which is -1: none.
    "timestampType - 1 AS timestampType",
    "`key`",
    "`value`",
    "CASE WHEN size(headers) > 0 THEN CAST(headers AS ARRAY<STRUCT<key: STRING, value: BINARY>>) END AS headers",
)


def frame_of(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Return the records that options of the connector describe; lazy.

    Raises:
        Py4JJavaError: the broker has not the partitions or the offsets.
    """
    jvm, session = java(spark), java_session(spark)
    given = jvm.java.util.HashMap()
    for name, value in options.items():
        given.put(name, value)
    settings = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(given)
    provider = jvm.org.apache.spark.sql.kafka010.KafkaSourceProvider()
    records = provider.createRelation(session.sqlContext(), settings).buildScan()
    while records.getClass().getSimpleName() != RECORDS:
        records = records.dependencies().head().rdd()
    plans, record = jvm.org.apache.spark.sql, _Record(jvm)
    scanned = plans.execution.ExternalRDD(record.whole, records, session)
    plan = plans.catalyst.plans.logical.SerializeFromObject(record.columns(), scanned)
    return DataFrame(plans.classic.Dataset.ofRows(session, plan), spark).selectExpr(*COLUMNS)


class _Record:
    """Expressions of one record."""

    def __init__(self, jvm: Any) -> None:
        """Make the expression of the record itself."""
        self._jvm, self._types = jvm, jvm.org.apache.spark.sql.types
        self._expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self._loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        nothing = self._types.Metadata.empty()
        self._ids = getattr(getattr(self._expressions, "NamedExpression$"), "MODULE$")
        kind = self._objects(f"{CLIENTS}.clients.consumer.ConsumerRecord")
        self.whole = self._expressions.AttributeReference(
            "record", kind, False, nothing, self._ids.newExprId(), self._seq()
        )

    def columns(self) -> Any:
        """Return the columns, as Kafka has them."""
        integer, long, binary = (self._type(name) for name in ("int", "bigint", "binary"))
        found = {
            "topic": self._text(self.whole, "topic"),
            "partition": self._call(self.whole, "partition", integer),
            "offset": self._call(self.whole, "offset", long),
            "timestamp": self._call(self.whole, "timestamp", long),
            "timestampType": self._call(self._part("timestampType", "common.record.TimestampType"), "ordinal", integer),
            "key": self._call(self.whole, "key", binary),
            "value": self._call(self.whole, "value", binary),
            "headers": self._headers(binary),
        }
        return self._seq(*(self._named(name, one) for name, one in found.items()))

    def _named(self, name: str, one: Any) -> Any:
        none, seq = self._jvm.scala.Option.empty(), self._seq()
        return self._expressions.Alias(one, name, self._ids.newExprId(), seq, none, seq)

    def _headers(self, binary: Any) -> Any:
        objects = self._expressions.objects
        one = objects.LambdaVariable("header", self._objects(f"{CLIENTS}.common.header.Header"), True, 0)
        value = self._call(one, "value", binary)
        fields = self._seq(self._literal("key"), self._text(one, "key"), self._literal("value"), value)
        array = self._types.ObjectType(self._loader.loadClass(f"{CLIENTS}.common.header.Header").arrayType())
        given = self._call(self._part("headers", "common.header.Headers"), "toArray", array)
        struct = self._expressions.CreateNamedStruct(fields)
        return objects.MapObjects(one, struct, given, self._jvm.scala.Option.empty())

    def _part(self, method: str, name: str) -> Any:
        return self._call(self.whole, method, self._objects(f"{CLIENTS}.{name}"))

    def _text(self, target: Any, method: str) -> Any:
        text = self._call(target, method, self._objects("java.lang.String"))
        utf8 = self._loader.loadClass("org.apache.spark.unsafe.types.UTF8String")
        none, some = self._jvm.scala.Option.empty(), self._seq(text)
        return self._expressions.objects.StaticInvoke(
            utf8, self._type("string"), "fromString", some, self._seq(), True, True, True, none
        )

    def _literal(self, text: str) -> Any:
        value = self._jvm.org.apache.spark.unsafe.types.UTF8String.fromString(text)
        return self._expressions.Literal(value, self._type("string"))

    def _call(self, target: Any, method: str, kind: Any) -> Any:
        nothing = self._seq()
        return self._expressions.objects.Invoke(target, method, kind, nothing, nothing, True, True, True)

    def _objects(self, name: str) -> Any:
        return self._types.ObjectType(self._loader.loadClass(name))

    def _type(self, name: str) -> Any:
        return self._types.DataType.fromDDL(name)

    def _seq(self, *items: Any) -> Any:
        given = self._jvm.java.util.ArrayList()
        for item in items:
            given.add(item)
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(given).toSeq()
