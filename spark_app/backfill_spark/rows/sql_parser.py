"""Syntax check of a spec's SQL with Spark's own parser, without a session.

Another parser would disagree with Spark. This one needs Java and about two seconds. It reads no table, so columns and
functions are not checked.
"""

from __future__ import annotations

import re
import shutil
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from backfill_api.spec.transforms.transform import TransformSpec
from backfill_core.errors import InvalidTransformError, JavaMissingError
from backfill_spark.jvm.class_archive import SPARK_JARS
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.session import find_java
from backfill_spark.rows.sql.reach import outside
from backfill_spark.settings import DriverSettings

OPENED = ("java.lang", "java.util", "java.nio", "sun.nio.ch", "sun.util.calendar")


def check_sql(transform: TransformSpec, settings: DriverSettings) -> str:
    """Parse every expression of a transform; return why the check was impossible, or an empty string.

    Raises:
        InvalidTransformError: an expression is not SQL; the message has its field and the parser's error.
    """
    fields = [(f"spec.transform.select[{number}]", text) for number, text in enumerate(transform.select)]
    fields += [("spec.transform.where", transform.where)] if transform.where else []
    fields += [(f"spec.transform.set.{name}", text) for name, text in transform.set.items()]
    fields += [("spec.transform.setWhere", transform.set_where)] if transform.set_where else []
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
                hint = "Write one Spark SQL expression, with AS for a new name."
                raise InvalidTransformError(f"{field}: {text!r} is not SQL: {_reason(error)}.", hint=hint) from error
            reached = outside(parser, text)
            if reached is not None:
                raise InvalidTransformError(f"{field}: {text!r}{reached[0]}", hint=reached[1])
    finally:
        gateway.shutdown()
    return ""


def _start(java_home: str | None) -> JavaGateway:
    """Start a JVM that has Spark's classes but runs no Spark; it ends with this process."""
    port, token = launch_gateway(
        classpath=f"{SPARK_JARS}/*",
        javaopts=["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED)],
        java_path=f"{java_home}/bin/java" if java_home else shutil.which("java"),
        jarpath=str(next(SPARK_JARS.glob("py4j-*.jar"))),
        die_on_exit=True, enable_auth=True,
    )  # fmt: skip
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))


def _reason(error: Exception) -> str:
    message = str(getattr(error, "java_exception", error).getMessage() if hasattr(error, "java_exception") else error)
    first = next((line.strip() for line in message.splitlines() if line.strip()), "")
    return re.sub(r"^\[[A-Z_.]+\]", "", first).partition("SQLSTATE: ")[0].strip().rstrip(".")
