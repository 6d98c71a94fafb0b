"""Spark's own parser, without a session: is the SQL of a spec SQL?

Another parser would refuse what Spark takes, or take what Spark refuses. This one needs Java, and two seconds of it; no
table is looked at, so columns and functions are not.
"""

from __future__ import annotations

import re
import shutil
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from backfill_api.spec.spec import TransformSpec
from backfill_core.errors import InvalidTransformError, JavaMissingError
from backfill_spark.jvm.class_archive import SPARK_JARS
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.session import find_java
from backfill_spark.rows.sql.reach import outside
from backfill_spark.settings import DriverSettings

OPENED = ("java.lang", "java.util", "java.nio", "sun.nio.ch", "sun.util.calendar")


def check_sql(transform: TransformSpec, settings: DriverSettings) -> str:
    """Parse every expression of a transform; return why that could not be done, or nothing.

    Raises:
        InvalidTransformError: one is not SQL; the message names its field and what Spark's parser says.
    """
    fields = [(f"spec.transform.select[{number}]", text) for number, text in enumerate(transform.select)]
    fields += [("spec.transform.where", transform.where)] if transform.where else []
    if not fields:
        return ""
    try:
        find_java(settings.java_home)
    except JavaMissingError as error:
        return error.message
    gateway = _start(settings.java_home)
    try:
        parser: Any = gateway.jvm.org.apache.spark.sql.catalyst.parser.CatalystSqlParser()
        for field, text in fields:
            try:
                parser.parseExpression(text)
            except JAVA_ERRORS as error:
                hint = "Write one Spark SQL expression there, with AS for a new name."
                raise InvalidTransformError(f"{field}: {text!r} is not SQL: {_reason(error)}.", hint=hint) from error
            reached = outside(parser, text)
            if reached is not None:
                raise InvalidTransformError(f"{field}: {text!r}{reached[0]}", hint=reached[1])
    finally:
        gateway.shutdown()
    return ""


def _start(java_home: str | None) -> JavaGateway:
    """Start a Java that has Spark's classes and no Spark; it ends with us."""
    port, token = launch_gateway(
        classpath=f"{SPARK_JARS}/*",
        javaopts=["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *(f"--add-opens=java.base/{one}=ALL-UNNAMED" for one in OPENED)],
        java_path=f"{java_home}/bin/java" if java_home else shutil.which("java"),
        jarpath=str(next(SPARK_JARS.glob("py4j-*.jar"))),
        die_on_exit=True, enable_auth=True,
    )  # fmt: skip
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))


def _reason(error: Exception) -> str:
    words = str(getattr(error, "java_exception", error).getMessage() if hasattr(error, "java_exception") else error)
    first = next((line.strip() for line in words.splitlines() if line.strip()), "")
    return re.sub(r"^\[[A-Z_.]+\]", "", first).partition("SQLSTATE: ")[0].strip().rstrip(".")
